//! Properties of a bundle: validation of each type, and the data that the model needs.

mod cel;
mod constraint;

use std::borrow::Cow;

use manifests::{
    openshift::{Annotation, Decision, Declarations, MAX_PROPERTY, Spelling, Unquoted},
    path::Path,
    yaml,
};

use crate::{
    go_json::{self, text, type_name_of},
    json::{Kind, Node, Tape},
    model::{Gvk, Requirement},
};

/// Data from the properties of a bundle.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BundleProperties {
    /// Values of all `olm.package` properties.
    pub packages: Vec<Identity>,
    /// APIs of all `olm.gvk` properties.
    pub provides: Vec<Gvk>,
    /// Requirements of the bundle.
    pub requires: Vec<Requirement>,
    /// `minKubeVersion` from `olm.csv.metadata`, or else from the ClusterServiceVersion.
    pub min_kube: Option<String>,
    /// Media type from `olm.bundle.mediatype`; `None` if it is absent.
    pub media_type: Option<String>,
    /// True if the bundle has the property `olm.deprecated`.
    pub is_deprecated: bool,
    /// True if the catalog contains the manifests of the bundle.
    pub has_objects: bool,
    /// True if the bundle substitutes another one (`olm.substitutesFor`). Its build metadata is then its release.
    pub has_build_release: bool,
    /// Max OpenShift versions that properties declare.
    declared: Declarations,
    /// Max OpenShift versions that annotations in `olm.csv.metadata` declare.
    metadata_declarations: Declarations,
    /// Max OpenShift versions that annotations of the ClusterServiceVersion declare.
    csv_declarations: Declarations,
    min_kube_source: MinKubeSource,
}

/// Source of `minKubeVersion`. The metadata takes precedence over the ClusterServiceVersion.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MinKubeSource {
    #[default]
    None,
    Csv,
    Metadata,
}

/// A property `olm.package`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the package.
    pub package: String,
    /// Version as declared.
    pub version: String,
    /// Release as declared; empty if absent.
    pub release: String,
}

// === impl BundleProperties ===

impl BundleProperties {
    /// Adds a property.
    ///
    /// # Errors
    /// Returns an error if the value does not match its type, with opm's message: `parse property[3] of type "olm.gvk":
    /// …`.
    pub fn add(&mut self, at: usize, type_: &str, value: Option<Node<'_>>) -> Result<(), String> {
        let added = match value {
            Some(value) => self.read(type_, value),
            None => Err(END.to_owned()),
        };
        let short_type: String = type_.chars().take(200).collect();
        added.map_err(|problem| format!("parse property[{at}] of type {short_type:?}: {problem}"))
    }

    /// Adds a max OpenShift version that the file contains as a number.
    pub(crate) fn add_unquoted(&mut self, number: &Unquoted) {
        let spelling = Spelling::CatalogProperties;
        self.declared.add(spelling, number.spelling());
    }

    /// Adds a property whose value is JSON text, as in the gRPC service of a registry.
    ///
    /// # Errors
    /// Returns the errors of [`Self::add`].
    pub fn add_json(&mut self, at: usize, type_: &str, value: &str) -> Result<(), String> {
        let mut tape = Tape::default();
        match tape.read(value.as_bytes(), OBJECT_VALUES) {
            Ok(node) => self.add(at, type_, Some(node)),
            Err(error) => {
                let short_type: String = type_.chars().take(200).collect();
                Err(format!(
                    "parse property[{at}] of type {short_type:?}: {error}"
                ))
            }
        }
    }

