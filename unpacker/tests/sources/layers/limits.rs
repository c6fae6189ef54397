//! Too many layers, and layers that are too large or decompress to such sizes.

use super::*;

#[test]
fn bombs_end_at_the_limits_of_images() {
    let options = with!(options() => image.bytes: 8 << 20, image.entries: 1000, image.layers: 3);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let bomb = || tar().entry(b'0', b"etc/bomb", 10 << 30, b"").open();
    let zeros = vec![0; 1 << 20];
    let end = || tar().end();
    let entry = || tar().file("etc/a", "").open();
    for (reader, expected, most) in tests::rows![
        chained(bomb(), zeros.clone()), "8388608 uncompressed bytes" => 9 << 20;
        chained(gzip(&bomb()), gzip(&zeros)), "8388608 uncompressed bytes" => 1 << 20;
        chained(zstd(&bomb()), zstd(&zeros)), "8388608 uncompressed bytes" => 1 << 20;
        chained(end(), zeros.clone()), "8388608 uncompressed bytes" => 9 << 20;
        chained(gzip(&end()), gzip(b"")), "8388608 uncompressed bytes" => 9 << 20;
        chained(zstd(&end()), zstd(b"")), "8388608 uncompressed bytes" => 9 << 20;
        chained(zstd(&end()), b"\x50\x2a\x4d\x18\0\0\0\0".to_vec()), "8388608 uncompressed bytes" => 9 << 20;
        chained(Vec::new(), entry()), "more than 1000 entries in its layers" => 1 << 20;
        chained(Vec::new(), tar().pax(b'g', &[("comment", "x")]).open()), "8388608 uncompressed bytes" => 9 << 20;
    ] {
        let mut counted = Counted(reader, 0);
        let mut stack = Layers::new(&options).unwrap();
        let error = push(&mut stack, &mut counted).unwrap_err();
        assert_rows!((error.to_string().contains(expected), kind(&error)) => (true, ("LimitExceeded", true)), "{error}");
        assert!(counted.1 <= most, "{} bytes read", counted.1);
    }
    // The limits apply to all layers together.
    let large = tar().file("etc/a", &"x".repeat(3 << 20)).end();
    let many = (0..400).fold(tar(), |tar, _| tar.file("etc/a", "")).end();
    assert_each!(|layers, expected| outcome(read(&layers, &options)) => has expected;
        vec![large.clone(), gzip(&large), large] => "8388608 uncompressed bytes";
        vec![many; 3] => "1000 entries";
        vec![end(); 4] => "more than 3 layers";
    );
}

#[test]
fn content_limits_apply_only_to_selected_files() {
    let options = with!(options() => limits.total: 20, limits.file: 15, limits.entries: 3);
    let outside = (0..100).fold(tar(), |tar, number| {
        tar.file(&format!("etc/{number}"), &"x".repeat(100))
    });
    assert_each!(|layer, expected| outcome(read(&[layer.end()], &options)) => has expected;
        outside.clone().file("manifests/a", "1") => "manifests/a=1";
        tar().file("manifests/a", &"x".repeat(16)) => "larger than the limit of 15 bytes";
        tar().file("manifests/a", &"x".repeat(11)).file("manifests/b", &"x".repeat(11)) => "limit of 20 bytes";
        tar().entries("5 manifests/a/, 5 manifests/b/, 0 manifests/.wh.x, 0 manifests/c") => "more than 3 entries";
    );
    assert_rows!(matches!(Layers::new(&with!(Options::default() => select: only(&["../etc"]))), Err(Error::Content(_))) => true);
}
