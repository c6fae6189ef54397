//! One reading, and what it may take.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use manifests::version;
use prost::Message as _;
use tokio::time::{Instant, timeout_at};

use super::{Packages, deprecation, fill, listed_size};
use crate::{
    model::{Bundle, Channel, Entry, MOST_BUNDLES, MOST_BYTES, Package, too_large, too_many},
    registry::{Client, client::Error, wire},
};

/// How many bundles are asked for at once.
const AT_ONCE: usize = 8;

/// A reading on its way.
pub(super) struct Reading<'a> {
    client: &'a Client,
    until: Instant,
    /// Bytes of the answers about single packages and bundles.
    received: u64,
    /// About how many bytes all packages take.
    kept: usize,
    packages: BTreeMap<String, Part>,
    broken: BTreeMap<String, String>,
}

/// What is known of a package so far.
#[derive(Debug, Default)]
struct Part {
    package: Package,
    /// About how many bytes it takes.
    size: usize,
}

/// Why a package is not read to its end.
enum Failure {
    /// It cannot be used.
    Package(String),
    /// The server cannot answer now.
    Server(Error),
}

// === impl Reading ===

impl<'a> Reading<'a> {
    /// Begins, with so much kept already.
    pub(super) fn new(client: &'a Client, kept: usize) -> Self {
        Self {
            client,
            until: Instant::now() + client.bounds().read,
            received: 0,
            kept,
            packages: BTreeMap::new(),
            broken: BTreeMap::new(),
        }
    }

    /// Reads what is wanted; `kept` of it has what was kept before, too.
    pub(super) async fn read(mut self, wanted: BTreeSet<String>) -> Result<Packages, Error> {
        let mut list = Box::pin(self.client.list_bundles());
        while let Some(listed) = list.try_next().await? {
            let name = &listed.package_name;
            if wanted.contains(name) && !self.broken.contains_key(name) {
                let name = name.clone();
                if let Err(problem) = self.add(listed) {
                    self.refuse(name, problem);
                }
            }
        }
        // The small ones first: it is the large ones that time and room may not suffice for.
        let mut names: Vec<_> = self.packages.iter().collect();
        names.sort_by_key(|(_, part)| part.package.bundles.len());
        let names: Vec<String> = names.into_iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let until = self.until;
            let completed = match timeout_at(until, self.complete(&name)).await {
                Ok(completed) => completed,
                Err(_) => Err(Failure::Package(self.too_late())),
            };
            match completed {
                Ok(()) => {}
                Err(Failure::Package(problem)) => self.refuse(name, problem),
                Err(Failure::Server(error)) => return Err(error),
            }
        }
        // What was asked for last may have come from nobody.
        self.client.still_there("GetBundle")?;
        let packages = self.packages.into_iter();
        Ok(Packages {
            asked: wanted,
            packages: packages
                .map(|(name, part)| (name, Arc::new(part.package)))
                .collect(),
            broken: self.broken,
            kept: self.kept,
        })
    }

    fn too_late(&self) -> String {
        let after = self.client.bounds().read.as_secs_f64();
        format!(
            "what is wanted of the catalog could not be read within {after} s, and this package not to its end; its server \
             is too slow"
        )
    }

    /// Gives a package up.
    fn refuse(&mut self, name: String, problem: String) {
        if let Some(part) = self.packages.remove(&name) {
            self.kept = self.kept.saturating_sub(part.size);
        }
        self.broken.insert(name, problem);
    }

    /// Takes note of a bundle in a channel.
    fn add(&mut self, listed: wire::Bundle) -> Result<(), String> {
        let size = listed_size(&listed);
        let wire::Bundle {
            csv_name: name,
            package_name,
            channel_name,
            replaces,
            skips,
            skip_range,
            ..
        } = listed;
        let part = self
            .packages
            .entry(package_name)
            .or_insert_with_key(|name| Part {
                package: Package {
                    name: name.clone(),
                    ..Package::default()
                },
                size: 0,
            });
        keep(self.client, &mut self.kept, &mut part.size, size)?;
        let package = &mut part.package;
        if !package.bundles.contains_key(&name) {
            if package.bundles.len() >= MOST_BUNDLES {
                return Err(too_many(MOST_BUNDLES));
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
            .entry(channel_name)
            .or_insert_with_key(|name| Channel {
                name: name.clone(),
                ..Channel::default()
            });
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        channel.entries.push(Entry {
            name,
            replaces: filled(replaces),
            skips,
            skip_range: filled(skip_range),
        });
        Ok(())
    }

    /// Asks for what only the package itself tells, and for each bundle in the first channel that has it.
    async fn complete(&mut self, name: &str) -> Result<(), Failure> {
        let Self {
            client,
            received,
            kept,
            packages,
            ..
        } = self;
        let client = *client;
        let Some(Part { package, size }) = packages.get_mut(name) else {
            return Ok(());
        };
        receive(client, received, 0)?;
        let told = client.get_package(name).await?;
        receive(client, received, told.encoded_len())?;
        describe(package, told);
        keep(client, kept, size, package.told_size()).map_err(Failure::Package)?;
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for channel in package.channels.values() {
            for entry in &channel.entries {
                first.entry(&entry.name).or_insert(&channel.name);
            }
        }
        let first: Vec<(String, String)> = first
            .into_iter()
            .map(|(bundle, channel)| (bundle.to_owned(), channel.to_owned()))
            .collect();
        let asked = first.into_iter().map(|(bundle, channel)| async move {
            let answer = client.get_bundle(name, &channel, &bundle).await;
            (bundle, answer)
        });
        let asked: Vec<_> = asked.collect();
        let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some((bundle, answer)) = answers.next().await {
            let Some(bundle) = package.bundles.get_mut(&bundle) else {
                continue;
            };
            match answer.map_err(Failure::from) {
                Ok(told) => {
                    receive(client, received, told.encoded_len())?;
                    fill(bundle, name, told);
                }
                Err(Failure::Package(problem)) => bundle.unreadable = Some(problem),
                Err(error) => return Err(error),
            }
            keep(client, kept, size, bundle.told_size()).map_err(Failure::Package)?;
        }
        Ok(())
    }
}

/// Counts what is kept of a package.
fn keep(client: &Client, kept: &mut usize, size: &mut usize, more: usize) -> Result<(), String> {
    let all = client.bounds().kept;
    *size += more;
    *kept += more;
    if *size > MOST_BYTES {
        return Err(too_large(MOST_BYTES));
    }
    if *kept > all {
        return Err(format!(
            "with it, what is wanted of the catalog takes more than {all} bytes"
        ));
    }
    Ok(())
}

/// Counts what was received.
fn receive(client: &Client, received: &mut u64, more: usize) -> Result<(), Failure> {
    let all = client.bounds().total;
    *received += more as u64;
    if *received > all {
        return Err(Failure::Package(format!(
            "what is wanted of the catalog comes in more than {all} bytes"
        )));
    }
    Ok(())
}

/// Adds what only the package itself tells.
fn describe(package: &mut Package, told: wire::Package) {
    package.default_channel = told.default_channel_name;
    package.deprecation = deprecation(told.deprecation);
    for told in told.channels {
        if let Some(channel) = package.channels.get_mut(&told.name) {
            channel.deprecation = deprecation(told.deprecation);
        }
    }
}

// === impl Failure ===

impl From<Error> for Failure {
    /// The server has spoken of this one thing, or of itself.
    fn from(error: Error) -> Self {
        if error.is_temporary() {
            Self::Server(error)
        } else {
            Self::Package(error.to_string())
        }
    }
}
