//! The fields of a CustomResourceDefinition that decide whether its kind is served. Schemas are never read.

use kube::core::{ApiResource, Object};
use serde::{Deserialize, Deserializer};

use super::ApiKind;

/// A CustomResourceDefinition without its schemas.
pub(crate) type PartialCrd = Object<Spec, Status>;

/// Spec of a CRD.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Spec {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) scope: String,
    #[serde(default, deserialize_with = "list")]
    pub(crate) versions: Vec<Version>,
}

/// Names of the kind.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Names {
    pub(crate) kind: String,
    pub(crate) plural: String,
}

/// One version of the kind.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) served: bool,
    #[serde(default)]
    pub(crate) storage: bool,
}

/// Status of a CRD or of an APIService.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Status {
    #[serde(default, deserialize_with = "list")]
    pub(crate) conditions: Vec<Condition>,
}

/// One condition of the status.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// Deserializes a list. The API server writes `null` for some empty lists.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    list: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(list)?.unwrap_or_default())
}

/// Returns the API resource of CRDs.
pub(crate) fn resource() -> ApiResource {
    ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    }
}

impl Spec {
    /// Returns the names of the served versions.
    pub(crate) fn served(&self) -> impl Iterator<Item = &str> {
        let served = self.versions.iter().filter(|version| version.served);
        served.map(|version| version.name.as_str())
    }

    /// Returns the version in which custom resources are listed: the storage version if it is served, which needs no
    /// conversion.
    pub(crate) fn listed(&self) -> Option<&str> {
        let mut served = self.versions.iter().filter(|version| version.served);
        let stored = served.clone().find(|version| version.storage);
        stored
            .or_else(|| served.next())
            .map(|version| version.name.as_str())
    }

    /// Returns the kind in a version.
    pub(crate) fn kind(&self, version: &str) -> ApiKind {
        ApiKind {
            resource: ApiResource {
                group: self.group.clone(),
                version: version.to_owned(),
                api_version: format!("{}/{version}", self.group),
                kind: self.names.kind.clone(),
                plural: self.names.plural.clone(),
            },
            namespaced: self.scope == "Namespaced",
        }
    }
}

impl Status {
    pub(crate) fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }

    pub(crate) fn is(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == "True")
    }
}
