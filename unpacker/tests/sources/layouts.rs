//! Images on disk that lie about themselves.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;
use unpacker::{Digest, ImageLimits, Options, local, source::Local};

use crate::{
    chain,
    raw::{Tar, gzip},
};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// A layout that is made blob by blob.
struct Layout(TempDir);

impl Layout {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        Self(folder)
    }

    /// Writes a blob and returns what names it.
    fn blob(&self, kind: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        fs::write(self.path(digest), bytes).unwrap();
        json!({"mediaType": kind, "digest": digest.to_string(), "size": bytes.len()})
    }

    fn path(&self, digest: Digest) -> std::path::PathBuf {
        self.0.path().join("blobs/sha256").join(digest.hex())
    }

    /// An image of one layer.
    fn image(&self, layer: &[u8]) -> Value {
        let config = self.blob(CONFIG, b"{}");
        let layer = self.blob(LAYER, layer);
        self.document(
            MANIFEST,
            &json!({"schemaVersion": 2, "config": config, "layers": [layer]}),
        )
    }

    fn document(&self, kind: &str, document: &Value) -> Value {
        self.blob(kind, document.to_string().as_bytes())
    }

    fn index(&self, entries: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": entries}).to_string();
        fs::write(self.0.path().join("index.json"), index).unwrap();
    }

    fn read(&self) -> String {
        outcome(&Local::OciLayout(self.0.path().to_owned(), None))
    }
}

fn outcome(local: &Local) -> String {
    outcome_within(local, &Options::default())
}

fn outcome_within(local: &Local, options: &Options) -> String {
    match local::image(local, None, options) {
        Ok(fetched) => {
            let paths: Vec<_> = fetched
                .tree
                .files()
                .map(|(path, _)| path.to_owned())
                .collect();
            paths.join(" ")
        }
        Err(error) => chain(&error),
    }
}

fn layer() -> Vec<u8> {
    gzip(&Tar::default().file("manifests/a", "1").end())
}

fn digest(descriptor: &Value) -> Digest {
    descriptor["digest"].as_str().unwrap().parse().unwrap()
}

#[track_caller]
fn assert_contains(found: &str, expected: &str) {
    assert!(
        found.contains(expected),
        "\n found {found}\nwanted {expected}"
    );
}

#[test]
fn blobs_that_differ_from_their_digests_are_refused() {
    let layout = Layout::new();
    let image = layout.image(&layer());
    layout.index(std::slice::from_ref(&image));
    assert_eq!(layout.read(), "manifests/a");

    let config = layout.path(Digest::of(b"{}"));
    let layer_path = layout.path(Digest::of(&layer()));
    let manifest = layout.path(digest(&image));
    let other = gzip(&Tar::default().file("manifests/b", "1").end());
    for (path, bytes, expected) in [
        (&config, b"[]".to_vec(), "has the digest sha256:4f53"),
        (
            &manifest,
            [fs::read(&manifest).unwrap(), b" ".to_vec()].concat(),
            "has the digest",
        ),
        (&layer_path, other.clone(), "has the digest"),
        (&layer_path, other[..10].to_vec(), "has 10 bytes, and not"),
        (
            &layer_path,
            [layer(), b"rubbish".to_vec()].concat(),
            "bytes, and not",
        ),
    ] {
        let right = fs::read(path).unwrap();
        fs::write(path, bytes).unwrap();
        assert_contains(&layout.read(), expected);
        fs::remove_file(path).unwrap();
        assert_contains(&layout.read(), "which is not there; write the image again");
        fs::create_dir(path).unwrap();
        assert_contains(&layout.read(), "which is no regular file");
        fs::remove_dir(path).unwrap();
        fs::write(path, right).unwrap();
    }
    assert_eq!(layout.read(), "manifests/a");
}

