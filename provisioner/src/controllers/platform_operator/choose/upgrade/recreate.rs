//! The bundle for a BundleInstance that was deleted: the recorded one, or an upgrade of it.
//!
//! A catalog has to list the recorded bundle, and `spec` and the cluster have to allow the recorded bundle, as for any
//! other bundle. If not, the recorded bundle counts as installed: only an approved upgrade edge leads to another bundle,
//! unless `spec` excludes the recorded bundle. So the deletion of a BundleInstance approves no upgrade. Pure; no I/O.

use catalog::{
    choose::{self, CatalogAnswer, Choice, Decision, Offer, Outcome},
    model::{Package, Release as Packed},
};
use manifests::{
    api::{
        labels, limits,
        platform_operator::{ChosenBundle, NextBundle, reason},
    },
    version,
    version_range::Range,
};

use super::{
    super::{InstanceAction, OperatorPlan},
    UpgradeChooser,
    retain::digest_of,
};
use crate::controllers::platform_operator::{
    approval::ApprovalDecision,
    controller::truncate,
    installed::{Bundle, BundleChoice, InstalledState},
};

/// State of a recorded bundle in the catalogs.
enum Standing {
    /// A catalog lists the bundle, and no constraint excludes it.
    Eligible(Box<BundleChoice>),
    /// A catalog that may list the bundle is unavailable, with the reason.
    Unknown(String),
    /// The bundle cannot be installed, with the reason.
    Ineligible(String),
}

/// Reason why no bundle is installed in place of a recorded one.
pub(super) struct Blocked {
    reason: &'static str,
    message: String,
    next: Option<NextBundle>,
    /// Whether the catalog of the recorded bundle does not exist.
    is_gone: bool,
}

