//! Queries that are answered from the index in memory. Pure; no I/O.
//!
//! Error texts are opm's, because clients match them. Responses are sorted where opm's order is random.

use super::{
    index::{ChannelRow, Entry, Index, PackageRow},
    proto::{Channel, ChannelEntry, Deprecation, Package},
};

/// Query without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotFound(String);

type Result<T, E = NotFound> = std::result::Result<T, E>;

pub(super) fn package(index: &Index, name: &str) -> Result<Package> {
    let row = find_package(index, name)?;
    let channel = |channel: &ChannelRow| Channel {
        name: channel.name.clone(),
        csv_name: row
            .head(channel)
            .map(|entry| entry.name().to_owned())
            .unwrap_or_default(),
        deprecation: deprecation(channel.deprecation.as_ref()),
    };
    Ok(Package {
        name: row.name.clone(),
        channels: row.channels.iter().map(channel).collect(),
        default_channel_name: row.default_channel.clone(),
        deprecation: deprecation(row.deprecation.as_ref()),
    })
}

pub(super) fn bundle<'a>(
    index: &'a Index,
    package: &str,
    channel: &str,
    name: &str,
) -> Result<Entry<'a>> {
    let (row, channel_row) = find_channel(index, package, channel)?;
    let not_found = || {
        NotFound(format!(
            "package {package:?}, channel {channel:?}, bundle {name:?} not found"
        ))
    };
    row.entry(channel_row, name).ok_or_else(not_found)
}

pub(super) fn head<'a>(index: &'a Index, package: &str, channel: &str) -> Result<Entry<'a>> {
    let (row, channel_row) = find_channel(index, package, channel)?;
    let not_found = || {
        NotFound(format!(
            "no entry found for package {package:?}, channel {channel:?}"
        ))
    };
    row.head(channel_row).ok_or_else(not_found)
}

/// Returns the first bundle by name that replaces or skips another one.
pub(super) fn replacing<'a>(
    index: &'a Index,
    name: &str,
    package: &str,
    channel: &str,
) -> Result<Entry<'a>> {
    // opm does not quote the name in this message.
    let row = index.package(package);
    row.ok_or_else(|| NotFound(format!("package {package} not found")))?;
    let (row, channel_row) = find_channel(index, package, channel)?;
    let not_found = || {
        NotFound(format!(
            "no entry found for package {package:?}, channel {channel:?}"
        ))
    };
    row.entries(channel_row)
        .find(|entry| entry.replaces_or_skips(name))
        .ok_or_else(not_found)
}

/// Returns every bundle that replaces or skips another one, with the replaced name.
pub(super) fn replacing_entries(index: &Index, name: &str) -> Result<Vec<ChannelEntry>> {
    let following = index
        .entries()
        .filter(|entry| entry.replaces_or_skips(name));
    let entries: Vec<_> = following
        .map(|entry| edge(&entry, &entry.row.replaces))
        .collect();
    if entries.is_empty() {
        return Err(NotFound(format!(
            "no channel entries found that replace {name}"
        )));
    }
    Ok(entries)
}

/// Returns every bundle that provides an API: one entry for the bundle that it replaces, and one for each other bundle
/// that it skips.
pub(super) fn providing_entries(index: &Index, api: [&str; 3]) -> Result<Vec<ChannelEntry>> {
    let provided = providing(index, api, index.entries());
    let entries = provided.flat_map(|entry| edges(entry, |_| true)).collect();
    or_not_found(entries, api)
}

/// Returns channel heads that provide an API. Skips are limited to bundles of the same channel.
pub(super) fn latest_providing(index: &Index, api: [&str; 3]) -> Result<Vec<ChannelEntry>> {
    let provided = providing(index, api, index.heads());
    let is_near = |entry: Entry, skip: &str| entry.package.entry(entry.channel, skip).is_some();
    let entries = provided
        .flat_map(|entry| edges(entry, move |skip| is_near(entry, skip)))
        .collect();
    or_not_found(entries, api)
}

/// Returns the default channel's head of the first package by name that provides the API there.
pub(super) fn default_providing<'a>(index: &'a Index, api: [&str; 3]) -> Result<Entry<'a>> {
    let mut is_provided = false;
    for entry in providing(index, api, index.heads()) {
        if entry.channel.name == entry.package.default_channel {
            return Ok(entry);
        }
        is_provided = true;
    }
    Err(no_provider(
        if is_provided {
            "no entry found that provides"
        } else {
            NO_ENTRIES
        },
        api,
    ))
}

pub(super) fn deprecation(message: Option<&String>) -> Option<Deprecation> {
    message.map(|message| Deprecation {
        message: message.clone(),
    })
}

fn find_package<'a>(index: &'a Index, name: &str) -> Result<&'a PackageRow> {
    index
        .package(name)
        .ok_or_else(|| NotFound(format!("package {name:?} not found")))
}

fn find_channel<'a>(
    index: &'a Index,
    package: &str,
    channel: &str,
) -> Result<(&'a PackageRow, &'a ChannelRow)> {
    let row = find_package(index, package)?;
    let not_found = || {
        NotFound(format!(
            "package {package:?}, channel {channel:?} not found"
        ))
    };
    Ok((row, row.channel(channel).ok_or_else(not_found)?))
}

fn providing<'a>(
    index: &Index,
    [group, version, kind]: [&str; 3],
    entries: impl Iterator<Item = Entry<'a>>,
) -> impl Iterator<Item = Entry<'a>> {
    let api = index.api(group, version, kind);
    entries.filter(move |entry| api.is_some_and(|api| entry.provides(api)))
}

const NO_ENTRIES: &str = "no channel entries found that provide";

fn or_not_found(entries: Vec<ChannelEntry>, api: [&str; 3]) -> Result<Vec<ChannelEntry>> {
    if entries.is_empty() {
        return Err(no_provider(NO_ENTRIES, api));
    }
    Ok(entries)
}

fn no_provider(message: &str, [group, version, kind]: [&str; 3]) -> NotFound {
    NotFound(format!(
        "{message} group:{group:?} version:{version:?} kind:{kind:?}"
    ))
}

fn edges<'a>(
    entry: Entry<'a>,
    is_included: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = ChannelEntry> + 'a {
    let skips = entry.other_skips().filter(move |skip| is_included(skip));
    std::iter::once(entry.row.replaces.as_str())
        .chain(skips)
        .map(move |replaces| edge(&entry, replaces))
}

fn edge(entry: &Entry, replaces: &str) -> ChannelEntry {
    ChannelEntry {
        package_name: entry.package.name.clone(),
        channel_name: entry.channel.name.clone(),
        bundle_name: entry.name().to_owned(),
        replaces: replaces.to_owned(),
    }
}
