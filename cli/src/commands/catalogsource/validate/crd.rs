//! CRD of CatalogSources in its versions. Pure; no I/O.

use std::collections::{BTreeMap, btree_map::Entry};

use anyhow::Context;
use manifests::{
    api::{catalog_source::convert::Version, crds},
    object::truncate,
    validation::Validator,
};
use serde_json::Value;

use super::super::objects::text;

/// Maximum length of an `apiVersion` in a message.
const MAX_VERSION_LEN: usize = 253;

/// Validators for the versions of the CRD whose rules are compiled, by `apiVersion`.
#[derive(Default)]
pub(super) struct Crd(BTreeMap<String, Validator>);

// === impl Crd ===

impl Crd {
    /// Returns the errors of the API server for creating an object of the kind CatalogSource.
    pub(super) fn errors(&mut self, object: Value) -> anyhow::Result<Vec<String>> {
        let Some(version) = Version::from_object(&object) else {
            let version = truncate(text(&object, "apiVersion"), MAX_VERSION_LEN);
            return Ok(vec![format!(
                "no matches for kind \"CatalogSource\" in version {version:?}; use {}",
                Version::V1alpha1.api_version()
            )]);
        };
        let crd = match self.0.entry(version.api_version()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let schema = crds::catalog_source_schema(version);
                let schema = schema.context("the CRD of CatalogSources has no schema")?;
                entry.insert(Validator::new(schema)?)
            }
        };
        Ok(crd.errors(object, None)?)
    }
}
