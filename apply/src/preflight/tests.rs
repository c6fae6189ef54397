use super::*;

fn problem(check: Check, message: impl Into<String>) -> Finding {
    Finding {
        check,
        message: message.into(),
    }
}

#[test]
fn problems_are_sorted_and_reported_once() {
    let sorted = ::tests::rows![
        Check::Ownership => "a";
        Check::Ownership => "b";
        Check::Apis => "z";
        Check::Rights => "b";
    ];
    let sorted = sorted.map(|(check, message)| problem(check, message));
    assert_rows!(limit(sorted.iter().rev().chain(&sorted).cloned().collect()) => sorted);
}

// parity: complaint-14
#[test]
fn many_and_long_problems_are_bounded() {
    let many =
        (0..10_000).map(|n| problem(Check::Ownership, format!("{n:05} {}", "ä".repeat(5_000))));
    let found = limit(many.collect());
    assert!(found.iter().all(|problem| problem.message.len() <= 2_048));
    assert_rows!((found.len(), &*found.last().unwrap().message) => (21, "and 9980 more like these"));
    assert!(found[0].message.starts_with("00000 ä") && found[0].message.ends_with("ä …"));
}
