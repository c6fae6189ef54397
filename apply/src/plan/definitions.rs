//! The kinds that a bundle brings itself: they can be addressed before they are served.

use std::{collections::HashMap, sync::Arc};

use kube::core::GroupVersionKind;
use manifests::{names, object::Object};
use serde::Deserialize;

use super::is_definition;
use crate::discovery::{Kind, definition::Spec};

/// The definitions of a bundle, by group and kind.
#[derive(Debug, Default)]
pub(super) struct Definitions(HashMap<(String, String), Spec>);

impl Definitions {
    pub(super) fn of(objects: &[Object]) -> Self {
        let specs = objects
            .iter()
            .filter(|object| object.kind() == "CustomResourceDefinition")
            .filter(|object| is_definition(&object.identity()))
            .filter_map(|object| Spec::deserialize(object.value().get("spec")?).ok())
            // They become parts of URLs. The API server refuses the definition for the same reason.
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

    /// Whether the kind is defined here, whatever its versions: then it counts what will be served, not what is.
    pub(super) fn brings(&self, group: &str, kind: &str) -> bool {
        self.get(group, kind).is_some()
    }

    /// The kind, if it will be served in this version.
    pub(super) fn kind(&self, gvk: &GroupVersionKind) -> Option<Arc<Kind>> {
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
