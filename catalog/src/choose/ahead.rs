//! Which upgrade of an operator comes before one of the cluster.

use std::collections::HashSet;

use manifests::openshift;

use super::{
    Answer, Choice, Installed, Offer, Request,
    chooser::{Place, better, places, skipped, stands_for},
    decider::{asked, decider},
    way::Way,
};
use crate::model::{Bundle, Channel, Package};

/// How many bundles are looked at, each time anew for each edge: real channels have some hundred bundles and some ten edges
/// from what is installed to the head.
const MOST_LOOKS: usize = 1 << 20;

/// What comes before an upgrade of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ahead {
    /// An upgrade to this bundle.
    To(Box<Choice>),
    /// There is none: what can be followed leads to no bundle that runs then.
    Nothing,
    /// It is not known: this catalog has a say in it, and cannot be asked.
    Unknown(String),
}

/// Which channel is followed where the request names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// The package's default, as [`choose`](super::choose) does.
    Default,
    /// The package's default, or another one if only that has what is installed: nobody has chosen it yet.
    Any,
}

/// The newest bundle that an installed one can be upgraded to while the cluster is as it is, edge by edge as
/// [`choose`](super::choose) follows them, and that runs on a later release of OpenShift, too. It is looked for where `choose`
/// looks: in the catalog that it was chosen from, or else in the first one that knows it.
pub fn ahead(
    request: &Request<'_>,
    followed: Followed,
    release: openshift::Release,
    offers: &[Offer<'_>],
) -> Ahead {
    let Some(installed) = request.installed else {
        return Ahead::Nothing;
    };
    let mut offers = offers.to_vec();
    offers.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.catalog.cmp(b.catalog)));
    let unknown = |offer: &Offer<'_>| Ahead::Unknown(offer.catalog.to_owned());
    if let Some(own) = unasked_own(installed, &offers) {
        return unknown(own);
    }
    let channel = |package| channel(request, followed, installed, package);
    let (at, is_own) = decider(installed, &offers, channel);
    // The ones that would have a say in it: before the one that decides, if that is what is followed. Beside the catalog
    // that it was chosen from nobody has one.
    let others = match at {
        _ if is_own => 0,
        Some(at) if followed == Followed::Default => at,
        _ => offers.len(),
    };
    let mut others = offers.iter().take(others).filter(|it| is_unasked(it));
    let unasked = others.clone().next();
    let Some((catalog, package)) = at.and_then(|at| offers.get(at)).and_then(asked) else {
        return unasked.map_or(Ahead::Nothing, unknown);
    };
    // One that is about to be read is waited for; and any, where nobody has written down which one it is from.
    let is_waited_for =
        |it: &&Offer<'_>| matches!(it.answer, Answer::Pending) || installed.catalog.is_none();
    if followed == Followed::Default
        && let Some(pending) = others.find(is_waited_for)
    {
        return unknown(pending);
    }
    let found = channel(package).and_then(|channel| {
        let bundle = walk(request, installed, release, (package, channel))?;
        Some(Choice::of(bundle, catalog, channel))
    });
    match found {
        Some(choice) => Ahead::To(Box::new(choice)),
        None => unasked.map_or(Ahead::Nothing, unknown),
    }
}

/// Goes from edge to edge, as far as they lead; gives the last bundle that runs on the later release.
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
            found = Some(next.bundle);
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

fn is_unasked(offer: &Offer<'_>) -> bool {
    matches!(offer.answer, Answer::Unknown(_) | Answer::Pending)
}

/// What it was chosen from, or what stands for that, if it cannot be asked.
fn unasked_own<'o, 'a>(installed: &Installed, offers: &'o [Offer<'a>]) -> Option<&'o Offer<'a>> {
    let own = installed.catalog.as_deref()?;
    let is_seen = offers.iter().any(|it| it.catalog == own);
    let is_own = |it: &&Offer<'_>| own == it.catalog || !is_seen && stands_for(it.catalog, own);
    offers.iter().filter(|it| is_unasked(it)).find(is_own)
}

/// The channel that is followed.
fn channel<'p>(
    request: &Request<'_>,
    followed: Followed,
    installed: &Installed,
    package: &'p Package,
) -> Option<&'p Channel> {
    if let Some(name) = request.channel {
        return package.channels.get(name);
    }
    let default = package.channels.get(&package.default_channel);
    if followed == Followed::Default {
        return default;
    }
    let has_it = |channel: &&Channel| {
        let mut entries = channel.entries.iter();
        entries.any(|entry| entry.name == installed.name || installed.is_before(entry))
    };
    let others = || package.channels.values().find(has_it);
    default.filter(has_it).or_else(others).or(default)
}
