//! Conversion of a bundle directory into an OCI image. Deterministic: the same files give the same image digest.

use std::collections::BTreeMap;

use bytes::Bytes;
use manifests::{content::Content, yaml};
use oci_client::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor,
    OciImageManifest,
};
use serde_json::{Value, json};

use super::{Error, Result};
use crate::{Digest, Format, pack};

/// Maximum size of all labels together, in bytes. Registries and runtimes reject or truncate larger sets of labels.
const MAX_LABELS: usize = 1 << 20;

/// An OCI image that contains one bundle: its files in one layer, and its annotations as labels.
///
/// ```
/// use unpacker::{Content, Limits, registry::BundleImage};
/// let mut files = manifests::content::Builder::new(Limits::default());
/// files.add("manifests/csv.yaml", 0o644, &mut "kind: ClusterServiceVersion".as_bytes())?;
/// files.add("metadata/annotations.yaml", 0o644, &mut "annotations: {a.example/key: value}".as_bytes())?;
/// let image = BundleImage::new(&files.finish())?;
/// assert_eq!(image.labels()["a.example/key"], "value");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleImage {
    labels: BTreeMap<String, String>,
    layer: Bytes,
    config: Bytes,
    manifest: Bytes,
}

impl BundleImage {
    /// Builds an image from the files of a bundle.
    ///
    /// # Errors
    /// Returns an error if `metadata/` has no annotations, or if an annotation is not a string.
    pub fn new(content: &Content) -> Result<Self> {
        let labels = labels(content)?;
        let failed = |source| Error::Content {
            what: "the bundle".to_owned(),
            source: Box::new(source),
        };
        let plain = pack(content, Format::Tar, std::io::sink()).map_err(failed)?;
        let mut layer = Vec::new();
        pack(content, Format::TarGz, &mut layer).map_err(failed)?;
        let layer = Bytes::from(layer);
        // The files of a bundle run on no platform, but some tools require one.
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "created": EPOCH,
            "config": { "Labels": labels },
            "rootfs": { "type": "layers", "diff_ids": [plain.to_string()] },
            "history": [{ "created": EPOCH, "created_by": "rukpak push" }],
        });
        let config = Bytes::from(config.to_string());
        let manifest = OciImageManifest {
            media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
            config: descriptor(IMAGE_CONFIG_MEDIA_TYPE, &config),
            layers: vec![descriptor(IMAGE_LAYER_GZIP_MEDIA_TYPE, &layer)],
            ..OciImageManifest::default()
        };
        Ok(Self {
            labels,
            layer,
            config,
            manifest: Bytes::from(json!(manifest).to_string()),
        })
    }

    /// Returns the annotations of the bundle.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// Returns the digest of the manifest. It is the same in every registry that the image is pushed to.
    pub fn digest(&self) -> Digest {
        Digest::sha256(&self.manifest)
    }

    /// Returns the blobs that the manifest references.
    pub(super) fn blobs(&self) -> [&Bytes; 2] {
        [&self.layer, &self.config]
    }

    pub(super) fn manifest(&self) -> &Bytes {
        &self.manifest
    }
}

/// Fixed creation time: the current time would change the digest with every build.
const EPOCH: &str = "1970-01-01T00:00:00Z";

fn descriptor(media_type: &str, bytes: &[u8]) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.to_owned(),
        digest: Digest::sha256(bytes).to_string(),
        size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

