//! Archives changed at random, from a fixed seed. `RUKPAK_FUZZ_SECONDS` runs it for that long.

use std::{
    env,
    time::{Duration, Instant},
};

use serde_json::json;
use unpacker::{
    Digest, Error, ImageLimits, Tree,
    layers::Layers,
    oci::{self, Document},
};
use unpacker::{Format, Limits, Options, Selection, pack, stream};

use crate::raw::{Tar, gzip};

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (end.max(1) as u64)).unwrap()
    }

    fn byte(&mut self) -> u8 {
        const TELLING: &[u8] = b"\0\x01\x1f\x8b\xff 01257LKxgSV/.=\n9";
        match self.below(3) {
            0 => TELLING[self.below(TELLING.len())],
            _ => u8::try_from(self.below(256)).unwrap(),
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let from = at / 512 * 512;
                let copy = bytes[from..bytes.len().min(from + 512)].to_vec();
                let to = self.below(bytes.len() + 1) / 512 * 512;
                bytes.splice(to..to, copy);
            }
            2 => {
                let from = at / 512 * 512;
                bytes.drain(from..bytes.len().min(from + 512));
            }
            3 => bytes.insert(at, self.byte()),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.byte();
                }
            }
        }
    }
}

/// Makes every block that still looks like a header pass its checksum, or the fuzz would end there.
fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if block.get(257..262) == Some(b"ustar") {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let tar = Tar::default;
    vec![
        tar()
            .file("manifests/csv.yaml", &"kind: x\n".repeat(90))
            .file("b", "2")
            .end(),
        tar()
            .with(b'5', "a/", b"")
            .with(b'2', "a/link", b"")
            .file("a/b", "1")
            .end(),
        tar()
            .pax(b'g', &[("comment", "c")])
            .pax(b'x', &[("path", "long"), ("size", "1")])
            .file("a", "1")
            .end(),
        tar()
            .with(b'L', "l", b"long/name\0")
            .with(b'K', "k", b"target\0")
            .file("a", "1")
            .end(),
        tar()
            .with(b'S', "sparse", b"1")
            .with(b'1', "hard", b"")
            .with(0, "old/", b"")
            .end(),
    ]
}

#[test]
fn changed_archives_never_panic_and_never_exceed_the_limits() {
    let seconds = env::var("RUKPAK_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let limits = Limits {
        total: 1500,
        file: 1000,
        entries: 6,
        path: 64,
        depth: 4,
    };
    let seeds = seeds();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut rounds, mut taken) = (0, 0);
    while until.map_or(rounds < 30_000, |until| Instant::now() < until) {
        rounds += 1;
        let mut bytes = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            random.change(&mut bytes);
        }
        if random.below(4) > 0 {
            mend(&mut bytes);
        }
        if random.below(8) == 0 {
            bytes = gzip(&bytes);
            if random.below(2) == 0 {
                random.change(&mut bytes);
            }
        }
        let select = match random.below(4) {
            0 => Selection::Only(vec!["a".to_owned()]),
            _ => Selection::Natural,
        };
        let options = Options {
            limits,
            select,
            ..Options::default()
        };
        let Ok(unpacked) = stream(bytes.as_slice(), &options) else {
            continue;
        };
        taken += 1;
        let content = unpacked.content;
        assert!(content.size() <= limits.total && content.len() <= limits.entries);
        for (path, file) in content.files() {
            assert!(
                path.len() <= limits.path && path.split('/').count() <= limits.depth,
                "{path}"
            );
            assert!(file.bytes.len() as u64 <= limits.file);
            assert_eq!(manifests::content::normalise(path).unwrap(), path);
        }
        let mut packed = Vec::new();
        pack(&content, Format::Tar, &mut packed).unwrap();
        let mut again = stream(packed.as_slice(), &Options::default())
            .unwrap()
            .content;
        let sizes = |content: &unpacker::Content| {
            let sizes = content
                .files()
                .map(|(path, file)| (path.to_owned(), file.bytes.clone()));
            sizes.collect::<Vec<_>>()
        };
        assert_eq!(
            sizes(&again),
            sizes(&content),
            "packing keeps paths and bytes"
        );
        again = unpacker::strip_top_folder(again);
        assert_eq!(again.len(), content.len());
    }
    assert!(
        taken > rounds / 100,
        "{taken} of {rounds} were taken: the changes are too wild to test anything"
    );
}

