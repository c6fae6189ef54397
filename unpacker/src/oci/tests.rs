use serde_json::{Value, json};

use super::*;
use crate::Selection;

const BUNDLE: &str = "operators.operatorframework.io.bundle.manifests.v1";
const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn blob(kind: &str) -> Value {
    json!({"mediaType": kind, "digest": Digest::sha256(kind.as_bytes()).to_string(), "size": 3})
}

fn image(layers: &[Value]) -> Value {
    json!({"schemaVersion": 2, "config": blob("application/vnd.oci.image.config.v1+json"), "layers": layers})
}

fn with(mut value: Value, key: &str, other: Value) -> Value {
    value[key] = other;
    value
}

fn read(value: &Value, kind: Option<&str>) -> Result<Document, Error> {
    Document::read(value.to_string().as_bytes(), kind)
}

fn outcome(value: &Value, kind: Option<&str>) -> String {
    match read(value, kind) {
        Ok(Document::Manifest(manifest)) => format!("image of {} layers", manifest.layers.len()),
        Ok(Document::Index(index)) => format!("index of {}", index.entries.len()),
        Err(error) => format!("{}: {error}", error.reason()),
    }
}

#[test]
fn documents_match_their_media_type_or_are_rejected() {
    let plain = image(&[blob(GZIP)]);
    let index = json!({"schemaVersion": 2, "manifests": [blob(MANIFEST)]});
    assert_outcomes(&::tests::rows![
        plain.clone(), None => "image of 1 layers";
        plain.clone(), Some("application/octet-stream") => "image of 1 layers";
        plain.clone(), Some("application/vnd.oci.image.manifest.v1+json; charset=utf-8") => "image of 1 layers";
        with(plain.clone(), "mediaType", MANIFEST.into()), Some(MANIFEST) => "image of 1 layers";
        image(&[blob("application/vnd.docker.image.rootfs.diff.tar.gzip")]), Some(DOCKER_MANIFEST) => "image of 1 layers";
        image(&[blob("application/vnd.oci.image.layer.v1.tar+zstd"), blob("application/vnd.oci.image.layer.v1.tar")]), None
            => "image of 2 layers";
        index.clone(), Some(INDEX) => "index of 1";
        json!({"schemaVersion": 2, "manifests": []}), Some(DOCKER_INDEX) => "index of 0";
        // Contradictory media types.
        plain.clone(), Some(INDEX)
            => "ManifestInvalid: the manifest declares application/vnd.oci.image.index.v1+json, but is a manifest";
        index.clone(), Some(MANIFEST) => "but is an index";
        with(plain.clone(), "mediaType", DOCKER_MANIFEST.into()), Some(MANIFEST) => "ManifestInvalid: the manifest declares";
        with(plain.clone(), "manifests", json!([])), None => "declares an index, but is a manifest";
        with(index.clone(), "layers", json!([])), None => "declares an index, but is a manifest";
    ]);
}

#[track_caller]
fn assert_outcomes(cases: &[(Value, Option<&str>, &str)]) {
    for (value, kind, expected) in cases {
        let found = outcome(value, *kind);
        ::tests::assert_has(&found, expected);
        assert!(!found.contains('\u{7}') && found.len() < 500, "{found}");
    }
}

