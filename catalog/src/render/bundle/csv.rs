//! The ClusterServiceVersion of a bundle, read where an `olm.bundle` needs it.

use std::collections::BTreeSet;

use manifests::{
    object::{at, text, type_name},
    schema::{self, Type, What},
};
use serde_json::Value;

use super::{
    super::{Error, blob::RelatedImage},
    Api,
    metadata::field,
};

/// A checked view of the ClusterServiceVersion.
pub(super) struct Csv<'a> {
    value: &'a Value,
    /// Never anything but an object, or null.
    spec: &'a Value,
}

/// What is wrong with a place of the ClusterServiceVersion.
fn shape(path: &str, expected: &str, found: &Value) -> Error {
    Error::Shape {
        path: path.to_owned(),
        expected: expected.to_owned(),
        found: type_name(found).to_owned(),
    }
}

/// Fails on the first value that is not of its Go type; its path goes on behind the one that is given.
fn conforms(value: &Value, ty: Type, path: &str) -> Result<(), Error> {
    for problem in schema::check(value, ty) {
        if let What::Mismatch {
            expected, found, ..
        } = problem.what
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

// === impl Csv ===

impl<'a> Csv<'a> {
    /// The one among a bundle's objects.
    pub(super) fn of(objects: &'a [Value]) -> Result<Self, Error> {
        let is_csv = |it: &&Value| text(it, &["kind"]) == Some("ClusterServiceVersion");
        let value = objects.iter().find(is_csv).ok_or(Error::NoCsv)?;
        if let (Some(metadata), Some(field)) =
            (value.get("metadata"), schema::csv().field("metadata"))
        {
            conforms(metadata, field.ty, "metadata.")?;
        }
        let spec = value
            .get("spec")
            .ok_or_else(|| shape("spec", "a mapping", &Value::Null))?;
        if !matches!(spec, Value::Object(_) | Value::Null) {
            return Err(shape("spec", "a mapping", spec));
        }
        Ok(Self { value, spec })
    }

    pub(super) fn name(&self) -> &'a str {
        text(self.value, &["metadata", "name"]).unwrap_or_default()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        at(self.value, &["metadata", "annotations"])?
            .get(key)?
            .as_str()
    }

    /// `spec.version`, empty if there is none.
    pub(super) fn version(&self) -> Result<&'a str, Error> {
        match self.spec.get("version") {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(version)) => Ok(version),
            Some(other) => Err(shape("spec.version", "a text", other)),
        }
    }

    /// `spec.release`, which may be a number.
    pub(super) fn release(&self) -> Result<String, Error> {
        match self.spec.get("release") {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(release)) => Ok(release.clone()),
            Some(Value::Number(release)) => Ok(release.to_string()),
            Some(other) => Err(shape("spec.release", "a text or a number", other)),
        }
    }

    /// The APIs that a bundle brings: those of all its CustomResourceDefinitions, and the API services that are owned.
    pub(super) fn provided(&self, objects: &[Value]) -> Result<BTreeSet<Api>, Error> {
        let mut provided = BTreeSet::new();
        for object in objects {
            if text(object, &["kind"]) == Some("CustomResourceDefinition") {
                definition(object, &mut provided)?;
            }
        }
        for api in self.definitions("apiservicedefinitions", "owned")? {
            provided.insert(api.service());
        }
        Ok(provided)
    }

    /// The APIs that a bundle needs.
    pub(super) fn required(&self) -> Result<BTreeSet<Api>, Error> {
        let mut required = BTreeSet::new();
        for api in self.definitions("customresourcedefinitions", "required")? {
            required.insert(api.crd()?);
        }
        for api in self.definitions("apiservicedefinitions", "required")? {
            required.insert(api.service());
        }
        Ok(required)
    }

    /// Every CustomResourceDefinition that is owned has to be there.
    pub(super) fn check_owned(&self, provided: &BTreeSet<Api>) -> Result<(), Error> {
        for api in self.definitions("customresourcedefinitions", "owned")? {
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

    /// `spec.relatedImages`.
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

    /// The images of the operator's pods.
    pub(super) fn pod_images(&self) -> Result<BTreeSet<String>, Error> {
        let mut images = BTreeSet::new();
        let Some(install) = field(self.spec, "install") else {
            return Ok(images);
        };
        if field(install, "strategy").and_then(Value::as_str) != Some("deployment") {
            return Ok(images);
        }
        let ty = schema::csv().at(&["spec", "install", "spec", "deployments"]);
        let list = field(install, "spec").and_then(|it| field(it, "deployments"));
        if let (Some(list), Some(ty)) = (list, ty) {
            conforms(list, ty, "spec.install.spec.deployments")?;
        }
        for deployment in items(list, "spec.install.spec.deployments")? {
            for containers in ["containers", "initContainers"] {
                let containers = at(deployment, &["spec", "template", "spec", containers]);
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

    fn definitions(&self, group: &str, which: &str) -> Result<Vec<Key>, Error> {
        let path = format!("spec.{group}");
        let definitions = self.spec.get(group).unwrap_or(&Value::Null);
        if !matches!(definitions, Value::Object(_) | Value::Null) {
            return Err(shape(&path, "a mapping", definitions));
        }
        items(field(definitions, which), &format!("{path}.{which}"))?
            .iter()
            .map(|entry| {
                let text = |name| field_text(entry, name, &path);
                Ok(Key {
                    group: text("group")?,
                    version: text("version")?,
                    kind: text("kind")?,
                    name: text("name")?,
                })
            })
            .collect()
    }
}

/// How the ClusterServiceVersion names an API.
struct Key {
    group: String,
    version: String,
    kind: String,
    name: String,
}

// === impl Key ===

impl Key {
    /// The name of a definition is `<plural>.<group>`.
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

/// The APIs of a CustomResourceDefinition.
fn definition(object: &Value, provided: &mut BTreeSet<Api>) -> Result<(), Error> {
    let version = text(object, &["apiVersion"]).unwrap_or_default();
    let v1 = match version.rsplit('/').next() {
        Some("v1") => true,
        Some("v1beta1") => false,
        _ => return Ok(()),
    };
    let name = text(object, &["metadata", "name"]).unwrap_or_default();
    let place = format!("CustomResourceDefinition {name}: ");
    if !version.starts_with("apiextensions.k8s.io/") {
        return Err(Error::Shape {
            path: format!("{place}apiVersion"),
            expected: "apiextensions.k8s.io/v1".to_owned(),
            found: format!("{version:?}"),
        });
    }
    if v1 && let Some(kind) = schema::kind("apiextensions.k8s.io/v1", "CustomResourceDefinition") {
        conforms(object, kind.ty.into(), &place)?;
    }
    let spec = |keys: &[&str]| {
        let mut path = vec!["spec"];
        path.extend(keys);
        text(object, &path).unwrap_or_default().to_owned()
    };
    let versions = items(
        at(object, &["spec", "versions"]),
        &format!("{place}spec.versions"),
    )?;
    let mut names: Vec<String> = versions
        .iter()
        .map(|it| text(it, &["name"]).unwrap_or_default().to_owned())
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
        Some(other) => Err(shape(path, "a list", other)),
    }
}

fn field_text(value: &Value, name: &str, path: &str) -> Result<String, Error> {
    match field(value, name) {
        None if matches!(value, Value::Object(_) | Value::Null) => Ok(String::new()),
        None => Err(shape(path, "a list of mappings", value)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(shape(&format!("{path}[].{name}"), "a text", other)),
    }
}
