use super::*;
use crate::tests::identity;

fn opponent(field: &str, manager: &str) -> ConflictingManager {
    ConflictingManager {
        object: identity("apps", "Deployment", "shop", "till"),
        field: field.to_owned(),
        manager: manager.to_owned(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Returns the state after one repair of a field at each of these times.
fn repaired(opponent: &ConflictingManager, times: impl IntoIterator<Item = i64>) -> FieldConflicts {
    let mut conflicts = FieldConflicts::default();
    for time in times {
        conflicts.record_repair([opponent.clone()], at(time));
    }
    conflicts
}

#[test]
fn three_repairs_in_ten_minutes_are_a_conflict() {
    let delays = |times: &[i64]| -> Vec<Option<u64>> {
        let mut conflicts = FieldConflicts::default();
        let delay = |time: &i64| {
            let verdicts = conflicts.record_repair([opponent(".data", "other")], at(*time));
            verdicts.first().map(|verdict| verdict.wait.as_secs())
        };
        times.iter().map(delay).collect()
    };
    assert_each!(|times, expected| delays(times) => expected;
        &[0, 1, 2][..] => &[None, None, Some(20)][..];
        &[0, 300, 600] => &[None, None, Some(20)];
        &[0, 300, 601] => &[None, None, None];
        &[0, 300, 601, 700] => &[None, None, None, Some(20)];
        &[0, 601, 1202, 1803] => &[None; 4];
        // The clock is set back.
        &[100, 50, 0] => &[None, None, Some(20)];
        // The delay doubles up to ten minutes.
        &[0, 1, 600, 1200, 1800, 2400, 3000, 3600, 4200, 4800]
            => &[None, None, Some(20), Some(40), Some(80), Some(160), Some(320), Some(600), Some(600), Some(600)];
    );
}

#[test]
fn conflict_ends_after_ten_minutes_without_repair() {
    let other = opponent(".data", "other");
    let mut conflicts = repaired(&other, 0..3);
    let end = 2 + 20 + 600;
    assert_eq!(conflicts.active(at(end)).len(), 1);
    assert_eq!(conflicts.active(at(end + 1)), []);
    // The next repair counts as the first one.
    for (second, count) in [(1, 0), (2, 0), (3, 1)] {
        assert_rows!(conflicts.record_repair([other.clone()], at(end + second)).len() => count, "{second}");
    }
}

#[test]
fn object_is_suspended_until_its_latest_conflict_allows() {
    let (one, two) = (opponent(".spec.a", "x"), opponent(".spec.b", "y"));
    let mut conflicts = repaired(&one, 0..3);
    (10..13).for_each(|time| drop(conflicts.record_repair([two.clone()], at(time))));
    let held = conflicts.suspended_until(&one.object, at(13)).unwrap();
    assert_eq!((held.opponent, held.until, held.repairs), (two, at(32), 3));
    assert_eq!(conflicts.suspended_until(&one.object, at(32)), None);
    assert_eq!(conflicts.active(at(32)).len(), 2, "both are active");
    assert_rows!(conflicts.suspended_until(&identity("apps", "Deployment", "shop", "other"), at(13)) => None);
}

#[test]
fn repairs_of_other_fields_or_managers_are_counted_separately() {
    let mut conflicts = FieldConflicts::default();
    for time in 0..2 {
        for (field, manager) in [(".a", "x"), (".a", "y"), (".b", "x")] {
            assert_rows!(conflicts.record_repair([opponent(field, manager)], at(time)) => []);
        }
    }
    assert_eq!(conflicts.active(at(2)), []);
}

#[test]
fn tracked_fields_are_bounded_and_the_oldest_is_dropped() {
    let active = opponent(".active", "x");
    let mut conflicts = repaired(&active, 0..3);
    for number in 0..MAX_TRACKED_FIELDS + 10 {
        conflicts.record_repair([opponent(&format!(".f{number}"), "x")], at(3));
        conflicts.record_repair([active.clone()], at(4));
    }
    assert_rows!((conflicts.0.len(), conflicts.active(at(5)).len()) => (MAX_TRACKED_FIELDS, 1));
    conflicts.retain(|_| false);
    assert_eq!(conflicts.0.len(), 0);
}

#[test]
fn verdict_names_object_field_and_manager() {
    assert_each!(|field, manager, expected| repaired(&opponent(field, manager), 0..3).active(at(2))[0].to_string() => expected;
        ".spec.replicas", "autoscaler"
            => "autoscaler repeatedly changes .spec.replicas of Deployment shop/till; repaired 3 times; repairs are \
                limited to one every 20 seconds until autoscaler stops or the bundle sets the same value";
        "", "" => "another client repeatedly deletes or changes Deployment shop/till; repaired 3 times; repairs are \
                   limited to one every 20 seconds until another client stops or the bundle sets the same value";
    );
}

/// The alert about field conflicts is tested with this series: the number of repairs per minute of one field that
/// another client changes after each repair.
#[test]
fn alert_test_series_matches_a_field_conflict() {
    let mut conflicts = FieldConflicts::default();
    let (mut minutes, mut next) = (Vec::new(), at(0));
    while minutes.last() < Some(&180) {
        let verdicts = conflicts.record_repair([opponent(".spec.replicas", "other")], next);
        minutes.push((next.as_second() - at(0).as_second()) / 60 + 1);
        let second_later = next + Duration::from_secs(1);
        let first = verdicts.first();
        next = first.map_or(second_later, |verdict| verdict.until);
    }
    let count = |end: i64| minutes.iter().filter(|minute| **minute <= end).count();
    let counts: Vec<String> = (0..181).map(|end| count(end).to_string()).collect();
    assert_rows!(include_str!("../../../tests/tests/acceptance/fight.txt").trim_end() => counts.join(" "));
}

#[test]
fn clock_that_is_set_back_suspends_no_object() {
    let conflicts = repaired(&opponent(".data", "other"), 1000..1003);
    let object = opponent("", "").object;
    let is_suspended = |second| conflicts.suspended_until(&object, at(second)).is_some();
    assert_rows!([1002, 1021, 1022, 1001, 0].map(is_suspended) => [true, true, false, false, false]);
    let mut conflicts = FieldConflicts::default();
    for _ in 0..9 {
        conflicts.record_repair([opponent("", "")], Timestamp::MAX);
    }
    assert_rows!([Timestamp::MAX, Timestamp::MIN].map(|now| conflicts.suspended_until(&object, now)) => [None, None]);
}
