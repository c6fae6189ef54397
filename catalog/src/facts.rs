//! Properties: what each type must look like, and what of it counts.

mod cel;
mod constraint;

use std::borrow::Cow;

use manifests::{
    openshift::{Annotation, Decision, Declarations, MAX_PROPERTY, Spelling, Unquoted},
    path::Path,
    yaml,
};

use crate::{
    json::{Kind, Node, Tape},
    model::{Gvk, Need},
    shape::{self, borrowed, text},
};

/// What the properties of a bundle say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Each `olm.package`.
    pub packages: Vec<Identity>,
    /// Each `olm.gvk`.
    pub provides: Vec<Gvk>,
    /// What is needed beside the bundle.
    pub needs: Vec<Need>,
    /// `minKubeVersion` of `olm.csv.metadata` or else of the ClusterServiceVersion.
    pub min_kube: Option<String>,
    /// `olm.bundle.mediatype`.
    pub media_type: Option<String>,
    /// Whether there is `olm.deprecated`.
    pub is_deprecated: bool,
    /// Whether there are manifests in the catalog itself.
    pub has_objects: bool,
    /// Whether it stands in for another bundle (`olm.substitutesFor`). Then build metadata is its release.
    pub is_rebuild: bool,
    /// The max OpenShift versions that the properties declare.
    declared: Declarations,
    /// Those that annotations in `olm.csv.metadata` declare.
    of_metadata: Declarations,
    /// Those that annotations of the ClusterServiceVersion declare.
    of_csv: Declarations,
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
#[derive(Debug, Default, Clone, PartialEq, Eq)]
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
            None => Err(END.to_owned()),
        };
        let shown: String = type_.chars().take(200).collect();
        added.map_err(|problem| format!("parse property[{at}] of type {shown:?}: {problem}"))
    }

    /// Adds a max OpenShift version that the file has as a number.
    pub(crate) fn add_unquoted(&mut self, number: &Unquoted) {
        let spelling = Spelling::CatalogProperties;
        self.declared.add(spelling, number.spelling());
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

    /// Takes note of one dependency, as older catalogs tell it beside the properties: OLM reads both.
    ///
    /// # Errors
    /// When the value is not what its type says, or nobody knows the type: OLM does not install such a bundle either.
    pub fn add_dependency(&mut self, at: usize, type_: &str, value: &str) -> Result<(), String> {
        let read = || {
            let mut tape = Tape::default();
            let value = tape.read(value.as_bytes(), OBJECT_VALUES);
            let value = value.map_err(|error| error.to_string())?;
            Ok(match type_ {
                "olm.gvk" => {
                    shape::check(value, &shape::GVK_REQUIRED)?;
                    Need::Api(gvk(value))
                }
                "olm.package" => {
                    shape::check(value, &shape::PACKAGE_PROPERTY)?;
                    Need::Package {
                        name: text(value, "packageName"),
                        range: text(value, "version"),
                    }
                }
                "olm.constraint" => need(value),
                "olm.label" => Need::Constraint(Some(format!("label {}", text(value, "label")))),
                _ => return Err("OLM knows no such dependency".to_owned()),
            })
        };
        let need = read().map_err(|problem: String| {
            let shown: String = type_.chars().take(200).collect();
            format!("parse dependency[{at}] of type {shown:?}: {problem}")
        })?;
        self.needs.push(need);
        Ok(())
    }

    /// Takes note of a ClusterServiceVersion.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn add_csv(&mut self, json: &str) -> Result<(), String> {
        let mut tape = Tape::default();
        let csv = tape
            .read(json.as_bytes(), OBJECT_VALUES)
            .map_err(|error| format!("the ClusterServiceVersion is no JSON: {error}"))?;
        self.read_csv(csv, None);
        Ok(())
    }

    /// Decides which max OpenShift version counts, of all the spellings that were added.
    pub fn max_openshift(&self) -> Decision {
        let mut all = self.declared.clone();
        all.complete_with(self.of_metadata.clone());
        all.complete_with(self.of_csv.clone());
        all.decide()
    }

    fn read(&mut self, type_: &str, value: Node<'_>) -> Result<(), String> {
        match type_ {
            "olm.package" => {
                shape::check(value, &shape::PACKAGE_PROPERTY)?;
                self.packages.push(Identity {
                    package: text(value, "packageName"),
                    version: text(value, "version"),
                    release: text(value, "release"),
                });
            }
            "olm.package.required" => {
                shape::check(value, &shape::PACKAGE_REQUIRED)?;
                self.needs.push(Need::Package {
                    name: text(value, "packageName"),
                    range: text(value, "versionRange"),
                });
            }
            "olm.gvk" => {
                shape::check(value, &shape::GVK)?;
                self.provides.push(gvk(value));
            }
            "olm.gvk.required" => {
                shape::check(value, &shape::GVK_REQUIRED)?;
                self.needs.push(Need::Api(gvk(value)));
            }
            "olm.channel" => shape::check(value, &shape::CHANNEL_PROPERTY)?,
            "olm.bundle.object" => self.read_object(value)?,
            "olm.csv.metadata" => {
                shape::check(value, &shape::CSV_METADATA)?;
                self.source = Described::Metadata;
                self.is_rebuild |= substitutes(value);
                declare(value, None, &mut self.of_metadata);
                if let Some(version) = value.field("minKubeVersion").and_then(Node::text) {
                    self.min_kube = Some(version.into_owned()).filter(|it| !it.is_empty());
                }
            }
            // opm takes whatever it is, and so does this; who would evaluate it is told what is wrong.
            "olm.constraint" => self.needs.push(need(value)),
            "olm.bundle.mediatype" => self.media_type = media_type(value),
            "olm.deprecated" => self.is_deprecated = true,
            MAX_PROPERTY => {
                let mut json = Vec::new();
                value.compact(&mut json);
                let json = String::from_utf8_lossy(&json);
                self.declared.add(Spelling::CatalogProperties, &json);
            }
            _ => {}
        }
        Ok(())
    }

    /// A whole manifest in base64, JSON or YAML. What is no object is no ClusterServiceVersion, and nobody minds.
    pub(crate) fn read_object(&mut self, value: Node<'_>) -> Result<(), String> {
        shape::check(value, &shape::BUNDLE_OBJECT)?;
        let data = shape::base64(&borrowed(value, "data"))?;
        self.has_objects = true;
        let mut tape = Tape::default();
        if let Ok(root) = tape.read(&data, OBJECT_VALUES) {
            self.read_manifest(root, None);
            return Ok(());
        }
        let value = match yaml::documents(&data).next() {
            Some(Ok(value)) => value,
            // What begins like JSON is passed on by Go, whatever it is.
            Some(Err(_)) if data.trim_ascii_start().starts_with(b"{") => return Ok(()),
            Some(Err(error)) => return Err(format!("{CONVERT}{}", error.message())),
            None => serde_json::Value::Null,
        };
        let json = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
        let root = tape
            .read(&json, OBJECT_VALUES)
            .map_err(|error| error.to_string())?;
        self.read_manifest(root, Some(&data));
        Ok(())
    }

    /// Reads a manifest, which is made from this YAML.
    fn read_manifest(&mut self, root: Node<'_>, yaml: Option<&[u8]>) {
        let is_csv = root
            .get("kind")
            .is_some_and(|it| it.is("ClusterServiceVersion"));
        if is_csv && self.source != Described::Csv {
            self.read_csv(root, yaml);
        }
    }

    fn read_csv(&mut self, csv: Node<'_>, yaml: Option<&[u8]>) {
        if let Some(metadata) = csv.field("metadata")
            && self.of_csv == Declarations::default()
        {
            declare(metadata, yaml, &mut self.of_csv);
        }
        if self.source == Described::Metadata {
            return;
        }
        self.source = Described::Csv;
        self.is_rebuild |= csv.field("metadata").is_some_and(substitutes);
        let version = csv.get("spec").and_then(|it| it.field("minKubeVersion"));
        self.min_kube = version
            .map(|it| match it.text() {
                Some(text) => text.into_owned(),
                // No version, so that nobody takes it for one: 1.30 is 1.3 by now.
                None => format!("a {} and no text", it.kind().name()),
            })
            .filter(|it| !it.is_empty());
    }
}

