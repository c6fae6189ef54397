//! Packages made to hurt: there is an answer, in time, and what is said of it stays short.

use std::time::{Duration, Instant};

use super::*;

/// Generous: others work on the machine, too. What is quadratic takes hours.
const PATIENCE: Duration = Duration::from_secs(60);

fn answer(package: &Package, request: &Request<'_>) -> Decision {
    let start = Instant::now();
    let decision = choose(request, &[offer("c", 0, package)]);
    assert!(start.elapsed() < PATIENCE, "took {:?}", start.elapsed());
    // Every bundle is explained, and nothing else grows.
    assert!(decision.candidates.len() <= package.bundles.len());
    for step in &decision.steps {
        assert!(step.len() < 3_000, "{step:.300}");
    }
    assert!(decision.verdict.to_string().len() < 3_000);
    decision
}

/// A bundle for each number, in one channel or in one of its own each.
fn many(count: u64, in_one_channel: bool) -> Package {
    let mut package = package("all", &[("all", "")]);
    for at in 0..count {
        let name = format!("{at}.0.0");
        package.bundles.insert(name.clone(), bundle(&name));
        let channel = if in_one_channel {
            "all".to_owned()
        } else {
            format!("c{at}")
        };
        let entry = Entry {
            replaces: at.checked_sub(1).map(|before| format!("{before}.0.0")),
            name,
            ..Entry::default()
        };
        let channel = package.channels.entry(channel).or_default();
        channel.entries.push(entry);
    }
    package
}

#[test]
fn very_many_bundles_are_judged_in_time() {
    let package = many(50_000, true);
    let decision = answer(&package, &request());
    assert_eq!(short(&decision), "install 49999.0.0");
    let installed = installed("7.0.0");
    let upgrade = Request {
        installed: Some(&installed),
        ..request()
    };
    assert_eq!(short(&answer(&package, &upgrade)), "upgrade 8.0.0");
}

#[test]
fn very_many_channels_are_not_all_named() {
    let package = many(50_000, false);
    let lost = Request {
        channel: Some("lost"),
        ..request()
    };
    let decision = answer(&package, &lost);
    assert_eq!(short(&decision), "nothing");
    let one = Request {
        channel: Some("c40000"),
        ..request()
    };
    assert_eq!(short(&answer(&package, &one)), "install 40000.0.0");
}

#[test]
fn circles_and_what_replaces_itself_lead_nowhere() {
    for entries in [
        "1.0.0<1.0.0",
        "1.0.0<1.1.0 1.1.0<1.0.0",
        "1.0.0-1.0.0~>=0.0.0",
        "1.1.0<1.0.0 1.0.0<1.1.0-1.1.0~<2.0.0",
    ] {
        let package = package("all", &[("all", entries)]);
        let mut at = installed("1.0.0");
        // Whatever is followed, it comes to rest.
        for _ in 0..3 {
            let decision = answer(
                &package,
                &Request {
                    installed: Some(&at),
                    ..request()
                },
            );
            match decision.verdict.choice() {
                Some(choice) => at = installed(&choice.name),
                None => break,
            }
        }
        let last = Request {
            installed: Some(&at),
            ..request()
        };
        assert_eq!(short(&answer(&package, &last)), "stay", "{entries}");
    }
}

#[test]
fn long_ranges_of_many_entries_are_read_in_time() {
    let mut package = many(300, true);
    let range = vec!["9999999.0.0"; 3_000].join(" || ") + " || 1.0.0";
    for entry in &mut package.channels.get_mut("all").unwrap().entries {
        entry.skip_range = Some(range.clone());
    }
    let installed = installed("1.0.0");
    let upgrade = Request {
        installed: Some(&installed),
        ..request()
    };
    assert_eq!(short(&answer(&package, &upgrade)), "upgrade 299.0.0");
}