#[test]
fn an_index_that_names_itself_or_goes_on_and_on_is_refused() {
    let layout = Layout::new();
    let own = Digest::of(b"any");
    let entry = json!({"mediaType": INDEX, "digest": own.to_string(), "size": 10});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    fs::write(layout.path(own), index).unwrap();
    layout.index(std::slice::from_ref(&entry));
    assert_contains(&layout.read(), "has the digest");

    let mut entry = layout.image(&layer());
    for depth in 0..10 {
        layout.index(std::slice::from_ref(&entry));
        let found = layout.read();
        if depth < 4 {
            assert_eq!(found, "manifests/a", "{depth}");
        } else {
            assert_contains(&found, "an index that names an index");
        }
        entry = layout.document(INDEX, &json!({"schemaVersion": 2, "manifests": [entry]}));
    }
}

#[test]
fn documents_that_are_too_large_or_none_are_refused() {
    let layout = Layout::new();
    let path = layout.0.path().join("index.json");
    for (bytes, expected) in [
        (
            vec![b' '; 100 << 20],
            "\"index.json\" is not well formed; write the image again: the manifest is larger",
        ),
        (b"{".to_vec(), "\"index.json\" is not well formed"),
        (b"[]".to_vec(), "\"index.json\" is not well formed"),
        (b"{\"manifests\": []}".to_vec(), "the index has no image"),
        (b"{\"manifests\": [{}]}".to_vec(), "missing field `digest`"),
    ] {
        fs::write(&path, bytes).unwrap();
        assert_contains(&layout.read(), expected);
    }
    let large = layout.blob(MANIFEST, &vec![b' '; 5 << 20]);
    layout.index(&[large]);
    assert_contains(&layout.read(), "larger than 4194304 bytes");
    let mut image = layout.image(&layer());
    image["mediaType"] = INDEX.into();
    layout.index(&[image]);
    assert_contains(&layout.read(), "the manifest says to be");
}

/// A docker archive of one image whose parts can be replaced.
struct Saved {
    config: Value,
    manifest: Value,
    files: Tar,
}

impl Saved {
    fn new() -> Self {
        let layer = Tar::default().file("manifests/a", "1").end();
        let config = json!({"rootfs": {"diff_ids": [Digest::of(&layer).to_string()]}});
        Self {
            manifest: json!([{"Config": "config.json", "RepoTags": null, "Layers": ["l/layer.tar"]}]),
            config,
            files: Tar::default().with(b'0', "l/layer.tar", &layer),
        }
    }

    fn layers(mut self, paths: &[&str]) -> Self {
        self.manifest[0]["Layers"] = json!(paths);
        self
    }

    fn read(self) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.tar");
        self.write(&path);
        outcome(&Local::DockerArchive(path, None))
    }

    fn write(self, path: &Path) {
        let tar = self
            .files
            .file("config.json", &self.config.to_string())
            .file("manifest.json", &self.manifest.to_string());
        fs::write(path, tar.end()).unwrap();
    }
}

fn link(tar: Tar, kind: u8, name: &str, target: &str) -> Tar {
    tar.pax(b'x', &[("linkpath", target)]).with(kind, name, b"")
}

#[test]
fn docker_archives_name_their_own_files_alone() {
    assert_eq!(Saved::new().read(), "manifests/a");
    for (path, expected) in [
        (
            "../../etc/shadow",
            "names \"../../etc/shadow\", which is no path in the archive",
        ),
        ("/etc/shadow", "which is absolute"),
        ("l/../l/layer.tar", "which is no path in the archive"),
        ("", "which is no path in the archive"),
        (
            "none/layer.tar",
            "needs \"none/layer.tar\", which is not there",
        ),
        ("l", "needs \"l\", which is not there"),
        ("config.json", "but JSON"),
    ] {
        assert_contains(&Saved::new().layers(&[path]).read(), expected);
    }
    for (kind, target, expected) in [
        (b'2', "../l/layer.tar", "manifests/a"),
        (b'1', "l/layer.tar", "manifests/a"),
        (
            b'2',
            "../../etc/shadow",
            "leads out of the archive or to itself",
        ),
        (
            b'2',
            "/l/layer.tar",
            "leads out of the archive or to itself",
        ),
        (b'2', "layer.tar", "leads out of the archive or to itself"),
        (b'2', "../none", "which is not there"),
        (b'1', "../l/layer.tar", "named with \"..\""),
    ] {
        let mut saved = Saved::new().layers(&["m/layer.tar"]);
        saved.files = link(saved.files, kind, "m/layer.tar", target);
        assert_contains(&saved.read(), expected);
    }
}