    /// Adds a dependency, which older catalogs declare in addition to properties. OLM reads both.
    ///
    /// # Errors
    /// Returns an error if the value does not match its type, or if the type is unknown. OLM does not install such a
    /// bundle either.
    pub fn add_dependency(&mut self, at: usize, type_: &str, value: &str) -> Result<(), String> {
        let read = || {
            let mut tape = Tape::default();
            let value = tape.read(value.as_bytes(), OBJECT_VALUES);
            let value = value.map_err(|error| error.to_string())?;
            Ok(match type_ {
                "olm.gvk" => {
                    go_json::check(value, &go_json::GVK_REQUIRED)?;
                    Requirement::Api(gvk(value))
                }
                "olm.package" => {
                    go_json::check(value, &go_json::PACKAGE_PROPERTY)?;
                    Requirement::Package {
                        name: text(value, "packageName"),
                        range: text(value, "version"),
                    }
                }
                "olm.constraint" => parse_requirement(value),
                "olm.label" => {
                    Requirement::Constraint(Some(format!("label {}", text(value, "label"))))
                }
                _ => return Err("OLM does not support this type".to_owned()),
            })
        };
        let need = read().map_err(|problem: String| {
            let short_type: String = type_.chars().take(200).collect();
            format!("parse dependency[{at}] of type {short_type:?}: {problem}")
        })?;
        self.requires.push(need);
        Ok(())
    }

    /// Adds a ClusterServiceVersion.
    ///
    /// # Errors
    /// Returns an error if it is not valid JSON.
    pub fn add_csv(&mut self, json: &str) -> Result<(), String> {
        let mut tape = Tape::default();
        let csv = tape
            .read(json.as_bytes(), OBJECT_VALUES)
            .map_err(|error| format!("the ClusterServiceVersion is not valid JSON: {error}"))?;
        self.read_csv(csv, None);
        Ok(())
    }

    /// Determines the effective max OpenShift version from all spellings that were added.
    pub fn max_openshift(&self) -> Decision {
        let mut all = self.declared.clone();
        all.complete_with(self.metadata_declarations.clone());
        all.complete_with(self.csv_declarations.clone());
        all.decide()
    }

