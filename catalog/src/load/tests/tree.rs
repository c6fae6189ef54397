//! What opm finds in a whole tree.

use super::*;

fn with_entries(entries: Value, bundles: &[&str]) -> Vec<String> {
    let mut documents = vec![package("foo", "alpha"), channel("alpha", entries)];
    documents.extend(
        bundles
            .iter()
            .enumerate()
            .map(|(at, name)| named(name, &format!("0.{at}.0"))),
    );
    told(&of(&documents))
}

// parity: validate-3
#[test]
fn chains() {
    for (entries, bundles, message) in ::tests::rows![
        json!([{"name": "a", "replaces": "a"}]), &["a"][..] => "no channel head found in graph";
        json!([{"name": "a", "replaces": "b"}, {"name": "b", "replaces": "a"}]), &["a", "b"]
            => "no channel head found in graph";
        json!([{"name": "a", "skips": ["b"]}, {"name": "b", "skips": ["a"]}]), &["a", "b"] => "no channel head found in graph";
        json!([{"name": "c"}, {"name": "a"}, {"name": "b", "skipRange": "<1.0.0"}]), &["a", "b", "c"]
            => "multiple channel heads found in graph: a, b, c";
        json!([{"name": "d", "replaces": "c"}, {"name": "c", "replaces": "b"}, {"name": "b", "replaces": "a"}, {"name": "a", "replaces": "c"}]),
            &["a", "b", "c", "d"] => "detected cycle in replaces chain of upgrade graph: c -> b -> a -> c";
        json!([{"name": "b", "replaces": "a"}, {"name": "a", "replaces": "a"}]), &["a", "b"]
            => "detected cycle in replaces chain of upgrade graph: a -> a";
        json!([{"name": "c", "replaces": "b", "skips": ["b"]}, {"name": "b", "replaces": "a"}, {"name": "a"}]), &["a", "b", "c"]
            => "channel contains one or more stranded bundles: a";
        json!([{"name": "c"}, {"name": "b", "replaces": "a"}, {"name": "a", "replaces": "b"}]), &["a", "b", "c"]
            => "channel contains one or more stranded bundles: a, b";
        json!([]), &[] => "channel must contain at least one bundle";
    ] {
        assert_eq!(
            with_entries(entries.clone(), bundles),
            [format!("2: {message}")],
            "{entries}"
        );
    }
    for (entries, bundles) in ::tests::rows![
        // The tail, and what is skipped, need not be in the channel.
        json!([{"name": "b", "replaces": "a", "skips": ["x"]}]) => &["b"][..];
        // What is skipped is not stranded.
        json!([{"name": "c", "replaces": "a", "skips": ["b"]}, {"name": "b", "replaces": "a"}, {"name": "a"}])
            => &["a", "b", "c"];
        json!([{"name": "c", "skips": ["a", "b"]}, {"name": "b"}, {"name": "a"}]) => &["a", "b", "c"];
    ] {
        assert_eq!(with_entries(entries.clone(), bundles), [""; 0], "{entries}");
    }
}

// parity: validate-7
#[test]
fn packages_and_default_channels() {
    check(&::tests::rows![
        |c| c[0]["defaultChannel"] = "".into() => &["1: default channel must be set"];
        |c| c[0]["defaultChannel"] = "beta".into() => &["1: channel must contain at least one bundle"];
        |c| *c = vec![package("foo", "")]
            => &["1: default channel must be set", "1: package must contain at least one channel"];
    ]);
}

/// Adds the channel `beta` with one entry.
fn second(c: &mut Vec<Value>, name: &str) {
    c.push(channel("beta", json!([{"name": name}])));
}

/// A bundle of version 0.3.0 in release 1.
fn released(name: &str) -> Value {
    let mut bundle = named(name, "0.3.0");
    bundle["properties"][0]["value"]["release"] = "1".into();
    bundle
}

