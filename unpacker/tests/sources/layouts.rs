//! Images on disk with false descriptors.

use crate::*;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

struct Layout(TempDir);

impl Layout {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("blobs/sha256")).unwrap();
        Self(directory)
    }

    fn blob(&self, kind: &str, bytes: &[u8]) -> Value {
        let digest = Digest::sha256(bytes);
        fs::write(self.path(digest), bytes).unwrap();
        json!({"mediaType": kind, "digest": digest.to_string(), "size": bytes.len()})
    }

    fn path(&self, digest: Digest) -> std::path::PathBuf {
        self.0.path().join("blobs/sha256").join(digest.hex())
    }

    fn image(&self, layer: &[u8]) -> Value {
        let (config, layer) = (self.blob(CONFIG, b"{}"), self.blob(LAYER, layer));
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
        self.document(MANIFEST, &manifest)
    }

    fn document(&self, kind: &str, document: &Value) -> Value {
        self.blob(kind, document.to_string().as_bytes())
    }

    fn index(&self, entries: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": entries}).to_string();
        fs::write(self.0.path().join("index.json"), index).unwrap();
    }

    fn read(&self) -> String {
        let layout = Local::OciLayout(self.0.path().to_owned(), None);
        outcome(&layout, &Options::default())
    }
}

fn outcome(local: &Local, options: &Options) -> String {
    match local::image(local, None, options) {
        Ok(fetched) => {
            let paths = fetched.tree.files().map(|(path, _)| path);
            paths.collect::<Vec<_>>().join(" ")
        }
        Err(error) => chain(&error),
    }
}

fn layer() -> Vec<u8> {
    gzip(&tar().file("manifests/a", "1").end())
}

fn digest(descriptor: &Value) -> Digest {
    descriptor["digest"].as_str().unwrap().parse().unwrap()
}

#[test]
fn empty_blob_is_a_layer_without_files() {
    let layout = Layout::new();
    let config = layout.blob(CONFIG, b"{}");
    let layers = [layout.blob(LAYER, &layer()), layout.blob(LAYER, b"")];
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
    layout.index(&[layout.document(MANIFEST, &manifest)]);
    assert_eq!(layout.read(), "manifests/a");
}

#[test]
fn blobs_that_differ_from_their_digests_are_rejected() {
    let layout = Layout::new();
    let image = layout.image(&layer());
    layout.index(std::slice::from_ref(&image));
    assert_eq!(layout.read(), "manifests/a");

    let other = gzip(&tar().file("manifests/b", "1").end());
    let values = Values::default()
        .with("manifest", fs::read(layout.path(digest(&image))).unwrap())
        .with("layer", layer())
        .with("start", &other[..10])
        .with("other", other);
    let rows = r"
        configuration   | config   | []              | *has the digest sha256:4f53*
        longer manifest | manifest | {manifest}\x20 | *has the digest*
        other layer     | layer    | {other}         | *has the digest*
        shorter layer   | layer    | {start}         | *has 10 bytes, expected*
        longer layer    | layer    | {layer}rubbish  | *bytes, expected*
    ";
    table::compare(rows, &values, |[blob, bytes]: &[Cell; 2]| {
        let digest = match blob.raw() {
            "config" => Digest::sha256(b"{}"),
            "manifest" => digest(&image),
            _ => Digest::sha256(&layer()),
        };
        let path = &layout.path(digest);
        let original = fs::read(path).unwrap();
        fs::write(path, bytes.bytes()).unwrap();
        let found = layout.read();
        // Neither a missing blob nor a directory in its place is read.
        fs::remove_file(path).unwrap();
        assert_has(layout.read(), "which does not exist; write the image again");
        fs::create_dir(path).unwrap();
        assert_has(layout.read(), "which is not a regular file");
        fs::remove_dir(path).unwrap();
        fs::write(path, original).unwrap();
        found
    });
    assert_eq!(layout.read(), "manifests/a");
}

