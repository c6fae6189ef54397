//! Untrusted catalogs: each random change gets an answer, and twice the same one.

use super::*;
use ::tests::fuzz::{Random, fuzz};

/// Bytes with a meaning in JSON or YAML.
const ODD: &[u8] = b":-{}[]&*!|>'\"%@`#\n\t \0\xff\\";

/// Values for any position.
const VALUES: &str = r#"[null, -1, 1e300, [], {}, [null, {}, "x"], "", "foo.v0.1.0", "foo.v0.3.0", "olm.bundle", "olm.package", "0.1.0",
    ">=0.1.0 || x", "\u001b\u0000é"]"#;

// parity: load-8, load-10
#[test]
fn fuzz_catalogs_always_get_an_answer() {
    let values: Vec<Value> = serde_json::from_str(VALUES).unwrap();
    let mut odd = |random: &mut Random| random.pick(&values).clone();
    fuzz(3000, 4, |random| {
        let mut documents = sound();
        let entry = json!({"name": "foo.v0.3.0", "skips": ["foo.v0.2.0"], "skipRange": "<0.3.0"});
        documents.push(channel("foo", "beta", &json!([entry])));
        let deprecated =
            json!({"reference": {"schema": "olm.bundle", "name": "foo.v0.1.0"}, "message": "m"});
        documents
            .push(json!({"schema": "olm.deprecations", "package": "foo", "entries": [deprecated]}));
        documents[4]["properties"].as_array_mut().unwrap().extend([
            json!({"type": "olm.csv.metadata", "value": {"minKubeVersion": "1.20.0", "annotations": {"a": "b"}}}),
            json!({"type": "olm.bundle.object", "value": {"data": "a2luZDogeA=="}}),
            json!({"type": "olm.constraint", "value": {"all": {"constraints": []}}}),
        ]);
        for _ in 0..=random.below(3) {
            let at = random.below(documents.len());
            random.mutate(&mut documents[at], &mut odd);
        }
        let format = if random.below(3) == 0 { yaml } else { lines };
        let mut bytes = format(&documents).into_bytes();
        // Some cases change bytes, too, so that files are truncated, malformed or not text.
        if random.below(3) == 0 {
            for _ in 0..=random.below(6) {
                random.change(&mut bytes, ODD);
            }
        }
        let good = lines(&sound()).replace("foo", "bar");
        let content = content(&[("c", &*bytes), ("good", good.as_bytes())]);
        let first = load(Source::Content(&content), &Limits::default()).unwrap();
        let threads = 1 + random.below(4);
        let second = load(Source::Content(&content), &with!(Limits, threads)).unwrap();
        assert_eq!(first.packages, second.packages);
        assert_eq!(first.findings, second.findings);
        assert_eq!(first.is_valid(), first.as_opm().is_none());
        for (name, package) in &first.packages {
            assert!(!first.broken.contains_key(name));
            for channel in package.channels.values() {
                assert!(channel.head().is_some());
                let mut entries = channel.entries.iter();
                assert!(entries.all(|entry| package.bundles.contains_key(&entry.name)));
            }
        }
        first.is_valid().into()
    });
}