/// The values of one manifest; an object in etcd has no more.
const OBJECT_VALUES: usize = 1_000_000;

/// What Go says of a value that is not there.
pub(crate) const END: &str = "unexpected end of JSON input";
/// Before what is wrong with a manifest that is not even YAML.
pub(crate) const CONVERT: &str = "error converting YAML to JSON: ";

/// Whether annotations name a bundle that this one stands in for.
fn substitutes(owner: Node<'_>) -> bool {
    let annotations = owner.field("annotations");
    let name = annotations.and_then(|it| it.get("olm.substitutesFor")?.text());
    name.is_some_and(|it| !it.is_empty())
}

/// Adds the max OpenShift versions that the annotations of `owner` declare. `yaml` is the manifest whose metadata `owner` is;
/// without it, the JSON has the spellings.
fn declare(owner: Node<'_>, yaml: Option<&[u8]>, declarations: &mut Declarations) {
    let Some(annotations) = owner.field("annotations") else {
        return;
    };
    declarations.add_annotations(|key| {
        let value = annotations.get(key)?;
        Some(match (value.kind(), value.text()) {
            (_, Some(text)) => Annotation::String(text),
            // Go decodes null into an empty string.
            (Kind::Null, None) => Annotation::String("".into()),
            (Kind::Array, None) => Annotation::Other("[…]".into()),
            (Kind::Object, None) => Annotation::Other("{…}".into()),
            _ => {
                let path = Path::from(["metadata", "annotations", key]);
                let spelling = yaml.and_then(|yaml| spelling(yaml, &path));
                let raw = || String::from_utf8_lossy(value.raw());
                Annotation::Other(spelling.map_or_else(raw, Cow::Owned))
            }
        })
    });
}

/// Returns the spelling of a scalar in the first document.
fn spelling(yaml: &[u8], path: &Path) -> Option<String> {
    let written = yaml::written_all(yaml, 0, std::slice::from_ref(path));
    Some(written.into_iter().next()??.text)
}

/// A format. What is no text is none that anybody installs, and must not pass for the usual one.
fn media_type(value: Node<'_>) -> Option<String> {
    if value.kind() == Kind::Null {
        return None;
    }
    let text = value.text().map(Cow::into_owned);
    Some(text.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(value.raw());
        text.chars().take(100).collect()
    }))
}

/// What an `olm.constraint` asks for.
fn need(value: Node<'_>) -> Need {
    match constraint::check(value) {
        Ok(()) => {
            let message = text(value, "failureMessage");
            Need::Constraint(Some(message).filter(|it| !it.is_empty()))
        }
        Err(problem) => Need::Unreadable(problem),
    }
}

fn gvk(value: Node<'_>) -> Gvk {
    Gvk {
        group: text(value, "group"),
        kind: text(value, "kind"),
        version: text(value, "version"),
    }
}
