//! What decisions need of a catalog that somebody else serves: the packages that are wanted, as [`crate::load`] would
//! have them.
//!
//! Lists leave out the manifests, and with them the `minKubeVersion`. So edges come from the list, and each bundle of a
//! wanted package is asked for by itself. What a server refuses to give is there, but not to be chosen; what it cannot
//! give now is an error of the whole: half a catalog is no catalog.

mod reading;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem::size_of,
    sync::Arc,
};

use manifests::object;

use self::reading::Reading;
use super::{Client, client::Error, wire};
use crate::{
    facts::Facts,
    model::{Bundle, Entry, Package, REGISTRY_V1, Release},
};

/// Bytes that are kept of a deprecation: as many as a condition's message has.
const LONGEST: usize = 32 << 10;

/// What a catalog has of the packages that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    /// What was asked for; the catalog does not have what of it is not below.
    pub asked: BTreeSet<String>,
    /// By name.
    pub packages: BTreeMap<String, Arc<Package>>,
    /// Packages that are there and cannot be used, and why.
    pub broken: BTreeMap<String, String>,
    /// About how many bytes the packages take.
    pub kept: usize,
}

/// Reads the packages that are wanted. Those that the catalog does not have are left out. One that time or room does not
/// suffice for is broken.
///
/// # Errors
/// When the list does not come to its end, or the server cannot answer now.
pub async fn packages(client: &Client, wanted: &BTreeSet<String>) -> Result<Packages, Error> {
    Packages::default().and(client, wanted).await
}

// === impl Packages ===

impl Packages {
    /// What is here, and what is wanted beside it, which is read. It has to be the same server.
    ///
    /// # Errors
    /// As for [`packages`].
    pub async fn and(&self, client: &Client, wanted: &BTreeSet<String>) -> Result<Self, Error> {
        let missing: BTreeSet<String> = wanted.difference(&self.asked).cloned().collect();
        let mut all = self.clone();
        if missing.is_empty() {
            return Ok(all);
        }
        let read = Reading::new(client, self.kept).read(missing).await?;
        all.asked.extend(read.asked);
        all.packages.extend(read.packages);
        all.broken.extend(read.broken);
        all.kept = read.kept;
        Ok(all)
    }
}

/// What is kept of a message in a list, in bytes.
fn listed_size(listed: &wire::Bundle) -> usize {
    let texts = [
        &listed.csv_name,
        &listed.channel_name,
        &listed.replaces,
        &listed.skip_range,
        &listed.bundle_path,
        &listed.version,
    ];
    let texts: usize = texts.iter().map(|it| it.len()).sum();
    let skips: usize = listed
        .skips
        .iter()
        .map(|it| it.len() + size_of::<String>())
        .sum();
    size_of::<Entry>() + texts + skips
}

/// Adds what the bundle itself tells.
fn fill(bundle: &mut Bundle, package: &str, told: wire::Bundle) {
    if bundle.unreadable.is_some() {
        return;
    }
    if told.csv_name != bundle.name || told.package_name != package {
        bundle.unreadable = Some(format!(
            "the server gave bundle {:?} of package {:?} instead",
            shortened(&told.csv_name),
            shortened(&told.package_name)
        ));
        return;
    }
    bundle.deprecation = deprecation(told.deprecation);
    let mut facts = Facts::default();
    let mut read = || {
        for (at, property) in told.properties.iter().enumerate() {
            facts.add_text(at, &property.r#type, &property.value)?;
        }
        for (at, dependency) in told.dependencies.iter().enumerate() {
            facts.add_dependency(at, &dependency.r#type, &dependency.value)?;
        }
        let is_registry = facts.media_type.as_deref().unwrap_or(REGISTRY_V1) == REGISTRY_V1;
        match told.csv_json.as_str() {
            // Somebody serves less than the protocol says.
            "" if is_registry => Err("the server gave no ClusterServiceVersion".to_owned()),
            // Bundles of other formats have none.
            "" => Ok(()),
            csv => facts.add_csv(csv),
        }
    };
    if let Err(problem) = read() {
        bundle.unreadable = Some(problem);
        return;
    }
    if let [identity] = facts.packages.as_slice()
        && !identity.release.is_empty()
    {
        match Release::parse_release(&identity.release) {
            Ok(release) => bundle.version.release = Some(release),
            Err(problem) => bundle.unreadable = Some(problem),
        }
    }
    if facts.is_rebuild {
        bundle.version.build_is_release();
    }
    // Most servers tell what is needed twice: as properties, and as dependencies for who reads only these.
    let mut told = HashSet::new();
    facts.needs.retain(|it| told.insert(it.to_string()));
    bundle.max_openshift = facts.max_openshift().declared;
    bundle.media_type = facts.media_type;
    bundle.provides = facts.provides;
    bundle.needs = facts.needs;
    bundle.min_kube = facts.min_kube;
    bundle.is_deprecated = facts.is_deprecated;
    if bundle.image.is_empty() {
        bundle.unreadable = Some("it is in no image, but in the catalog itself".to_owned());
    }
}

/// Why something should no longer be used, as far as a status can say it.
fn deprecation(told: Option<wire::Deprecation>) -> Option<String> {
    told.map(|it| object::shortened(&it.message, LONGEST))
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
