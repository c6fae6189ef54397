use super::*;

fn mirror(location: &str, pull: Pull) -> Mirror {
    Mirror {
        location: location.to_owned(),
        pull,
        insecure: false,
    }
}

fn rule(source: &str, mirrors: Vec<Mirror>) -> Rule {
    Rule {
        source: source.to_owned(),
        mirrors,
        ..Rule::default()
    }
}

#[test]
fn the_longest_source_decides_where_to_ask_and_in_which_order() {
    let digest = format!("@sha256:{}", "a".repeat(64));
    let mirrors = Mirrors::new([
        rule("quay.io", vec![mirror("a.example", Pull::All)]),
        rule(
            "quay.io/org",
            vec![
                mirror("b.example/x", Pull::Digests),
                mirror("c.example:5000/y/z", Pull::Tags),
                mirror("d.example", Pull::All),
            ],
        ),
        rule("quay.io/org", vec![mirror("second.example", Pull::All)]),
        rule("*.internal", vec![mirror("e.example/all", Pull::All)]),
        Rule {
            blocked: true,
            ..rule("docker.io", vec![mirror("f.example", Pull::Digests)])
        },
        Rule {
            location: Some("real.example/else".to_owned()),
            ..rule("alias.example", vec![])
        },
    ])
    .unwrap();
    for (image, places) in ::tests::rows![
        "ghcr.io/app:v1" => Some(vec!["ghcr.io/app"]);
        "quay.io/app:v1" => Some(vec!["a.example/app", "quay.io/app"]);
        "quay.io/organization/app" => Some(vec!["a.example/organization/app", "quay.io/organization/app"]);
        "quay.io/org/app:v1" => Some(vec!["c.example:5000/y/z/app", "d.example/app", "quay.io/org/app"]);
        &format!("quay.io/org/app:v1{digest}") => Some(vec!["b.example/x/app", "d.example/app", "quay.io/org/app"]);
        "one.internal/app" => Some(vec!["e.example/all/app", "one.internal/app"]);
        "a.b.internal/app" => Some(vec!["e.example/all/app", "a.b.internal/app"]);
        "busybox" => None;
        &format!("busybox{digest}") => Some(vec!["f.example/library/busybox"]);
        "alias.example/app" => Some(vec!["real.example/else/app"]);
    ] {
        let found = mirrors.places(&image.parse().unwrap());
        let found = found
            .ok()
            .map(|places| places.iter().map(Place::to_string).collect::<Vec<_>>());
        assert_eq!(
            found.as_deref(),
            places
                .as_ref()
                .map(|p| p.iter().map(ToString::to_string).collect::<Vec<_>>())
                .as_deref(),
            "{image}"
        );
    }
}

#[test]
fn places_that_are_none_are_refused() {
    for source in [
        "",
        "quay.io/",
        "https://quay.io",
        "quay.io/app@sha256:x",
        "quay.io/App",
        "*.io/org",
        "a*b.io",
        "org",
        "../x",
    ] {
        assert!(Mirrors::new([rule(source, vec![])]).is_err(), "{source}");
    }
    for location in [
        "",
        "*.io",
        "quay.io/app:v1/x",
        "quay.io//app",
        "a b",
        "../x",
        "Mirror/x!",
    ] {
        let rule = rule("quay.io", vec![mirror(location, Pull::All)]);
        assert!(Mirrors::new([rule]).is_err(), "{location}");
    }
    for location in ["mirror", "mirror/x", "mirror:5000", "localhost/x"] {
        let rule = rule("quay.io", vec![mirror(location, Pull::All)]);
        assert!(Mirrors::new([rule]).is_ok(), "{location}");
    }
    let whole = Mirrors::new([rule(
        "quay.io/org/app",
        vec![mirror("a.example", Pull::All)],
    )])
    .unwrap();
    assert!(whole.places(&"quay.io/org/app".parse().unwrap()).is_err());
}