#[test]
fn circular_and_endless_indexes_are_rejected() {
    let layout = Layout::new();
    let own = Digest::sha256(b"any");
    let entry = json!({"mediaType": INDEX, "digest": own.to_string(), "size": 10});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    fs::write(layout.path(own), index).unwrap();
    layout.index(std::slice::from_ref(&entry));
    assert_has(layout.read(), "has the digest");

    let mut entry = layout.image(&layer());
    for depth in 0..10 {
        layout.index(std::slice::from_ref(&entry));
        let found = layout.read();
        if depth < 4 {
            assert_eq!(found, "manifests/a", "{depth}");
        } else {
            assert_has(&found, "the indexes are nested too deeply");
        }
        entry = layout.document(INDEX, &json!({"schemaVersion": 2, "manifests": [entry]}));
    }
}

#[test]
fn oversized_and_malformed_documents_are_rejected() {
    let layout = Layout::new();
    let path = layout.0.path().join("index.json");
    let rows = r#"
        large      | {space*104857600} | *"index.json" is malformed; write the image again: the manifest is larger*
        cut        | {                 | *"index.json" is malformed*
        list       | []                | *"index.json" is malformed*
        no images  | {"manifests": []} | *the index has no image*
        no digest  | {"manifests": [{}]} | *missing field `digest`*
    "#;
    let values = Values::default().with("space", " ");
    table::compare(rows, &values, |[bytes]: &[Cell; 1]| {
        fs::write(&path, bytes.bytes()).unwrap();
        layout.read()
    });
    layout.index(&[layout.blob(MANIFEST, &vec![b' '; 5 << 20])]);
    assert_has(layout.read(), "larger than 4194304 bytes");
    layout.index(&[with!(layout.image(&layer()) => |image| image["mediaType"] = INDEX.into())]);
    assert_has(layout.read(), "the manifest declares");
}

/// A docker archive of one image whose parts can be replaced.
struct Saved {
    config: Value,
    manifest: Value,
    files: Tar,
}

impl Saved {
    fn new() -> Self {
        let layer = tar().file("manifests/a", "1").end();
        let config = json!({"rootfs": {"diff_ids": [Digest::sha256(&layer).to_string()]}});
        Self {
            manifest: json!([{"Config": "config.json", "RepoTags": null, "Layers": ["l/layer.tar"]}]),
            config,
            files: tar().with(b'0', "l/layer.tar", &layer),
        }
    }

    fn layers(mut self, paths: &[&str]) -> Self {
        self.manifest[0]["Layers"] = json!(paths);
        self
    }

    fn read(self) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docker.tar");
        fs::write(&path, self.bytes()).unwrap();
        outcome(&Local::DockerArchive(path, None), &Options::default())
    }

    fn bytes(self) -> Vec<u8> {
        let [config, manifest] = [self.config, self.manifest].map(|json| json.to_string());
        let files = self.files.file("config.json", &config);
        files.file("manifest.json", &manifest).end()
    }
}

