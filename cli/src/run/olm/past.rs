//! What a CatalogSource tells of the past: what was run before, and what the next version comes after. No I/O.
//!
//! Somebody may have written anything there. So everything is decided before anything is changed, and what cannot be true is
//! told with what has to be written instead.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use catalog::{
    inject::history::{History, INDEX_IMAGE, INJECTED_BUNDLES, Injected},
    model::Entry,
};
use manifests::object::text;
use serde_json::Value;
use unpacker::source::Image;

use super::{objects, unpacking::GivenUp};

/// How the annotation is written by hand.
const EXAMPLE: &str = r#"[{"imageTag":"IMAGE","mode":"semver"}]"#;

/// A bundle of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member<T> {
    /// The name of its ClusterServiceVersion.
    pub(super) csv: String,
    pub(super) package: String,
    /// Its image by its digest.
    pub(super) pinned: String,
    pub(super) injected: Injected,
    pub(super) bundle: T,
}

/// How far OLM is with an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The ClusterServiceVersion that is installed, or nothing.
    pub(super) installed: String,
    /// The one that OLM is on its way to, or is at.
    pub(super) current: String,
    /// Whether it will not get there: the plan for that has failed, or is gone.
    pub(super) has_given_up: bool,
    /// What OLM could not unpack, of whatever package.
    pub(super) not_unpacked: GivenUp,
    /// What InstallPlans were to install that have failed.
    pub(super) failed: BTreeSet<String>,
}

/// What was injected into a CatalogSource, or the image that it was made of without us. An image that OLM fills in is none;
/// then the annotation may name one.
pub(super) fn history(source: &Value) -> anyhow::Result<History> {
    let mut history = History::read(&objects::annotations(source))?;
    if history.injected.is_empty() {
        let image = text(source, &["spec", "image"]).filter(|it| !it.is_empty());
        let index = match (image, history.index.take()) {
            (Some(image), Some(index)) if Image::parse(image).is_err() => Some(index),
            (Some(image), _) => Some(image.to_owned()),
            (None, index) => index,
        };
        if index.is_none() {
            bail!(
                "cannot upgrade: no catalog image reference exists in catalog source spec or annotations; write the image of the \
                 bundle that is installed into the CatalogSource's annotation {INJECTED_BUNDLES}, as {EXAMPLE}, or the index that \
                 has it into {INDEX_IMAGE}"
            );
        }
        history.index = index;
    }
    Ok(history)
}

/// Refuses a history that nobody can have run.
pub(super) fn check<T>(
    history: &[Member<T>],
    package: &str,
    source_name: &str,
) -> anyhow::Result<()> {
    for (at, member) in history.iter().enumerate() {
        let image = &member.injected.image_tag;
        if member.package != package {
            bail!(
                "{image} of the history of CatalogSource {source_name} is of package {:?} and not of {package:?}; correct the \
                 annotation {INJECTED_BUNDLES}: it has the images of the bundles that were run, oldest first",
                member.package
            );
        }
        if let Some(twice) = history.iter().take(at).find(|it| it.csv == member.csv) {
            bail!(
                "{} and {image} of the history of CatalogSource {source_name} are both {:?}; correct the annotation \
                 {INJECTED_BUNDLES}: leave in it the one that was installed",
                twice.injected.image_tag,
                member.csv
            );
        }
    }
    Ok(())
}

/// What the new version comes after. An interrupted run may have changed the CatalogSource already: then it is the last of the
/// history, by name and digest. The name of an image does not tell, as a tag may have been pushed again.
pub(super) fn before<T>(
    mut history: Vec<Member<T>>,
    has_index: bool,
    standing: &Standing,
    (csv, pinned): (&str, &str),
) -> anyhow::Result<Vec<Member<T>>> {
    let installed = &standing.installed;
    let is_new = |it: &mut Member<T>| it.csv == csv && digest(&it.pinned) == digest(pinned);
    if let Some(last) = history.pop_if(is_new)
        && history.is_empty()
        && !has_index
        && !installed.is_empty()
        && installed != csv
    {
        bail!(
            "{} of the history is {csv:?} by now, and OLM has installed {installed:?}, which no catalog would have then; \
             correct the annotation {INJECTED_BUNDLES}: it has to name the image of what is installed, by its digest",
            last.injected.image_tag
        );
    }
    history.truncate(kept(&history, standing));
    Ok(history)
}

fn digest(pinned: &str) -> Option<&str> {
    pinned.rsplit_once('@').map(|it| it.1)
}

/// How many of the history are still gone through. What comes after the installed version and was given up by OLM would keep
/// it from every later one; unless it is on its way there.
fn kept<T>(history: &[Member<T>], standing: &Standing) -> usize {
    let Standing {
        installed,
        current,
        has_given_up,
        ..
    } = standing;
    let at = history.iter().rposition(|it| it.csv == *installed);
    let first = at.map_or(0, |at| at + 1);
    let mut later = history.iter().skip(first);
    let has_failed = |it: &Member<T>| {
        standing.failed.contains(&it.csv)
            || *has_given_up && it.csv == *current
            || standing
                .not_unpacked
                .may_be(&[&it.pinned, &it.injected.image_tag])
    };
    let is_given_up = later.any(has_failed);
    let is_on_its_way = current != installed && !has_given_up;
    if installed.is_empty() || is_on_its_way || !is_given_up {
        return history.len();
    }
    first
}

/// Whether OLM gets from one version to another by these entries. Ranges of versions are believed.
pub(super) fn leads<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    installed: &'a str,
    target: &str,
) -> bool {
    // Whoever comes after a version, and whoever comes after all.
    let mut after: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open = Vec::new();
    for entry in entries {
        if entry.skip_range.is_some() {
            open.push(entry.name.as_str());
        }
        let skips = entry.skips.iter().map(String::as_str);
        for before in entry.replaces.as_deref().into_iter().chain(skips) {
            after.entry(before).or_default().push(&entry.name);
        }
    }
    open.push(installed);
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if name == target {
            return true;
        }
        if seen.insert(name) {
            // Each is asked for once, so all of them together are as many as the entries name.
            open.extend(after.remove(name).unwrap_or_default());
        }
    }
    false
}

#[cfg(test)]
mod tests;
