//! Kinds that are defined by CRDs of the same bundle: objects of them can be planned before the API server serves them.

use std::{collections::HashMap, sync::Arc};

use kube::core::GroupVersionKind;
use manifests::{names, object::Object};
use serde::Deserialize;

use super::is_definition;
use crate::discovery::{ApiKind, crd::Spec};

/// CRDs of a bundle, by group and kind.
#[derive(Debug, Default)]
pub(super) struct BundledCrds(HashMap<(String, String), Spec>);

impl BundledCrds {
    pub(super) fn from_objects(objects: &[Object]) -> Self {
        let specs = objects
            .iter()
            .filter(|object| object.kind() == "CustomResourceDefinition")
            .filter(|object| is_definition(&object.identity()))
            .filter_map(|object| Spec::deserialize(object.value().get("spec")?).ok())
            // The names become segments of URLs. The API server rejects such a CRD for the same reason.
            .filter(|spec| {
                names::dns_subdomain(&spec.group).is_ok()
                    && names::dns_subdomain(&spec.names.plural).is_ok()
            });
        Self(
            specs
                .map(|spec| ((spec.group.clone(), spec.names.kind.clone()), spec))
                .collect(),
        )
    }

    /// Reports whether the bundle defines the kind, in any version. Its served versions then come from the bundle, not from
    /// the cluster.
    pub(super) fn defines(&self, group: &str, kind: &str) -> bool {
        self.get(group, kind).is_some()
    }

    /// Returns the kind if the bundle's CRD serves it in this version.
    pub(super) fn kind(&self, gvk: &GroupVersionKind) -> Option<Arc<ApiKind>> {
        let spec = self.get(&gvk.group, &gvk.kind)?;
        let version = spec.served().find(|version| *version == gvk.version)?;
        names::dns_subdomain(version).ok()?;
        Some(Arc::new(spec.kind(version)))
    }

    fn get(&self, group: &str, kind: &str) -> Option<&Spec> {
        if self.0.is_empty() || group.is_empty() {
            return None;
        }
        self.0.get(&(group.to_owned(), kind.to_owned()))
    }
}