// parity: validate-5
#[test]
fn versions_are_unique_in_a_package() {
    check(&::tests::rows![
        |c| { second(c, "x"); c.push(named("x", "0.3.0")); }
            => &["1: duplicate versions found in bundles: [{0.3.0: [foo.v0.3.0, x]}]"];
        |c| {
            c[1]["entries"][2]["skips"] = json!(["x"]);
            c[1]["entries"].as_array_mut().unwrap().push(json!({"name": "x"}));
            c.push(named("x", "0.3.0"));
        } => &["1: duplicate versions found in bundles: [{0.3.0: [foo.v0.3.0, x]}]"];
        // One bundle in two channels is there once.
        |c| second(c, "foo.v0.3.0") => &[];
        |c| { second(c, "foo-v0.3.0-1"); c.push(released("foo-v0.3.0-1")); } => &[];
        |c| { second(c, "x"); c.push(released("x")); }
            => &["7: name \"x\" does not match normalized name \"foo-v0.3.0-1\""];
        |c| {
            c.push(channel("beta", json!([{"name": "foo-v0.3.0-1", "skips": ["x"]}, {"name": "x"}])));
            c.extend([released("foo-v0.3.0-1"), released("x")]);
        } => &[
            "1: duplicate versions found in bundles: [{0.3.0-1: [foo-v0.3.0-1, x]}]",
            "8: name \"x\" does not match normalized name \"foo-v0.3.0-1\"",
        ];
        |c| {
            second(c, "foo-v0.3.0+b-1");
            let mut bundle = released("foo-v0.3.0+b-1");
            bundle["properties"][0]["value"]["version"] = "0.3.0+b".into();
            c.push(bundle);
        } => &["7: cannot use build metadata in version with a release version"];
    ]);
}

// parity: validate-4
#[test]
fn bundles() {
    check(&::tests::rows![
        |c| c[4]["image"] = "".into() => &["5: bundle image must be set"];
        |c| { c[1]["entries"][2]["name"] = "".into(); c[4]["name"] = "".into(); } => &["5: name must be set"];
        // With its manifests in the catalog it needs no image.
        |c| {
            c[4]["image"] = "".into();
            let object = json!({"type": "olm.bundle.object", "value": {"data": "e30="}});
            c[4]["properties"].as_array_mut().unwrap().push(object);
        } => &[];
        |c| c[1]["entries"][2]["skips"] = json!(["foo.v0.0.1", "", ""]) => &["2: skip[1] is empty", "2: skip[2] is empty"];
    ]);
    for (range, good) in [
        ("v0.1.0", false),
        (">=00.1.0", false),
        ("^1.0.0", false),
        ("~1.0.0", false),
        ("1.0.0 - 2.0.0", false),
        ("1.*", false),
        ("||", false),
        (">=0.1.0 <0.3.0", true),
        ("0.1.x || >1.x", true),
        ("!=1.0.0", true),
        ("!1.0.0", true),
        ("==1.0.0", true),
        ("", true),
    ] {
        let told = changed(|c| c[1]["entries"][2]["skipRange"] = range.into());
        let start = format!("2: invalid skipRange {range:?}: ");
        let fine = match told.as_slice() {
            [] => good,
            [one] => !good && one.starts_with(&start),
            _ => false,
        };
        assert!(fine, "{range}: {told:?}");
    }
}

// parity: validate-10
#[test]
fn findings_are_drawn_as_opm_draws_them() {
    let mut documents = sound();
    documents[0]["defaultChannel"] = "".into();
    documents[1]["entries"][1]["replaces"] = "x".into();
    documents[4]["image"] = "".into();
    documents.push(channel("beta", json!([{"name": "foo.v0.3.0"}])));
    documents.push(package("bar", "x"));
    let catalog = of(&documents);
    assert_eq!(
        catalog.as_opm().unwrap(),
        "\
invalid index:
├── invalid package \"bar\":
│   └── invalid channel \"x\":
│       └── channel must contain at least one bundle
└── invalid package \"foo\":
    ├── default channel must be set
    ├── invalid channel \"alpha\":
    │   ├── invalid bundle \"foo.v0.3.0\":
    │   │   └── bundle image must be set
    │   └── multiple channel heads found in graph: foo.v0.1.0, foo.v0.3.0
    └── invalid channel \"beta\":
        └── invalid bundle \"foo.v0.3.0\":
            └── bundle image must be set
"
    );
    // What it stops at comes alone.
    documents.push(package("bar", "x"));
    assert_eq!(
        of(&documents).as_opm().unwrap(),
        "duplicate package \"bar\""
    );
}
