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

/// Repairs one field against one manager, and returns the wait after each repair.
fn waits(times: impl IntoIterator<Item = i64>) -> Vec<Option<u64>> {
    let mut fights = FieldConflicts::default();
    let wait = |time| {
        let verdicts = fights.record_repair([opponent(".spec.replicas", "other")], at(time));
        verdicts.first().map(|verdict| verdict.wait.as_secs())
    };
    times.into_iter().map(wait).collect()
}

/// Returns the state after one repair of a field at each of these times.
fn fought(opponent: &ConflictingManager, times: impl IntoIterator<Item = i64>) -> FieldConflicts {
    let mut fights = FieldConflicts::default();
    for time in times {
        fights.record_repair([opponent.clone()], at(time));
    }
    fights
}

#[test]
fn three_repairs_in_ten_minutes_are_a_fight() {
    assert_each!(|times, expected| waits(times.iter().copied()) => expected;
        &[0, 1, 2][..] => &[None, None, Some(20)][..];
        &[0, 300, 600] => &[None, None, Some(20)];
        &[0, 300, 601] => &[None, None, None];
        &[0, 300, 601, 700] => &[None, None, None, Some(20)];
        &[0, 601, 1202, 1803] => &[None; 4];
        // The clock is set back.
        &[100, 50, 0] => &[None, None, Some(20)];
        // The wait doubles up to ten minutes.
        &[0, 1, 600, 1200, 1800, 2400, 3000, 3600, 4200, 4800]
            => &[None, None, Some(20), Some(40), Some(80), Some(160), Some(320), Some(600), Some(600), Some(600)];
    );
}

#[test]
fn a_fight_is_over_after_ten_quiet_minutes() {
    let other = opponent(".data", "other");
    let mut fights = fought(&other, 0..3);
    let quiet = 2 + 20 + 600;
    assert_eq!(fights.active(at(quiet)).len(), 1);
    assert_eq!(fights.active(at(quiet + 1)), []);
    // The next repair counts as the first one.
    for (second, fights_on) in [(1, 0), (2, 0), (3, 1)] {
        assert_rows!(fights.record_repair([other.clone()], at(quiet + second)).len() => fights_on, "{second}");
    }
}

#[test]
fn an_object_is_held_until_the_latest_of_its_fights_allows() {
    let (one, two) = (opponent(".spec.a", "x"), opponent(".spec.b", "y"));
    let mut fights = fought(&one, 0..3);
    (10..13).for_each(|time| drop(fights.record_repair([two.clone()], at(time))));
    let held = fights.suspended_until(&one.object, at(13)).unwrap();
    assert_eq!((held.opponent, held.until, held.repairs), (two, at(32), 3));
    assert_eq!(fights.suspended_until(&one.object, at(32)), None);
    assert_eq!(fights.active(at(32)).len(), 2, "they are not over");
    assert_rows!(fights.suspended_until(&identity("apps", "Deployment", "shop", "other"), at(13)) => None);
}

#[test]
fn other_fields_and_other_managers_are_other_fights() {
    let mut fights = FieldConflicts::default();
    for time in 0..2 {
        for (field, manager) in [(".a", "x"), (".a", "y"), (".b", "x")] {
            assert_eq!(
                fights.record_repair([opponent(field, manager)], at(time)),
                []
            );
        }
    }
    assert_eq!(fights.active(at(2)), []);
}

#[test]
fn clock_that_is_set_back_does_not_panic() {
    let mut fights = FieldConflicts::default();
    for _ in 0..9 {
        fights.record_repair([opponent("", "")], Timestamp::MAX);
    }
    for now in [Timestamp::MAX, Timestamp::MIN] {
        assert_eq!(fights.suspended_until(&opponent("", "").object, now), None);
    }
}

#[test]
fn memory_is_bounded_and_the_quietest_are_forgotten() {
    let loud = opponent(".loud", "x");
    let mut fights = fought(&loud, 0..3);
    for number in 0..MAX_TRACKED_FIELDS + 10 {
        fights.record_repair([opponent(&format!(".f{number}"), "x")], at(3));
        fights.record_repair([loud.clone()], at(4));
    }
    assert_eq!(fights.0.len(), MAX_TRACKED_FIELDS);
    assert_eq!(fights.active(at(5)).len(), 1);
    fights.retain(|_| false);
    assert_eq!(fights.0.len(), 0);
}

#[test]
fn a_verdict_names_object_field_and_manager() {
    for (field, manager, expected) in ::tests::rows![
        ".spec.replicas", "autoscaler"
            => "autoscaler repeatedly changes .spec.replicas of Deployment shop/till; repaired 3 times; repairs are \
                limited to one every 20 seconds until autoscaler stops or the bundle sets the same value";
        "", "" => "another client repeatedly deletes or changes Deployment shop/till; repaired 3 times; repairs are \
                   limited to one every 20 seconds until another client stops or the bundle sets the same value";
    ] {
        let mut fights = fought(&opponent(field, manager), 0..2);
        assert_rows!(fights.record_repair([opponent(field, manager)], at(2))[0].to_string() => expected);
    }
}

/// The alert about field conflicts is tested with this series: the number of repairs per minute of one field that
/// another client changes after each repair.
#[test]
fn alert_test_series_matches_a_field_conflict() {
    let mut fights = FieldConflicts::default();
    let mut counts = vec![0; 181];
    let mut next = at(0);
    loop {
        let verdicts = fights.record_repair([opponent(".spec.replicas", "other")], next);
        let minute = (next.as_second() - at(0).as_second()) / 60 + 1;
        for count in counts.iter_mut().skip(usize::try_from(minute).unwrap()) {
            *count += 1;
        }
        if minute >= 180 {
            break;
        }
        next = match verdicts.first() {
            Some(verdict) => verdict.until,
            None => next + Duration::from_secs(1),
        };
    }
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    assert_rows!(include_str!("../../../tests/tests/acceptance/fight.txt").trim_end() => counts.join(" "));
}

#[test]
fn clock_that_is_set_back_holds_no_object() {
    let fights = fought(&opponent(".data", "other"), 1000..1003);
    let object = opponent("", "").object;
    assert_each!(|second, expected| fights.suspended_until(&object, at(second)).is_some() => expected;
        1002 => true;
        1021 => true;
        1022 => false;
        1001 => false;
        0 => false;
    );
}
