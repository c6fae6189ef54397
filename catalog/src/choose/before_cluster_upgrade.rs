//! Upgrades of an operator that are required before an upgrade of the cluster.

use std::collections::HashSet;

use manifests::openshift;

use super::{
    CatalogAnswer, Choice, Installed, Offer, Request,
    authority::{authoritative_catalog, offered_package},
    resolver::{CandidateEntry, candidates, cmp_preference, represents, skipped},
    upgrade_path::UpgradePath,
};
use crate::model::{Bundle, Channel, Package};

/// Limit for evaluated bundles; each edge evaluates all bundles of the channel. Real channels have some hundred
/// bundles, and some ten edges between the installed bundle and the head.
const MAX_STEPS: usize = 1 << 20;

/// Operator upgrade that is required before an upgrade of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredUpgrade {
    /// An upgrade to this bundle.
    UpgradeTo(Box<Choice>),
    /// Reachable bundles do not support the later release.
    None,
    /// The result is unknown because this catalog can affect it and is unavailable.
    Unknown(String),
}

/// Channel that is followed if the request does not specify one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelScope {
    /// The default channel of the package, as in [`choose`](super::choose).
    Default,
    /// The default channel, or another one if only that contains the installed bundle, because no channel was chosen
    /// yet.
    Any,
}

/// Finds the newest bundle that supports a later OpenShift release and is reachable from the installed one on the
/// current cluster. Edges are followed as in [`choose`](super::choose). The catalog is also that of `choose`: the one
/// that the installed bundle came from, or else the first one that contains it.
pub fn ahead(
    request: &Request<'_>,
    followed: ChannelScope,
    release: openshift::Release,
    offers: &[Offer<'_>],
) -> RequiredUpgrade {
    let Some(installed) = request.installed else {
        return RequiredUpgrade::None;
    };
    let mut offers = offers.to_vec();
    offers.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.catalog.cmp(b.catalog)));
    let unknown = |offer: &Offer<'_>| RequiredUpgrade::Unknown(offer.catalog.to_owned());
    if let Some(own) = unavailable_source(installed, &offers) {
        return unknown(own);
    }
    let channel = |package| channel(request, followed, installed, package);
    let (at, is_own) = authoritative_catalog(installed, &offers, channel);
    // Catalogs that could change the result: those that precede the authoritative one, if the default channel is
    // followed, and all catalogs otherwise. If the installed bundle came from the authoritative catalog, no other
    // catalog matters.
    let others = match at {
        _ if is_own => 0,
        Some(at) if followed == ChannelScope::Default => at,
        _ => offers.len(),
    };
    let mut others = offers
        .iter()
        .take(others)
        .filter(|offer| is_unavailable(offer));
    let unavailable = others.clone().next();
    let Some((catalog, package)) = at.and_then(|at| offers.get(at)).and_then(offered_package)
    else {
        return unavailable.map_or(RequiredUpgrade::None, unknown);
    };
    // Wait for catalogs that are about to be read, and for all unavailable ones if the source of the installed bundle
    // is not recorded.
    let must_wait = |offer: &&Offer<'_>| {
        matches!(offer.answer, CatalogAnswer::Pending) || installed.catalog.is_none()
    };
    if followed == ChannelScope::Default
        && let Some(pending) = others.find(must_wait)
    {
        return unknown(pending);
    }
    let choice = channel(package).and_then(|channel| {
        let bundle = walk(request, installed, release, (package, channel))?;
        Some(Choice::new(bundle, catalog, channel))
    });
    match choice {
        Some(choice) => RequiredUpgrade::UpgradeTo(Box::new(choice)),
        None => unavailable.map_or(RequiredUpgrade::None, unknown),
    }
}

/// Follows edges as far as possible. Returns the last bundle that supports the later release.
fn walk<'p>(
    request: &Request<'_>,
    installed: &Installed,
    release: openshift::Release,
    (package, channel): (&'p Package, &'p Channel),
) -> Option<&'p Bundle> {
    let later = Request {
        openshift: Some(release),
        ..*request
    };
    let candidates = candidates(package, channel);
    let skipped = skipped(channel);
    let mut current = installed.with_known_version(package.bundle(&installed.name));
    let mut best = None;
    let mut remaining = MAX_STEPS;
    loop {
        let Some(rest) = remaining.checked_sub(candidates.len().max(1)) else {
            break best;
        };
        remaining = rest;
        let Some(next) = step(&current, &candidates, &skipped, request) else {
            break best;
        };
        if later.ineligible_reasons(next.bundle).is_empty() {
            best = Some(next.bundle);
        }
        current = Installed {
            name: next.bundle.name.clone(),
            version: Some(next.bundle.version.clone()),
            catalog: None,
        };
    }
}

/// Returns the next bundle on the upgrade path.
fn step<'a>(
    current: &Installed,
    candidates: &[CandidateEntry<'a>],
    skipped: &HashSet<&str>,
    request: &Request<'_>,
) -> Option<CandidateEntry<'a>> {
    let path = UpgradePath::new(current, candidates);
    let reachable = candidates
        .iter()
        .filter(|candidate| path.reaches(candidate));
    let mut reachable: Vec<CandidateEntry<'a>> = reachable.copied().collect();
    let is_skipped =
        |candidate: &CandidateEntry<'_>| skipped.contains(candidate.entry.name.as_str());
    if reachable.iter().any(|candidate| !is_skipped(candidate)) {
        reachable.retain(|candidate| !is_skipped(candidate));
    }
    reachable
        .into_iter()
        .filter(|candidate| request.ineligible_reasons(candidate.bundle).is_empty())
        .min_by(|a, b| cmp_preference(a.bundle, b.bundle))
}

fn is_unavailable(offer: &Offer<'_>) -> bool {
    matches!(
        offer.answer,
        CatalogAnswer::Unavailable(_) | CatalogAnswer::Pending
    )
}

/// Returns the catalog that the installed bundle came from, or the offer that represents it, if it is unavailable.
fn unavailable_source<'o, 'a>(
    installed: &Installed,
    offers: &'o [Offer<'a>],
) -> Option<&'o Offer<'a>> {
    let own = installed.catalog.as_deref()?;
    let is_listed = offers.iter().any(|offer| offer.catalog == own);
    let is_own =
        |offer: &&Offer<'_>| own == offer.catalog || !is_listed && represents(offer.catalog, own);
    offers
        .iter()
        .filter(|offer| is_unavailable(offer))
        .find(is_own)
}

/// Returns the channel to follow.
fn channel<'p>(
    request: &Request<'_>,
    followed: ChannelScope,
    installed: &Installed,
    package: &'p Package,
) -> Option<&'p Channel> {
    if let Some(name) = request.channel {
        return package.channels.get(name);
    }
    let default = package.channels.get(&package.default_channel);
    if followed == ChannelScope::Default {
        return default;
    }
    let contains_installed = |channel: &&Channel| {
        let mut entries = channel.entries.iter();
        entries.any(|entry| entry.name == installed.name || installed.precedes(entry))
    };
    let others = || package.channels.values().find(contains_installed);
    default
        .filter(contains_installed)
        .or_else(others)
        .or(default)
}