impl UpgradeChooser<'_> {
    /// Plans for a BundleInstance that is missing although a choice is recorded.
    pub(in crate::controllers::platform_operator::choose) fn recreate(
        &self,
        recorded: &BundleChoice,
    ) -> OperatorPlan {
        if let Some(plan) = self.unreadable_approval() {
            return plan;
        }
        let missing = |why: &str| {
            format!(
                "the BundleInstance is missing, and the recorded bundle {} is not installed again: {why}",
                truncate(&recorded.bundle.name, limits::WORD)
            )
        };
        let why = match self.standing(recorded) {
            Standing::Eligible(chosen) => {
                let version = version::parse_strict(&chosen.bundle.version).ok();
                return OperatorPlan {
                    keep: (self.input.operator.approved_minors())
                        .or_else(|| Some(self.first_kept(version.as_ref()?))),
                    ..OperatorPlan::have(*chosen)
                };
            }
            Standing::Unknown(why) => {
                return OperatorPlan::refuse(reason::INSTALL_PENDING, missing(&why));
            }
            Standing::Ineligible(why) => why,
        };
        // A bundle that was never in the cluster restricts nothing.
        if self.input.operator.active_instance().is_none() {
            return self.choose();
        }
        match self.replace(recorded) {
            Ok(Some(plan)) => plan,
            Ok(None) => self.choose(),
            Err(blocked) => {
                let remedy = self.remedy(recorded, &blocked);
                let problem = truncate(&blocked.message, limits::LINE);
                let message = missing(&format!("{why}; {problem}; {remedy}"));
                OperatorPlan {
                    next: blocked.next,
                    ..OperatorPlan::refuse(blocked.reason, message)
                }
            }
        }
    }

    /// Plans a replacement for a bundle that counts as installed; `None` if `spec` excludes that bundle, so that any bundle
    /// may be chosen.
    pub(super) fn replace(&self, recorded: &BundleChoice) -> Result<Option<OperatorPlan>, Blocked> {
        if self.is_newer_than_approved(recorded) {
            return Ok(None);
        }
        let current = as_installed(recorded);
        let chooser = UpgradeChooser {
            current: &current,
            ..*self
        };
        if let Some(catalog) = chooser.lost_catalog() {
            let why = format!("catalog {catalog} is deleted or does not list the package");
            return Err(Blocked {
                is_gone: true,
                ..Blocked::new(reason::SOURCE_FAILED, why)
            });
        }
        let decision = chooser.decide(None, None);
        match &decision.verdict {
            Outcome::Upgrade(choice) => chooser.successor(choice, &decision).map(Some),
            _ if decision.unavailable.is_empty() && self.is_excluded(recorded) => Ok(None),
            Outcome::NoUpgrade(why) | Outcome::NoCandidate(why) => {
                let reason = match Self::pending(&decision) {
                    Some(_) => reason::INSTALL_PENDING,
                    None => reason::SOURCE_FAILED,
                };
                Err(Blocked::new(reason, why.clone()))
            }
            // An installed bundle excludes a first installation.
            Outcome::Install(choice) => {
                let why = format!("no upgrade edge leads to {}", choice.version);
                Err(Blocked::new(reason::SOURCE_FAILED, why))
            }
        }
    }

    /// Plans the upgrade of the bundle that counts as installed, or an approved patch while the upgrade waits.
    fn successor(&self, choice: &Choice, decision: &Decision) -> Result<OperatorPlan, Blocked> {
        let (decided, _) = self.step(choice);
        let message = match decided.step {
            ApprovalDecision::Upgrade(why) => {
                let mut chosen = self.approved(choice, decision, &why);
                chosen.after = None;
                return Ok(OperatorPlan {
                    keep: decided.keep,
                    ..OperatorPlan::have(chosen)
                });
            }
            ApprovalDecision::Wait { message, .. } => message,
            ApprovalDecision::CheckPermissions => format!(
                "the permissions of {} cannot be compared with a bundle that is not installed; set \
                 spec.approveNewRights: Automatic to install {}",
                choice.version, choice.version
            ),
            ApprovalDecision::NoChange => "no upgrade available".to_owned(),
        };
        if let Some(mut plan) = self.patch(choice)
            && let InstanceAction::Apply(chosen) = &mut plan.act
        {
            chosen.after = None;
            return Ok(plan);
        }
        let next = NextBundle {
            name: truncate(&choice.name, limits::WORD),
            version: truncate(&choice.version.to_string(), limits::WORD),
            waits_for: Some(truncate(&message, limits::LINE)),
        };
        Err(Blocked {
            next: Some(next),
            ..Blocked::new(reason::INSTALL_PENDING, message)
        })
    }

    /// Looks a recorded bundle up in its catalog, or in the catalogs of `spec.catalog`.
    fn standing(&self, recorded: &BundleChoice) -> Standing {
        let own = &recorded.bundle.catalog;
        let is_named = self.input.operator.spec.catalog.is_some();
        let is_seen = self.offers.iter().any(|offer| offer.catalog == own);
        let is_asked = |offer: &&Offer<'_>| {
            is_named || offer.catalog == own || !is_seen && choose::represents(offer.catalog, own)
        };
        let mut found = Standing::Ineligible(format!(
            "no catalog {} is available",
            truncate(own, limits::WORD)
        ));
        for offer in self.offers.iter().filter(is_asked) {
            let catalog = offer.catalog;
            let standing = match offer.answer {
                CatalogAnswer::Package(package) => self.standing_in(recorded, catalog, package),
                CatalogAnswer::NotFound => {
                    Standing::Ineligible(format!("catalog {catalog} does not list the package"))
                }
                CatalogAnswer::Unavailable(why) => {
                    let why = truncate(why, limits::LINE);
                    Standing::Unknown(format!("catalog {catalog} is unavailable: {why}"))
                }
                CatalogAnswer::Pending => {
                    Standing::Unknown(format!("catalog {catalog} has not been read yet"))
                }
            };
            match (&standing, &found) {
                (Standing::Eligible(_), _) => return standing,
                // A catalog that is unavailable may list the bundle.
                (_, Standing::Unknown(_)) => {}
                _ => found = standing,
            }
        }
        found
    }

    fn standing_in(&self, recorded: &BundleChoice, catalog: &str, package: &Package) -> Standing {
        let name = &recorded.bundle.name;
        let Some(bundle) = package.bundle(name) else {
            return Standing::Ineligible(format!("catalog {catalog} does not list the bundle"));
        };
        if let Some(why) = &bundle.invalid_properties {
            let why = truncate(why, limits::LINE);
            return Standing::Unknown(format!(
                "catalog {catalog} did not return the bundle: {why}"
            ));
        }
        if bundle.image != recorded.named() {
            return Standing::Ineligible(format!(
                "catalog {catalog} offers another image under that name"
            ));
        }
        let lists = |channel: &str| {
            let channel = package.channels.get(channel)?;
            let mut entries = channel.entries.iter();
            Some(entries.any(|entry| entry.name == *name))
        };
        let asked = self.input.operator.spec.channel.as_deref();
        if let Some(channel) = asked.filter(|channel| lists(channel) == Some(false)) {
            return Standing::Ineligible(format!("the bundle is not in channel {channel}"));
        }
        let reasons = self.asked(None, None, |request| request.ineligible_reasons(bundle));
        if !reasons.is_empty() {
            let reasons = truncate(&reasons.join(", and "), limits::LINE);
            return Standing::Ineligible(format!("the bundle {reasons}"));
        }
        let channel = [asked, Some(recorded.bundle.channel.as_str())]
            .into_iter()
            .flatten()
            .find(|channel| lists(channel) == Some(true))
            .unwrap_or(&package.default_channel);
        let release = bundle.version.release.as_ref();
        Standing::Eligible(Box::new(BundleChoice {
            package: recorded.package.clone(),
            bundle: ChosenBundle {
                name: name.clone(),
                version: bundle.version.version.to_string(),
                release: release.map(ToString::to_string),
                channel: channel.to_owned(),
                catalog: catalog.to_owned(),
                image: recorded.bundle.image.clone(),
                why: Vec::new(),
            },
            media_type: bundle.media_type().to_owned(),
            after: None,
            named: recorded.named.clone(),
        }))
    }

    /// Reports whether `spec` excludes a recorded bundle.
    fn is_excluded(&self, recorded: &BundleChoice) -> bool {
        let spec = &self.input.operator.spec;
        let bundle = &recorded.bundle;
        let range = spec.version.as_deref();
        let range = range.and_then(|range| Range::parse(range).ok());
        let version = version::parse_strict(&bundle.version).ok();
        let is_outside = range
            .zip(version)
            .is_some_and(|(range, version)| !range.matches(&version));
        let channel = spec.channel.as_ref();
        let is_elsewhere = spec.catalog.as_ref().is_some_and(|asked| {
            let (namespace, name) = bundle.catalog.split_once('/').unwrap_or_default();
            name != asked.name
                || asked
                    .namespace
                    .as_ref()
                    .is_some_and(|requested| requested != namespace)
        });
        is_outside || is_elsewhere || channel.is_some_and(|channel| *channel != bundle.channel)
    }

    /// Reports whether `spec.approvedVersion` is older than a recorded bundle.
    fn is_newer_than_approved(&self, recorded: &BundleChoice) -> bool {
        let approved = self.approved_first().and_then(Result::ok);
        let version = version::parse_strict(&recorded.bundle.version).ok();
        version
            .zip(approved)
            .is_some_and(|(version, approved)| version.cmp_precedence(&approved).is_gt())
    }

    /// Returns the remedy for a bundle that is not installed again.
    fn remedy(&self, recorded: &BundleChoice, blocked: &Blocked) -> String {
        let status = self.input.operator.status.as_ref();
        let catalog = truncate(&recorded.bundle.catalog, limits::WORD);
        if status.is_none_or(|status| status.chosen_bundle.is_none()) {
            // OpenShift's CRD has no other field.
            let annotation = labels::CHOSEN_BUNDLE;
            format!("remove the annotation {annotation} to choose a bundle again")
        } else if blocked.is_gone {
            format!("recreate catalog {catalog}, or set another catalog in spec.catalog")
        } else {
            format!(
                "restore the bundle in catalog {catalog}, or set spec.version to the versions that may be installed"
            )
        }
    }
}

// === impl Blocked ===

impl Blocked {
    fn new(reason: &'static str, message: String) -> Self {
        Self {
            reason,
            message,
            next: None,
            is_gone: false,
        }
    }
}

/// Returns the state of a cluster in which a recorded bundle is installed and healthy.
fn as_installed(recorded: &BundleChoice) -> InstalledState {
    let bundle = &recorded.bundle;
    let release = bundle.release.as_deref();
    let installed = Bundle {
        name: bundle.name.clone(),
        version: version::parse_strict(&bundle.version).ok(),
        release: release.and_then(|text| Packed::parse_release(text).ok()),
        catalog: Some(bundle.catalog.clone()),
        digest: digest_of(&bundle.image).map(str::to_owned),
        image: Some(bundle.image.clone()),
        has_name: true,
    };
    InstalledState {
        installed: Some(installed),
        is_chosen_installed: true,
        is_healthy: true,
        ..InstalledState::default()
    }
}
