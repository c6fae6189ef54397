//! Typed view of a bundle's ClusterServiceVersion, for the conversion to an `olm.bundle`.

use std::collections::BTreeSet;

use manifests::go_types::{self, ProblemKind, Type};
use manifests::object::{get_path, text, type_name};
use serde_json::Value;

use super::{
    super::{Error, blob::RelatedImage},
    Api,
    metadata::field,
};

/// A validated view of the ClusterServiceVersion.
pub(super) struct CsvView<'a> {
    value: &'a Value,
    /// Object or null.
    spec: &'a Value,
}

/// Returns the error for a value of the wrong type at `path`.
fn type_error(path: &str, expected: &str, found: &Value) -> Error {
    Error::Shape {
        path: path.to_owned(),
        expected: expected.to_owned(),
        found: type_name(found).to_owned(),
    }
}

/// Checks a value against its Go type and returns an error for the first mismatch. `path` is the prefix of its path.
fn conforms(value: &Value, ty: Type, path: &str) -> Result<(), Error> {
    for problem in go_types::check(value, ty) {
        if let ProblemKind::Mismatch {
            expected, found, ..
        } = problem.kind
        {
            return Err(Error::Shape {
                path: format!("{path}{}", problem.path),
                expected: expected.to_string(),
                found: found.to_string(),
            });
        }
    }
    Ok(())
}

// === impl CsvView ===

impl<'a> CsvView<'a> {
    /// Finds the ClusterServiceVersion among the objects of a bundle.
    pub(super) fn find(objects: &'a [Value]) -> Result<Self, Error> {
        let is_csv = |object: &&Value| text(object, &["kind"]) == Some("ClusterServiceVersion");
        let value = objects.iter().find(is_csv).ok_or(Error::NoCsv)?;
        if let (Some(metadata), Some(field)) =
            (value.get("metadata"), go_types::csv().field("metadata"))
        {
            conforms(metadata, field.ty, "metadata.")?;
        }
        let spec = value
            .get("spec")
            .ok_or_else(|| type_error("spec", "a mapping", &Value::Null))?;
        if !matches!(spec, Value::Object(_) | Value::Null) {
            return Err(type_error("spec", "a mapping", spec));
        }
        Ok(Self { value, spec })
    }

    pub(super) fn name(&self) -> &'a str {
        text(self.value, &["metadata", "name"]).unwrap_or_default()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        get_path(self.value, &["metadata", "annotations"])?
            .get(key)?
            .as_str()
    }

    /// Returns `spec.version`, or an empty string if it is absent.
    pub(super) fn version(&self) -> Result<&'a str, Error> {
        match self.spec.get("version") {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(version)) => Ok(version),
            Some(other) => Err(type_error("spec.version", "a string", other)),
        }
    }

    /// Returns `spec.release`, which can be a number.
    pub(super) fn release(&self) -> Result<String, Error> {
        match self.spec.get("release") {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(release)) => Ok(release.clone()),
            Some(Value::Number(release)) => Ok(release.to_string()),
            Some(other) => Err(type_error("spec.release", "a string or a number", other)),
        }
    }

    /// Returns the APIs that a bundle provides: those of all its CustomResourceDefinitions, and the owned API services.
    pub(super) fn provided(&self, objects: &[Value]) -> Result<BTreeSet<Api>, Error> {
        let mut provided = BTreeSet::new();
        for object in objects {
            if text(object, &["kind"]) == Some("CustomResourceDefinition") {
                crd(object, &mut provided)?;
            }
        }
        for api in self.api_descriptions("apiservicedefinitions", "owned")? {
            provided.insert(api.service());
        }
        Ok(provided)
    }

    /// Returns the APIs that a bundle requires.
    pub(super) fn required(&self) -> Result<BTreeSet<Api>, Error> {
        let mut required = BTreeSet::new();
        for api in self.api_descriptions("customresourcedefinitions", "required")? {
            required.insert(api.crd()?);
        }
        for api in self.api_descriptions("apiservicedefinitions", "required")? {
            required.insert(api.service());
        }
        Ok(required)
    }

    /// Checks that the bundle contains every owned CustomResourceDefinition.
    pub(super) fn check_owned(&self, provided: &BTreeSet<Api>) -> Result<(), Error> {
        for api in self.api_descriptions("customresourcedefinitions", "owned")? {
            let api = api.crd()?;
            if !provided.contains(&api) {
                let found: Vec<_> = provided.iter().take(20).map(ToString::to_string).collect();
                return Err(Error::NotProvided {
                    bundle: self.name().to_owned(),
                    api: api.to_string(),
                    found: found.join(", "),
                });
            }
        }
        Ok(())
    }

    /// Returns the images in `spec.relatedImages`.
    pub(super) fn related_images(&self) -> Result<Vec<RelatedImage>, Error> {
        let list = self.spec.get("relatedImages");
        items(list, "spec.relatedImages")?
            .iter()
            .map(|image| {
                Ok(RelatedImage {
                    name: self::field_text(image, "name", "spec.relatedImages")?,
                    image: self::field_text(image, "image", "spec.relatedImages")?,
                })
            })
            .collect()
    }

    /// Returns the images of the operator's pods.
    pub(super) fn pod_images(&self) -> Result<BTreeSet<String>, Error> {
        let mut images = BTreeSet::new();
        let Some(install) = field(self.spec, "install") else {
            return Ok(images);
        };
        if field(install, "strategy").and_then(Value::as_str) != Some("deployment") {
            return Ok(images);
        }
        let ty = go_types::csv().at(&["spec", "install", "spec", "deployments"]);
        let list = field(install, "spec").and_then(|spec| field(spec, "deployments"));
        if let (Some(list), Some(ty)) = (list, ty) {
            conforms(list, ty, "spec.install.spec.deployments")?;
        }
        for deployment in items(list, "spec.install.spec.deployments")? {
            for containers in ["containers", "initContainers"] {
                let containers = get_path(deployment, &["spec", "template", "spec", containers]);
                let containers = containers.and_then(Value::as_array);
                images.extend(
                    containers.into_iter().flatten().map(|container| {
                        text(container, &["image"]).unwrap_or_default().to_owned()
                    }),
                );
            }
        }
        Ok(images)
    }

    fn api_descriptions(&self, group: &str, list: &str) -> Result<Vec<ApiKey>, Error> {
        let path = format!("spec.{group}");
        let descriptions = self.spec.get(group).unwrap_or(&Value::Null);
        if !matches!(descriptions, Value::Object(_) | Value::Null) {
            return Err(type_error(&path, "a mapping", descriptions));
        }
        items(field(descriptions, list), &format!("{path}.{list}"))?
            .iter()
            .map(|entry| {
                let text = |name| field_text(entry, name, &path);
                Ok(ApiKey {
                    group: text("group")?,
                    version: text("version")?,
                    kind: text("kind")?,
                    name: text("name")?,
                })
            })
            .collect()
    }
}

