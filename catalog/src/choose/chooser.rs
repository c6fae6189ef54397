//! How it is chosen.

use std::{cmp::Ordering, collections::HashSet};

use manifests::object::shortened;

use super::{
    Answer, Candidate, Choice, Decision, Installed, Next, Offer, Request, Unasked, Verdict,
    decider::{asked, decider},
    way::Way,
};
use crate::model::{Bundle, Channel, Entry, Package};

pub(super) struct Chooser<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) most_candidates: usize,
    pub(super) decision: Decision,
}

/// How much of a reason is repeated, in characters.
const SHORT: usize = 300;
/// How many channels are named.
const NAMED: usize = 20;

/// A bundle at its place in the channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) entry: &'a Entry,
    pub(super) bundle: &'a Bundle,
}

// === impl Chooser ===

impl Chooser<'_> {
    /// With nothing installed.
    pub(super) fn install(&mut self, offers: &[Offer<'_>]) -> Verdict {
        let name = self.request.package;
        let mut reason = None;
        for offer in offers {
            let Some(package) = self.ask(offer) else {
                if let Some(pending) = self.pending() {
                    return Verdict::Nothing(format!(
                        "catalog {pending} has not been read yet, and comes before others; it is waited for"
                    ));
                }
                continue;
            };
            match self.channel(offer, package) {
                Err(problem) => {
                    reason.get_or_insert(problem);
                }
                Ok(channel) => {
                    let places = places(package, channel);
                    let skipped = skipped(channel);
                    let request = self.request;
                    let judge = |place: &Place<'_>| {
                        let mut reasons = request.refusals(place.bundle);
                        if skipped.contains(place.entry.name.as_str()) {
                            reasons.push("is skipped by a later bundle of the channel, and only upgraded from".into());
                        }
                        reasons
                    };
                    let best = self.pick(offer, package, channel, places, judge);
                    match best {
                        Some(choice) => return Verdict::Install(choice),
                        None => {
                            reason.get_or_insert_with(|| {
                                format!("channel {} of package {name} in catalog {} has no bundle that can be installed", channel.name, offer.catalog)
                            });
                        }
                    }
                }
            }
        }
        Verdict::Nothing(reason.unwrap_or_else(|| {
            if offers.is_empty() {
                format!("failed to find candidate olm.bundles from the {name} package: there is no catalog")
            } else if self.decision.unasked.is_empty() {
                format!("failed to find candidate olm.bundles from the {name} package: no catalog has it")
            } else {
                let unasked = self.unasked();
                format!("failed to find candidate olm.bundles from the {name} package: no catalog that could be asked has it, and these could not: {unasked}")
            }
        }))
    }

    /// With something installed.
    pub(super) fn upgrade(&mut self, installed: &Installed, offers: &[Offer<'_>]) -> Verdict {
        for offer in offers {
            self.ask(offer);
        }
        let own = installed.catalog.as_deref();
        let is_seen = own.is_some_and(|own| offers.iter().any(|it| it.catalog == own));
        let stands =
            |it: &Unasked, own: &str| own == it.catalog || !is_seen && stands_for(&it.catalog, own);
        let mut unasked = self.decision.unasked.iter();
        if let Some(away) = unasked.find(|it| own.is_some_and(|own| stands(it, own))) {
            return Verdict::Stay(format!(
                "catalog {}, which {} is from, cannot be asked ({}); it stays as it is",
                away.catalog, installed.name, away.why
            ));
        }
        let (at, is_own) = decider(installed, offers, |package| {
            let channel = self.request.channel.unwrap_or(&package.default_channel);
            package.channels.get(channel)
        });
        let found = at.and_then(|at| offers.get(at));
        let found = found.and_then(|offer| Some((offer, asked(offer)?.1)));
        if let (true, Some(own), None) = (is_own, own, found) {
            return Verdict::Stay(format!(
                "catalog {own}, which {} is from, knows neither that nor a way on from it; it stays as it is",
                installed.name
            ));
        }
        let Some((offer, package)) = found else {
            let name = &installed.name;
            let known = format!("no catalog that could be asked knows {name}, or a way on from it");
            return Verdict::Stay(match self.decision.unasked.as_slice() {
                [] => known,
                _ => format!("{known}; these could not: {}", self.unasked()),
            });
        };
        let before: HashSet<&str> = offers
            .iter()
            .take_while(|it| it.catalog != offer.catalog)
            .map(|it| it.catalog)
            .collect();
        let unasked = &mut self.decision.unasked;
        unasked.retain(|it| before.contains(it.catalog.as_str()));
        // Where it came from nobody has written down, so it may be from one that comes first and is away; and one that is
        // about to be read may know it, too.
        if !is_own
            && (self.pending().is_some()
                || (installed.catalog.is_none() && !self.decision.unasked.is_empty()))
        {
            return Verdict::Stay(format!(
                "what comes before catalog {} cannot be asked: {}; {} stays as it is",
                offer.catalog,
                self.unasked(),
                installed.name
            ));
        }
        self.note(format!(
            "catalog {} decides: it knows {}",
            offer.catalog, installed.name
        ));
        let channel = match self.channel(offer, package) {
            Ok(channel) => channel,
            Err(problem) => return Verdict::Stay(problem),
        };
        self.follow(installed, offer, package, channel)
    }

    /// Follows one edge.
    fn follow(
        &mut self,
        installed: &Installed,
        offer: &Offer<'_>,
        package: &Package,
        channel: &Channel,
    ) -> Verdict {
        let installed = &installed.known_as(package.bundle(&installed.name));
        let skipped = skipped(channel);
        let places = places(package, channel);
        let goes_on = |channel: &Channel| {
            let mut entries = channel.entries.iter();
            entries.any(|entry| entry.name == installed.name || installed.is_before(entry))
        };
        if !goes_on(channel) {
            if let Some(bundle) = package.bundle(&installed.name) {
                self.warn(package, channel, bundle);
            }
            let name = &installed.name;
            let stranded = format!(
                "channel {} of package {} in catalog {} has neither {name} nor a way on from it",
                channel.name, package.name, offer.catalog
            );
            let others = package.channels.values().filter(|it| goes_on(it));
            let others: Vec<String> = others.take(NAMED).map(|it| short(&it.name)).collect();
            return Verdict::Stay(match others.as_slice() {
                [] => stranded,
                _ => format!(
                    "{stranded}; to go on, set spec.channel to one that has: {}",
                    others.join(", ")
                ),
            });
        }
        let way = Way::new(installed, &places);
        let is_on = |place: &Place<'_>| way.leads_to(place);
        let has_unskipped = places
            .iter()
            .any(|it| is_on(it) && !skipped.contains(it.entry.name.as_str()));
        let request = self.request;
        let judge = |place: &Place<'_>| {
            if place.entry.name == installed.name {
                return vec!["is installed".to_owned()];
            }
            let mut reasons = Vec::new();
            if !installed.is_before(place.entry) {
                reasons.push(format!("does not replace or skip {}", installed.name));
            } else if !way.is_forward(place) {
                reasons.push("is no higher version than what is installed".to_owned());
            } else if has_unskipped && skipped.contains(place.entry.name.as_str()) {
                reasons.push("is skipped by a later bundle of the channel".to_owned());
            }
            reasons.extend(request.refusals(place.bundle));
            reasons
        };
        let is_head = !places.iter().any(is_on);
        if let Some(choice) = self.pick(offer, package, channel, places.clone(), judge) {
            return Verdict::Upgrade(choice);
        }
        self.decision.next = self.after(&way, &places, &skipped);
        if let Some(bundle) = package.bundle(&installed.name) {
            self.warn(package, channel, bundle);
        }
        let name = &installed.name;
        Verdict::Stay(if is_head {
            format!("nothing in channel {} comes after {name}", channel.name)
        } else {
            format!(
                "what comes after {name} in channel {} cannot be installed",
                channel.name
            )
        })
    }

    /// What a catalog answered, noted down.
    fn ask<'p>(&mut self, offer: &Offer<'p>) -> Option<&'p Package> {
        match offer.answer {
            Answer::Package(package) => Some(package),
            Answer::Absent => {
                let text = format!(
                    "catalog {} has no package {}",
                    offer.catalog, self.request.package
                );
                self.note(text);
                None
            }
            Answer::Unknown(why) => {
                self.note(format!("catalog {} cannot be asked: {why}", offer.catalog));
                self.decision.unasked.push(Unasked {
                    catalog: offer.catalog.to_owned(),
                    why: why.chars().take(SHORT).collect(),
                    is_pending: false,
                });
                None
            }
            Answer::Pending => {
                self.note(format!("catalog {} has not been read yet", offer.catalog));
                self.decision.unasked.push(Unasked {
                    catalog: offer.catalog.to_owned(),
                    why: "it has not been read yet".to_owned(),
                    is_pending: true,
                });
                None
            }
        }
    }

    /// The first catalog that is about to be read.
    fn pending(&self) -> Option<&str> {
        let mut unasked = self.decision.unasked.iter();
        let pending = unasked.find(|it| it.is_pending)?;
        Some(&pending.catalog)
    }

    /// The catalogs that could not be asked, and why.
    fn unasked(&self) -> String {
        let each = self.decision.unasked.iter();
        let each: Vec<String> = each
            .map(|it| format!("{} ({})", it.catalog, it.why))
            .collect();
        each.join(", ")
    }

    fn channel<'p>(
        &mut self,
        offer: &Offer<'_>,
        package: &'p Package,
    ) -> Result<&'p Channel, String> {
        let (name, how) = match self.request.channel {
            Some(name) => (name, "as asked for"),
            None => (package.default_channel.as_str(), "the package's default"),
        };
        let Some(channel) = package.channels.get(name) else {
            let names = package.channels.keys().take(NAMED);
            let names: Vec<String> = names.map(|it| short(it)).collect();
            let problem = format!(
                "package {} in catalog {} has no channel {name:?}; it has {}",
                package.name,
                offer.catalog,
                names.join(", ")
            );
            self.note(problem.clone());
            return Err(problem);
        };
        self.note(format!(
            "catalog {}: channel {name}, {how}, bundles: {}",
            offer.catalog,
            channel.entries.len()
        ));
        Ok(channel)
    }

    /// The best of those that nothing speaks against. It is noted down, and others as far as there is room.
    fn pick(
        &mut self,
        offer: &Offer<'_>,
        package: &Package,
        channel: &Channel,
        mut places: Vec<Place<'_>>,
        judge: impl Fn(&Place<'_>) -> Vec<String>,
    ) -> Option<Choice> {
        places.sort_by(|a, b| better(a.bundle, b.bundle));
        let mut chosen: Option<Place<'_>> = None;
        for place in places {
            if chosen.is_some() && !self.has_room() {
                self.decision.more_candidates += 1;
                continue;
            }
            let mut reasons = judge(&place);
            let is_chosen = reasons.is_empty() && chosen.is_none();
            if is_chosen {
                chosen = Some(place);
                reasons.push("is the best that nothing speaks against".to_owned());
            } else if let (true, Some(chosen)) = (reasons.is_empty(), chosen) {
                reasons.push(format!("{} comes first", chosen.bundle.version));
            }
            self.candidates_push(offer, place.bundle, is_chosen, reasons);
        }
        self.others(offer, package, channel);
        let place = chosen?;
        self.warn(package, channel, place.bundle);
        let bundle = place.bundle;
        let as_installed = Installed {
            name: bundle.name.clone(),
            version: Some(bundle.version.clone()),
            catalog: None,
        };
        let places = self::places(package, channel);
        let way = Way::new(&as_installed, &places);
        self.decision.next = self.after(&way, &places, &skipped(channel));
        self.note(format!("{} {} is chosen", bundle.name, bundle.version));
        Some(Choice::of(bundle, offer.catalog, channel))
    }

    /// Bundles of other channels.
    fn others(&mut self, offer: &Offer<'_>, package: &Package, channel: &Channel) {
        let here: HashSet<&str> = channel.entries.iter().map(|it| it.name.as_str()).collect();
        let mut others: Vec<&Bundle> = package
            .bundles
            .values()
            .filter(|bundle| !here.contains(bundle.name.as_str()))
            .collect();
        if !self.has_room() {
            self.decision.more_candidates += others.len();
            return;
        }
        others.sort_by(|a, b| better(a, b));
        for bundle in others {
            let reason = format!("is not in channel {}", channel.name);
            self.candidates_push(offer, bundle, false, vec![reason]);
        }
    }

    fn has_room(&self) -> bool {
        self.decision.candidates.len() < self.most_candidates
    }

    fn candidates_push(
        &mut self,
        offer: &Offer<'_>,
        bundle: &Bundle,
        is_chosen: bool,
        reasons: Vec<String>,
    ) {
        if !is_chosen && !self.has_room() {
            self.decision.more_candidates += 1;
            return;
        }
        self.decision.candidates.push(Candidate {
            catalog: offer.catalog.to_owned(),
            name: bundle.name.clone(),
            version: bundle.version.clone(),
            is_chosen,
            reasons,
        });
    }

    /// What comes after a bundle, whether or not it can be installed.
    fn after(&self, way: &Way<'_>, places: &[Place<'_>], skipped: &HashSet<&str>) -> Option<Next> {
        let next = places.iter().filter(|it| way.leads_to(it)).min_by(|a, b| {
            let is_skipped = |it: &Place<'_>| skipped.contains(it.entry.name.as_str());
            is_skipped(a)
                .cmp(&is_skipped(b))
                .then_with(|| better(a.bundle, b.bundle))
        })?;
        Some(Next {
            name: next.bundle.name.clone(),
            version: next.bundle.version.clone(),
            reasons: self.request.refusals(next.bundle),
        })
    }

    fn warn(&mut self, package: &Package, channel: &Channel, bundle: &Bundle) {
        let mut warnings = Vec::new();
        let mut deprecated = |what: String, why: &Option<String>| {
            if let Some(why) = why {
                let why = shortened(why, SHORT);
                warnings.push(format!("{what} is deprecated: {why}"));
            }
        };
        deprecated(format!("package {}", package.name), &package.deprecation);
        deprecated(format!("channel {}", channel.name), &channel.deprecation);
        deprecated(format!("bundle {}", bundle.name), &bundle.deprecation);
        if bundle.is_deprecated && bundle.deprecation.is_none() {
            warnings.push(format!("bundle {} is deprecated", bundle.name));
        }
        warnings.extend(self.request.doubts(bundle));
        self.decision.warnings = warnings;
    }

    fn note(&mut self, step: String) {
        self.decision.steps.push(step);
    }
}