/// Returns all annotations. The bundle format requires them as labels of the image.
fn labels(content: &Content) -> Result<BTreeMap<String, String>> {
    let fail = |problem: String| Error::NoBundle { problem };
    let default_names = ["annotations.yaml", "annotations.yml"];
    let mut files: Vec<_> = content.dir("metadata").collect();
    files.sort_by_key(|(name, _)| !default_names.contains(name));
    if files.is_empty() {
        return Err(fail(
            "it has no metadata/annotations.yaml; create one, or specify the directory with manifests/ and metadata/"
                .to_owned(),
        ));
    }
    for (name, file) in files {
        let documents = yaml::documents(&file.bytes);
        let documents: Vec<Value> = match documents.collect() {
            Ok(documents) => documents,
            Err(error) if default_names.contains(&name) => {
                return Err(fail(format!("failed to read metadata/{name}: {error}")));
            }
            Err(_) => continue,
        };
        let annotations = documents
            .iter()
            .find_map(|document| document.get("annotations")?.as_object());
        let Some(annotations) = annotations.filter(|annotations| !annotations.is_empty()) else {
            continue;
        };
        let mut labels = BTreeMap::new();
        for (key, value) in annotations {
            let value = match value {
                Value::String(text) => text.clone(),
                // Go unmarshals a key without a value to an empty string.
                Value::Null => String::new(),
                _ => {
                    return Err(fail(format!(
                        "annotation {key:?} in metadata/{name} is not a string; put it in quotes"
                    )));
                }
            };
            labels.insert(key.clone(), value);
        }
        if labels
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum::<usize>()
            > MAX_LABELS
        {
            return Err(fail(format!(
                "the annotations in metadata/{name} have more than {MAX_LABELS} bytes; shorten them"
            )));
        }
        return Ok(labels);
    }
    Err(fail(
        "no file in metadata/ has annotations; add them below \"annotations:\" in metadata/annotations.yaml".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use manifests::content::{Builder, Limits};

    use super::*;

    fn image(files: &[(&str, &str)]) -> Result<BundleImage> {
        let mut builder = Builder::new(Limits::default());
        for (path, text) in files {
            builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
        }
        BundleImage::new(&builder.finish())
    }

    const ANNOTATIONS: (&str, &str) = (
        "metadata/annotations.yaml",
        "annotations:\n  b: two\n  a: \"1\"\n",
    );

    #[test]
    fn the_same_files_give_the_same_image_on_every_machine() {
        let text = "kind: ConfigMap\n".repeat(10_000);
        let one = image(&[("manifests/a.yaml", &text), ANNOTATIONS]).unwrap();
        assert_rows!(one => image(&[ANNOTATIONS, ("manifests/a.yaml", &text)]).unwrap());
        // A fixed value detects differences between machines and compressors.
        assert_rows!(one.digest().to_string() => "sha256:2954ce0272abb6f2929512ac41277949766a62108e0b222c20f724e11de902a3");
        let other = image(&[("manifests/a.yaml", "kind: Secret"), ANNOTATIONS]);
        assert_ne!(one.digest(), other.unwrap().digest());
        assert_rows!(one.labels().iter().map(|(key, value)| (&**key, &**value)).eq([("a", "1"), ("b", "two")]) => true);
        assert_rows!(image(&[("metadata/annotations.yaml", "annotations:\n  a: x\n  b:\n")]).unwrap().labels()["b"] => "");
    }

    #[test]
    fn annotations_are_found_or_their_absence_is_explained() {
        for (files, problem) in ::tests::rows![
            vec![("manifests/a.yaml", "a: b")] => Some("has no metadata/annotations.yaml");
            vec![("metadata/annotations.yaml", "a: b")] => Some("no file in metadata/ has annotations");
            vec![("metadata/annotations.yaml", "annotations: {}")] => Some("no file in metadata/ has annotations");
            vec![("metadata/annotations.yaml", "annotations: [")] => Some("failed to read metadata/annotations.yaml");
            vec![("metadata/annotations.yaml", "annotations: {a: 1}")] => Some("\"a\" in metadata/annotations.yaml is not a string");
            vec![("metadata/x.yaml", "annotations: {a: b}")] => None;
            vec![("metadata/a.yaml", "["), ANNOTATIONS] => None;
        ] {
            let error = image(&files).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), problem.is_some(), "{files:?}: {error:?}");
            ::tests::assert_has(error.unwrap_or_default(), problem.unwrap_or_default());
        }
    }
}