/// Reference to an API in the ClusterServiceVersion.
struct ApiKey {
    group: String,
    version: String,
    kind: String,
    name: String,
}

// === impl ApiKey ===

impl ApiKey {
    /// Converts the reference to a CRD, whose name is `<plural>.<group>`.
    fn crd(self) -> Result<Api, Error> {
        match self.name.split_once('.') {
            Some((plural, group)) => Ok(Api {
                group: group.to_owned(),
                version: self.version,
                kind: self.kind,
                plural: plural.to_owned(),
            }),
            None => Err(Error::CrdName { name: self.name }),
        }
    }

    fn service(self) -> Api {
        Api {
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.name,
        }
    }
}

/// Adds the APIs of a CustomResourceDefinition.
fn crd(object: &Value, provided: &mut BTreeSet<Api>) -> Result<(), Error> {
    let version = text(object, &["apiVersion"]).unwrap_or_default();
    let v1 = match version.rsplit('/').next() {
        Some("v1") => true,
        Some("v1beta1") => false,
        _ => return Ok(()),
    };
    let name = text(object, &["metadata", "name"]).unwrap_or_default();
    let path_prefix = format!("CustomResourceDefinition {name}: ");
    if !version.starts_with("apiextensions.k8s.io/") {
        return Err(Error::Shape {
            path: format!("{path_prefix}apiVersion"),
            expected: "apiextensions.k8s.io/v1".to_owned(),
            found: format!("{version:?}"),
        });
    }
    if v1 && let Some(kind) = go_types::kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    {
        conforms(object, kind.ty.into(), &path_prefix)?;
    }
    let spec = |keys: &[&str]| {
        let mut path = vec!["spec"];
        path.extend(keys);
        text(object, &path).unwrap_or_default().to_owned()
    };
    let versions = items(
        get_path(object, &["spec", "versions"]),
        &format!("{path_prefix}spec.versions"),
    )?;
    let mut names: Vec<String> = versions
        .iter()
        .map(|version| text(version, &["name"]).unwrap_or_default().to_owned())
        .collect();
    let single = spec(&["version"]);
    if !v1 && !single.is_empty() {
        names.push(single);
    }
    provided.extend(names.into_iter().map(|version| Api {
        group: spec(&["group"]),
        version,
        kind: spec(&["names", "kind"]),
        plural: spec(&["names", "plural"]),
    }));
    Ok(())
}

fn items<'a>(list: Option<&'a Value>, path: &str) -> Result<&'a [Value], Error> {
    match list {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(type_error(path, "a list", other)),
    }
}

fn field_text(value: &Value, name: &str, path: &str) -> Result<String, Error> {
    match field(value, name) {
        None if matches!(value, Value::Object(_) | Value::Null) => Ok(String::new()),
        None => Err(type_error(path, "a list of mappings", value)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(type_error(&format!("{path}[].{name}"), "a string", other)),
    }
}