/// The better one first: releases before pre-releases, then higher versions, and the rest only so that there is an order.
pub(super) fn better(a: &Bundle, b: &Bundle) -> Ordering {
    let is_pre = |it: &Bundle| !it.version.version.pre.is_empty();
    is_pre(a)
        .cmp(&is_pre(b))
        .then_with(|| b.version.cmp_precedence(&a.version))
        .then_with(|| a.image.cmp(&b.image))
        .then_with(|| a.name.cmp(&b.name))
}

/// The bundles of a channel.
pub(super) fn places<'a>(package: &'a Package, channel: &'a Channel) -> Vec<Place<'a>> {
    let place = |entry: &'a Entry| {
        let bundle = package.bundle(&entry.name)?;
        Some(Place { entry, bundle })
    };
    channel.entries.iter().filter_map(place).collect()
}

pub(super) fn skipped(channel: &Channel) -> HashSet<&str> {
    let skips = channel.entries.iter().flat_map(|entry| &entry.skips);
    skips.map(String::as_str).collect()
}

/// As much of a name as anybody reads.
fn short(name: &str) -> String {
    name.chars().take(100).collect()
}

/// Whether an offer's name is `NAMESPACE/*`, which stands for all catalogs of a namespace where nobody sees them, and a
/// catalog is of that namespace.
pub fn stands_for(offer: &str, catalog: &str) -> bool {
    let namespace = offer.strip_suffix('*').filter(|it| it.ends_with('/'));
    namespace.is_some_and(|it| catalog.starts_with(it))
}
