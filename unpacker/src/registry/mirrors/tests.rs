use super::*;

fn mirror(location: &str, pull: Pull) -> Mirror {
    Mirror {
        location: location.to_owned(),
        pull,
        insecure: false,
    }
}

/// Returns a rule with mirrors such as `a.example tags:b.example digests:c.example`.
fn rule(source: &str, mirrors: &str) -> Rule {
    let parsed = |text: &str| match text.split_once(':') {
        Some(("tags", location)) => mirror(location, Pull::Tags),
        Some(("digests", location)) => mirror(location, Pull::Digests),
        _ => mirror(text, Pull::All),
    };
    let mirrors = mirrors.split_whitespace().map(parsed).collect();
    with!(Rule, source: source.to_owned(), mirrors)
}

fn places(mirrors: &Mirrors, image: &str) -> Result<Vec<String>, Error> {
    let places = mirrors.endpoints(&image.parse().unwrap())?;
    Ok(places.iter().map(RegistryEndpoint::to_string).collect())
}

#[test]
fn longest_source_determines_endpoints_and_their_order() {
    let digest = format!("@sha256:{}", "a".repeat(64));
    let org = "digests:b.example/x tags:c.example:5000/y/z d.example";
    let blocked = |rule| with!(Rule, blocked: true; ..rule);
    let mirrors = Mirrors::new([
        rule("quay.io", "a.example"),
        rule("quay.io/org", org),
        rule("quay.io/org", "second.example"),
        rule("*.internal", "e.example/all"),
        blocked(rule("docker.io", "digests:f.example")),
        with!(Rule, location: Some("real.example/else".to_owned()); ..rule("alias.example", "")),
        // A rule for one image takes precedence over the rule for its repository.
        rule("one.example/app:v1", "a.example/one"),
        rule("one.example/app", "b.example/all"),
        // The client skips a mirror that has a blocking rule.
        rule("two.example", "g.example/x b.example"),
        blocked(rule("g.example", "")),
        // A longer source precedes a wildcard of the same host.
        rule("*.lab", "wide.example"),
        rule("q.lab", "one.example"),
        rule("*.eu.lab", "eu.example"),
        blocked(rule("quay.lab", "own.example/q")),
        blocked(rule("b.lab:5000", "")),
        rule("three.example", "b.lab:5000 c.example"),
    ])
    .unwrap();
    assert_each!(|image, expected| places(&mirrors, image).unwrap_or_default().join(" ") => expected;
        "ghcr.io/app:v1" => "ghcr.io/app";
        "quay.io/app:v1" => "a.example/app quay.io/app";
        "quay.io/organization/app" => "a.example/organization/app quay.io/organization/app";
        "quay.io/org/app:v1" => "c.example:5000/y/z/app d.example/app quay.io/org/app";
        &format!("quay.io/org/app:v1{digest}") => "b.example/x/app d.example/app quay.io/org/app";
        "one.internal/app" => "e.example/all/app one.internal/app";
        "a.b.internal/app" => "e.example/all/app a.b.internal/app";
        &format!("busybox{digest}") => "f.example/library/busybox";
        "alias.example/app" => "real.example/else/app";
        "one.example/app:v1" => "a.example/one one.example/app";
        "one.example/app:v2" => "b.example/all one.example/app";
        "two.example/app" => "b.example/app two.example/app";
        "other.lab/app" => "wide.example/app other.lab/app";
        "q.lab/app" => "wide.example/app q.lab/app";
        "x.eu.lab/app" => "eu.example/app x.eu.lab/app";
        "quay.lab/app" => "own.example/q/app";
        "three.example/app" => "c.example/app three.example/app";
    );
    assert!(places(&mirrors, "busybox").is_err());
}

#[test]
fn malformed_locations_are_rejected() {
    let sources =
        "|quay.io/|https://quay.io|quay.io/app@sha256:x|quay.io/App|*.io/org|a*b.io|org|../x";
    assert_rows!(sources.split('|').find(|source| Mirrors::new([rule(source, "")]).is_ok()) => None);
    let mirrored = |location| {
        let mirrors = vec![mirror(location, Pull::All)];
        Mirrors::new([with!(Rule, source: "quay.io".to_owned(), mirrors)])
    };
    let locations = "|*.io|quay.io/app:v1/x|quay.io//app|a b|../x|Mirror/x!|mirror|mirror/x|mirror:5000|localhost/x";
    let legal = ["mirror", "mirror/x", "mirror:5000", "localhost/x"];
    assert_rows!(locations.split('|').filter(|place| mirrored(place).is_ok()).collect::<Vec<_>>() => legal);
    let whole = Mirrors::new([rule("quay.io/org/app", "a.example")]);
    assert!(places(&whole.unwrap(), "quay.io/org/app").is_err());
}

#[test]
fn admission_does_not_depend_on_mirrors() {
    let list = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let admission = |allowed: Option<&[&str]>, blocked: &[&str]| with!(ImageAdmission::default() => by: "the cluster".to_owned(), allowed: allowed.map(list), blocked: list(blocked));
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
        let mirrors = Mirrors::new([rule("quay.io", "a.example")]);
        let admission = admission(allowed, blocked);
        let mirrors = mirrors.unwrap().with_admissions(admission).unwrap();
        let mirrors: Mirrors = [Mirrors::default(), mirrors].into_iter().collect();
        let image: Reference = image.parse().unwrap();
        for refusal in [
            mirrors.endpoints(&image).err(),
            mirrors.target(&image).err(),
        ] {
            let refusal = refusal.map(|error| error.to_string());
            assert_eq!(refusal.is_some(), problem.is_some(), "{image} {refusal:?}");
            let (refusal, problem) = (refusal.unwrap_or_default(), problem.unwrap_or_default());
            ::tests::assert_has(&refusal, problem);
            assert_eq!(refusal.is_empty(), !refusal.contains("the cluster"));
        }
    }
    let mut bad = "|org|https://quay.io|quay.io/app:|*.io/x|quay.io/app@sha256:x".split('|');
    assert_rows!(bad.find(|scope| Mirrors::default().with_admissions(admission(None, &[scope])).is_ok()) => None);
}

#[test]
fn resolved_tag_is_pulled_from_mirrors_for_tags_too() {
    let both = "tags:t.example digests:d.example";
    let mirrors = Mirrors::new([rule("quay.io", both)]).unwrap();
    let text = format!("quay.io/app@sha256:{}", "a".repeat(64));
    let images = [&*text, "quay.io/app:v1", "quay.io/app", "ghcr.io/app"];
    let [pinned, tagged, untagged, other] = images.map(|image| image.parse().unwrap());
    assert_rows!(places(&mirrors, &text).unwrap() => ["d.example/app", "quay.io/app"]);
    assert!(mirrors.has_mirrors_for_tags(&untagged) && !mirrors.has_mirrors_for_tags(&other));
    let all = [mirrors.of_tag(&tagged), Mirrors::default()];
    let mirrors: Mirrors = all.into_iter().collect();
    assert_rows!(places(&mirrors, &text).unwrap() => ["t.example/app", "d.example/app", "quay.io/app"]);
    let admits = |scope: &str| {
        let admission = with!(ImageAdmission, allowed: Some(vec![scope.to_owned()]));
        let mirrors = mirrors.clone().with_admissions(admission).unwrap();
        mirrors.is_admitted(&pinned)
    };
    assert!(admits("quay.io/app:v1") && !admits("quay.io/app:v2"));
    assert_eq!(mirrors.of_tag(&pinned).tag, None);
}
