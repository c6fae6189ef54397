//! Hostile packages: decisions take bounded time, and their messages are short.

use super::*;
use crate::testing::in_time;

fn answer(package: &Package, request: &Request<'_>) -> Decision {
    let decision = in_time(|| choose(request, &[offer("c", 0, package)]));
    // An explanation lists every bundle, but its other parts do not grow.
    assert!(decision.candidates.len() <= package.bundles.len());
    for step in &decision.steps {
        assert!(step.len() < 3_000, "{step:.300}");
    }
    assert!(decision.verdict.to_string().len() < 3_000);
    decision
}

/// Returns a package with a bundle for each number, and the name of its channel.
fn many(count: u64, channel: impl Fn(u64) -> String) -> Package {
    let mut package = package("all", &[("all", "")]);
    for at in 0..count {
        let name = format!("{at}.0.0");
        package.bundles.insert(name.clone(), bundle(&name));
        let replaces = at.checked_sub(1).map(|before| format!("{before}.0.0"));
        let channel = package.channels.entry(channel(at)).or_default();
        channel.entries.push(with!(Entry, name, replaces));
    }
    package
}

#[test]
fn many_bundles_are_evaluated_in_bounded_time() {
    let mut package = many(50_000, |_| "all".into());
    assert_rows!(short(&answer(&package, &Request::default())) => "install 49999.0.0");
    let installed = installed("7.0.0");
    let upgrade = after(&installed);
    assert_eq!(short(&answer(&package, &upgrade)), "upgrade 8.0.0");
    for entry in &mut package.channels.get_mut("all").unwrap().entries {
        entry.skip_range = Some(format!("<{}", entry.name));
    }
    assert_rows!(short(&answer(&package, &upgrade)) => "upgrade 49999.0.0");
}

#[test]
fn list_of_channels_is_bounded() {
    let package = many(50_000, |at| format!("c{at}"));
    for (channel, chosen) in [("lost", "nothing"), ("c40000", "install 40000.0.0")] {
        assert_rows!(short(&answer(&package, &with!(Request, channel: Some(channel)))) => chosen);
    }
}

#[test]
fn many_long_ranges_take_bounded_time() {
    let mut package = many(300, |_| "all".into());
    let range = vec!["9999999.0.0"; 3_000].join(" || ") + " || 1.0.0";
    for entry in &mut package.channels.get_mut("all").unwrap().entries {
        entry.skip_range = Some(range.clone());
    }
    assert_rows!(short(&answer(&package, &after(&installed("1.0.0")))) => "upgrade 299.0.0");
}
