//! One case for each message of opm, and cases that are valid.

#![allow(clippy::needless_pass_by_value, clippy::too_many_lines)] // json! makes values, and tables are long

mod facts;
mod fuzz;
mod hostile;
mod max_openshift;
mod tree;

use manifests::openshift::MaxOpenShiftVersion;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, chained, channel, content, lines, list, object, package, starts};

fn loaded<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Catalog {
    load(Source::Content(&content(files)), &Limits::default()).unwrap()
}

fn yaml(documents: &[Value]) -> String {
    list(documents, |document| {
        format!("---\n{}", manifests::yaml::to_string(document).unwrap())
    })
}

fn catalog_of(documents: &[Value]) -> Catalog {
    loaded(&[("c.json", lines(documents))])
}

fn bundle(version: &str) -> Value {
    testing::bundle("foo", &format!("foo.v{version}"), version)
}

/// A valid package: 0.1.0, 0.2.0 and 0.3.0 in one channel.
fn sound() -> Vec<Value> {
    chained("foo", "alpha", &["0.1.0", "0.2.0", "0.3.0"].map(bundle))
}

fn finding_lines(catalog: &Catalog) -> Vec<String> {
    let findings = catalog.findings.iter();
    let lines = findings.map(|finding| format!("{}: {}", finding.line.unwrap(), finding.message));
    lines.collect()
}