#[test]
fn docker_archives_that_lie_are_refused() {
    type Change = fn(&mut Saved);
    let cases: [(Change, &str); 9] = [
        (
            |saved| saved.config["rootfs"]["diff_ids"][0] = Digest::of(b"").to_string().into(),
            "has the digest",
        ),
        (
            |saved| saved.config = json!({}),
            "has 1 layers, and its configuration 0",
        ),
        (
            |saved| saved.config["rootfs"]["diff_ids"][0] = "md5:0".into(),
            "digest that is not supported",
        ),
        (|saved| saved.manifest = json!([]), "the index has no image"),
        (
            |saved| saved.manifest = json!({}),
            "\"manifest.json\" is not well formed",
        ),
        (
            |saved| saved.manifest[0]["Layers"] = json!([]),
            "the image has no layers",
        ),
        (
            |saved| saved.manifest[0]["Layers"] = json!(vec!["l/layer.tar"; 300]),
            "has 300 layers, more than the limit",
        ),
        (
            |saved| {
                let name = format!("{}.json", Digest::of(b"").hex());
                saved.manifest[0]["Config"] = name.as_str().into();
                saved.files = std::mem::take(&mut saved.files).file(&name, "{}");
            },
            "has the digest",
        ),
        (
            |saved| saved.files = std::mem::take(&mut saved.files).file("l//layer.tar", ""),
            "which stands twice in the archive",
        ),
    ];
    for (change, expected) in cases {
        let mut saved = Saved::new();
        change(&mut saved);
        assert_contains(&saved.read(), expected);
    }
}

#[test]
fn archives_of_images_are_bounded_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let spool = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.tar");
    Saved::new().write(&path);
    let bytes = gzip(&fs::read(&path).unwrap());
    fs::write(&path, bytes).unwrap();
    let options = Options {
        spool: Some(spool.path().to_owned()),
        ..Options::default()
    };
    let archive = Local::DockerArchive(path.clone(), None);
    assert_eq!(outcome_within(&archive, &options), "manifests/a");

    let bomb = gzip(&vec![0; 4 << 20]);
    fs::write(&path, bomb.repeat(10)).unwrap();
    let image = ImageLimits {
        bytes: 8 << 20,
        ..ImageLimits::default()
    };
    let found = outcome_within(
        &archive,
        &Options {
            image,
            ..options.clone()
        },
    );
    assert_contains(&found, "more than 8388608 uncompressed bytes in its layers");
    let many = (0..10_001).fold(Tar::default(), |tar, number| {
        tar.file(&number.to_string(), "")
    });
    fs::write(&path, many.end()).unwrap();
    assert_contains(
        &outcome_within(&archive, &options),
        "more than 10000 entries, which is no image",
    );

    assert_eq!(fs::read_dir(spool.path()).unwrap().count(), 0);
    Saved::new().write(&path);
    let bytes = gzip(&fs::read(&path).unwrap());
    fs::write(&path, bytes).unwrap();
    let nowhere = Options {
        spool: Some(spool.path().join("none")),
        ..options
    };
    assert_contains(
        &outcome_within(&archive, &nowhere),
        "failed to write to a temporary file in",
    );
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
        layout.index(&[layout.document(
            MANIFEST,
            &json!({"schemaVersion": 2, "artifactType": "application/x", "config": config, "layers": files}),
        )]);
        assert_contains(&layout.read(), found);
    }
}
