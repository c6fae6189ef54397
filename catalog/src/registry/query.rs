//! What is asked of a store and answered from memory: plain functions over the index.
//!
//! The texts of refusals are opm's, for there are clients that look at them. Where opm leaves the order to chance,
//! answers are sorted.

use super::{
    index::{ChannelRow, Entry, Index, PackageRow},
    wire::{Channel, ChannelEntry, Deprecation, Package},
};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Absent(String);

type Result<T, E = Absent> = std::result::Result<T, E>;

pub(super) fn package(index: &Index, name: &str) -> Result<Package> {
    let row = find_package(index, name)?;
    let channel = |channel: &ChannelRow| Channel {
        name: channel.name.clone(),
        csv_name: row
            .head(channel)
            .map(|it| it.name().to_owned())
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
    let (row, it) = find_channel(index, package, channel)?;
    let absent = || {
        Absent(format!(
            "package {package:?}, channel {channel:?}, bundle {name:?} not found"
        ))
    };
    row.entry(it, name).ok_or_else(absent)
}

pub(super) fn head<'a>(index: &'a Index, package: &str, channel: &str) -> Result<Entry<'a>> {
    let (row, it) = find_channel(index, package, channel)?;
    let absent = || {
        Absent(format!(
            "no entry found for package {package:?}, channel {channel:?}"
        ))
    };
    row.head(it).ok_or_else(absent)
}

/// The first bundle by name that replaces or skips another.
pub(super) fn replacing<'a>(
    index: &'a Index,
    name: &str,
    package: &str,
    channel: &str,
) -> Result<Entry<'a>> {
    // Without quotes in this one.
    let row = index.package(package);
    row.ok_or_else(|| Absent(format!("package {package} not found")))?;
    let (row, it) = find_channel(index, package, channel)?;
    let absent = || {
        Absent(format!(
            "no entry found for package {package:?}, channel {channel:?}"
        ))
    };
    row.entries(it)
        .find(|it| it.follows(name))
        .ok_or_else(absent)
}

/// Every bundle that replaces or skips another, with what it replaces.
pub(super) fn all_replacing(index: &Index, name: &str) -> Result<Vec<ChannelEntry>> {
    let following = index.entries().filter(|it| it.follows(name));
    let entries: Vec<_> = following.map(|it| edge(&it, &it.row.replaces)).collect();
    if entries.is_empty() {
        return Err(Absent(format!(
            "no channel entries found that replace {name}"
        )));
    }
    Ok(entries)
}

/// Every bundle that brings an API: an entry for what it replaces, and one for each other bundle that it skips.
pub(super) fn all_providing(index: &Index, api: [&str; 3]) -> Result<Vec<ChannelEntry>> {
    let provided = providing(index, api, index.entries());
    let entries = provided.flat_map(|it| edges(it, |_| true)).collect();
    some(entries, api)
}

/// Of heads only, and of what they skip only what is in the same channel.
pub(super) fn latest_providing(index: &Index, api: [&str; 3]) -> Result<Vec<ChannelEntry>> {
    let provided = providing(index, api, index.heads());
    let is_near = |it: Entry, skip: &str| it.package.entry(it.channel, skip).is_some();
    let entries = provided
        .flat_map(|it| edges(it, move |skip| is_near(it, skip)))
        .collect();
    some(entries, api)
}

/// The head of the default channel of the first package by name that brings an API there.
pub(super) fn default_providing<'a>(index: &'a Index, api: [&str; 3]) -> Result<Entry<'a>> {
    let mut is_provided = false;
    for it in providing(index, api, index.heads()) {
        if it.channel.name == it.package.default_channel {
            return Ok(it);
        }
        is_provided = true;
    }
    Err(nobody(
        if is_provided {
            "no entry found that provides"
        } else {
            NONE
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
        .ok_or_else(|| Absent(format!("package {name:?} not found")))
}

fn find_channel<'a>(
    index: &'a Index,
    package: &str,
    channel: &str,
) -> Result<(&'a PackageRow, &'a ChannelRow)> {
    let row = find_package(index, package)?;
    let absent = || {
        Absent(format!(
            "package {package:?}, channel {channel:?} not found"
        ))
    };
    Ok((row, row.channel(channel).ok_or_else(absent)?))
}

fn providing<'a>(
    index: &Index,
    [group, version, kind]: [&str; 3],
    entries: impl Iterator<Item = Entry<'a>>,
) -> impl Iterator<Item = Entry<'a>> {
    let api = index.api(group, version, kind);
    entries.filter(move |it| api.is_some_and(|api| it.provides(api)))
}

const NONE: &str = "no channel entries found that provide";

fn some(entries: Vec<ChannelEntry>, api: [&str; 3]) -> Result<Vec<ChannelEntry>> {
    if entries.is_empty() {
        return Err(nobody(NONE, api));
    }
    Ok(entries)
}

fn nobody(what: &str, [group, version, kind]: [&str; 3]) -> Absent {
    Absent(format!(
        "{what} group:{group:?} version:{version:?} kind:{kind:?}"
    ))
}

fn edges<'a>(
    entry: Entry<'a>,
    counts: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = ChannelEntry> + 'a {
    let skips = entry.other_skips().filter(move |it| counts(it));
    std::iter::once(entry.row.replaces.as_str())
        .chain(skips)
        .map(move |it| edge(&entry, it))
}

fn edge(entry: &Entry, replaces: &str) -> ChannelEntry {
    ChannelEntry {
        package_name: entry.package.name.clone(),
        channel_name: entry.channel.name.clone(),
        bundle_name: entry.name().to_owned(),
        replaces: replaces.to_owned(),
    }
}
