//! Migrations of catalogs to formats that newer tools prefer.

use std::str::FromStr;

use serde_json::Value;

use super::{
    blob::{BUNDLE_OBJECT, Bundle, CSV_METADATA},
    csv_metadata,
};

/// The last migration to run. Earlier ones run, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Blobs are not migrated.
    #[default]
    None,
    /// Replaces whole manifests in bundles with `olm.csv.metadata`.
    BundleObjectToCsvMetadata,
}

/// The error for an unknown level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown migration level {level:?}; use one of {}", Level::NAMES.join(", "))]
pub struct UnknownLevel {
    level: String,
}

// === impl Level ===

impl Level {
    /// The level that includes all migrations.
    pub const ALL: Self = Self::BundleObjectToCsvMetadata;
    /// Names of the levels in order. The last one includes future migrations.
    pub const NAMES: [&str; 3] = ["none", "bundle-object-to-csv-metadata", "all"];

    /// Runs the migrations on a bundle. `csv` is the ClusterServiceVersion among its manifests, if any.
    pub(super) fn migrate(self, bundle: &mut Bundle, csv: Option<&Value>) -> Result<(), String> {
        let Some(csv) = csv.filter(|_| self >= Self::BundleObjectToCsvMetadata) else {
            return Ok(());
        };
        let has_metadata = bundle
            .properties
            .iter()
            .any(|property| property.type_ == CSV_METADATA);
        // A bundle without an image has its manifests only here.
        if bundle.image.is_empty() || has_metadata {
            return Ok(());
        }
        let property = csv_metadata::property(csv)
            .map_err(|error| format!("migrate: bundle {:?}: {error}", bundle.name))?;
        bundle
            .properties
            .retain(|property| property.type_ != BUNDLE_OBJECT);
        bundle.properties.push(property);
        Ok(())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        match name {
            "none" => Ok(Self::None),
            "bundle-object-to-csv-metadata" => Ok(Self::BundleObjectToCsvMetadata),
            "all" => Ok(Self::ALL),
            other => Err(UnknownLevel {
                level: other.chars().take(100).collect(),
            }),
        }
    }
}
