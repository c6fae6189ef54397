//! Catalogs of strangers: changed at random, each gets an answer, the same one twice.

use super::*;

use ::tests::fuzz::{Random, fuzz};

/// Bytes that mean something.
const ODD: &[u8] = b":-{}[]&*!|>'\"%@`#\n\t \0\xff\\";

fn odd(random: &mut Random) -> Value {
    match random.below(14) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(1e300),
        3 => json!([]),
        4 => json!({}),
        5 => json!([null, {}, "x"]),
        6 => json!(""),
        7 => json!("foo.v0.1.0"),
        8 => json!("foo.v0.3.0"),
        9 => json!("olm.bundle"),
        10 => json!("olm.package"),
        11 => json!("0.1.0"),
        12 => json!(">=0.1.0 || x"),
        _ => json!("\u{1b}\u{0}é"),
    }
}

fn run(random: &mut Random) {
    let mut documents = sound();
    documents.push(channel(
        "beta",
        json!([{"name": "foo.v0.3.0", "skips": ["foo.v0.2.0"], "skipRange": "<0.3.0"}]),
    ));
    documents.push(
        json!({"schema": "olm.deprecations", "package": "foo", "entries": [
        {"reference": {"schema": "olm.bundle", "name": "foo.v0.1.0"}, "message": "m"}]}),
    );
    documents[4]["properties"].as_array_mut().unwrap().extend([
        json!({"type": "olm.csv.metadata", "value": {"minKubeVersion": "1.20.0", "annotations": {"a": "b"}}}),
        json!({"type": "olm.bundle.object", "value": {"data": "a2luZDogeA=="}}),
        json!({"type": "olm.constraint", "value": {"all": {"constraints": []}}}),
    ]);
    for _ in 0..=random.below(3) {
        let at = random.below(documents.len());
        random.mutate(&mut documents[at], &mut odd);
    }
    let mut bytes = if random.below(3) == 0 {
        documents
            .iter()
            .map(|it| format!("---\n{}", manifests::yaml::to_string(it).unwrap()))
            .collect::<Vec<_>>()
            .concat()
    } else {
        lines(&documents)
    }
    .into_bytes();
    // Now and then bytes change, too, so that files are cut, broken or no text at all.
    if random.below(3) == 0 {
        for _ in 0..=random.below(6) {
            random.change(&mut bytes, ODD);
        }
    }
    let mut builder = Builder::new(ContentLimits::default());
    builder.add("c", 0o644, &mut bytes.as_slice()).unwrap();
    builder
        .add(
            "good",
            0o644,
            &mut lines(&sound()).replace("foo", "bar").as_bytes(),
        )
        .unwrap();
    let content = builder.finish();
    let first = load(Source::Content(&content), &Limits::default()).unwrap();
    let second = load(
        Source::Content(&content),
        &Limits {
            threads: 1,
            ..Limits::default()
        },
    )
    .unwrap();
    assert_eq!(
        (&first.packages, &first.findings),
        (&second.packages, &second.findings)
    );
    assert_eq!(first.is_valid(), first.as_opm().is_none());
    for (name, package) in &first.packages {
        assert!(!first.broken.contains_key(name));
        for channel in package.channels.values() {
            assert!(channel.head().is_some());
            assert!(
                channel
                    .entries
                    .iter()
                    .all(|it| package.bundles.contains_key(&it.name))
            );
        }
    }
}

// parity: load-10
#[test]
fn fuzz_catalogs_get_an_answer_whatever_they_hold() {
    fuzz(3000, 0, |random| {
        run(random);
        1
    });
}
