//! Decides about an operator without a package conflict, from the offers of the catalogs.

mod approval_input;
mod recreate;
mod retain;

use catalog::{
    choose::{self, Choice, Decision, Installed, Offer, Outcome, Request},
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use manifests::{
    api::{
        bundle_instance::{Constraint, Override},
        limits,
        platform_operator::{
            ApprovedMinors, ChosenBundle, NextBundle, RightsApproval, UpgradeApproval, reason,
        },
    },
    openshift::Release,
    version::{self, Version},
    version_range::Range,
};

use super::{ClusterReleases, Input, InstanceAction, OperatorPlan};
use crate::controllers::platform_operator::{
    approval::{self, ApprovalDecision},
    controller::truncate,
    installed::{BundleChoice, InstalledState, Predecessor},
    instance_manifest,
};

/// Maximum number of named bundles that cannot be installed.
const MAX_NAMED: usize = 3;

#[derive(Clone, Copy)]
pub(super) struct UpgradeChooser<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) current: &'a InstalledState,
    pub(super) openshift: Option<ClusterReleases>,
    pub(super) kubernetes: &'a Version,
    pub(super) offers: &'a [Offer<'a>],
}

impl UpgradeChooser<'_> {
    pub(super) fn choose(&self) -> OperatorPlan {
        if let Some(catalog) = self.lost_catalog() {
            let why = format!(
                "catalog {catalog}, the source of the installed bundle, no longer exists or no longer contains the \
                 package; the operator is not upgraded; set spec.catalog to use another catalog"
            );
            let mut plan = self.retain_choice(&why);
            plan.warnings.push(why);
            return plan;
        }
        let decision = self.decide(None, None);
        let mut plan = match &decision.verdict {
            Outcome::Install(choice) => self.install(choice, &decision),
            Outcome::Upgrade(choice) => self.upgrade(choice, &decision),
            Outcome::NoUpgrade(why) => self.no_upgrade(why, &decision),
            Outcome::NoCandidate(why) => self.without_candidate(why, &decision),
        };
        plan.warnings.extend(self.warnings(&plan.act, decision));
        plan
    }

    /// Returns the warnings about the installed bundle, or the one that is about to be installed.
    fn warnings(&self, act: &InstanceAction, decision: Decision) -> Vec<String> {
        match (&decision.verdict, act) {
            (Outcome::Upgrade(next), InstanceAction::Apply(chosen))
                if chosen.bundle.name == next.name =>
            {
                decision.warnings
            }
            // No bundle has this minor version, so the warnings are about the installed bundle.
            (Outcome::Upgrade(_), _) => self.decide(Some((u64::MAX, u64::MAX)), None).warnings,
            _ => decision.warnings,
        }
    }

    /// Returns the catalog of the installed bundle if it is deleted or lacks the package. The catalog may
    /// return shortly. After that, only an admin can decide which catalog the operator is upgraded from.
    fn lost_catalog(&self) -> Option<&str> {
        if self.input.operator.spec.catalog.is_some() {
            return None;
        }
        let catalog = self.current.installed.as_ref()?.catalog.as_deref()?;
        // The catalog may be one that the provisioner is not permitted to read.
        let mut offers = self
            .offers
            .iter()
            .filter(|offer| offer.catalog == catalog || choose::represents(offer.catalog, catalog));
        let is_gone = offers.all(|offer| matches!(offer.answer, choose::CatalogAnswer::NotFound));
        is_gone.then_some(catalog)
    }

    /// Returns the overrides of the spec, and those that an admin has set on the BundleInstance, because OpenShift's CRD of
    /// PlatformOperators drops `spec.bundle`.
    fn overrides(&self) -> impl Iterator<Item = &[Override]> {
        let bundle = self.input.operator.spec.bundle.as_ref();
        let instance = self.input.existing.ours();
        let instance = instance.filter(|instance| !instance_manifest::applies_overrides(instance));
        let of_bundle = bundle.map(|bundle| bundle.overrides.as_slice());
        let of_instance = instance.map(|instance| instance.spec.overrides.as_slice());
        of_bundle.into_iter().chain(of_instance)
    }

    /// Chooses the next bundle: only of the version `minor`, if set, and up to the version `newest`, if set.
    fn decide(&self, minor: Option<(u64, u64)>, newest: Option<&Version>) -> Decision {
        self.asked(minor, newest, |request| {
            choose::choose(request, self.offers)
        })
    }

    /// Passes the request for a bundle to a function.
    fn asked<T>(
        &self,
        minor: Option<(u64, u64)>,
        newest: Option<&Version>,
        ask: impl FnOnce(&Request<'_>) -> T,
    ) -> T {
        let spec = &self.input.operator.spec;
        let range = spec
            .version
            .as_deref()
            .and_then(|text| Range::parse(text).ok());
        let installed = self.current.installed.as_ref().map(|bundle| Installed {
            name: bundle.name.clone(),
            version: bundle.version.clone().map(|version| Packed {
                version,
                release: bundle.release.clone(),
            }),
            catalog: bundle.catalog.clone(),
        });
        let overrides: Vec<_> = self.overrides().flatten().map(overridden).collect();
        let first = self.approved_first().and_then(Result::ok);
        ask(&Request {
            package: &spec.package.name,
            channel: spec.channel.as_deref(),
            range: range.as_ref(),
            minor,
            newest: newest.or(first.as_ref()),
            installed: installed.as_ref(),
            openshift: self.openshift.map(|releases| releases.highest),
            kubernetes: Some(self.kubernetes),
            media_types: &[REGISTRY_V1, PLAIN_V0],
            overrides: &overrides,
        })
    }

    /// Returns the newest version that may be installed first, if the spec limits it. Without a limit, the creator of a
    /// PlatformOperator approves the newest one.
    fn approved_first(&self) -> Option<Result<Version, version::Error>> {
        let spec = &self.input.operator.spec;
        let is_bound =
            self.current.installed.is_none() && spec.upgrade_approval == UpgradeApproval::Manual;
        let approved = spec.approved_version.as_deref().filter(|_| is_bound)?;
        Some(version::parse_strict(approved))
    }

    /// Plans a first installation.
    fn install(&self, choice: &Choice, decision: &Decision) -> OperatorPlan {
        if let Some(chosen) = self.pending_choice(decision) {
            let version = version::parse_strict(&chosen.bundle.version).ok();
            return OperatorPlan {
                keep: (self.input.operator.approved_minors())
                    .or_else(|| Some(self.first_kept(version.as_ref()?))),
                ..OperatorPlan::have(chosen.clone())
            };
        }
        // The failure of a bundle that is installed again after the deletion of a BundleInstance does not approve an
        // upgrade.
        if let Some(chosen) = &self.current.chosen
            && self.input.operator.active_instance().is_some()
        {
            match self.replace(chosen) {
                Ok(Some(plan)) => return plan,
                Ok(None) => {}
                Err(_) => return OperatorPlan::have(chosen.clone()),
            }
        }
        if let Some(plan) = self.unreadable_approval() {
            return plan;
        }
        // The cluster may be upgraded before the installation.
        OperatorPlan {
            keep: Some(self.first_kept(&choice.version.version)),
            ..OperatorPlan::have(self.chosen(choice, decision))
        }
    }

    /// Returns the plan if `spec.approvedVersion` is malformed: no new bundle is installed.
    fn unreadable_approval(&self) -> Option<OperatorPlan> {
        let problem = self.approved_first()?.err()?;
        let why = format!("invalid spec.approvedVersion: {problem}; correct it");
        let why = truncate(&why, limits::LINE);
        Some(super::retain_or_refuse(
            self.current,
            reason::INSTALL_PENDING,
            &why,
        ))
    }

    fn first_kept(&self, version: &Version) -> ApprovedMinors {
        ApprovedMinors {
            cluster: self.cluster(),
            package: Release::new(version.major, version.minor),
        }
    }

    /// Plans for an operator that is not installed and has no eligible bundle.
    fn without_candidate(&self, why: &str, decision: &Decision) -> OperatorPlan {
        if let Some(catalog) = Self::pending(decision) {
            let why = format!("catalog {catalog} has not been read yet");
            return super::retain_or_refuse(self.current, reason::INSTALL_PENDING, &why);
        }
        let why = match ineligible(decision) {
            Some(reasons) => format!("{why}: {reasons}"),
            None => why.to_owned(),
        };
        let mut plan = super::retain_or_refuse(self.current, reason::SOURCE_FAILED, &why);
        if matches!(plan.act, InstanceAction::Apply(_)) {
            plan.warnings.push(truncate(&why, limits::LINE));
        }
        plan
    }

    /// Returns a catalog that could not be used because it is not loaded yet. It will be soon, or its state reports a
    /// problem.
    fn pending(decision: &Decision) -> Option<&String> {
        let mut unasked = decision.unavailable.iter();
        Some(&unasked.find(|catalog| catalog.is_pending)?.catalog)
    }

    /// Plans for an operator without an upgrade.
    fn no_upgrade(&self, why: &str, decision: &Decision) -> OperatorPlan {
        let mut plan = self.retain_choice(why);
        // Without a candidate it is not known whether further upgrades exist.
        let has_candidates = !decision.candidates.is_empty();
        let is_at_the_end = has_candidates && decision.next.is_none();
        if is_at_the_end || self.input.operator.approved_minors().is_none() {
            plan.keep = approval::decide(&self.approval(None)).keep;
        }
        if !has_candidates && Self::pending(decision).is_none() {
            plan.warnings.push(why.to_owned());
        }
        plan.next = decision.next.as_ref().map(|next| NextBundle {
            name: truncate(&next.name, limits::WORD),
            version: truncate(&next.version.to_string(), limits::WORD),
            waits_for: Some(truncate(&next.reasons.join("; "), limits::LINE))
                .filter(|reasons| !reasons.is_empty()),
        });
        plan
    }

    fn upgrade(&self, choice: &Choice, decision: &Decision) -> OperatorPlan {
        // The upgrade is pending already.
        let pending_upgrade = self.pending_upgrade().filter(|chosen| {
            (chosen.bundle.name.as_str(), chosen.named()) == (&choice.name, &choice.image)
        });
        if let Some(chosen) = pending_upgrade.filter(|chosen| !self.is_withdrawn(chosen)) {
            return OperatorPlan::have(chosen.clone());
        }
        let waits = |why: &str| {
            Some(NextBundle {
                name: truncate(&choice.name, limits::WORD),
                version: truncate(&choice.version.to_string(), limits::WORD),
                waits_for: Some(truncate(why, limits::LINE)),
            })
        };
        // An installation that does not complete may be replaced by another bundle.
        let is_settled = self.current.is_chosen_installed || self.current.chosen.is_none();
        if is_settled && !self.current.is_healthy {
            let mut plan = self.retain_choice("the installed bundle is not healthy");
            plan.next = waits("the installed bundle is not healthy yet; upgrades wait until it is");
            return plan;
        }
        let (decided, permissions) = self.step(choice);
        match decided.step {
            ApprovalDecision::Wait { message, .. } => {
                let mut plan = self
                    .patch(choice)
                    .unwrap_or_else(|| self.retain_choice(&message));
                plan.keep = plan.keep.or(decided.keep);
                plan.next = waits(&message);
                plan.new_rights = permissions;
                plan
            }
            ApprovalDecision::CheckPermissions => OperatorPlan::only(check_permissions(choice)),
            ApprovalDecision::Upgrade(why) => OperatorPlan {
                keep: decided.keep,
                new_rights: permissions,
                ..OperatorPlan::have(self.approved(choice, decision, &why))
            },
            ApprovalDecision::NoChange => self.retain_choice("no upgrade available"),
        }
    }

    /// Plans an approved bundle while a newer one waits: a patch of the installed minor version, or up to the approved
    /// version.
    fn patch(&self, waiting: &Choice) -> Option<OperatorPlan> {
        let version = &waiting.version.version;
        let spec = &self.input.operator.spec;
        let decision = if spec.upgrade_approval == UpgradeApproval::Manual {
            let approved = spec.approved_version.as_deref()?;
            let approved = version::parse_strict(approved).ok()?;
            if version.cmp_precedence(&approved).is_le() {
                return None;
            }
            self.decide(None, Some(&approved))
        } else {
            let installed = self.version()?;
            let minor = (installed.major, installed.minor);
            if (version.major, version.minor) == minor {
                return None;
            }
            self.decide(Some(minor), None)
        };
        let Outcome::Upgrade(choice) = &decision.verdict else {
            return None;
        };
        let (decided, _) = self.step(choice);
        match decided.step {
            ApprovalDecision::CheckPermissions => {
                Some(OperatorPlan::only(check_permissions(choice)))
            }
            ApprovalDecision::Upgrade(why) => Some(OperatorPlan {
                keep: decided.keep,
                ..OperatorPlan::have(self.approved(choice, &decision, &why))
            }),
            ApprovalDecision::Wait { .. } | ApprovalDecision::NoChange => None,
        }
    }

    fn chosen(&self, choice: &Choice, decision: &Decision) -> BundleChoice {
        let most = limits::FINDINGS as usize - 1; // an approval is added
        let steps = decision.steps.iter().take(most);
        BundleChoice {
            package: self.input.operator.spec.package.name.clone(),
            bundle: ChosenBundle {
                name: choice.name.clone(),
                version: choice.version.version.to_string(),
                release: choice.version.release.as_ref().map(ToString::to_string),
                channel: choice.channel.clone(),
                catalog: choice.catalog.clone(),
                image: choice.image.clone(),
                why: steps.map(|step| truncate(step, limits::LINE)).collect(),
            },
            media_type: choice.media_type.clone(),
            after: self
                .current
                .installed
                .as_ref()
                .map(|installed| Predecessor {
                    name: installed.name.clone(),
                    version: installed.version.as_ref().map(Version::to_string),
                    release: installed.release.as_ref().map(ToString::to_string),
                }),
            named: None,
        }
    }

    fn approved(&self, choice: &Choice, decision: &Decision, why: &str) -> BundleChoice {
        let mut chosen = self.chosen(choice, decision);
        chosen.bundle.why.push(truncate(why, limits::LINE));
        // A tag may refer to another image by the time it is fetched.
        if let Some(checked) = self.checked(choice)
            && checked.checked_at != choice.image
            && self.input.operator.spec.approve_new_rights == RightsApproval::Manual
        {
            chosen.bundle.image.clone_from(&checked.checked_at);
            chosen.named = Some(choice.image.clone());
        }
        chosen
    }
}

fn overridden(declared: &Override) -> choose::Override<'_> {
    choose::Override {
        constraint: match declared.constraint {
            Constraint::MaxOpenShiftVersion => choose::Constraint::MaxOpenShiftVersion,
            Constraint::MinKubeVersion => choose::Constraint::MinKubeVersion,
        },
        digest: &declared.digest,
    }
}

fn check_permissions(choice: &Choice) -> InstanceAction {
    InstanceAction::CheckPermissions {
        image: choice.image.clone(),
        class: instance_manifest::class(&choice.media_type),
    }
}

/// Returns the reasons against the first candidates.
fn ineligible(decision: &Decision) -> Option<String> {
    let count = decision.candidates.len() + decision.more_candidates;
    let named = decision.candidates.iter().take(MAX_NAMED).map(|candidate| {
        let reasons = candidate.reasons.join(", and ");
        truncate(&format!("{} {reasons}", candidate.name), limits::LINE)
    });
    let mut all: Vec<String> = named.collect();
    if count > MAX_NAMED {
        all.push(format!("and {} more", count - MAX_NAMED));
    }
    (count > 0).then(|| all.join("; "))
}
