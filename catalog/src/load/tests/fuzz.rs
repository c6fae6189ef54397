//! Catalogs of strangers: changed at random, each gets an answer, the same one twice.

use super::*;

/// Marsaglia's xorshift: the same catalogs on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

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

/// Replaces, removes, copies or renames something somewhere below.
fn mutate(value: &mut Value, random: &mut Random) {
    let size = match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    };
    if size == 0 || random.below(6) == 0 {
        *value = odd(random);
        return;
    }
    let at = random.below(size);
    match value {
        Value::Object(map) => {
            let key = map.keys().nth(at).unwrap().clone();
            match random.below(8) {
                0 => drop(map.remove(&key)),
                1 => {
                    let moved = map.remove(&key).unwrap();
                    map.insert(key.to_uppercase(), moved);
                }
                2 => {
                    let copy = map[&key].clone();
                    map.insert(key.to_uppercase(), copy);
                }
                _ => mutate(map.get_mut(&key).unwrap(), random),
            }
        }
        Value::Array(list) => match random.below(8) {
            0 => drop(list.remove(at)),
            1 => {
                let copy = list[at].clone();
                list.push(copy);
            }
            _ => mutate(&mut list[at], random),
        },
        _ => {}
    }
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
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
        mutate(&mut documents[at], &mut random);
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
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), ODD[random.below(ODD.len())]),
                _ if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                _ => {}
            }
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
        (&second.packages, &second.findings),
        "seed {seed}"
    );
    assert_eq!(first.is_valid(), first.as_opm().is_none(), "seed {seed}");
    for (name, package) in &first.packages {
        assert!(!first.broken.contains_key(name), "seed {seed}");
        for channel in package.channels.values() {
            assert!(channel.head().is_some(), "seed {seed}");
            assert!(
                channel
                    .entries
                    .iter()
                    .all(|it| package.bundles.contains_key(&it.name)),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn fuzz_catalogs_get_an_answer_whatever_they_hold() {
    let seconds = std::env::var("RUKPAK_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else {
        (0..3000).for_each(run);
        return;
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut seed = 0;
    while std::time::Instant::now() < end {
        run(seed);
        seed += 1;
    }
    eprintln!("{seed} catalogs");
}
