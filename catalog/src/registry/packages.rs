//! What decisions need of a catalog that somebody else serves: the packages that are wanted, as [`crate::load`] would
//! have them.
//!
//! Lists leave out the manifests, and with them the `minKubeVersion`. So edges come from the list, and each bundle of a
//! wanted package is asked for by itself. What a server refuses to give is there, but not to be chosen; what it cannot
//! give now is an error of the whole: half a catalog is no catalog.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem::size_of,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use manifests::version;

use super::{Client, client::Error, wire};
use crate::{
    facts::Facts,
    model::{
        Bundle, Channel, Entry, MOST_BUNDLES, MOST_BYTES, Package, REGISTRY_V1, Release, too_large,
        too_many,
    },
};

/// How many bundles are asked for at once.
const AT_ONCE: usize = 8;

/// What a catalog has of the packages that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    /// By name.
    pub packages: BTreeMap<String, Package>,
    /// Packages that are there and cannot be used, and why.
    pub broken: BTreeMap<String, String>,
}

/// Reads the packages that are wanted. Those that the catalog does not have are left out.
///
/// # Errors
/// When the list does not come to its end, or the server cannot answer now.
pub async fn packages(client: &Client, wanted: &BTreeSet<String>) -> Result<Packages, Error> {
    let mut found = Packages::default();
    if wanted.is_empty() {
        return Ok(found);
    }
    let mut list = Box::pin(client.list_bundles());
    let mut sizes = BTreeMap::new();
    while let Some(listed) = list.try_next().await? {
        let name = &listed.package_name;
        if wanted.contains(name) && !found.broken.contains_key(name) {
            let size = sizes.entry(name.clone()).or_default();
            found.add(listed, size);
        }
    }
    let names: Vec<String> = found.packages.keys().cloned().collect();
    for name in names {
        match client.get_package(&name).await {
            Ok(package) => found.describe(&name, package),
            Err(error) if is_refusal(&error) => {
                found.refuse(name, error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let mut large = Vec::new();
    for (name, package) in &mut found.packages {
        let size = sizes.remove(name).unwrap_or_default();
        if !complete(client, package, size).await? {
            // What was read of it goes at once.
            *package = Package::default();
            large.push(name.clone());
        }
    }
    for name in large {
        found.refuse(name, too_large(MOST_BYTES));
    }
    Ok(found)
}

/// Whether the server has spoken of this one thing, and not of itself.
fn is_refusal(error: &Error) -> bool {
    !error.is_temporary()
}

// === impl Packages ===

impl Packages {
    /// Gives a package up.
    fn refuse(&mut self, name: String, problem: String) {
        self.packages.remove(&name);
        self.broken.insert(name, problem);
    }

    /// Takes note of a bundle in a channel; `size` is what is kept of its package so far.
    fn add(&mut self, listed: wire::Bundle, size: &mut usize) {
        *size += listed_size(&listed);
        if *size > MOST_BYTES {
            self.refuse(listed.package_name, too_large(MOST_BYTES));
            return;
        }
        let wire::Bundle {
            csv_name: name,
            package_name,
            channel_name,
            replaces,
            skips,
            skip_range,
            ..
        } = listed;
        let package = self
            .packages
            .entry(package_name.clone())
            .or_insert_with(|| Package {
                name: package_name.clone(),
                ..Package::default()
            });
        if !package.bundles.contains_key(&name) {
            if package.bundles.len() >= MOST_BUNDLES {
                self.refuse(package_name, too_many(MOST_BUNDLES));
                return;
            }
            // What is not asked for below is known by no more than this.
            let bundle = match version::strict(&listed.version) {
                Ok(version) => Bundle {
                    image: listed.bundle_path,
                    ..Bundle::new(name.clone(), version)
                },
                Err(error) => Bundle {
                    unreadable: Some(format!("its version {:?}: {error}", listed.version)),
                    ..Bundle::new(name.clone(), version::Version::new(0, 0, 0))
                },
            };
            package.bundles.insert(name.clone(), bundle);
        }
        let channel = package
            .channels
            .entry(channel_name.clone())
            .or_insert_with(|| Channel {
                name: channel_name,
                ..Channel::default()
            });
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        channel.entries.push(Entry {
            name,
            replaces: filled(replaces),
            skips,
            skip_range: filled(skip_range),
        });
    }

    /// Adds what only the package itself tells.
    fn describe(&mut self, name: &str, told: wire::Package) {
        let Some(package) = self.packages.get_mut(name) else {
            return;
        };
        package.default_channel = told.default_channel_name;
        package.deprecation = told.deprecation.map(|it| it.message);
        for told in told.channels {
            if let Some(channel) = package.channels.get_mut(&told.name) {
                channel.deprecation = told.deprecation.map(|it| it.message);
            }
        }
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

/// Asks for each bundle, in the first channel that has it; says whether all of it may be kept.
async fn complete(client: &Client, package: &mut Package, mut size: usize) -> Result<bool, Error> {
    let Package {
        name: package_name,
        channels,
        bundles,
        ..
    } = package;
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for channel in channels.values() {
        for entry in &channel.entries {
            first.entry(&entry.name).or_insert(&channel.name);
        }
    }
    let wanted: Vec<(String, String)> = first
        .into_iter()
        .map(|(name, channel)| (name.to_owned(), channel.to_owned()))
        .collect();
    let package_name = package_name.as_str();
    let asked = wanted.into_iter().map(|(name, channel)| async move {
        let answer = client.get_bundle(package_name, &channel, &name).await;
        (name, answer)
    });
    let asked: Vec<_> = asked.collect();
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    while let Some((name, answer)) = answers.next().await {
        let Some(bundle) = bundles.get_mut(&name) else {
            continue;
        };
        match answer {
            Ok(told) => fill(bundle, package_name, told),
            Err(error) if is_refusal(&error) => bundle.unreadable = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        size += bundle.told_size();
        if size > MOST_BYTES {
            return Ok(false);
        }
    }
    Ok(true)
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
    bundle.deprecation = told.deprecation.map(|it| it.message);
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
    bundle.media_type = facts.media_type;
    bundle.provides = facts.provides;
    bundle.needs = facts.needs;
    bundle.max_openshift = facts.max_openshift;
    bundle.min_kube = facts.min_kube;
    bundle.is_deprecated = facts.is_deprecated;
    if bundle.image.is_empty() {
        bundle.unreadable = Some("it is in no image, but in the catalog itself".to_owned());
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
