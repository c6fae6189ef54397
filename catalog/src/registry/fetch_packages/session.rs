//! Fetch session: one read of requested packages, with its limits.

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
    model::{
        Bundle, Channel, Entry, MAX_BUNDLES, MAX_BYTES, Package, exceeds_bundle_limit,
        exceeds_size_limit,
    },
    registry::{Client, client::Error, proto},
};

/// Maximum number of concurrent bundle requests.
const MAX_CONCURRENT: usize = 8;

/// State of a read.
pub(super) struct FetchSession<'a> {
    client: &'a Client,
    deadline: Instant,
    /// Bytes of all responses for single packages and bundles.
    received: u64,
    /// Approximate size of all retained packages in bytes.
    retained_bytes: usize,
    packages: BTreeMap<String, PackageProgress>,
    broken: BTreeMap<String, String>,
}

/// A package that is being read.
#[derive(Debug, Default)]
struct PackageProgress {
    package: Package,
    /// Approximate size of the package in bytes.
    size: usize,
}

/// Reasons why a package was not completed.
enum Failure {
    /// The package cannot be used.
    Package(String),
    /// The server is temporarily unavailable.
    Server(Error),
}

// === impl FetchSession ===

impl<'a> FetchSession<'a> {
    /// Starts a session. `retained_bytes` is the size of packages that were read before.
    pub(super) fn new(client: &'a Client, retained_bytes: usize) -> Self {
        Self {
            client,
            deadline: Instant::now() + client.bounds().read,
            received: 0,
            retained_bytes,
            packages: BTreeMap::new(),
            broken: BTreeMap::new(),
        }
    }

