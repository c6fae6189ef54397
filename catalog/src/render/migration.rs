//! Migrations of catalogs to the forms that newer tools prefer.

use std::str::FromStr;

use serde_json::Value;

use super::{
    blob::{BUNDLE_OBJECT, Bundle, CSV_METADATA},
    csv_metadata,
};

/// The last migration to run; those before it run, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing changes.
    #[default]
    None,
    /// Whole manifests in bundles give way to what catalogs show of the ClusterServiceVersion.
    BundleObjectToCsvMetadata,
}

/// A level that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown migration level {level:?}; there are {}", Level::NAMES.join(", "))]
pub struct UnknownLevel {
    level: String,
}

// === impl Level ===

impl Level {
    /// All that there is.
    pub const ALL: Self = Self::BundleObjectToCsvMetadata;
    /// The names of levels, the earliest first; the last stands for whatever there will be.
    pub const NAMES: [&str; 3] = ["none", "bundle-object-to-csv-metadata", "all"];

    /// Runs the migrations on a bundle. The ClusterServiceVersion is that of its manifests, if they have one.
    pub(super) fn migrate(self, bundle: &mut Bundle, csv: Option<&Value>) -> Result<(), String> {
        let Some(csv) = csv.filter(|_| self >= Self::BundleObjectToCsvMetadata) else {
            return Ok(());
        };
        let has_metadata = bundle.properties.iter().any(|it| it.type_ == CSV_METADATA);
        // Without an image the manifests are nowhere else.
        if bundle.image.is_empty() || has_metadata {
            return Ok(());
        }
        let property = csv_metadata::property(csv)
            .map_err(|error| format!("migrate: bundle {:?}: {error}", bundle.name))?;
        bundle.properties.retain(|it| it.type_ != BUNDLE_OBJECT);
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
