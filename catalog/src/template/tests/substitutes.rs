//! Bundles that take the places of others.

use super::*;
use crate::testing::list;

/// A catalog with three bundles that follow one another, and what is to be put into it.
fn substitutes(entries: &str, substitutions: &str) -> String {
    let bundles = list(["1.0.0", "1.1.0", "1.2.0"], |version| {
        let package = format!("{{packageName: tide, version: {version}}}");
        format!(
            "- {{schema: olm.bundle, package: tide, name: tide.v{version}, image: x/{version}, properties: \
             [{{type: olm.package, value: {package}}}]}}\n"
        )
    });
    format!(
        "schema: olm.template.substitutes\nentries:\n- {{schema: olm.package, name: tide, defaultChannel: stable}}\n\
         - {{schema: olm.channel, package: tide, name: stable, entries: [{entries}]}}\n\
         {bundles}substitutions: [{substitutions}]\n"
    )
}

const LINE: &str = "{name: tide.v1.0.0, skipRange: '<1.0.0'}, {name: tide.v1.1.0, replaces: tide.v1.0.0, skips: [tide.v0.9.0]}, \
                    {name: tide.v1.2.0, replaces: tide.v1.1.0}";

#[test]
fn a_substitute_takes_the_place_of_its_base() {
    let edges = |blobs: &[Value]| blobs[1]["entries"].clone();
    let once = substitutes(LINE, "{name: x/new, base: tide.v1.1.0}");
    let blobs = rendered(&once, bundles(&[("x/new", "1.1.1")])).unwrap();
    assert_eq!(
        edges(&blobs),
        json!([
            {"name": "tide.v1.0.0", "skipRange": "<1.0.0"},
            {"name": "tide.v1.1.0"},
            {"name": "tide.v1.2.0", "replaces": "tide.v1.1.1", "skips": ["tide.v1.1.0"]},
            {"name": "tide.v1.1.1", "replaces": "tide.v1.0.0", "skips": ["tide.v0.9.0", "tide.v1.1.0"]},
        ])
    );
    let bundles_of = ["tide.v1.0.0", "tide.v1.1.0", "tide.v1.1.1", "tide.v1.2.0"];
    assert_eq!(names(&blobs)[2..], bundles_of);
    // The last one, the first one, and a substitute that has one itself.
    let all = "{name: x/a, base: tide.v1.2.0}, {name: x/b, base: tide.v1.0.0}, {name: x/c, base: tide.v1.2.1}";
    let all = substitutes(LINE, all);
    let versions = [("x/a", "1.2.1"), ("x/b", "1.0.1"), ("x/c", "1.2.2")];
    let blobs = rendered(&all, bundles(&versions)).unwrap();
    assert_eq!(
        edges(&blobs),
        json!([
            {"name": "tide.v1.0.0"},
            {"name": "tide.v1.1.0", "replaces": "tide.v1.0.1", "skips": ["tide.v0.9.0", "tide.v1.0.0"]},
            {"name": "tide.v1.2.0"},
            {"name": "tide.v1.2.1"},
            {"name": "tide.v1.0.1", "skips": ["tide.v1.0.0"], "skipRange": "<1.0.0"},
            {"name": "tide.v1.2.2", "replaces": "tide.v1.1.0", "skips": ["tide.v1.2.0", "tide.v1.2.1"]},
        ])
    );
    // Who skips the base skips the substitute instead.
    let skips = "{name: tide.v1.0.0}, {name: tide.v1.1.0}, {name: tide.v1.2.0, skips: [tide.v1.0.0, tide.v1.1.0]}";
    let skips = substitutes(skips, "{name: x/new, base: tide.v1.0.0}");
    let blobs = rendered(&skips, bundles(&[("x/new", "1.0.1")])).unwrap();
    let expected = json!(["tide.v1.1.0", "tide.v1.0.1"]);
    assert_eq!(edges(&blobs)[2]["skips"], expected);
}

#[test]
fn releases_count_behind_versions() {
    let release = |of: &str, value: &str, annotation: Option<&str>| {
        bundle("x/new", of, value, |csv, _| {
            if let Some(name) = annotation {
                csv["metadata"]["annotations"] = json!({"olm.substitutesFor": name});
            }
        })
    };
    let text = substitutes(LINE, "{name: x/new, base: tide.v1.1.0}");
    let rebuilt = release("tide-v1.1.0-0.1", "1.1.0+0.1", Some("tide.v1.1.0"));
    let mut all = BTreeMap::from([("x/new".to_owned(), rebuilt)]);
    assert!(rendered(&text, all.clone()).is_ok());
    // Build metadata by itself says nothing of order.
    all.insert("x/new".into(), release("tide.v1.1.0-1", "1.1.0+0.1", None));
    let error = rendered(&text, all).unwrap_err();
    assert!(error.contains("is not less than"), "{error}");
}

#[test]
fn everything_wrong_with_substitutions_is_told() {
    let with = |substitutions: &str| substitutes(LINE, substitutions);
    let one = with("{name: x/new, base: tide.v1.1.0}");
    for (text, versions, parts) in ::tests::rows![
        &*with("{name: '', base: a}, {name: a}, {name: a, base: a}, {name: b, base: a}, {name: b, base: c}, null"), &[][..] => &[
            "substitutions[0]: substitution name cannot be empty", "substitutions[1]: substitution base cannot be empty",
            "substitutions[2]: substitution name and base cannot be the same", "cannot reuse the same substitution base \"a\"",
            "cannot reuse the same substitution \"b\" for different bases (\"a\" and \"c\")",
            "substitutions[5]: substitution name cannot be empty", "7 problems",
        ][..];
        &*one, &[("x/new", "1.1.0")] => &["base bundle \"tide.v1.1.0\" is not less than"];
        &*one, &[("x/new", "1.0.5")] => &["error processing substitution \"tide.v1.1.0\" -> \"x/new\""];
        // A name that is there already.
        &*one, &[("x/new", "1.2.0")] => &["resulting config is not valid FBC"];
        &*with("{name: x/new, base: tide.v7.0.0}"), &[("x/new", "7.1.0")] => &["base bundle \"tide.v7.0.0\" does not exist"];
        &*substitutes("{name: tide.v1.0.0, replaces: tide.v1.0.0}", ""), &[] => &["entries are not valid FBC"];
        "schema: olm.template.substitutes\nentries: [{schema: olm.channel, name: a, package: b}, 7]", &[] => &["entries[1]"];
    ] {
        fails(text, versions, parts);
    }
}