// parity: platform-25
#[test]
fn valid_catalog_is_loaded_unchanged() {
    let mut documents = sound();
    let (skips, range) = (["foo.v0.2.0", "foo.v0.0.5"], ">=0.1.x <0.3.0 || 0.0.1");
    let entry =
        json!({"name": "foo.v0.3.0", "replaces": "foo.v0.0.9", "skips": skips, "skipRange": range});
    documents.extend([
        channel("foo", "beta", &json!([entry])),
        json!({"schema": "olm.deprecations", "package": "foo", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use bar"},
            {"reference": {"schema": "olm.channel", "name": "beta"}, "message": "use alpha"},
            {"reference": {"schema": "olm.bundle", "name": "foo.v0.1.0"}, "message": "old"}]}),
        json!({"schema": "unknown", "anything": [1]}),
    ]);
    documents[4]["properties"].as_array_mut().unwrap().extend([
        json!({"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}}),
        json!({"type": "olm.gvk.required", "value": {"group": "", "version": "v1", "kind": "Pod"}}),
        json!({"type": "olm.package.required", "value": {"packageName": "bar", "versionRange": ">1.0.0"}}),
        json!({"type": "olm.constraint", "value": {"failureMessage": "no", "cel": {"rule": "true"}}}),
        json!({"type": "olm.maxOpenShiftVersion", "value": "4.10"}),
        json!({"type": "olm.csv.metadata", "value": {"minKubeVersion": "1.25.0", "annotations": {"a": "b"}}}),
        json!({"type": "olm.bundle.mediatype", "value": "plain+v0"}),
        json!({"type": "olm.deprecated", "value": {}}),
        json!({"type": "anything", "value": [null]}),
    ]);
    let catalog = catalog_of(&documents);
    assert_eq!((finding_lines(&catalog), catalog.documents), (vec![], 8));
    let foo = &catalog.packages["foo"];
    let (alpha, beta) = (&foo.channels["alpha"], &foo.channels["beta"]);
    let (first, last) = (&foo.bundles["foo.v0.1.0"], &foo.bundles["foo.v0.3.0"]);
    let needs: Vec<String> = last.requires.iter().map(ToString::to_string).collect();
    assert_rows! {
        (&*foo.default_channel, foo.deprecation.as_deref()) => ("alpha", Some("use bar"));
        beta.deprecation.as_deref() => Some("use alpha");
        (&*alpha.head().unwrap().name, foo.channels_of("foo.v0.3.0").count()) => ("foo.v0.3.0", 2);
        beta.entries[0].skips => ["foo.v0.2.0", "foo.v0.0.5"];
        (first.media_type(), first.deprecation.as_deref()) => ("registry+v1", Some("old"));
        (last.media_type(), last.is_deprecated, last.min_kube.as_deref()) => ("plain+v0", true, Some("1.25.0"));
        last.max_openshift.as_ref().map(MaxOpenShiftVersion::text).as_deref() => Some("4.10");
        [last.version.to_string(), last.provides[0].to_string()] => ["0.3.0", "g/v1 K"];
        needs => ["API v1 Pod", "package bar >1.0.0", "constraint: no"];
    }
    // YAML and JSON are loaded equally.
    let [yaml, json] = [yaml, lines].map(|format| loaded(&[("f", format(&sound()))]).packages);
    assert_eq!(yaml, json);
}

// parity: load-9
#[test]
fn broken_package_does_not_affect_others() {
    let good = lines(&sound());
    for (bar, expected) in ::tests::rows![
        "{\"schema\": \"olm.package\", \"name\": \"bar\"}" => "bar.json:1: package \"bar\": default channel must be set";
        "{\"schema\": \"olm.channel\", \"package\": \"bar\", \"name\": 1}"
            => "bar.json:1: expected value for key \"name\" to be a string, got number: 1";
        &(good.replace("foo", "bar") + "}") => "bar.json:6: invalid character '}' looking for beginning of value";
    ] {
        let catalog = loaded(&[("foo.json", &*good), ("bar.json", bar)]);
        assert!(catalog.packages.keys().eq(["foo"]), "{bar}");
        assert!(catalog.broken.keys().eq(["bar"]), "{bar}");
        starts(&catalog.findings[0], expected);
        assert!(catalog.why_broken("bar").unwrap().starts_with("bar.json"));
        assert_eq!(catalog.why_broken("foo"), None);
    }
}

/// Such a document may belong to any package of its file or directory.
#[test]
fn fault_without_package_breaks_its_file_or_directory() {
    let good = lines(&sound());
    let bar = good.replace("foo", "bar");
    let lone = "{\"schema\":\"olm.bundle\",\"name\":\"x\"}\n";
    for (files, broken) in ::tests::rows![
        vec![("foo.json", good.clone() + lone), ("bar.json", bar.clone())] => vec!["foo"];
        vec![("foo/a.json", good.clone()), ("foo/b.json", lone.to_owned()), ("bar/a.json", bar.clone())] => vec!["foo"];
        vec![("foo.json", good.clone()), ("bar.json", bar.clone()), ("README.md", "# Read me: [".to_owned())] => vec![];
        vec![("all.json", good.clone() + &bar + lone)] => vec!["bar", "foo"];
    ] {
        let catalog = loaded(&files);
        assert!(!catalog.is_valid());
        assert_eq!(catalog.broken.keys().collect::<Vec<_>>(), broken);
        assert_eq!(catalog.packages.len(), 2 - broken.len());
    }
}

/// The rest of the file, which is not read, may contain any package.
#[test]
fn packages_after_a_syntax_error_are_unusable() {
    let good = lines(&sound());
    let bar = good.replace("foo", "bar");
    for (files, expected) in ::tests::rows![
        vec![("all.json", good.clone() + "{\"schema\": }\n" + &bar)] => Some("all.json:6: ");
        // An error after which the file is read further.
        vec![("all.json", good.clone() + "{\"schema\": \"\"}\n")] => None;
        vec![("foo.json", good.clone()), ("README.md", "# Read me: [".to_owned())] => None;
    ] {
        let reason = loaded(&files).why_broken("bar");
        assert_eq!(reason.is_some(), expected.is_some(), "{reason:?}");
        if let (Some(reason), Some(expected)) = (reason, expected) {
            let rest =
                "rest of the file was not read and may contain the package; correct the file";
            let pattern = format!("{expected}*; the {rest}");
            assert!(::tests::table::matches(&pattern, &reason), "{reason}");
        }
    }
}

// parity: load-9
#[test]
fn broken_package_has_its_own_reason() {
    // An error without a package, in another file that is read first.
    let lost = "{\"schema\": \"olm.channel\", \"name\": \"lost\"}";
    let mut own = sound();
    own.push(bundle("0.3.0"));
    let catalog = loaded(&[("a/lost.json", lost), ("b/foo.json", &*lines(&own))]);
    assert!(catalog.findings[0].package.is_none());
    let expected = "b/foo.json:6: package \"foo\" has duplicate bundle \"foo.v0.3.0\"";
    assert_eq!(catalog.why_broken("foo").as_deref(), Some(expected));
    // An error in its own file is a reason.
    let nameless = lines(&sound()) + lost;
    let catalog = loaded(&[("a/lost.json", lost), ("b/foo.json", &*nameless)]);
    starts(catalog.why_broken("foo").unwrap(), "b/foo.json:6: ");
    // So many errors that the package's own is not retained.
    let many = format!("{lost}\n").repeat(11_000);
    let catalog = loaded(&[("a/lost.json", &many), ("b/foo.json", &nameless)]);
    assert_rows!(catalog.why_broken("foo").as_deref() => Some("it has further errors; correct the reported ones first"));
}
