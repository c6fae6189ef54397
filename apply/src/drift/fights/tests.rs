use super::*;

fn opponent(field: &str, manager: &str) -> Opponent {
    Opponent {
        object: Identity {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "till".to_owned(),
        },
        field: field.to_owned(),
        manager: manager.to_owned(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Repairs of one field against one manager, and the wait after each.
fn waits(times: impl IntoIterator<Item = i64>) -> Vec<Option<u64>> {
    let mut fights = Fights::default();
    let wait = |verdicts: Vec<Verdict>| verdicts.first().map(|it| it.wait.as_secs());
    times
        .into_iter()
        .map(|time| wait(fights.repaired([opponent(".spec.replicas", "other")], at(time))))
        .collect()
}

#[test]
fn three_repairs_in_ten_minutes_are_a_fight() {
    assert_eq!(waits([0, 1, 2]), [None, None, Some(20)]);
    assert_eq!(waits([0, 300, 600]), [None, None, Some(20)]);
    assert_eq!(waits([0, 300, 601]), [None, None, None]);
    assert_eq!(waits([0, 300, 601, 700]), [None, None, None, Some(20)]);
    assert_eq!(waits([0, 601, 1202, 1803]), [None; 4]);
}

#[test]
fn the_wait_doubles_up_to_ten_minutes() {
    let mut time = 0;
    let times = std::iter::from_fn(|| {
        time += 600;
        Some(time)
    });
    let waits = waits([0, 1].into_iter().chain(times.take(8)));
    let fought: Vec<_> = waits.into_iter().flatten().collect();
    assert_eq!(fought, [20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn a_fight_is_over_after_ten_quiet_minutes() {
    let mut fights = Fights::default();
    for time in 0..3 {
        fights.repaired([opponent(".data", "other")], at(time));
    }
    let quiet = 2 + 20 + 600;
    assert_eq!(fights.verdicts(at(quiet)).len(), 1);
    assert_eq!(fights.verdicts(at(quiet + 1)), []);
    // The next repair is the first of its kind again.
    assert_eq!(
        fights.repaired([opponent(".data", "other")], at(quiet + 1)),
        []
    );
    assert_eq!(
        fights.repaired([opponent(".data", "other")], at(quiet + 2)),
        []
    );
    assert_eq!(
        fights
            .repaired([opponent(".data", "other")], at(quiet + 3))
            .len(),
        1
    );
}

#[test]
fn an_object_is_held_until_the_latest_of_its_fights_allows() {
    let mut fights = Fights::default();
    let (one, two) = (opponent(".spec.a", "x"), opponent(".spec.b", "y"));
    for time in 0..3 {
        fights.repaired([one.clone()], at(time));
    }
    for time in 10..13 {
        fights.repaired([two.clone()], at(time));
    }
    let held = fights.held(&one.object, at(13)).unwrap();
    assert_eq!((held.opponent, held.until, held.repairs), (two, at(32), 3));
    assert_eq!(fights.held(&one.object, at(32)), None);
    assert_eq!(fights.verdicts(at(32)).len(), 2, "they are not over");
    let mut other = one.object.clone();
    other.name = "other".to_owned();
    assert_eq!(fights.held(&other, at(13)), None);
}

#[test]
fn other_fields_and_other_managers_are_other_fights() {
    let mut fights = Fights::default();
    for time in 0..2 {
        for (field, manager) in [(".a", "x"), (".a", "y"), (".b", "x")] {
            assert_eq!(fights.repaired([opponent(field, manager)], at(time)), []);
        }
    }
    assert_eq!(fights.verdicts(at(2)), []);
}

#[test]
fn a_clock_that_was_set_back_does_not_end_in_a_panic() {
    assert_eq!(waits([100, 50, 0]), [None, None, Some(20)]);
    let mut fights = Fights::default();
    for _ in 0..9 {
        fights.repaired([opponent("", "")], Timestamp::MAX);
    }
    let held = |now| fights.held(&opponent("", "").object, now);
    assert_eq!(held(Timestamp::MAX), None);
    assert_eq!(held(Timestamp::MIN), None);
}

#[test]
fn memory_is_bounded_and_the_quietest_are_forgotten() {
    let mut fights = Fights::default();
    let loud = opponent(".loud", "x");
    for time in 0..3 {
        fights.repaired([loud.clone()], at(time));
    }
    for number in 0..REMEMBERED + 10 {
        fights.repaired([opponent(&format!(".f{number}"), "x")], at(3));
        fights.repaired([loud.clone()], at(4));
    }
    assert_eq!(fights.0.len(), REMEMBERED);
    assert_eq!(fights.verdicts(at(5)).len(), 1);
    fights.retain(|_| false);
    assert_eq!(fights.0.len(), 0);
}

#[test]
fn a_verdict_names_object_field_and_manager() {
    let mut fights = Fights::default();
    let verdict = |fights: &mut Fights, field, manager| {
        let mut last = Vec::new();
        for time in 0..3 {
            last = fights.repaired([opponent(field, manager)], at(time));
        }
        last[0].to_string()
    };
    assert_eq!(
        verdict(&mut fights, ".spec.replicas", "autoscaler"),
        ".spec.replicas of Deployment shop/till is changed by autoscaler again and again; it was put back 3 times and is \
         put back every 20 seconds at most until autoscaler stops, or the bundle agrees"
    );
    assert_eq!(
        verdict(&mut fights, "", ""),
        "Deployment shop/till is removed or changed by somebody again and again; it was put back 3 times and is put back \
         every 20 seconds at most until somebody stops, or the bundle agrees"
    );
}

/// The alert about fights is tried with this series: how many repairs there have been, minute by minute, of one field that
/// somebody changes whenever it is put back.
#[test]
fn the_alert_is_tried_with_what_a_fight_is() {
    let mut fights = Fights::default();
    let mut counts = vec![0; 181];
    let mut next = at(0);
    loop {
        let verdicts = fights.repaired([opponent(".spec.replicas", "other")], next);
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
    let series = include_str!("../../../../tests/tests/acceptance/fight.txt");
    assert_eq!(series.trim_end(), counts.join(" "));
}

#[test]
fn clock_that_is_set_back_holds_no_object() {
    let mut fights = Fights::default();
    for time in 1000..1003 {
        fights.repaired([opponent(".data", "other")], at(time));
    }
    let object = opponent("", "").object;
    let is_held = |second| fights.held(&object, at(second)).is_some();
    for (second, expected) in [
        (1002, true),
        (1021, true),
        (1022, false),
        (1001, false),
        (0, false),
    ] {
        assert_eq!(is_held(second), expected, "{second}");
    }
}
