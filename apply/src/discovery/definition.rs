//! Of a CustomResourceDefinition what decides whether its kind is served; its schemas are never read.

use kube::core::{ApiResource, Object};
use serde::{Deserialize, Deserializer};

use super::Kind;

/// A CustomResourceDefinition without its schemas.
pub(crate) type Definition = Object<Spec, Status>;

/// What a definition declares.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Spec {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) scope: String,
    #[serde(default, deserialize_with = "list")]
    pub(crate) versions: Vec<Version>,
}

/// How its kind is called.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Names {
    pub(crate) kind: String,
    pub(crate) plural: String,
}

/// A version of it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) served: bool,
    #[serde(default)]
    pub(crate) storage: bool,
}

/// How it is.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Status {
    #[serde(default, deserialize_with = "list")]
    pub(crate) conditions: Vec<Condition>,
}

/// One thing about it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// A list. The API server writes `null` for some that are empty.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    list: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(list)?.unwrap_or_default())
}

/// How definitions are addressed.
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
    /// The versions that are served.
    pub(crate) fn served(&self) -> impl Iterator<Item = &str> {
        let served = self.versions.iter().filter(|version| version.served);
        served.map(|version| version.name.as_str())
    }

    /// The version in which its objects are best listed: nothing that is stored in it needs a conversion.
    pub(crate) fn listed(&self) -> Option<&str> {
        let mut served = self.versions.iter().filter(|version| version.served);
        let stored = served.clone().find(|version| version.storage);
        stored
            .or_else(|| served.next())
            .map(|version| version.name.as_str())
    }

    /// Its kind in a version.
    pub(crate) fn kind(&self, version: &str) -> Kind {
        Kind {
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