    /// Reads the requested packages. `retained_bytes` of the result includes packages that were read before.
    pub(super) async fn read(mut self, requested: BTreeSet<String>) -> Result<Packages, Error> {
        let mut list = Box::pin(self.client.list_bundles());
        while let Some(listed) = list.try_next().await? {
            let name = &listed.package_name;
            if requested.contains(name) && !self.broken.contains_key(name) {
                let name = name.clone();
                if let Err(problem) = self.add(listed) {
                    self.reject(name, problem);
                }
            }
        }
        // Small packages first, because large ones may exceed the time or memory limit.
        let mut names: Vec<_> = self.packages.iter().collect();
        names.sort_by_key(|(_, progress)| progress.package.bundles.len());
        let names: Vec<String> = names.into_iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let deadline = self.deadline;
            let completed = match timeout_at(deadline, self.complete(&name)).await {
                Ok(completed) => completed,
                Err(_) => Err(Failure::Package(self.deadline_error())),
            };
            match completed {
                Ok(()) => {}
                Err(Failure::Package(problem)) => self.reject(name, problem),
                Err(Failure::Server(error)) => return Err(error),
            }
        }
        // The last response may be missing because the connection broke.
        self.client.check_connected("GetBundle")?;
        let packages = self.packages.into_iter();
        Ok(Packages {
            requested,
            packages: packages
                .map(|(name, progress)| (name, Arc::new(progress.package)))
                .collect(),
            broken: self.broken,
            retained_bytes: self.retained_bytes,
        })
    }

    fn deadline_error(&self) -> String {
        let after = self.client.bounds().read.as_secs_f64();
        format!(
            "timed out after {after} s while reading the requested packages, and this package is incomplete; the catalog \
             server is too slow"
        )
    }

    /// Discards a package and records the problem.
    fn reject(&mut self, name: String, problem: String) {
        if let Some(progress) = self.packages.remove(&name) {
            self.retained_bytes = self.retained_bytes.saturating_sub(progress.size);
        }
        self.broken.insert(name, problem);
    }

    /// Records a list message: a bundle in a channel.
    fn add(&mut self, listed: proto::Bundle) -> Result<(), String> {
        let size = listed_size(&listed);
        let proto::Bundle {
            csv_name: name,
            package_name,
            channel_name,
            replaces,
            skips,
            skip_range,
            ..
        } = listed;
        let progress = self
            .packages
            .entry(package_name)
            .or_insert_with_key(|name| PackageProgress {
                package: Package {
                    name: name.clone(),
                    ..Package::default()
                },
                size: 0,
            });
        retain(
            self.client,
            &mut self.retained_bytes,
            &mut progress.size,
            size,
        )?;
        let package = &mut progress.package;
        if !package.bundles.contains_key(&name) {
            if package.bundles.len() >= MAX_BUNDLES {
                return Err(exceeds_bundle_limit(MAX_BUNDLES));
            }
            // A bundle that is not fetched later has only this data.
            let bundle = match version::parse_strict(&listed.version) {
                Ok(version) => Bundle {
                    image: listed.bundle_path,
                    ..Bundle::new(name.clone(), version)
                },
                Err(error) => Bundle {
                    invalid_properties: Some(format!("invalid version: {error}")),
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

    /// Fetches the data that only the package itself contains, and each bundle from the first channel that contains it.
    async fn complete(&mut self, name: &str) -> Result<(), Failure> {
        let Self {
            client,
            received,
            retained_bytes,
            packages,
            ..
        } = self;
        let client = *client;
        let Some(PackageProgress { package, size }) = packages.get_mut(name) else {
            return Ok(());
        };
        receive(client, received, 0)?;
        let response = client.get_package(name).await?;
        receive(client, received, response.encoded_len())?;
        describe(package, response);
        retain(client, retained_bytes, size, package.listed_size()).map_err(Failure::Package)?;
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
        let requests = first.into_iter().map(|(bundle, channel)| async move {
            let answer = client.get_bundle(name, &channel, &bundle).await;
            (bundle, answer)
        });
        let requests: Vec<_> = requests.collect();
        let mut answers = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        while let Some((bundle, answer)) = answers.next().await {
            let Some(bundle) = package.bundles.get_mut(&bundle) else {
                continue;
            };
            match answer.map_err(Failure::from) {
                Ok(response) => {
                    receive(client, received, response.encoded_len())?;
                    fill(bundle, name, response);
                }
                Err(Failure::Package(problem)) => bundle.invalid_properties = Some(problem),
                Err(error) => return Err(error),
            }
            retain(client, retained_bytes, size, bundle.listed_size()).map_err(Failure::Package)?;
        }
        Ok(())
    }
}

/// Adds to the retained size of a package and checks the limits.
fn retain(
    client: &Client,
    retained_bytes: &mut usize,
    size: &mut usize,
    more: usize,
) -> Result<(), String> {
    let limit = client.bounds().max_retained;
    *size += more;
    *retained_bytes += more;
    if *size > MAX_BYTES {
        return Err(exceeds_size_limit(MAX_BYTES));
    }
    if *retained_bytes > limit {
        return Err(format!(
            "with this package, the requested packages of the catalog exceed {limit} bytes"
        ));
    }
    Ok(())
}

/// Adds to the received size and checks the limit.
fn receive(client: &Client, received: &mut u64, more: usize) -> Result<(), Failure> {
    let limit = client.bounds().total;
    *received += more as u64;
    if *received > limit {
        return Err(Failure::Package(format!(
            "the responses for the requested packages exceed {limit} bytes"
        )));
    }
    Ok(())
}

/// Adds the data that only the response for a package contains.
fn describe(package: &mut Package, response: proto::Package) {
    package.default_channel = response.default_channel_name;
    package.deprecation = deprecation(response.deprecation);
    for described in response.channels {
        if let Some(channel) = package.channels.get_mut(&described.name) {
            channel.deprecation = deprecation(described.deprecation);
        }
    }
}

// === impl Failure ===

impl From<Error> for Failure {
    /// Classifies an error: temporary errors concern the server, all others concern the package or bundle.
    fn from(error: Error) -> Self {
        if error.is_temporary() {
            Self::Server(error)
        } else {
            Self::Package(error.to_string())
        }
    }
}
