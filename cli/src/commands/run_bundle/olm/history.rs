//! History of a CatalogSource: the bundles that were run before, and those that the next version follows. Pure; no I/O.
//!
//! The annotations are untrusted input. All decisions are made before any change, and an impossible history is rejected
//! with the text that has to be written instead.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use catalog::{
    compose::history::{History, INDEX_IMAGE, INJECTED_BUNDLES, InjectedBundle},
    model::Entry,
};
use kube::ResourceExt as _;
use manifests::api::catalog_source::CatalogSource;
use unpacker::source::Image;

use super::{objects, unpack_failures::UnpackFailures};

/// Example of the annotation for error messages.
const EXAMPLE: &str = r#"[{"imageTag":"IMAGE","mode":"semver"}]"#;

/// Bundle in the history of a CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryEntry<T> {
    /// Name of its ClusterServiceVersion.
    pub(super) csv: String,
    pub(super) package: String,
    /// Image reference by digest.
    pub(super) pinned: String,
    pub(super) injected: InjectedBundle,
    pub(super) bundle: T,
}

/// State of an operator's installation in OLM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InstallState {
    /// Installed ClusterServiceVersion; empty if none.
    pub(super) installed: String,
    /// ClusterServiceVersion that OLM is installing, or has installed.
    pub(super) current: String,
    /// Whether OLM will never install `current`: its plan has failed or no longer exists.
    pub(super) has_failed_for_good: bool,
    /// Bundles of any package that OLM failed to unpack.
    pub(super) not_unpacked: UnpackFailures,
    /// ClusterServiceVersions of failed InstallPlans.
    pub(super) failed: BTreeSet<String>,
}

/// Returns the bundles that were injected into a CatalogSource, or the image from which another tool created it. An image
/// template is not an image; then the annotation may name one.
pub(super) fn history(source: &CatalogSource) -> anyhow::Result<History> {
    let mut history = History::read(source.annotations())?;
    if history.injected.is_empty() {
        let index = match (objects::image(source), history.index.take()) {
            (Some(image), Some(index)) if Image::parse(image).is_err() => Some(index),
            (Some(image), _) => Some(image.to_owned()),
            (None, index) => index,
        };
        if index.is_none() {
            bail!(
                "cannot upgrade: no catalog image reference exists in catalog source spec or annotations; set annotation \
                 {INJECTED_BUNDLES} of the CatalogSource to the image of the installed bundle, as {EXAMPLE}, or annotation \
                 {INDEX_IMAGE} to the index that contains it"
            );
        }
        history.index = index;
    }
    Ok(history)
}

/// Rejects a history that cannot have been run.
pub(super) fn check<T>(
    history: &[HistoryEntry<T>],
    package: &str,
    source_name: &str,
) -> anyhow::Result<()> {
    for (at, member) in history.iter().enumerate() {
        let image = &member.injected.image_tag;
        if member.package != package {
            bail!(
                "{image} in the history of CatalogSource {source_name} belongs to package {:?}, not to {package:?}; set \
                 annotation {INJECTED_BUNDLES} to the images of the bundles that were run, oldest first",
                member.package
            );
        }
        if let Some(duplicate) = history
            .iter()
            .take(at)
            .find(|entry| entry.csv == member.csv)
        {
            bail!(
                "{} and {image} in the history of CatalogSource {source_name} are both {:?}; remove the one that was not \
                 installed from annotation {INJECTED_BUNDLES}",
                duplicate.injected.image_tag,
                member.csv
            );
        }
    }
    Ok(())
}

/// Returns the entries that the new version follows. If an interrupted run has already changed the CatalogSource, the new
/// version is the last entry, with the same name and digest. The image name is not compared, because a tag can be pushed
/// again.
pub(super) fn predecessors<T>(
    mut history: Vec<HistoryEntry<T>>,
    has_index: bool,
    standing: &InstallState,
    (csv, pinned): (&str, &str),
) -> anyhow::Result<Vec<HistoryEntry<T>>> {
    let installed = &standing.installed;
    let is_new =
        |entry: &mut HistoryEntry<T>| entry.csv == csv && digest(&entry.pinned) == digest(pinned);
    if let Some(last) = history.pop_if(is_new)
        && history.is_empty()
        && !has_index
        && !installed.is_empty()
        && installed != csv
    {
        bail!(
            "{} in the history is now {csv:?}, but OLM has installed {installed:?}, which the new catalog would not \
             contain; set annotation {INJECTED_BUNDLES} to the image of the installed bundle, with its digest",
            last.injected.image_tag
        );
    }
    history.truncate(retained_len(&history, standing));
    Ok(history)
}

fn digest(pinned: &str) -> Option<&str> {
    pinned.rsplit_once('@').map(|parts| parts.1)
}

/// Returns how many entries of the history remain. A failed version after the installed one would block all later ones, so
/// the history ends before it, unless OLM is still upgrading to it.
fn retained_len<T>(history: &[HistoryEntry<T>], standing: &InstallState) -> usize {
    let InstallState {
        installed,
        current,
        has_failed_for_good,
        ..
    } = standing;
    let at = history.iter().rposition(|entry| entry.csv == *installed);
    let first = at.map_or(0, |at| at + 1);
    let mut later = history.iter().skip(first);
    let has_failed = |entry: &HistoryEntry<T>| {
        standing.failed.contains(&entry.csv)
            || *has_failed_for_good && entry.csv == *current
            || standing
                .not_unpacked
                .may_be(&[&entry.pinned, &entry.injected.image_tag])
    };
    let is_given_up = later.any(has_failed);
    let is_upgrading = current != installed && !has_failed_for_good;
    if installed.is_empty() || is_upgrading || !is_given_up {
        return history.len();
    }
    first
}

/// Reports whether these channel entries contain an upgrade path between two versions. Version ranges are not evaluated: an
/// entry with a skipRange counts as reachable.
pub(super) fn is_reachable<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    installed: &'a str,
    target: &str,
) -> bool {
    // Successors by version. An entry with a range succeeds every version.
    let mut after: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open = Vec::new();
    for entry in entries {
        if entry.skip_range.is_some() {
            open.push(entry.name.as_str());
        }
        let skips = entry.skips.iter().map(String::as_str);
        for predecessor in entry.replaces.as_deref().into_iter().chain(skips) {
            after.entry(predecessor).or_default().push(&entry.name);
        }
    }
    open.push(installed);
    let mut visited = BTreeSet::new();
    while let Some(name) = open.pop() {
        if name == target {
            return true;
        }
        if visited.insert(name) {
            // Each version is visited once, so that the loop is bounded by the number of edges.
            open.extend(after.remove(name).unwrap_or_default());
        }
    }
    false
}

#[cfg(test)]
mod tests;