/// As many rounds as asked for, or for as long as asked for.
fn rounds(count: usize) -> impl Iterator<Item = usize> {
    let seconds = env::var("RUKPAK_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    (0..).take_while(move |round| until.map_or(*round < count, |until| Instant::now() < until))
}

fn layer_seeds() -> Vec<Vec<u8>> {
    let tar = Tar::default;
    let mut seeds = seeds();
    seeds.extend([
        tar()
            .file("a/.wh.b", "")
            .file("a/.wh..wh..opq", "")
            .file("a/c", "1")
            .end(),
        tar()
            .with(b'5', "./a/", b"")
            .file("/a/b", "2")
            .pax(b'x', &[("linkpath", "a/b")])
            .with(b'1', "a/d", b"")
            .end(),
        tar()
            .with(b'2', "a", b"")
            .with(b'3', "dev", b"")
            .file(".wh.a", "")
            .end(),
        tar()
            .file("a/b", "3")
            .file("a/b/c", "")
            .file(".wh..wh.plnk/a", "")
            .end(),
    ]);
    seeds
}

#[test]
fn changed_layers_never_panic_and_never_give_what_is_not_selected() {
    let options = Options {
        limits: Limits {
            total: 1500,
            file: 1000,
            entries: 12,
            path: 64,
            depth: 4,
        },
        select: Selection::Only(vec!["a".to_owned()]),
        image: ImageLimits {
            bytes: 64 << 10,
            entries: 30,
            layers: 3,
        },
        ..Options::default()
    };
    let seeds = layer_seeds();
    let mut random = Random(0x0123_4567_89ab_cdef);
    let (mut done, mut taken) = (0, 0);
    for _ in rounds(20_000) {
        done += 1;
        let mut read = || -> Result<(Tree, usize), Error> {
            let mut layers = Layers::new(&options)?;
            for _ in 0..=random.below(3) {
                let mut bytes = seeds[random.below(seeds.len())].clone();
                for _ in 0..random.below(4) {
                    random.change(&mut bytes);
                }
                if random.below(4) > 0 {
                    mend(&mut bytes);
                }
                match random.below(8) {
                    0 => bytes = gzip(&bytes),
                    1 => bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap(),
                    _ => {}
                }
                if random.below(8) == 0 {
                    random.change(&mut bytes);
                }
                layers.push("layer", bytes.as_slice())?;
            }
            Ok(layers.finish())
        };
        let Ok((tree, _)) = read() else {
            continue;
        };
        taken += 1;
        assert!(tree.size() <= 1500 && tree.len() <= 12);
        let content = tree.into_content().unwrap();
        for (path, _) in content.files() {
            assert_eq!(manifests::content::normalise(path).unwrap(), path);
            assert!(path == "a" || path.starts_with("a/"), "{path}");
            assert!(!path.contains(".wh."), "{path}");
        }
        let mut packed = Vec::new();
        pack(&content, Format::Tar, &mut packed).unwrap();
        let again = stream(packed.as_slice(), &Options::default()).unwrap();
        assert_eq!(again.content.len(), content.len());
    }
    assert!(taken > done / 100, "{taken} of {done} were taken");
}

#[test]
fn changed_documents_never_panic_and_messages_stay_short() {
    let blob =
        |kind: &str| json!({"mediaType": kind, "digest": Digest::of(b"").to_string(), "size": 3});
    let layer = blob("application/vnd.oci.image.layer.v1.tar+gzip");
    let config = blob("application/vnd.oci.image.config.v1+json");
    let mut entry = blob("application/vnd.oci.image.manifest.v1+json");
    entry["platform"] = json!({"os": "linux", "architecture": "arm64", "variant": "v8"});
    let labels = json!({"operators.operatorframework.io.bundle.manifests.v1": "manifests/"});
    let seeds = [
        json!({"schemaVersion": 2, "config": config, "layers": [layer.clone(), layer]}),
        json!({"schemaVersion": 2, "manifests": [entry.clone(), entry]}),
        json!({"config": {"Labels": labels}}),
    ];
    let mut random = Random(0xfeed_beef_0bad_f00d);
    let (mut done, mut taken) = (0, 0);
    for _ in rounds(30_000) {
        done += 1;
        let mut bytes = seeds[random.below(seeds.len())].to_string().into_bytes();
        for _ in 0..=random.below(4) {
            random.change(&mut bytes);
        }
        let mut judge = |result: Result<(), oci::Error>| match result {
            Ok(()) => taken += 1,
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.len() < 1000 && !text.contains(char::is_control),
                    "{text:?}"
                );
            }
        };
        judge(
            Document::read(&bytes, None).and_then(|document| match document {
                Document::Index(index) => index.choose(Some("linux/arm64")).map(|_| ()),
                Document::Manifest(manifest) => {
                    assert!(
                        manifest.size() > 0 || manifest.layers.iter().all(|layer| layer.size == 0)
                    );
                    Ok(())
                }
            }),
        );
        judge(
            oci::labels(&bytes)
                .and_then(|labels| oci::select(&labels))
                .map(|_| ()),
        );
    }
    assert!(taken > done / 100, "{taken} of {done} were taken");
}
