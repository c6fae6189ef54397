//! Resolver: selects the bundle to install or the next bundle on an upgrade path, and records why each other candidate
//! was not chosen.

use std::{cmp::Ordering, collections::HashSet};

use manifests::object::truncate;

use super::{
    Candidate, CatalogAnswer, Choice, Decision, Installed, Next, Offer, Outcome, Request,
    UnavailableCatalog,
    authority::{authoritative_catalog, offered_package},
    upgrade_path::UpgradePath,
};
use crate::model::{Bundle, Channel, Entry, Package};

pub(super) struct Resolver<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) max_candidates: usize,
    pub(super) decision: Decision,
}

/// Maximum length of a repeated reason in characters.
const MAX_REASON_LEN: usize = 300;
/// Maximum number of listed channels.
const MAX_NAMED: usize = 20;

/// A bundle with its entry in the channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct CandidateEntry<'a> {
    pub(super) entry: &'a Entry,
    pub(super) bundle: &'a Bundle,
}

// === impl Resolver ===

impl Resolver<'_> {
    /// Decides without an installed bundle.
    pub(super) fn install(&mut self, offers: &[Offer<'_>]) -> Outcome {
        let name = self.request.package;
        let mut reason = None;
        for offer in offers {
            let Some(package) = self.record_answer(offer) else {
                if let Some(pending) = self.pending() {
                    return Outcome::NoCandidate(format!(
                        "waiting for catalog {pending}, which has a higher priority"
                    ));
                }
                continue;
            };
            match self.channel(offer, package) {
                Err(problem) => {
                    reason.get_or_insert(problem);
                }
                Ok(channel) => {
                    let candidates = candidates(package, channel);
                    let skipped = skipped(channel);
                    let request = self.request;
                    let evaluate = |candidate: &CandidateEntry<'_>| {
                        let mut reasons = request.ineligible_reasons(candidate.bundle);
                        if skipped.contains(candidate.entry.name.as_str()) {
                            reasons.push("is skipped by a later bundle of the channel, so only upgrades from it are \
                                          possible".into());
                        }
                        reasons
                    };
                    let best = self.select(offer, package, channel, candidates, evaluate);
                    match best {
                        Some(choice) => return Outcome::Install(choice),
                        None => {
                            reason.get_or_insert_with(|| {
                                format!("channel {} of package {name} in catalog {} has no eligible bundle", channel.name, offer.catalog)
                            });
                        }
                    }
                }
            }
        }
        Outcome::NoCandidate(reason.unwrap_or_else(|| {
            if offers.is_empty() {
                format!("failed to find candidate olm.bundles from the {name} package: no catalogs found")
            } else if self.decision.unavailable.is_empty() {
                format!("failed to find candidate olm.bundles from the {name} package: no catalog contains it")
            } else {
                let unasked = self.unasked();
                format!("failed to find candidate olm.bundles from the {name} package: no available catalog contains it; \
                         unavailable: {unasked}")
            }
        }))
    }

    /// Decides with an installed bundle.
    pub(super) fn upgrade(&mut self, installed: &Installed, offers: &[Offer<'_>]) -> Outcome {
        for offer in offers {
            self.record_answer(offer);
        }
        let own = installed.catalog.as_deref();
        let is_listed = own.is_some_and(|own| offers.iter().any(|offer| offer.catalog == own));
        let is_source = |unavailable: &UnavailableCatalog, own: &str| {
            own == unavailable.catalog || !is_listed && represents(&unavailable.catalog, own)
        };
        let mut unasked = self.decision.unavailable.iter();
        if let Some(unavailable) =
            unasked.find(|catalog| own.is_some_and(|own| is_source(catalog, own)))
        {
            return Outcome::NoUpgrade(format!(
                "catalog {}, the source of {}, is unavailable ({}); keeping the installed version",
                unavailable.catalog, installed.name, unavailable.reason
            ));
        }
        let (at, is_own) = authoritative_catalog(installed, offers, |package| {
            let channel = self.request.channel.unwrap_or(&package.default_channel);
            package.channels.get(channel)
        });
        let source = at.and_then(|at| offers.get(at));
        let source = source.and_then(|offer| Some((offer, offered_package(offer)?.1)));
        if let (true, Some(own), None) = (is_own, own, source) {
            return Outcome::NoUpgrade(format!(
                "catalog {own}, the source of {}, contains neither it nor an upgrade from it; keeping the installed version",
                installed.name
            ));
        }
        let Some((offer, package)) = source else {
            let name = &installed.name;
            let message = format!("no available catalog contains {name} or an upgrade from it");
            return Outcome::NoUpgrade(match self.decision.unavailable.as_slice() {
                [] => message,
                _ => format!("{message}; unavailable: {}", self.unasked()),
            });
        };
        let before: HashSet<&str> = offers
            .iter()
            .take_while(|other| other.catalog != offer.catalog)
            .map(|other| other.catalog)
            .collect();
        let unasked = &mut self.decision.unavailable;
        unasked.retain(|catalog| before.contains(catalog.catalog.as_str()));
        // The source of the installed bundle is not recorded. It may be an unavailable catalog that precedes this one,
        // and a catalog that is about to be read may contain the bundle, too.
        if !is_own
            && (self.pending().is_some()
                || (installed.catalog.is_none() && !self.decision.unavailable.is_empty()))
        {
            return Outcome::NoUpgrade(format!(
                "catalogs with a higher priority than {} are unavailable: {}; keeping {}",
                offer.catalog,
                self.unasked(),
                installed.name
            ));
        }
        self.note(format!(
            "using catalog {}: it contains {} or an upgrade from it",
            offer.catalog, installed.name
        ));
        let channel = match self.channel(offer, package) {
            Ok(channel) => channel,
            Err(problem) => return Outcome::NoUpgrade(problem),
        };
        self.follow(installed, offer, package, channel)
    }

    /// Follows one edge of the channel.
    fn follow(
        &mut self,
        installed: &Installed,
        offer: &Offer<'_>,
        package: &Package,
        channel: &Channel,
    ) -> Outcome {
        let installed = &installed.with_known_version(package.bundle(&installed.name));
        let skipped = skipped(channel);
        let candidates = candidates(package, channel);
        let continues = |channel: &Channel| {
            let mut entries = channel.entries.iter();
            entries.any(|entry| entry.name == installed.name || installed.precedes(entry))
        };
        if !continues(channel) {
            if let Some(bundle) = package.bundle(&installed.name) {
                self.warn(package, channel, bundle);
            }
            let name = &installed.name;
            let message = format!(
                "channel {} of package {} in catalog {} contains neither {name} nor an upgrade from it",
                channel.name, package.name, offer.catalog
            );
            let others = package
                .channels
                .values()
                .filter(|channel| continues(channel));
            let others: Vec<String> = others
                .take(MAX_NAMED)
                .map(|channel| truncated(&channel.name))
                .collect();
            return Outcome::NoUpgrade(match others.as_slice() {
                [] => message,
                _ => format!(
                    "{message}; set spec.channel to a channel that does: {}",
                    others.join(", ")
                ),
            });
        }
        let path = UpgradePath::new(installed, &candidates);
        let is_reachable = |candidate: &CandidateEntry<'_>| path.reaches(candidate);
        let has_unskipped = candidates.iter().any(|candidate| {
            is_reachable(candidate) && !skipped.contains(candidate.entry.name.as_str())
        });
        let request = self.request;
        let evaluate = |candidate: &CandidateEntry<'_>| {
            if candidate.entry.name == installed.name {
                return vec!["is installed".to_owned()];
            }
            let mut reasons = Vec::new();
            if !installed.precedes(candidate.entry) {
                reasons.push(format!("does not replace or skip {}", installed.name));
            } else if !path.is_newer(candidate) {
                reasons.push("is not newer than the installed version".to_owned());
            } else if has_unskipped && skipped.contains(candidate.entry.name.as_str()) {
                reasons.push("is skipped by a later bundle of the channel".to_owned());
            }
            reasons.extend(request.ineligible_reasons(candidate.bundle));
            reasons
        };
        let is_head = !candidates.iter().any(is_reachable);
        if let Some(choice) = self.select(offer, package, channel, candidates.clone(), evaluate) {
            return Outcome::Upgrade(choice);
        }
        self.decision.next = self.next_after(&path, &candidates, &skipped);
        if let Some(bundle) = package.bundle(&installed.name) {
            self.warn(package, channel, bundle);
        }
        let name = &installed.name;
        Outcome::NoUpgrade(if is_head {
            format!("channel {} has no upgrade from {name}", channel.name)
        } else {
            format!(
                "no upgrade from {name} in channel {} is eligible",
                channel.name
            )
        })
    }

    /// Records the answer of a catalog. Returns the package, if the catalog offers it.
    fn record_answer<'p>(&mut self, offer: &Offer<'p>) -> Option<&'p Package> {
        match offer.answer {
            CatalogAnswer::Package(package) => Some(package),
            CatalogAnswer::NotFound => {
                let text = format!(
                    "catalog {} has no package {}",
                    offer.catalog, self.request.package
                );
                self.note(text);
                None
            }
            CatalogAnswer::Unavailable(reason) => {
                self.note(format!(
                    "catalog {} is unavailable: {reason}",
                    offer.catalog
                ));
                self.decision.unavailable.push(UnavailableCatalog {
                    catalog: offer.catalog.to_owned(),
                    reason: reason.chars().take(MAX_REASON_LEN).collect(),
                    is_pending: false,
                });
                None
            }
            CatalogAnswer::Pending => {
                self.note(format!("catalog {} has not been read yet", offer.catalog));
                self.decision.unavailable.push(UnavailableCatalog {
                    catalog: offer.catalog.to_owned(),
                    reason: "not read yet".to_owned(),
                    is_pending: true,
                });
                None
            }
        }
    }

    /// Returns the first catalog that is about to be read.
    fn pending(&self) -> Option<&str> {
        let mut unasked = self.decision.unavailable.iter();
        let pending = unasked.find(|catalog| catalog.is_pending)?;
        Some(&pending.catalog)
    }

    /// Lists the unavailable catalogs with the reasons.
    fn unasked(&self) -> String {
        let each = self.decision.unavailable.iter();
        let each: Vec<String> = each
            .map(|catalog| format!("{} ({})", catalog.catalog, catalog.reason))
            .collect();
        each.join(", ")
    }

    fn channel<'p>(
        &mut self,
        offer: &Offer<'_>,
        package: &'p Package,
    ) -> Result<&'p Channel, String> {
        let (name, origin) = match self.request.channel {
            Some(name) => (name, "as requested"),
            None => (package.default_channel.as_str(), "the package's default"),
        };
        let Some(channel) = package.channels.get(name) else {
            let names = package.channels.keys().take(MAX_NAMED);
            let names: Vec<String> = names.map(|name| truncated(name)).collect();
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
            "catalog {}: channel {name}, {origin}, bundles: {}",
            offer.catalog,
            channel.entries.len()
        ));
        Ok(channel)
    }

    /// Selects the best eligible bundle. Records it, and other candidates up to the limit.
    fn select(
        &mut self,
        offer: &Offer<'_>,
        package: &Package,
        channel: &Channel,
        mut candidates: Vec<CandidateEntry<'_>>,
        evaluate: impl Fn(&CandidateEntry<'_>) -> Vec<String>,
    ) -> Option<Choice> {
        candidates.sort_by(|a, b| cmp_preference(a.bundle, b.bundle));
        let mut chosen: Option<CandidateEntry<'_>> = None;
        for candidate in candidates {
            if chosen.is_some() && !self.has_room() {
                self.decision.more_candidates += 1;
                continue;
            }
            let mut reasons = evaluate(&candidate);
            let is_chosen = reasons.is_empty() && chosen.is_none();
            if is_chosen {
                chosen = Some(candidate);
                reasons.push("is the best eligible bundle".to_owned());
            } else if let (true, Some(chosen)) = (reasons.is_empty(), chosen) {
                reasons.push(format!("{} is preferred", chosen.bundle.version));
            }
            self.push_candidate(offer, candidate.bundle, is_chosen, reasons);
        }
        self.add_other_channels(offer, package, channel);
        let candidate = chosen?;
        self.warn(package, channel, candidate.bundle);
        let bundle = candidate.bundle;
        let as_installed = Installed {
            name: bundle.name.clone(),
            version: Some(bundle.version.clone()),
            catalog: None,
        };
        let candidates = self::candidates(package, channel);
        let path = UpgradePath::new(&as_installed, &candidates);
        self.decision.next = self.next_after(&path, &candidates, &skipped(channel));
        self.note(format!("chose {} {}", bundle.name, bundle.version));
        Some(Choice::new(bundle, offer.catalog, channel))
    }

    /// Adds bundles of other channels to the candidates.
    fn add_other_channels(&mut self, offer: &Offer<'_>, package: &Package, channel: &Channel) {
        let in_channel: HashSet<&str> = channel
            .entries
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        let mut others: Vec<&Bundle> = package
            .bundles
            .values()
            .filter(|bundle| !in_channel.contains(bundle.name.as_str()))
            .collect();
        if !self.has_room() {
            self.decision.more_candidates += others.len();
            return;
        }
        others.sort_by(|a, b| cmp_preference(a, b));
        for bundle in others {
            let reason = format!("is not in channel {}", channel.name);
            self.push_candidate(offer, bundle, false, vec![reason]);
        }
    }

    fn has_room(&self) -> bool {
        self.decision.candidates.len() < self.max_candidates
    }

    fn push_candidate(
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

    /// Returns the bundle that follows on the path, even if it is ineligible.
    fn next_after(
        &self,
        path: &UpgradePath<'_>,
        candidates: &[CandidateEntry<'_>],
        skipped: &HashSet<&str>,
    ) -> Option<Next> {
        let next = candidates
            .iter()
            .filter(|candidate| path.reaches(candidate))
            .min_by(|a, b| {
                let is_skipped = |candidate: &CandidateEntry<'_>| {
                    skipped.contains(candidate.entry.name.as_str())
                };
                is_skipped(a)
                    .cmp(&is_skipped(b))
                    .then_with(|| cmp_preference(a.bundle, b.bundle))
            })?;
        Some(Next {
            name: next.bundle.name.clone(),
            version: next.bundle.version.clone(),
            reasons: self.request.ineligible_reasons(next.bundle),
        })
    }

    fn warn(&mut self, package: &Package, channel: &Channel, bundle: &Bundle) {
        let mut warnings = Vec::new();
        let mut deprecated = |subject: String, message: &Option<String>| {
            if let Some(message) = message {
                let message = truncate(message, MAX_REASON_LEN);
                warnings.push(format!("{subject} is deprecated: {message}"));
            }
        };
        deprecated(format!("package {}", package.name), &package.deprecation);
        deprecated(format!("channel {}", channel.name), &channel.deprecation);
        deprecated(format!("bundle {}", bundle.name), &bundle.deprecation);
        if bundle.is_deprecated && bundle.deprecation.is_none() {
            warnings.push(format!("bundle {} is deprecated", bundle.name));
        }
        warnings.extend(self.request.uncertainties(bundle));
        self.decision.warnings = warnings;
    }

    fn note(&mut self, step: String) {
        self.decision.steps.push(step);
    }
}

/// Compares bundles by preference, best first: releases before pre-releases, then higher versions. Image and name make
/// the order total.
pub(super) fn cmp_preference(a: &Bundle, b: &Bundle) -> Ordering {
    let is_pre = |bundle: &Bundle| !bundle.version.version.pre.is_empty();
    is_pre(a)
        .cmp(&is_pre(b))
        .then_with(|| b.version.cmp_precedence(&a.version))
        .then_with(|| a.image.cmp(&b.image))
        .then_with(|| a.name.cmp(&b.name))
}

/// Returns the bundles of a channel with their entries.
pub(super) fn candidates<'a>(
    package: &'a Package,
    channel: &'a Channel,
) -> Vec<CandidateEntry<'a>> {
    let candidate = |entry: &'a Entry| {
        let bundle = package.bundle(&entry.name)?;
        Some(CandidateEntry { entry, bundle })
    };
    channel.entries.iter().filter_map(candidate).collect()
}

pub(super) fn skipped(channel: &Channel) -> HashSet<&str> {
    let skips = channel.entries.iter().flat_map(|entry| &entry.skips);
    skips.map(String::as_str).collect()
}

/// Truncates a name for messages.
fn truncated(name: &str) -> String {
    name.chars().take(100).collect()
}

/// Reports whether an offer represents a catalog. An offer named `NAMESPACE/*` represents all catalogs of a namespace
/// in which catalogs cannot be listed.
pub fn represents(offer: &str, catalog: &str) -> bool {
    let namespace = offer
        .strip_suffix('*')
        .filter(|prefix| prefix.ends_with('/'));
    namespace.is_some_and(|prefix| catalog.starts_with(prefix))
}