#[test]
fn docker_archives_match_their_files_and_configuration() {
    let values = Values::default().with("empty", Digest::sha256(b"").to_string());
    let rows = r#"
        # path of the layer, target of a link at this path, change of a document
        honest         | l/layer.tar | | | manifests/a
        path out       | ../../etc/shadow | | | *refers to "../../etc/shadow", which is not a path in the archive*
        absolute path  | /etc/shadow | | | *which is absolute*
        parent         | l/../l/layer.tar | | | *which is not a path in the archive*
        no path        | | | | *which is not a path in the archive*
        missing        | none/layer.tar | | | *refers to "none/layer.tar", which does not exist*
        directory      | l | | | *refers to "l", which does not exist*
        no layer       | config.json | | | *but JSON*
        link           | m/layer.tar | ../l/layer.tar | | manifests/a
        link beside    | l/other.tar | layer.tar | | manifests/a
        link at the top | layer.tar | ./l/layer.tar | | manifests/a
        out of the top | layer.tar | ../l/layer.tar | | *a link to a path outside of the archive or to itself*
        hard link      | m/layer.tar | hard l/layer.tar | | manifests/a
        link out       | m/layer.tar | ../../etc/shadow | | *a link to a path outside of the archive or to itself*
        absolute link  | m/layer.tar | /l/layer.tar | | *a link to a path outside of the archive or to itself*
        link to itself | m/layer.tar | layer.tar | | *a link to a path outside of the archive or to itself*
        dangling link  | m/layer.tar | ../none | | *which does not exist*
        hard link out  | m/layer.tar | hard ../l/layer.tar | | *named with ".."*
        other digest   | l/layer.tar | | config /rootfs/diff_ids/0 "{empty}" | *has the digest*
        no digests     | l/layer.tar | | config {} | *has 1 layers, but its configuration lists 0*
        other hash     | l/layer.tar | | config /rootfs/diff_ids/0 "md5:0" | *unsupported digest*
        no images      | l/layer.tar | | manifest [] | *the index has no image*
        no list        | l/layer.tar | | manifest {} | *"manifest.json" is malformed*
        no layers      | l/layer.tar | | manifest /0/Layers [] | *the image has no layers*
    "#;
    table::compare(rows, &values, |[path, target, change]: &[Cell; 3]| {
        let mut saved = Saved::new().layers(&[&path.text()]);
        let target = target.text();
        if !target.is_empty() {
            let (kind, target) = match target.strip_prefix("hard ") {
                Some(target) => (b'1', target),
                None => (b'2', &*target),
            };
            let files = saved.files.pax(b'x', &[("linkpath", target)]);
            saved.files = files.with(kind, &path.text(), b"");
        }
        let change = change.text();
        if let Some((document, change)) = change.split_once(' ') {
            let document = match document {
                "config" => &mut saved.config,
                _ => &mut saved.manifest,
            };
            let part = change.split_once(' ').filter(|_| change.starts_with('/'));
            let (pointer, value) = part.unwrap_or(("", change));
            *document.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
        }
        saved.read()
    });
    let found = Saved::new().layers(&["l/layer.tar"; 300]).read();
    assert_has(&found, "has 300 layers, more than the limit");
    let mut other = Saved::new();
    let name = format!("{}.json", Digest::sha256(b"").hex());
    other.manifest[0]["Config"] = name.as_str().into();
    other.files = other.files.file(&name, "{}");
    assert_has(other.read(), "has the digest");
    let mut twice = Saved::new();
    twice.files = twice.files.file("l//layer.tar", "");
    assert_has(twice.read(), "which occurs twice in the archive");
}

#[test]
fn archives_of_images_are_bounded_and_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let spool = tempfile::tempdir().unwrap();
    let path = directory.path().join("docker.tar");
    let options = with!(Options::default() => spool: Some(spool.path().to_owned()));
    let archive = Local::DockerArchive(path.clone(), None);
    let saved = Saved::new().bytes();
    let zstd = zstd::encode_all(saved.as_slice(), 1).unwrap();
    for bytes in [&gzip(&saved), &zstd] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(outcome(&archive, &options), "manifests/a");
    }

    let file = |tar: Tar, number: usize| tar.file(&number.to_string(), "");
    let many = (0..10_001).fold(tar(), file).end();
    let (mut bounded, mut nowhere) = (options.clone(), options.clone());
    bounded.image.bytes = 8 << 20;
    nowhere.spool = Some(spool.path().join("none"));
    for (bytes, options, expected) in tests::rows![
        gzip(&vec![0; 4 << 20]).repeat(10), &bounded => "more than 8388608 uncompressed bytes in its layers";
        many, &options => "more than 10000 entries, too many for an image";
        gzip(&saved), &nowhere => "failed to write to a temporary file in";
    ] {
        fs::write(&path, bytes).unwrap();
        assert_has(outcome(&archive, options), expected);
        assert_eq!(fs::read_dir(spool.path()).unwrap().count(), 0);
    }
}

#[test]
fn files_of_an_artifact_are_taken_under_their_titles() {
    for (title, found) in [
        ("manifests/a.yaml", "b manifests/a.yaml"),
        ("../a.yaml", "path \"../a.yaml\""),
    ] {
        let layout = Layout::new();
        let config = layout.blob("application/vnd.oci.empty.v1+json", b"{}");
        let titled = |title: &str, bytes: &[u8]| {
            let mut file = layout.blob("text/plain", bytes);
            file["annotations"] = json!({"org.opencontainers.image.title": title});
            file
        };
        let files = [titled(title, b"kind: A"), titled("b", &[0; 512])];
        let manifest = json!({"schemaVersion": 2, "artifactType": "application/x", "config": config, "layers": files});
        layout.index(&[layout.document(MANIFEST, &manifest)]);
        assert_has(layout.read(), found);
    }
}