    fn read(&mut self, type_: &str, value: Node<'_>) -> Result<(), String> {
        match type_ {
            "olm.package" => {
                go_json::check(value, &go_json::PACKAGE_PROPERTY)?;
                self.packages.push(Identity {
                    package: text(value, "packageName"),
                    version: text(value, "version"),
                    release: text(value, "release"),
                });
            }
            "olm.package.required" => {
                go_json::check(value, &go_json::PACKAGE_REQUIRED)?;
                self.requires.push(Requirement::Package {
                    name: text(value, "packageName"),
                    range: text(value, "versionRange"),
                });
            }
            "olm.gvk" => {
                go_json::check(value, &go_json::GVK)?;
                self.provides.push(gvk(value));
            }
            "olm.gvk.required" => {
                go_json::check(value, &go_json::GVK_REQUIRED)?;
                self.requires.push(Requirement::Api(gvk(value)));
            }
            "olm.channel" => go_json::check(value, &go_json::CHANNEL_PROPERTY)?,
            "olm.bundle.object" => self.read_object(value)?,
            "olm.csv.metadata" => {
                go_json::check(value, &go_json::CSV_METADATA)?;
                self.min_kube_source = MinKubeSource::Metadata;
                self.has_build_release |= substitutes(value);
                declare(value, None, &mut self.metadata_declarations);
                if let Some(version) = value.field("minKubeVersion").and_then(Node::text) {
                    self.min_kube =
                        Some(version.into_owned()).filter(|version| !version.is_empty());
                }
            }
            // opm accepts any value, and so does this function. An invalid constraint is reported when it is evaluated.
            "olm.constraint" => self.requires.push(parse_requirement(value)),
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

    /// Reads a base64-encoded manifest in JSON or YAML. Values other than objects are not a ClusterServiceVersion and
    /// are ignored.
    pub(crate) fn read_object(&mut self, value: Node<'_>) -> Result<(), String> {
        go_json::check(value, &go_json::BUNDLE_OBJECT)?;
        let data = go_json::base64(&type_name_of(value, "data"))?;
        self.has_objects = true;
        let mut tape = Tape::default();
        if let Ok(root) = tape.read(&data, OBJECT_VALUES) {
            self.parse_manifest(root, None);
            return Ok(());
        }
        let value = match yaml::documents(&data).next() {
            Some(Ok(value)) => value,
            // Go passes on everything that starts like JSON, even if it is malformed.
            Some(Err(_)) if data.trim_ascii_start().starts_with(b"{") => return Ok(()),
            Some(Err(error)) => return Err(format!("{CONVERT}{}", error.message())),
            None => serde_json::Value::Null,
        };
        let json = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
        let root = tape
            .read(&json, OBJECT_VALUES)
            .map_err(|error| error.to_string())?;
        self.parse_manifest(root, Some(&data));
        Ok(())
    }

    /// Parses a manifest. `yaml` is its source text, if it was converted from YAML.
    fn parse_manifest(&mut self, root: Node<'_>, yaml: Option<&[u8]>) {
        let is_csv = root
            .get("kind")
            .is_some_and(|kind| kind.is("ClusterServiceVersion"));
        if is_csv && self.min_kube_source != MinKubeSource::Csv {
            self.read_csv(root, yaml);
        }
    }

    fn read_csv(&mut self, csv: Node<'_>, yaml: Option<&[u8]>) {
        if let Some(metadata) = csv.field("metadata")
            && self.csv_declarations == Declarations::default()
        {
            declare(metadata, yaml, &mut self.csv_declarations);
        }
        if self.min_kube_source == MinKubeSource::Metadata {
            return;
        }
        self.min_kube_source = MinKubeSource::Csv;
        self.has_build_release |= csv.field("metadata").is_some_and(substitutes);
        let version = csv
            .get("spec")
            .and_then(|spec| spec.field("minKubeVersion"));
        self.min_kube = version
            .map(|version| match version.text() {
                Some(text) => text.into_owned(),
                // An invalid version, so that the number is not taken for one: YAML reads 1.30 as 1.3.
                None => format!("a {}, not a string", version.kind().name()),
            })
            .filter(|version| !version.is_empty());
    }
}

/// Maximum number of values in one manifest; objects in etcd have fewer.
const OBJECT_VALUES: usize = 1_000_000;

/// Error of Go for an absent value.
pub(crate) const END: &str = "unexpected end of JSON input";
/// Prefix of the error for a manifest that is not even valid YAML.
pub(crate) const CONVERT: &str = "error converting YAML to JSON: ";

/// Reports whether annotations name a bundle that this one substitutes.
fn substitutes(owner: Node<'_>) -> bool {
    let annotations = owner.field("annotations");
    let name = annotations.and_then(|annotations| annotations.get("olm.substitutesFor")?.text());
    name.is_some_and(|name| !name.is_empty())
}

/// Adds the max OpenShift versions that the annotations of `owner` declare. `yaml` is the manifest whose metadata
/// `owner` is; without it, the JSON text has the original spelling.
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
                let raw = || String::from_utf8_lossy(value.source());
                Annotation::Other(spelling.map_or_else(raw, Cow::Owned))
            }
        })
    });
}

/// Returns the spelling of a scalar in the first document.
fn spelling(yaml: &[u8], path: &Path) -> Option<String> {
    let scalars = yaml::written_all(yaml, 0, std::slice::from_ref(path));
    Some(scalars.into_iter().next()??.text)
}

/// Returns the media type. Other values than strings yield a type that no provisioner handles, so that they are not
/// mistaken for the default type.
fn media_type(value: Node<'_>) -> Option<String> {
    if value.kind() == Kind::Null {
        return None;
    }
    let text = value.text().map(Cow::into_owned);
    Some(text.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(value.source());
        text.chars().take(100).collect()
    }))
}

/// Parses the requirement of an `olm.constraint`.
fn parse_requirement(value: Node<'_>) -> Requirement {
    match constraint::check(value) {
        Ok(()) => {
            let message = text(value, "failureMessage");
            Requirement::Constraint(Some(message).filter(|message| !message.is_empty()))
        }
        Err(problem) => Requirement::Unreadable(problem),
    }
}

fn gvk(value: Node<'_>) -> Gvk {
    Gvk {
        group: text(value, "group"),
        kind: text(value, "kind"),
        version: text(value, "version"),
    }
}
