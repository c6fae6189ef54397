use manifests::openshift;

use super::*;

/// A package whose bundles have these maxima.
fn limited(channels: &[(&str, &str)], maxima: &[(&str, &str)]) -> Package {
    let mut package = package("stable", channels);
    for (name, maximum) in maxima {
        let bundle = package.bundles.get_mut(*name).unwrap();
        bundle.max_openshift = vec![format!("\"{maximum}\"")];
    }
    package
}

fn found(package: &Package, at: &str, request: Request<'_>) -> Option<String> {
    let installed = installed(at);
    let request = Request {
        installed: Some(&installed),
        openshift: Some(openshift::Release::new(4, 20)),
        ..request
    };
    let choice = ahead(
        &request,
        openshift::Release::new(4, 21),
        &[offer("c", 0, package)],
    );
    choice.map(|it| format!("{} {}", it.channel, it.name))
}

#[test]
fn the_newest_that_can_be_reached_today_and_runs_then() {
    for (channel, maxima, at, expected) in [
        // Says nothing: it runs.
        (
            CHAIN,
            &[("1.0.0", "4.20")][..],
            "1.0.0",
            Some("stable 1.2.0"),
        ),
        (CHAIN, &[("1.2.0", "4.20")], "1.0.0", Some("stable 1.1.0")),
        (
            CHAIN,
            &[("1.1.0", "4.20"), ("1.2.0", "4.20")],
            "1.0.0",
            None,
        ),
        // The way leads over one that does not run today.
        (CHAIN, &[("1.1.0", "4.19")], "1.0.0", None),
        (
            "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0~>=1.0.0,<1.2.0",
            &[("1.1.0", "4.19")],
            "1.0.0",
            Some("stable 1.2.0"),
        ),
        (
            "1.0.0 1.1.0<1.0.0 1.2.0<1.0.0-1.1.0",
            &[("1.2.0", "4.21")],
            "1.0.0",
            Some("stable 1.2.0"),
        ),
        (CHAIN, &[], "1.2.0", None),
        // Edges in a circle, and to itself.
        (
            "1.0.0<1.1.0 1.1.0<1.0.0",
            &[],
            "1.0.0",
            Some("stable 1.1.0"),
        ),
        ("1.0.0<1.0.0", &[], "1.0.0", None),
        // What is installed is gone from the catalog, and the catalog leads on from it.
        ("1.1.0<1.0.0", &[], "1.0.0", Some("stable 1.1.0")),
        ("1.1.0<1.0.5", &[], "1.0.0", None),
    ] {
        let package = limited(&[("stable", channel)], maxima);
        let found = found(&package, at, request());
        assert_eq!(found.as_deref(), expected, "{channel} {maxima:?} {at}");
    }
}

#[test]
fn the_channel_is_the_one_that_is_followed() {
    let channels = [
        ("stable", "2.0.0"),
        ("old", "1.0.0 1.1.0<1.0.0"),
        ("fast", "1.0.0 1.3.0<1.0.0"),
    ];
    let package = limited(&channels, &[]);
    let of = |channel| {
        found(
            &package,
            "1.0.0",
            Request {
                channel,
                ..request()
            },
        )
    };
    assert_eq!(of(Some("old")).as_deref(), Some("old 1.1.0"));
    assert_eq!(of(Some("stable")), None);
    assert_eq!(of(Some("none")), None);
    // The default channel does not know it.
    assert_eq!(of(None).as_deref(), Some("fast 1.3.0"));
    let range = manifests::range::Range::parse("<1.2.0").unwrap();
    let request = Request {
        range: Some(&range),
        channel: Some("fast"),
        ..request()
    };
    assert_eq!(found(&package, "1.0.0", request), None);
}

#[test]
fn catalogs_that_cannot_be_asked_say_nothing() {
    let package = limited(&[("stable", CHAIN)], &[]);
    let installed = installed("1.0.0");
    let request = Request {
        installed: Some(&installed),
        ..request()
    };
    let release = openshift::Release::new(4, 21);
    let unknown = Offer {
        catalog: "a",
        priority: 9,
        answer: Answer::Unknown("away"),
    };
    let absent = Offer {
        catalog: "b",
        priority: 8,
        answer: Answer::Absent,
    };
    assert_eq!(ahead(&request, release, &[unknown, absent]), None);
    assert_eq!(ahead(&request, release, &[]), None);
    let choice = ahead(
        &request,
        release,
        &[unknown, absent, offer("c", 0, &package)],
    )
    .unwrap();
    assert_eq!(
        (choice.catalog.as_str(), choice.name.as_str()),
        ("c", "1.2.0")
    );
    assert_eq!(
        ahead(&super::request(), release, &[offer("c", 0, &package)]),
        None
    );
}

#[test]
fn a_channel_of_any_length_takes_bounded_time() {
    let entries: Vec<String> = (1..20_000)
        .map(|n| format!("1.{n}.0<1.{}.0", n - 1))
        .collect();
    let package = limited(&[("stable", &entries.join(" "))], &[]);
    let begun = std::time::Instant::now();
    assert!(found(&package, "1.0.0", request()).is_some());
    assert!(begun.elapsed().as_secs() < 20);
}