#[test]
fn an_image_is_had_if_it_is_admitted_whatever_mirrors_there_are() {
    let admission = |allowed: Option<&[&str]>, blocked: &[&str]| Admission {
        by: "the cluster".to_owned(),
        allowed: allowed.map(|list| list.iter().map(ToString::to_string).collect()),
        blocked: blocked.iter().map(ToString::to_string).collect(),
    };
    for (allowed, blocked, image, problem) in ::tests::rows![
        None, &[][..], "quay.io/app" => None;
        Some(&["quay.io"][..]), &[], "quay.io/app" => None;
        Some(&["quay.io"]), &[], "ghcr.io/app" => Some("allows only");
        Some(&["quay.io/app:v1"]), &[], "quay.io/app:v1" => None;
        Some(&["quay.io/app:v1"]), &[], "quay.io/app:v2" => Some("allows only");
        Some(&[]), &[], "quay.io/app" => Some("allows only");
        None, &["*.io"], "quay.io/app" => Some("blocks \"*.io\"");
        None, &["quay.io/org"], "quay.io/app" => None;
        Some(&["quay.io"]), &["quay.io"], "quay.io/app" => Some("blocks");
    ] {
        let mirrors = Mirrors::new([rule("quay.io", vec![mirror("a.example", Pull::All)])]);
        let mirrors = mirrors.unwrap().admitting(admission(allowed, blocked));
        let mirrors: Mirrors = [Mirrors::default(), mirrors.unwrap()].into_iter().collect();
        let image: Reference = image.parse().unwrap();
        let refusals = [mirrors.places(&image).err(), mirrors.target(&image).err()];
        for refusal in refusals {
            let refusal = refusal.map(|error| error.to_string());
            let told = |problem| refusal.as_ref().is_some_and(|text| text.contains(problem));
            assert_eq!(refusal.is_some(), problem.is_some(), "{image} {refusal:?}");
            assert!(
                problem.is_none_or(|problem| told(problem) && told("the cluster")),
                "{refusal:?}"
            );
        }
    }
    for bad in [
        "",
        "org",
        "https://quay.io",
        "quay.io/app:",
        "*.io/x",
        "quay.io/app@sha256:x",
    ] {
        let admission = admission(None, &[bad]);
        assert!(Mirrors::default().admitting(admission).is_err(), "{bad}");
    }
}

#[test]
fn a_mirror_that_is_blocked_itself_is_not_asked() {
    let mirrors = Mirrors::new([
        rule(
            "quay.io",
            vec![
                mirror("a.example/x", Pull::All),
                mirror("b.example", Pull::All),
            ],
        ),
        Rule {
            blocked: true,
            ..rule("a.example", vec![])
        },
    ]);
    let mirrors = mirrors.unwrap();
    let places = mirrors.places(&"quay.io/app".parse().unwrap()).unwrap();
    let places: Vec<_> = places.iter().map(Place::to_string).collect();
    assert_eq!(places, ["b.example/app", "quay.io/app"]);
}

#[test]
fn a_rule_for_one_image_goes_before_that_for_its_repository() {
    let mirrors = Mirrors::new([
        rule("quay.io/app:v1", vec![mirror("a.example/one", Pull::All)]),
        rule("quay.io/app", vec![mirror("b.example/all", Pull::All)]),
    ]);
    let mirrors = mirrors.unwrap();
    for (image, first) in [
        ("quay.io/app:v1", "a.example/one"),
        ("quay.io/app:v2", "b.example/all"),
    ] {
        let places = mirrors.places(&image.parse().unwrap()).unwrap();
        assert_eq!(places[0].to_string(), first);
    }
}

#[test]
fn what_a_tag_stood_for_is_asked_of_mirrors_for_tags_too() {
    let mirrors = Mirrors::new([rule(
        "quay.io",
        vec![
            mirror("t.example", Pull::Tags),
            mirror("d.example", Pull::Digests),
        ],
    )]);
    let mirrors = mirrors.unwrap();
    let pinned: Reference = format!("quay.io/app@sha256:{}", "a".repeat(64))
        .parse()
        .unwrap();
    let shown = |mirrors: &Mirrors| {
        let places = mirrors.places(&pinned).unwrap();
        places.iter().map(Place::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown(&mirrors), ["d.example/app", "quay.io/app"]);
    assert!(mirrors.has_mirrors_for_tags(&"quay.io/app".parse().unwrap()));
    assert!(!mirrors.has_mirrors_for_tags(&"ghcr.io/app".parse().unwrap()));
    let tagged: Reference = "quay.io/app:v1".parse().unwrap();
    let mirrors: Mirrors = [mirrors.of_tag(&tagged), Mirrors::default()]
        .into_iter()
        .collect();
    assert_eq!(
        shown(&mirrors),
        ["t.example/app", "d.example/app", "quay.io/app"]
    );
    let admitting = |scope: &str| {
        let admission = Admission {
            allowed: Some(vec![scope.to_owned()]),
            ..Admission::default()
        };
        mirrors.clone().admitting(admission).unwrap()
    };
    assert!(admitting("quay.io/app:v1").admits(&pinned));
    assert!(!admitting("quay.io/app:v2").admits(&pinned));
    assert_eq!(mirrors.of_tag(&pinned).tag, None);
}
