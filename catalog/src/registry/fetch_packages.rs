//! Reads requested packages from a catalog server, in the form that [`crate::load`] returns.
//!
//! Lists omit manifests and therefore `minKubeVersion`. Upgrade edges come from the list, and each bundle of a
//! requested package is fetched separately. A bundle that the server rejects is retained as unreadable and cannot be
//! chosen. A temporary failure of the server fails the whole read, because a partial catalog is not usable.

mod session;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem::size_of,
    sync::Arc,
};

use manifests::object;

use self::session::FetchSession;
use super::{Client, client::Error, proto};
use crate::{
    model::{Bundle, Entry, Package, Release},
    properties::BundleProperties,
};

/// Maximum length of a deprecation message in bytes, equal to that of a condition's message.
const MAX_DEPRECATION_LEN: usize = 32 << 10;

/// Requested packages of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    /// Names of all requested packages. The catalog does not contain those that are missing in `packages` and `broken`.
    pub requested: BTreeSet<String>,
    /// Readable packages by name.
    pub packages: BTreeMap<String, Arc<Package>>,
    /// Packages that exist but cannot be used, with the reason.
    pub broken: BTreeMap<String, String>,
    /// Approximate size of the packages in bytes.
    pub retained_bytes: usize,
}

/// Reads the requested packages. Packages that the catalog does not contain are absent from the result. A package that
/// exceeds the time or memory limit is reported as broken.
///
/// # Errors
/// Returns an error if the list is incomplete or the server is temporarily unavailable.
pub async fn packages(client: &Client, requested: &BTreeSet<String>) -> Result<Packages, Error> {
    Packages::default().merge(client, requested).await
}

// === impl Packages ===

impl Packages {
    /// Returns these packages together with those of `requested` that were not read yet. The client must be connected
    /// to the same server.
    ///
    /// # Errors
    /// Returns the errors of [`packages`].
    pub async fn merge(
        &self,
        client: &Client,
        requested: &BTreeSet<String>,
    ) -> Result<Self, Error> {
        let missing: BTreeSet<String> = requested.difference(&self.requested).cloned().collect();
        let mut all = self.clone();
        if missing.is_empty() {
            return Ok(all);
        }
        let read = FetchSession::new(client, self.retained_bytes)
            .read(missing)
            .await?;
        all.requested.extend(read.requested);
        all.packages.extend(read.packages);
        all.broken.extend(read.broken);
        all.retained_bytes = read.retained_bytes;
        Ok(all)
    }
}

/// Returns the retained size of a list message in bytes.
fn listed_size(listed: &proto::Bundle) -> usize {
    let texts = [
        &listed.csv_name,
        &listed.channel_name,
        &listed.replaces,
        &listed.skip_range,
        &listed.bundle_path,
        &listed.version,
    ];
    let texts: usize = texts.iter().map(|text| text.len()).sum();
    let skips: usize = listed
        .skips
        .iter()
        .map(|skip| skip.len() + size_of::<String>())
        .sum();
    size_of::<Entry>() + texts + skips
}

/// Adds the data that only the response for a single bundle contains.
fn fill(bundle: &mut Bundle, package: &str, response: proto::Bundle) {
    if bundle.invalid_properties.is_some() {
        return;
    }
    if response.csv_name != bundle.name || response.package_name != package {
        bundle.invalid_properties = Some(format!(
            "the server returned bundle {:?} of package {:?} instead",
            shortened(&response.csv_name),
            shortened(&response.package_name)
        ));
        return;
    }
    bundle.deprecation = deprecation(response.deprecation);
    let mut facts = BundleProperties::default();
    let mut read = || {
        for (at, property) in response.properties.iter().enumerate() {
            facts.add_json(at, &property.r#type, &property.value)?;
        }
        for (at, dependency) in response.dependencies.iter().enumerate() {
            facts.add_dependency(at, &dependency.r#type, &dependency.value)?;
        }
        match response.csv_json.as_str() {
            // The catalog contains no manifests of the bundle.
            "" => Ok(()),
            csv => facts.add_csv(csv),
        }
    };
    if let Err(problem) = read() {
        bundle.invalid_properties = Some(problem);
        return;
    }
    if let [identity] = facts.packages.as_slice()
        && !identity.release.is_empty()
    {
        match Release::parse_release(&identity.release) {
            Ok(release) => bundle.version.release = Some(release),
            Err(problem) => bundle.invalid_properties = Some(problem),
        }
    }
    if facts.has_build_release {
        bundle.version.build_is_release();
    }
    // Most servers declare requirements twice: as properties, and as dependencies for clients that read only those.
    let mut unique = HashSet::new();
    facts
        .requires
        .retain(|requirement| unique.insert(requirement.to_string()));
    bundle.max_openshift = facts.max_openshift().declared;
    bundle.media_type = facts.media_type;
    bundle.provides = facts.provides;
    bundle.requires = facts.requires;
    bundle.min_kube = facts.min_kube;
    bundle.is_deprecated = facts.is_deprecated;
    if bundle.image.is_empty() {
        bundle.invalid_properties =
            Some("the content is stored in the catalog, not in an image".to_owned());
    }
}

/// Returns the deprecation message, truncated to the length that a status can hold.
fn deprecation(deprecation: Option<proto::Deprecation>) -> Option<String> {
    deprecation.map(|deprecation| object::truncate(&deprecation.message, MAX_DEPRECATION_LEN))
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
