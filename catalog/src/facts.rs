//! Properties: what each type must look like, and what of it counts.

mod metadata;

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use manifests::yaml;

use crate::{
    json::{Kind, Node, Tape},
    model::{Gvk, Need},
    walk::MAX_PROPERTY,
};

/// What the properties of a bundle say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Each `olm.package`.
    pub packages: Vec<Identity>,
    /// Each `olm.gvk`.
    pub provides: Vec<Gvk>,
    /// What is needed beside the bundle.
    pub needs: Vec<Need>,
    /// The JSON text of each `olm.maxOpenShiftVersion`.
    pub max_openshift: Vec<String>,
    /// `minKubeVersion` of `olm.csv.metadata` or else of the ClusterServiceVersion.
    pub min_kube: Option<String>,
    /// `olm.bundle.mediatype`.
    pub media_type: Option<String>,
    /// Whether there is `olm.deprecated`.
    pub is_deprecated: bool,
    /// Whether there are manifests in the catalog itself.
    pub has_objects: bool,
    source: Described,
}

/// What told the bundle's `minKubeVersion`: the metadata count more than the ClusterServiceVersion.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Described {
    #[default]
    Nowhere,
    Csv,
    Metadata,
}

/// A property `olm.package`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the package.
    pub package: String,
    /// As it was written.
    pub version: String,
    /// As it was written; empty when there is none.
    pub release: String,
}

// === impl Facts ===

impl Facts {
    /// Takes note of one property.
    ///
    /// # Errors
    /// When the value is not what its type says, in opm's words: `parse property[3] of type "olm.gvk": …`.
    pub fn add(&mut self, at: usize, type_: &str, value: Option<Node<'_>>) -> Result<(), String> {
        let added = match value {
            Some(value) => self.read(type_, value),
            None => Err("unexpected end of JSON input".into()),
        };
        let shown: String = type_.chars().take(200).collect();
        added.map_err(|problem| format!("parse property[{at}] of type {shown:?}: {problem}"))
    }

