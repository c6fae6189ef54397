//! Random changes of archives, layers and documents of images.

use crate::*;
use tests::fuzz::fuzz;

/// Bytes with a meaning in archives and documents.
const ODD: &[u8] = b"\0\x01\x1f\x8b\xff 01257LKxgSV/.=\n9";

fn limits() -> Limits {
    with!(Limits::default() => total: 1500, file: 1000, entries: 6, path: 64, depth: 4)
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(bytes.len()) / 512 * 512;
    let block = from..bytes.len().min(from + 512);
    match random.below(8) {
        0 => {
            let copy = bytes[block].to_vec();
            let to = random.below(bytes.len() + 1) / 512 * 512;
            bytes.splice(to..to, copy);
        }
        1 => drop(bytes.drain(block)),
        _ => random.change(bytes, ODD),
    }
}

/// Returns a tar of [`Tar::entries`], and of the records of entries of the kinds `g` and `x`.
fn tar(entries: &str) -> Vec<u8> {
    let entries = entries.split(", ");
    let tar = entries.fold(Tar::default(), |tar, entry| match entry.split_at(2) {
        (kind @ ("g " | "x "), rest) => {
            let records = rest.split(' ').filter_map(|record| record.split_once('='));
            tar.pax(kind.as_bytes()[0], &records.collect::<Vec<_>>())
        }
        _ => tar.entries(entry),
    });
    tar.end()
}

fn seeds() -> Vec<Vec<u8>> {
    let long = format!("0 manifests/csv.yaml {}, 0 b 2", "kind: x\n".repeat(90));
    let others = [
        "5 a/, 2 a/link, 0 a/b 1",
        "g comment=c, x path=long size=1, 0 a 1",
        "L l long/name\0, K k target\0, 0 a 1",
        "S sparse 1, 1 hard, \0 old/",
    ];
    others.into_iter().chain([&*long]).map(tar).collect()
}

#[test]
fn changed_archives_never_exceed_the_limits() {
    let (seeds, limits) = (seeds(), limits());
    fuzz(30_000, 1, |random| {
        let mut bytes = random.pick(&seeds).clone();
        for _ in 0..=random.below(6) {
            change(&mut bytes, random);
        }
        if random.below(4) > 0 {
            fix_checksums(&mut bytes);
        }
        if random.below(8) == 0 {
            bytes = gzip(&bytes);
            if random.below(2) == 0 {
                change(&mut bytes, random);
            }
        }
        let select = [only(&["a"]), Selection::default()][usize::from(random.below(4) > 0)].clone();
        let options = with!(Options, limits, select);
        let Ok(unpacked) = stream(bytes.as_slice(), &options) else {
            return 0;
        };
        let content = unpacked.content;
        assert!(content.size() <= limits.total && content.len() <= limits.entries);
        for (path, file) in content.files() {
            assert_rows!(path.len() <= limits.path && path.split('/').count() <= limits.depth => true, "{path}");
            assert!(file.bytes.len() as u64 <= limits.file);
            assert_eq!(manifests::content::normalize(path).unwrap(), path);
        }
        // Packing keeps paths and bytes.
        let again = packed(&content);
        let part = |(path, file): (&str, &File)| (path.to_owned(), file.bytes.clone());
        assert!(again.files().map(part).eq(content.files().map(part)));
        assert_rows!(Tree::from_content(again).strip_top_folder().len() => content.len());
        1
    });
}

fn packed(content: &Content) -> Content {
    let mut packed = Vec::new();
    pack(content, Format::Tar, &mut packed).unwrap();
    let unpacked = stream(packed.as_slice(), &Options::default());
    unpacked.unwrap().content
}

#[test]
fn changed_layers_never_yield_unselected_content() {
    let image = with!(ImageLimits::default() => bytes: 64 << 10, entries: 30, layers: 3);
    let options =
        with!(Options, limits: with!(limits() => entries: 12), select: only(&["a"]), image);
    let layers = [
        "0 a/.wh.b, 0 a/.wh..wh..opq, 0 a/c 1",
        "5 ./a/, 0 /a/b 2, x linkpath=a/b, 1 a/d",
        "2 a, 3 dev, 0 .wh.a",
        "0 a/b 3, 0 a/b/c, 0 .wh..wh.plnk/a",
    ];
    let seeds = [seeds(), Vec::from(layers.map(tar))].concat();
    fuzz(20_000, 1, |random| {
        let mut read = || -> Result<(Tree, usize), Error> {
            let mut layers = Layers::new(&options)?;
            for _ in 0..=random.below(3) {
                let mut bytes = random.pick(&seeds).clone();
                for _ in 0..random.below(4) {
                    change(&mut bytes, random);
                }
                if random.below(4) > 0 {
                    fix_checksums(&mut bytes);
                }
                match random.below(8) {
                    0 => bytes = gzip(&bytes),
                    1 => bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap(),
                    _ => {}
                }
                if random.below(8) == 0 {
                    change(&mut bytes, random);
                }
                layers.push("layer", bytes.as_slice())?;
            }
            Ok(layers.finish())
        };
        let Ok((tree, _)) = read() else {
            return 0;
        };
        assert!(tree.size() <= 1500 && tree.len() <= 12);
        let content = tree.into_content().unwrap();
        for (path, _) in content.files() {
            assert_eq!(manifests::content::normalize(path).unwrap(), path);
            assert_rows!((path == "a" || path.starts_with("a/")) && !path.contains(".wh.") => true, "{path}");
        }
        assert_eq!(packed(&content).len(), content.len());
        1
    });
}

#[test]
fn messages_about_changed_documents_are_short() {
    let blob = |kind: &str| json!({"mediaType": kind, "digest": Digest::sha256(b"").to_string(), "size": 3});
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
    fuzz(30_000, 1, |random| {
        let mut bytes = random.pick(&seeds).to_string().into_bytes();
        for _ in 0..=random.below(4) {
            change(&mut bytes, random);
        }
        let document = Document::read(&bytes, None).and_then(|document| match document {
            Document::Index(index) => index.choose(Some("linux/arm64")).map(|_| ()),
            Document::Manifest(manifest) => {
                assert!(manifest.size() > 0 || manifest.layers.iter().all(|layer| layer.size == 0));
                Ok(())
            }
        });
        let labels = oci::labels(&bytes).and_then(|labels| oci::select(&labels));
        let results = [document, labels.map(|_| ())];
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            let text = error.to_string();
            assert_rows!(text.len() < 1000 && !text.contains(char::is_control) => true, "{text:?}");
        }
        results.iter().filter(|result| result.is_ok()).count()
    });
}