#[test]
fn unsupported_images_are_rejected_with_a_remedy() {
    let plain = image(&[blob(GZIP)]);
    let titled = |unpack: &str| {
        let notes =
            json!({"org.opencontainers.image.title": "x", "io.deis.oras.content.unpack": unpack});
        let image = image(&[with(blob(GZIP), "annotations", notes)]);
        with(image, "artifactType", "application/x".into())
    };
    let sha512 = format!("sha512:{}", "0".repeat(128));
    let chart = image(&[blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip")]);
    let hidden = blob("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip");
    assert_outcomes(&::tests::rows![
        json!({"schemaVersion": 1, "fsLayers": []}), None
            => "ImageUnsupported: the image has a manifest of the outdated schema 1";
        plain, Some("application/vnd.docker.distribution.manifest.v1+prettyjws") => "outdated schema 1";
        json!({"schemaVersion": 2}), None => "neither a manifest nor an index; check";
        json!({"mediaType": "text/x"}), None => "neither a manifest nor an index, but \"text/x\"; check";
        json!([2]), None => "ManifestInvalid: the manifest is malformed";
        image(&[]), None => "ImageEmpty: the image has no layers";
        image(&vec![blob(GZIP); 257]), None => "LimitExceeded: the image has 257 layers, more than the limit of 256";
        image(&[blob(GZIP), hidden]), None => "layer 2 is foreign";
        image(&[blob("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")]), None => "layer 1 is foreign";
        image(&[with(blob(GZIP), "urls", json!(["https://example.com/x"]))]), None => "layer 1 is foreign";
        with(chart, "config", blob("application/vnd.cncf.helm.config.v1+json")), None
            => "layer 1 is \"application/vnd.cncf.helm.chart.content.v1.tar+gzip\" of an artifact \"application/vnd.cncf.helm.config.v1+json\", not a file system";
        image(&[blob("application/vnd.oci.empty.v1+json")]), None
            => "layer 1 is \"application/vnd.oci.empty.v1+json\", not a file system";
        titled("false"), None => "image of 1 layers";
        titled("true"), None => "image of 1 layers";
        image(&[with(blob(GZIP), "digest", sha512.into())]), None
            => "ManifestInvalid: the manifest refers to a blob by an unsupported digest; push the image again";
        image(&[with(blob(GZIP), "size", json!(-1))]), None => "malformed";
        image(&[with(blob(GZIP), "size", json!("\u{7}secret"))]), None => "malformed";
    ]);
    assert_rows!(Document::read(&vec![b' '; 4 << 20 | 1], None) => Err(Error::TooLarge));
    // Documents with too many levels.
    assert_rows!(Document::read("[".repeat(1 << 20).as_bytes(), None).is_err() => true);
}

fn on(platform: &str) -> Value {
    let digest = Digest::sha256(platform.as_bytes()).to_string();
    let mut entry = with(blob(MANIFEST), "digest", digest.into());
    if !platform.is_empty() {
        let mut parts = platform.split('/');
        let mut next = || parts.next();
        entry["platform"] = json!({"os": next(), "architecture": next(), "variant": next()});
    }
    entry
}

fn index(entries: &[Value]) -> Index {
    match read(&json!({"manifests": entries}), None) {
        Ok(Document::Index(index)) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn index_yields_one_image_per_platform_and_no_attestation() {
    for (platforms, platform, expected) in ::tests::rows![
        &["linux/s390x", "linux/amd64"][..], None => "linux/amd64";
        &["linux/s390x", "linux/arm64"], None => "linux/s390x";
        &["unknown/unknown", "linux/arm64/v8"], None => "linux/arm64/v8";
        &["unknown/unknown"], None => "the index has no image";
        &[], None => "the index has no image";
        &[""], None => "";
        &["linux/amd64", "linux/arm64"], Some("linux/arm64") => "linux/arm64";
        &["linux/arm64/v8"], Some("linux/arm64") => "linux/arm64/v8";
        &["linux/arm/v6", "linux/arm/v7"], Some("linux/arm/v7") => "linux/arm/v7";
        &["linux/arm64"], Some("linux/arm64/v8") => "linux/arm64";
        &["linux/amd64", "windows/amd64"], Some("linux/s390x")
            => "no image for \"linux/s390x\"; choose one of: linux/amd64, windows/amd64";
        &["", "linux/amd64"], Some("linux/s390x") => "choose one of: any, linux/amd64";
        &[""], Some("linux/s390x") => "";
        &["linux/amd64"], Some("amd64") => "no image for \"amd64\"";
        &["unknown/unknown"], Some("unknown/unknown") => "no image for";
    ] {
        let entries: Vec<_> = platforms.iter().map(|platform| on(platform)).collect();
        let found = match index(&entries).choose(platform) {
            Ok(entry) => {
                assert_rows!(entry.digest => Digest::sha256(expected.as_bytes()), "{platforms:?} {platform:?}");
                entry.platform.clone().unwrap_or_default()
            }
            Err(error) => error.to_string(),
        };
        ::tests::assert_has(&found, expected);
    }
    let note = json!({"vnd.docker.reference.type": "attestation-manifest"});
    let noted = with(on("linux/amd64"), "annotations", note);
    assert_rows!(index(&[noted, on("linux/arm64")]).choose(None).unwrap().platform.as_deref() => Some("linux/arm64"));
}

#[test]
fn labels_select_the_directories_that_are_read() {
    let usual = ["manifests", "metadata", "tests"];
    let only = |paths: &[&str]| Selection::Only(paths.iter().map(ToString::to_string).collect());
    assert_each!(|config, paths| select(&labels(config.to_string().as_bytes()).unwrap()) => Ok(only(paths));
        json!({}) => &usual[..];
        json!({"config": null}) => &usual;
        // The database has the same catalog as the configs, in an older format.
        json!({"config": {"Labels": {CONFIGS: "/configs", DATABASE: "/configs/index.db"}}}) => &["configs"];
        json!({"config": {"Labels": {CONFIGS: "", DATABASE: "/database/index.db"}}}) => &["database/index.db"];
        json!({"config": {"Labels": null}}) => &usual;
        json!({"config": {"Labels": {BUNDLE: "manifests/", "other": "x"}}}) => &usual;
        json!({"config": {"Labels": {BUNDLE: "/app/./csv/"}}}) => &["app/csv", "manifests", "metadata", "tests"];
        json!({"config": {"Labels": {CONFIGS: "/configs", BUNDLE: "manifests/"}}}) => &["configs"];
        json!({"config": {"Labels": {DATABASE: "/database/index.db"}}}) => &["database/index.db"];
        json!({"config": {"Labels": {BUNDLE: ""}}}) => &usual;
    );
    for root in ["/", "./", "."] {
        assert_rows!(select(&[(BUNDLE.to_owned(), root.to_owned())].into()) => Ok(Selection::All));
    }
    let out = [(BUNDLE.to_owned(), "../../etc".to_owned())].into();
    let expected = "manifests.v1 names \"../../etc\", which is not a directory in an image";
    ::tests::assert_has(select(&out).unwrap_err(), expected);
    assert!(labels(b"{\"config\": {\"Labels\": {\"a\": 1}}}").is_err());
}

#[test]
fn untrusted_texts_lose_control_characters() {
    assert_each!(|text, expected| excerpt(text) => expected;
        "a\u{1b}[31m\r\nb" => "a[31mb";
        "a\u{202e}b\u{2066}c\u{200f}d\u{2028}e" => "abcde";
    );
}
