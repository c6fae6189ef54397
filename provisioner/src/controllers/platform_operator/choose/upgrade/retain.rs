//! Decides whether a previous choice remains valid.

use catalog::{
    choose::{self, CatalogAnswer, Decision},
    model::{PLAIN_V0, Package, REGISTRY_V1},
};
use manifests::{
    api::platform_operator::{ChosenBundle, RightsApproval, reason},
    openshift::MaxOpenShiftVersion,
};

use super::{
    super::{OperatorPlan, retain_or_refuse},
    UpgradeChooser,
};
use crate::controllers::platform_operator::{
    approval::{self, ApprovalDecision},
    installed::{Bundle, BundleChoice, InstallProgress},
};

impl UpgradeChooser<'_> {
    /// Returns the choice to retain while no bundle is known to be installed. Unless the choice has failed, its bundle may
    /// be in the cluster, and another bundle would replace it without an upgrade edge.
    pub(super) fn pending_choice(&self, decision: &Decision) -> Option<&BundleChoice> {
        let chosen = self.current.chosen.as_ref()?;
        let catalog = &chosen.bundle.catalog;
        let is_retained = match self.current.progress {
            InstallProgress::Unknown => true,
            InstallProgress::InProgress => !self.is_withdrawn(chosen),
            // Retained while its catalog is unavailable.
            InstallProgress::Failed => (decision.unavailable.iter()).any(|catalog_ref| {
                catalog_ref.catalog == *catalog || choose::represents(&catalog_ref.catalog, catalog)
            }),
        };
        is_retained.then_some(chosen)
    }

    /// Returns an upgrade that was chosen and is not installed yet.
    pub(super) fn pending_upgrade(&self) -> Option<&BundleChoice> {
        let is_upgrade = self.current.installed.is_some() && !self.current.is_chosen_installed;
        self.current.chosen.as_ref().filter(|_| is_upgrade)
    }

    /// Reports whether a pending choice would not be made again: its catalog is available and does not list it, or the spec
    /// requests another bundle, or it is not approved. An unavailable catalog withdraws no choice.
    pub(super) fn is_withdrawn(&self, chosen: &BundleChoice) -> bool {
        let memo = &chosen.bundle;
        let Some(package) = self.answer_of(&memo.catalog) else {
            return false;
        };
        let spec = &self.input.operator.spec;
        let Some(bundle) = package.bundle(&memo.name) else {
            return true;
        };
        if bundle.invalid_properties.is_some() {
            return false;
        }
        let channel = spec.channel.as_deref();
        let is_elsewhere = channel
            .and_then(|channel| package.channels.get(channel))
            .is_some_and(|channel| channel.entries.iter().all(|entry| entry.name != memo.name));
        bundle.image != chosen.named()
            || is_elsewhere
            || self.asked(None, None, |request| {
                !request.ineligible_reasons(bundle).is_empty()
            })
            || self.current.installed.is_some() && !self.is_approved(chosen, bundle)
    }

    /// Reports whether the version is approved. The permissions were approved before the choice.
    fn is_approved(&self, chosen: &BundleChoice, bundle: &catalog::model::Bundle) -> bool {
        let memo = &chosen.bundle;
        let place = (&*memo.name, &*memo.catalog, &*memo.channel);
        let max = bundle.max_openshift.as_ref();
        let max = max.and_then(MaxOpenShiftVersion::release);
        let next = approval::UpgradeCandidate {
            version: &bundle.version.version,
            unblocks_cluster: self.unblocks_cluster(&bundle.version, max, place),
            gains: approval::PermissionChange::None,
        };
        let input = approval::Input {
            permissions: RightsApproval::Automatic,
            ..self.approval(Some(next))
        };
        matches!(approval::decide(&input).step, ApprovalDecision::Upgrade(_))
    }

    /// Retains the choice unless it is withdrawn. If no choice is recorded, it is recovered from the installed bundle.
    pub(super) fn retain_choice(&self, why: &str) -> OperatorPlan {
        let found = || self.recover_choice(self.current.installed.as_ref()?);
        let former = self
            .pending_upgrade()
            .filter(|chosen| self.is_withdrawn(chosen))
            .and_then(|chosen| self.previous_choice(chosen));
        let chosen = former.or_else(|| self.current.chosen.clone());
        match chosen.or_else(found) {
            Some(chosen) => OperatorPlan::have(chosen),
            None => retain_or_refuse(self.current, reason::SOURCE_FAILED, why),
        }
    }

    /// Returns the choice of the installed bundle, while an upgrade is pending.
    fn previous_choice(&self, chosen: &BundleChoice) -> Option<BundleChoice> {
        let installed = self.current.installed.as_ref()?;
        let listed = self
            .answer_of(&chosen.bundle.catalog)
            .and_then(|package| package.bundle(&installed.name))
            .filter(|bundle| digest_of(&bundle.image) == installed.digest.as_deref());
        let image = match listed {
            Some(listed) => listed.image.clone(),
            None => installed.image.clone()?,
        };
        let media_type = match listed {
            Some(listed) => listed.media_type(),
            None if installed.has_name => REGISTRY_V1,
            None => PLAIN_V0,
        };
        let release = installed.release.as_ref();
        Some(BundleChoice {
            package: self.input.operator.spec.package.name.clone(),
            bundle: ChosenBundle {
                name: installed.name.clone(),
                version: self.version().map(ToString::to_string).unwrap_or_default(),
                release: release.map(ToString::to_string),
                image,
                why: Vec::new(),
                ..chosen.bundle.clone()
            },
            media_type: media_type.to_owned(),
            after: None,
            named: None,
        })
    }

    /// Returns the choice of the installed bundle, for a BundleInstance whose annotation another client has removed.
    fn recover_choice(&self, installed: &Bundle) -> Option<BundleChoice> {
        let (offer, bundle) = self.listed(installed)?;
        let CatalogAnswer::Package(package) = offer.answer else {
            return None;
        };
        let channel = self.input.operator.spec.channel.as_ref();
        Some(BundleChoice {
            package: self.input.operator.spec.package.name.clone(),
            bundle: ChosenBundle {
                name: bundle.name.clone(),
                version: bundle.version.version.to_string(),
                release: bundle.version.release.as_ref().map(ToString::to_string),
                channel: channel.unwrap_or(&package.default_channel).clone(),
                catalog: offer.catalog.to_owned(),
                image: bundle.image.clone(),
                why: Vec::new(),
            },
            media_type: bundle.media_type().to_owned(),
            after: None,
            named: None,
        })
    }

    /// Returns the package in a catalog, if that is available.
    fn answer_of(&self, catalog: &str) -> Option<&Package> {
        let mut offers = self.offers.iter();
        match offers.find(|offer| offer.catalog == catalog)?.answer {
            CatalogAnswer::Package(package) => Some(package),
            CatalogAnswer::NotFound | CatalogAnswer::Unavailable(_) | CatalogAnswer::Pending => {
                None
            }
        }
    }
}

pub(super) fn digest_of(image: &str) -> Option<&str> {
    image.rsplit_once('@').map(|(_, digest)| digest)
}
