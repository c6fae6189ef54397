//! What was chosen before, and whether it stays.

use catalog::{
    choose::{self, Answer, Decision},
    model::{PLAIN_V0, Package, REGISTRY_V1},
};
use manifests::{
    api::platform::{ChosenBundle, RightsApproval, reason},
    openshift::MaxOpenShiftVersion,
};

use super::{
    super::{Plan, stay},
    Chooser,
};
use crate::platform::{
    approval::{self, Step},
    operator::here::{Bundle, Chosen, Way},
};

impl Chooser<'_> {
    /// What stays while nothing is known to be installed. As long as nobody knows that it failed, it may be in the cluster,
    /// and something else would come over it without an edge.
    pub(super) fn held(&self, decision: &Decision) -> Option<&Chosen> {
        let chosen = self.here.chosen.as_ref()?;
        let catalog = &chosen.bundle.catalog;
        let stays = match self.here.way {
            Way::Unknown => true,
            Way::UnderWay => !self.is_called_off(chosen),
            // It is not given up because its catalog is away.
            Way::Failed => (decision.unasked.iter())
                .any(|it| it.catalog == *catalog || choose::stands_for(&it.catalog, catalog)),
        };
        stays.then_some(chosen)
    }

    /// An upgrade that was chosen, and is not installed yet.
    pub(super) fn under_way(&self) -> Option<&Chosen> {
        let is_upgrade = self.here.installed.is_some() && !self.here.is_chosen_installed;
        self.here.chosen.as_ref().filter(|_| is_upgrade)
    }

    /// Whether what is on its way would not be chosen any more: its catalog answers and has it no more, or it is not what is
    /// asked for, or not approved. A catalog that is away calls nothing off.
    pub(super) fn is_called_off(&self, chosen: &Chosen) -> bool {
        let memo = &chosen.bundle;
        let Some(package) = self.answer_of(&memo.catalog) else {
            return false;
        };
        let spec = &self.input.operator.spec;
        let Some(bundle) = package.bundle(&memo.name) else {
            return true;
        };
        if bundle.unreadable.is_some() {
            return false;
        }
        let channel = spec.channel.as_deref();
        let is_elsewhere = channel
            .and_then(|it| package.channels.get(it))
            .is_some_and(|it| it.entries.iter().all(|entry| entry.name != memo.name));
        bundle.image != chosen.named()
            || is_elsewhere
            || self.asked(None, None, |request| !request.refusals(bundle).is_empty())
            || self.here.installed.is_some() && !self.is_approved(chosen, bundle)
    }

    /// Reports whether its version is approved; its rights were before it was chosen.
    fn is_approved(&self, chosen: &Chosen, bundle: &catalog::model::Bundle) -> bool {
        let memo = &chosen.bundle;
        let place = (&*memo.name, &*memo.catalog, &*memo.channel);
        let max = bundle.max_openshift.as_ref();
        let max = max.and_then(MaxOpenShiftVersion::release);
        let next = approval::Next {
            version: &bundle.version.version,
            way_out: self.way_out(&bundle.version, max, place),
            gains: approval::Gains::None,
        };
        let input = approval::Input {
            rights: RightsApproval::Automatic,
            ..self.approval(Some(next))
        };
        matches!(approval::decide(&input).step, Step::Go(_))
    }

    /// What was chosen stays, unless it is called off. Where nobody has kept what that was, it is what is installed.
    pub(super) fn stay(&self, why: &str) -> Plan {
        let found = || self.found_again(self.here.installed.as_ref()?);
        let former = self
            .under_way()
            .filter(|chosen| self.is_called_off(chosen))
            .and_then(|chosen| self.former(chosen));
        let chosen = former.or_else(|| self.here.chosen.clone());
        match chosen.or_else(found) {
            Some(chosen) => Plan::have(chosen),
            None => stay(self.here, reason::SOURCE_FAILED, why),
        }
    }

    /// What is installed, while something else is on its way.
    fn former(&self, chosen: &Chosen) -> Option<Chosen> {
        let installed = self.here.installed.as_ref()?;
        let listed = self
            .answer_of(&chosen.bundle.catalog)
            .and_then(|package| package.bundle(&installed.name))
            .filter(|it| digest_of(&it.image) == installed.digest.as_deref());
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
        Some(Chosen {
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

    /// What is installed, as it would have been chosen: somebody has taken the annotation off that said so.
    fn found_again(&self, installed: &Bundle) -> Option<Chosen> {
        let (offer, bundle) = self.listed(installed)?;
        let Answer::Package(package) = offer.answer else {
            return None;
        };
        let channel = self.input.operator.spec.channel.as_ref();
        Some(Chosen {
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

    /// What a catalog has of the package, if it answers.
    fn answer_of(&self, catalog: &str) -> Option<&Package> {
        let mut offers = self.offers.iter();
        match offers.find(|it| it.catalog == catalog)?.answer {
            Answer::Package(package) => Some(package),
            Answer::Absent | Answer::Unknown(_) | Answer::Pending => None,
        }
    }
}

pub(super) fn digest_of(image: &str) -> Option<&str> {
    image.rsplit_once('@').map(|(_, digest)| digest)
}
