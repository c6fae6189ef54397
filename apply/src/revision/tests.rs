use serde_json::json;

use super::*;

fn object(name: &str, data: &str) -> Object {
    let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": data}});
    Object::try_from(value).unwrap()
}

fn header(number: i64) -> Header<Value> {
    Header {
        owner: "uid".into(),
        number,
        namespace: "operators".into(),
        account: None,
        details: json!({"bundle": "etcd"}),
    }
}

/// Returns text that does not compress.
fn noise(seed: u64, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.alphanumeric()).collect()
}

fn read(encoded: &Encoded, bytes: &[u8]) -> Result<Revision<Value>, DecodeError> {
    decode(bytes, &encoded.checksum, 3, "uid")
}

#[test]
fn records_are_read_as_they_were_written() {
    let large = noise(7, 2 << 20);
    for objects in [
        &[][..],
        &[("a", "1")],
        &[("a", "line\nbreak"), ("b", ""), ("c", "ü")],
        // One object may take several parts.
        &[("a", large.as_str()), ("b", "1")],
    ] {
        let objects = objects.iter().map(|(name, data)| object(name, data));
        let objects: Vec<Object> = objects.collect();
        let encoded = encode(&header(3), &objects).unwrap();
        assert!(encoded.parts.iter().all(|part| part.len() <= MAX_PART));
        assert_rows!(read(&encoded, &encoded.parts.concat()).unwrap() => Revision { header: header(3), objects });
    }
}

#[test]
fn ten_thousand_objects_take_several_parts() {
    let objects = (0..10_000).map(|number| object(&format!("o{number:05}"), &noise(number, 300)));
    let objects: Vec<Object> = objects.collect();
    let encoded = encode(&header(3), &objects).unwrap();
    let sizes: Vec<usize> = encoded.parts.iter().map(Vec::len).collect();
    let (last, others) = sizes.split_last().unwrap();
    assert!(others.len() >= 2 && others.iter().all(|size| *size == MAX_PART));
    assert!((1..=MAX_PART).contains(last));
    assert_rows!(read(&encoded, &encoded.parts.concat()).unwrap().objects => objects);

    // A part is missing, or two are exchanged.
    let mut exchanged = encoded.parts.clone();
    exchanged.swap(0, 1);
    for parts in [&encoded.parts[1..], &encoded.parts[..1], &exchanged] {
        assert_rows!(matches!(read(&encoded, &parts.concat()), Err(DecodeError::Checksum { .. })) => true);
    }
}

#[test]
fn modified_record_is_rejected() {
    let encoded = encode(&header(3), &[object("a", "1"), object("b", "2")]).unwrap();
    let whole = encoded.parts.concat();
    let mut edited = whole.clone();
    edited[whole.len() / 2] ^= 1;
    for bytes in [edited.as_slice(), &whole[..whole.len() / 2], &[]] {
        assert_rows!(matches!(read(&encoded, bytes), Err(DecodeError::Checksum { .. })) => true);
    }
    // The checksum that is recorded beside the parts can be forged as well; that in the status cannot.
    for (number, owner) in [(4, "uid"), (3, "other")] {
        let refused = decode::<Value>(&whole, &encoded.checksum, number, owner);
        assert_rows!(matches!(refused, Err(DecodeError::Other { .. })) => true, "{number} {owner}");
    }
}

#[test]
fn malformed_record_is_rejected() {
    let compressed = |text: &str| {
        let mut stream = GzEncoder::new(Vec::new(), Compression::default());
        stream.write_all(text.as_bytes()).unwrap();
        stream.finish().unwrap()
    };
    let rest = r#""owner":"uid","number":3,"namespace":"a","details":null}"#;
    let first = |objects: usize| format!(r#"{{"format":1,"objects":{objects},{rest}"#);
    let refused = |stream: &[u8]| {
        let decoded = decode::<Value>(stream, &checksum(stream), 3, "uid");
        decoded.unwrap_err()
    };
    assert_each!(|text, part| refused(&compressed(&text)) => has part;
        String::new() => "unexpected end";
        "not JSON\n".to_owned() => "expected";
        first(1) + "\n" => "unexpected end";
        first(usize::MAX) + "\n{}\n" => "invalid revision record";
        first(1) + "\n[]\n" => "invalid revision record";
        r#"{"format":2,"rows":[]}"#.to_owned() => "requires a newer version of rukpak";
    );
    assert!(matches!(refused(b"plain"), DecodeError::Malformed(_)));
}

#[test]
fn record_that_exceeds_the_limit_is_rejected() {
    let part = noise(7, 9 << 20);
    let objects: Vec<Object> = (0..5).map(|_| object("o", &part)).collect();
    let expected = "the compressed record of the objects exceeds 32 MiB; split the bundle";
    assert_rows!(encode(&header(1), &objects).unwrap_err().to_string() => expected);
}

#[test]
fn digest_covers_objects_account_and_namespace_only() {
    let account = |name| crate::tests::account(name, "accounts");
    let objects = [object("a", "1"), object("b", "2")];
    let same = digest(&objects, None, "operators");
    assert_eq!(same, digest(&objects.clone(), None, "operators"));
    let others = [
        digest(&[object("b", "2"), object("a", "1")], None, "operators"),
        digest(&objects[..1], None, "operators"),
        digest(&objects, None, "other"),
        digest(&objects, Some(&account("installer")), "operators"),
        digest(&objects, Some(&account("admin")), "operators"),
        digest(&[object("a", "1"), object("b", "3")], None, "operators"),
    ];
    assert_rows!(others.iter().chain([&same]).collect::<std::collections::BTreeSet<_>>().len() => 7);
}

#[test]
fn object_hashes_are_16_digits() {
    let hash = ObjectHash::new(&object("a", "1"));
    assert_ne!(hash, ObjectHash::new(&object("a", "2")));
    assert_eq!(hash.to_string().parse(), Ok(hash));
    let wrong = "0123456789abcde 0123456789ABCDEF 0123456789abcdef0 +123456789abcdef";
    let mut wrong = wrong.split(' ').chain([""]);
    assert_rows!(wrong.find(|text| text.parse::<ObjectHash>() != Err(InvalidHash)) => None);
}