    /// Takes note of one property whose value is JSON text, as a registry's gRPC service has it.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_text(&mut self, at: usize, type_: &str, value: &str) -> Result<(), String> {
        let mut tape = Tape::default();
        match tape.read(value.as_bytes(), OBJECT_VALUES) {
            Ok(node) => self.add(at, type_, Some(node)),
            Err(error) => {
                let shown: String = type_.chars().take(200).collect();
                Err(format!("parse property[{at}] of type {shown:?}: {error}"))
            }
        }
    }

    /// Takes note of a ClusterServiceVersion.
    ///
    /// # Errors
    /// When it is no JSON or its `minKubeVersion` is no text.
    pub fn add_csv(&mut self, json: &str) -> Result<(), String> {
        let mut tape = Tape::default();
        let csv = tape
            .read(json.as_bytes(), OBJECT_VALUES)
            .map_err(|error| format!("the ClusterServiceVersion is no JSON: {error}"))?;
        self.read_csv(csv)
    }

    fn read(&mut self, type_: &str, value: Node<'_>) -> Result<(), String> {
        match type_ {
            "olm.package" => {
                let name = "property.Package";
                object(value, name)?;
                self.packages.push(Identity {
                    package: text(value, "packageName", name)?,
                    version: text(value, "version", name)?,
                    release: text(value, "release", name)?,
                });
            }
            "olm.package.required" => {
                let go = "property.PackageRequired";
                object(value, go)?;
                self.needs.push(Need::Package {
                    name: text(value, "packageName", go)?,
                    range: text(value, "versionRange", go)?,
                });
            }
            "olm.gvk" => self.provides.push(gvk(value, "property.GVK")?),
            "olm.gvk.required" => {
                let gvk = gvk(value, "property.GVKRequired")?;
                self.needs.push(Need::Api(gvk));
            }
            "olm.channel" => {
                let go = "property.Channel";
                object(value, go)?;
                text(value, "channelName", go)?;
            }
            "olm.bundle.object" => self.read_object(value)?,
            "olm.csv.metadata" => {
                metadata::check(value)?;
                self.source = Described::Metadata;
                if let Some(version) = value.field("minKubeVersion").and_then(Node::text) {
                    self.min_kube = Some(version.into_owned()).filter(|it| !it.is_empty());
                }
            }
            "olm.constraint" => {
                let message = value.field("failureMessage").and_then(Node::text);
                let message = message.map(Cow::into_owned).filter(|it| !it.is_empty());
                self.needs.push(Need::Constraint(message));
            }
            "olm.bundle.mediatype" => self.media_type = value.text().map(Cow::into_owned),
            "olm.deprecated" => self.is_deprecated = true,
            MAX_PROPERTY => {
                let mut json = Vec::new();
                value.compact(&mut json);
                let json = String::from_utf8_lossy(&json).into_owned();
                // The same text twice says it once.
                if !self.max_openshift.contains(&json) {
                    self.max_openshift.push(json);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A whole manifest in base64, JSON or YAML.
    fn read_object(&mut self, value: Node<'_>) -> Result<(), String> {
        let go = "property.BundleObject";
        object(value, go)?;
        let data = decoded(value, "data", go)?;
        self.has_objects = true;
        let mut tape = Tape::default();
        if let Ok(root) = tape.read(&data, OBJECT_VALUES) {
            return self.read_manifest(root);
        }
        let value = match yaml::documents(&data).next() {
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                return Err(format!(
                    "error converting YAML to JSON: {}",
                    error.message()
                ));
            }
            None => serde_json::Value::Null,
        };
        let json = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
        let root = tape
            .read(&json, OBJECT_VALUES)
            .map_err(|error| error.to_string())?;
        self.read_manifest(root)
    }

    fn read_manifest(&mut self, root: Node<'_>) -> Result<(), String> {
        if root.kind() != Kind::Object && !root.is_null() {
            return Err(format!(
                "the manifest is {}, not an object",
                root.kind().name()
            ));
        }
        let is_csv = root
            .get("kind")
            .is_some_and(|it| it.is("ClusterServiceVersion"));
        if is_csv && self.source == Described::Nowhere {
            return self.read_csv(root);
        }
        Ok(())
    }

    fn read_csv(&mut self, csv: Node<'_>) -> Result<(), String> {
        let version = csv.get("spec").and_then(|it| it.field("minKubeVersion"));
        if self.source == Described::Metadata {
            return Ok(());
        }
        self.source = Described::Csv;
        let Some(version) = version else {
            return Ok(());
        };
        let text = version.text().ok_or("spec.minKubeVersion is no text")?;
        self.min_kube = Some(text.into_owned()).filter(|it| !it.is_empty());
        Ok(())
    }
}

/// The values of one manifest; an object in etcd has no more.
const OBJECT_VALUES: usize = 1_000_000;

fn gvk(value: Node<'_>, go: &str) -> Result<Gvk, String> {
    object(value, go)?;
    Ok(Gvk {
        group: text(value, "group", go)?,
        kind: text(value, "kind", go)?,
        version: text(value, "version", go)?,
    })
}

/// A struct takes an object, or `null`, which leaves it empty.
pub(crate) fn object(value: Node<'_>, go: &str) -> Result<(), String> {
    match value.kind() {
        Kind::Object | Kind::Null => Ok(()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type {go}",
            other.name()
        )),
    }
}

/// A text of a struct; empty when there is none.
pub(crate) fn text(value: Node<'_>, field: &str, go: &str) -> Result<String, String> {
    Ok(borrowed(value, field, go)?.into_owned())
}

/// As [`text`], without taking memory.
pub(crate) fn borrowed<'a>(value: Node<'a>, field: &str, go: &str) -> Result<Cow<'a, str>, String> {
    match value.field(field) {
        None => Ok(Cow::Borrowed("")),
        Some(found) => found
            .text()
            .ok_or_else(|| mismatch(found, field, go, "string")),
    }
}

/// The bytes of a text in base64.
pub(crate) fn decoded(value: Node<'_>, field: &str, go: &str) -> Result<Vec<u8>, String> {
    let text = borrowed(value, field, go)?;
    // Go passes over line breaks.
    let text = if text.contains(['\r', '\n']) {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        text
    };
    BASE64_STANDARD
        .decode(text.as_bytes())
        .map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol(at, _) => {
                format!("illegal base64 data at input byte {at}")
            }
            _ => format!("illegal base64 data at input byte {}", text.len()),
        })
}

/// The values of a list; a `null` among them is an empty one.
pub(crate) fn list<'a>(
    value: Node<'a>,
    field: &str,
    go: &str,
    of: &str,
) -> Result<impl Iterator<Item = Node<'a>>, String> {
    let found = value.field(field);
    if let Some(found) = found.filter(|it| it.kind() != Kind::Array) {
        return Err(mismatch(found, field, go, &format!("[]{of}")));
    }
    Ok(found.into_iter().flat_map(Node::items))
}

/// What Go says of a field of another kind.
pub(crate) fn mismatch(found: Node<'_>, field: &str, go: &str, of: &str) -> String {
    let short = go.rsplit('.').next().unwrap_or(go);
    format!(
        "json: cannot unmarshal {} into Go struct field {short}.{field} of type {of}",
        found.kind().name()
    )
}
