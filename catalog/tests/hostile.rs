//! Untrusted input of `render`: every input gets an answer, and twice the same one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // helpers of tests fail by panicking

#[macro_use(with)]
extern crate tests;

#[path = "../src/testing.rs"]
mod testing;

use crate::testing::{content, has};
use catalog::{
    Limits, Source,
    render::{BundleImageRef, Format, Level, Render},
};
use tests::fuzz::{Random, fuzz};

const CSV: &str = r#"{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
 "metadata": {"name": "a.v1", "annotations": {"olm.properties": "[{\"type\": \"x\", \"value\": [1.0]}]"}},
 "spec": {"version": "1.0.0", "release": 1, "relatedImages": [{"name": "a", "image": "b"}],
  "customresourcedefinitions": {"owned": [{"name": "as.a.b", "kind": "A", "version": "v1"}], "required": []},
  "apiservicedefinitions": {"owned": [{"name": "b", "group": "g", "kind": "B", "version": "v1"}]},
  "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "d", "spec": {"template": {"spec":
   {"containers": [{"name": "c", "image": "i"}]}}}}]}}}}"#;
const CRD: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.a.b"},
 "spec": {"group": "a.b", "names": {"kind": "A", "plural": "as"}, "versions": [{"name": "v1"}]}}"#;
const METADATA: &str = r#"{"annotations": {"operators.operatorframework.io.bundle.package.v1": "a"},
 "properties": [{"type": "olm.gvk", "value": {"group": "g", "kind": "K", "version": "v"}}, {"type": "y", "value": "<"}],
 "dependencies": [{"type": "olm.package", "value": {"packageName": "p", "version": ">1.0.0"}}]}"#;
const CATALOG: &str = r#"{"schema": "olm.package", "name": "a", "icon": {"base64data": "YQ==", "mediatype": "m"}}
{"schema": "olm.channel", "package": "a", "name": "c", "entries": [{"name": "b", "skips": ["x"]}]}
{"schema": "olm.bundle", "package": "a", "name": "b", "image": "i", "relatedImages": [{"image": "z"}, {"image": "y"}],
 "properties": [{"type": "olm.bundle.object", "value": {"data": "a2luZDogQ2x1c3RlclNlcnZpY2VWZXJzaW9u"}}, {"type": "z", "value": 1e9}]}
{"schema": "olm.deprecations", "package": "a", "entries": [{"reference": {"schema": "olm.bundle", "name": "b"}, "message": "m"}]}
{"schema": "other", "a": [[{}]]}"#;

/// Known harmful values, between dots.
const ODD: &str = "null·{}·[]·\"\"·-1·1e999·1e300·\0·\n---\n·{·}·[·]·\"·\\·\\ud800·:·,·&a·*a·<<: *a·!!binary x·\t·\u{feff}·\u{85}·../..\
    ·olm.bundle·olm.csv.metadata·kind·true";

/// Truncates, copies, replaces or inserts at a random position.
fn mutated(text: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let (from, length) = (random.below(bytes.len()), random.below(20));
        let to = (from + length).min(bytes.len());
        let piece: Vec<u8> = match random.below(4) {
            0 => Vec::new(),
            1 => bytes[from..to].repeat(2),
            2 => vec![random.byte()],
            _ => (*random.pick(&ODD.split('·').collect::<Vec<_>>())).into(),
        };
        let replaced = if random.below(2) == 0 { to } else { from };
        bytes.splice(from..replaced, piece);
    }
    bytes
}

/// Renders the content in both formats, or returns the error.
fn answer(render: impl Fn(&mut Render) -> Result<(), catalog::render::Error>) -> Vec<String> {
    let mut answers = Vec::new();
    for level in [Level::None, Level::ALL] {
        let mut all = Render::new(level);
        if let Err(error) = render(&mut all) {
            answers.push(error.to_string());
            continue;
        }
        answers.extend(all.take_warnings());
        let rendered = all.finish();
        for format in [Format::Json, Format::Yaml] {
            let mut out = Vec::new();
            rendered.write(format, &mut out).unwrap();
            answers.push(String::from_utf8(out).unwrap());
        }
    }
    answers
}

#[test]
fn fuzz_changed_bundles_get_an_answer() {
    fuzz(3000, 10, |random| {
        let mut change = |text: &str| match random.below(2) {
            0 => text.as_bytes().to_vec(),
            _ => mutated(text, random),
        };
        let bundle = content(&tests::rows![
            "manifests/crd.json" => change(CRD);
            "manifests/csv.json" => change(CSV);
            "metadata/a.json" => change(METADATA);
        ]);
        let catalog = content(&[("a", &change(CATALOG))]);
        let image = BundleImageRef::Reference("quay.io/a/b:v1");
        let limits = Limits::default();
        let bundles = || answer(|render| render.bundle(&bundle, image));
        let catalogs = || answer(|render| render.catalog(Source::Content(&catalog), &limits));
        let (first, second) = (bundles(), catalogs());
        assert_eq!((&first, &second), (&bundles(), &catalogs()));
        usize::from(first.len() > 3) + usize::from(second.len() > 3)
    });
}

/// Tests of the walk cover the limits themselves.
#[test]
fn limits_hold_in_rendering() {
    let catalog = content(&[("a", "{\"schema\": \"x\"}\n".repeat(200))]);
    let limits = with!(Limits, documents: 100);
    let rendered = Render::new(Level::ALL).catalog(Source::Content(&catalog), &limits);
    has(rendered.unwrap_err(), "more than 100 documents");
}

#[test]
fn too_deep_nesting_is_an_error() {
    for (levels, json, yaml) in [(100, true, true), (900, true, false), (5000, false, false)] {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        let deep = format!("{{\"schema\": \"x\", \"package\": \"p\", \"a\": {open}1{close}}}");
        let catalog = content(&[("a", deep.as_bytes())]);
        let mut render = Render::new(Level::None);
        let read = render.catalog(Source::Content(&catalog), &Limits::default());
        read.unwrap();
        let rendered = render.finish();
        for (format, expected) in [(Format::Json, json), (Format::Yaml, yaml)] {
            match rendered.write(format, &mut Vec::new()) {
                Ok(()) => assert!(expected, "{levels} {format:?}"),
                Err(error) => {
                    assert!(!expected, "{levels} {format:?}: {error}");
                    has(&error, "a blob of package \"p\" (\"x\")");
                }
            }
        }
    }
}
