//! Which upgrade of an operator comes before one of the cluster.

use std::collections::HashSet;

use manifests::openshift;

use super::{
    Answer, Choice, Installed, Offer, Request,
    chooser::{Place, better, places, skipped},
    way::Way,
};
use crate::model::{Channel, Package};

/// How many bundles are looked at, each time anew for each edge: real channels have some hundred bundles and some ten edges
/// from what is installed to the head.
const MOST_LOOKS: usize = 1 << 20;

/// The newest bundle that an installed one can be upgraded to while the cluster is as it is, edge by edge as
/// [`choose`](super::choose) follows them, and that runs on a later release of OpenShift, too. `None` when there is none, when
/// nothing is installed, and when no catalog that can be asked knows what is.
pub fn ahead(
    request: &Request<'_>,
    release: openshift::Release,
    offers: &[Offer<'_>],
) -> Option<Choice> {
    let installed = request.installed?;
    let mut offers = offers.to_vec();
    offers.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.catalog.cmp(b.catalog)));
    let asked = offers.iter().filter_map(|offer| match offer.answer {
        Answer::Package(package) => Some((offer.catalog, package)),
        Answer::Absent | Answer::Unknown(_) | Answer::Pending => None,
    });
    let later = Request {
        openshift: Some(release),
        ..*request
    };
    let asked: Vec<(&str, &Package)> = asked.collect();
    let knows = |package: &Package| {
        package
            .bundle(&installed.name)
            .is_some_and(|it| installed.is(it))
    };
    let leads_on = |package: &Package| {
        let channel = followed(request, installed, package);
        channel.is_some_and(|it| it.entries.iter().any(|entry| installed.is_before(entry)))
    };
    let (catalog, package) = asked
        .iter()
        .find(|(_, package)| knows(package))
        .or_else(|| asked.iter().find(|(_, package)| leads_on(package)))?;
    let channel = followed(request, installed, package)?;
    let places = places(package, channel);
    let skipped = skipped(channel);
    let mut at = installed.known_as(package.bundle(&installed.name));
    let mut found = None;
    let mut left = MOST_LOOKS;
    loop {
        let Some(rest) = left.checked_sub(places.len().max(1)) else {
            break found;
        };
        left = rest;
        let Some(next) = step(&at, &places, &skipped, request) else {
            break found;
        };
        if later.refusals(next.bundle).is_empty() {
            found = Some(Choice::of(next.bundle, catalog, channel));
        }
        at = Installed {
            name: next.bundle.name.clone(),
            version: Some(next.bundle.version.clone()),
            catalog: None,
        };
    }
}

/// The bundle that is installed next.
fn step<'a>(
    at: &Installed,
    places: &[Place<'a>],
    skipped: &HashSet<&str>,
    request: &Request<'_>,
) -> Option<Place<'a>> {
    let way = Way::new(at, places);
    let on = places.iter().filter(|it| way.leads_to(it));
    let mut on: Vec<Place<'a>> = on.copied().collect();
    let is_skipped = |it: &Place<'_>| skipped.contains(it.entry.name.as_str());
    if on.iter().any(|it| !is_skipped(it)) {
        on.retain(|it| !is_skipped(it));
    }
    on.into_iter()
        .filter(|it| request.refusals(it.bundle).is_empty())
        .min_by(|a, b| better(a.bundle, b.bundle))
}

/// The channel that is asked for; else the package's default, or another one if only that has what is installed.
fn followed<'p>(
    request: &Request<'_>,
    installed: &Installed,
    package: &'p Package,
) -> Option<&'p Channel> {
    if let Some(name) = request.channel {
        return package.channels.get(name);
    }
    let default = package.channels.get(&package.default_channel);
    let has_it = |channel: &&Channel| {
        let mut entries = channel.entries.iter();
        entries.any(|entry| entry.name == installed.name || installed.is_before(entry))
    };
    let others = || package.channels.values().find(has_it);
    default.filter(has_it).or_else(others).or(default)
}
