//! Whether what could be next is approved.

use catalog::{
    choose::{self, Ahead, Choice, Followed, Installed, Offer, Request},
    model::Release as Packed,
};
use manifests::{
    api::{instance::Constraint, platform::NewRights},
    openshift::{MaxOpenShiftVersion, Release, maximum},
    version::Version,
};

use super::{super::Gains, Chooser};
use crate::platform::{
    approval::{self, WayOut},
    operator::here::Bundle,
};

impl Chooser<'_> {
    /// Reports whether a bundle is approved, and which rights it gains, if that was looked at.
    pub(super) fn step(&self, choice: &Choice) -> (approval::Decision, Option<NewRights>) {
        let looked = self.looked_at(choice);
        let gains = match looked.map(|it| it.rights.as_ref()) {
            None => approval::Gains::Unseen,
            Some(Err(why)) => approval::Gains::Unknown(why),
            Some(Ok(None)) => approval::Gains::None,
            Some(Ok(Some(rights))) => approval::Gains::These(&rights.digest),
        };
        let version = &choice.version;
        let way_out = self.way_out(
            version,
            choice
                .max_openshift
                .as_ref()
                .and_then(MaxOpenShiftVersion::release),
            (&choice.name, &choice.catalog, &choice.channel),
        );
        let decided = approval::decide(&self.approval(Some(approval::Next {
            version: &version.version,
            way_out,
            gains,
        })));
        let rights = looked.and_then(|it| it.rights.as_ref().ok()?.clone());
        (decided, rights)
    }

    pub(super) fn looked_at(&self, choice: &Choice) -> Option<&Gains> {
        let mut all = self.input.gains.iter();
        all.find(|it| it.image == choice.image)
    }

    /// Whether a bundle leads to where the cluster can be upgraded, if that is what the installed one keeps it from.
    pub(super) fn way_out(
        &self,
        version: &Packed,
        max: Option<Release>,
        (name, catalog, channel): (&str, &str, &str),
    ) -> WayOut {
        let (Some(cluster), true) = (self.openshift, self.blocks()) else {
            return WayOut::None;
        };
        if !self.is_blocked_by(max) {
            return WayOut::Here;
        }
        let next = Installed {
            name: name.to_owned(),
            version: Some(version.clone()),
            catalog: Some(catalog.to_owned()),
        };
        let own = self.offers.iter().filter(|it| it.catalog == catalog);
        let own: Vec<Offer<'_>> = own.copied().collect();
        let ahead = self.asked(None, None, |request| {
            let request = Request {
                installed: Some(&next),
                channel: Some(channel),
                ..*request
            };
            choose::ahead(&request, Followed::Default, cluster.completed.next(), &own)
        });
        match ahead {
            Ahead::To(_) => WayOut::Ahead,
            Ahead::Nothing | Ahead::Unknown(_) => WayOut::None,
        }
    }

    pub(super) fn approval<'a>(&'a self, next: Option<approval::Next<'a>>) -> approval::Input<'a> {
        let spec = &self.input.operator.spec;
        approval::Input {
            approval: spec.upgrade_approval,
            approved_version: spec.approved_version.as_deref(),
            rights: spec.approve_new_rights,
            approved_rights: spec.approved_rights.as_deref(),
            installed: self.version(),
            cluster: Some(self.cluster()),
            kept: self.input.operator.kept(),
            next,
        }
    }

    /// The minor version that the cluster has reached.
    pub(super) fn cluster(&self) -> Release {
        let of_kubernetes = Release::new(self.kubernetes.major, self.kubernetes.minor);
        self.openshift.map_or(of_kubernetes, |it| it.completed)
    }

    /// Reports whether what is installed is what keeps the cluster from being upgraded.
    fn blocks(&self) -> bool {
        let installed = self.here.installed.as_ref();
        let digest = installed.and_then(|it| it.digest.as_deref());
        let is_overridden = self.overrides().any(|it| {
            it.constraint == Constraint::MaxOpenShiftVersion && Some(it.digest.as_str()) == digest
        });
        let known = self.known_maximum().filter(|_| !is_overridden);
        self.is_blocked_by(known)
    }

    /// Returns the max OpenShift version of the installed bundle: that of a catalog if it can be determined, or else that of
    /// the bundle.
    fn known_maximum(&self) -> Option<Release> {
        let installed = self.here.installed.as_ref()?;
        let listed = self.listed(installed).map(|(_, listed)| listed);
        let of_catalog = listed.and_then(|listed| listed.max_openshift.as_ref()?.release());
        let of_bundle = || maximum(self.here.maximum.as_deref()?).ok();
        of_catalog.or_else(of_bundle)
    }

    /// What is installed, in just this image, as the catalog with the highest priority has it; and which that is.
    pub(super) fn listed(
        &self,
        installed: &Bundle,
    ) -> Option<(&Offer<'_>, &catalog::model::Bundle)> {
        let digest = installed.digest.as_deref()?;
        let found = self.offers.iter().filter_map(|offer| match offer.answer {
            choose::Answer::Package(package) => {
                let bundle = package.bundle(&installed.name)?;
                let (_, of) = bundle.image.rsplit_once('@')?;
                (of == digest).then_some((offer, bundle))
            }
            _ => None,
        });
        // Of equal ones the first by name.
        found.min_by_key(|(offer, _)| std::cmp::Reverse(offer.priority))
    }

    /// Reports whether a bundle with this max OpenShift version keeps the cluster from its next release.
    fn is_blocked_by(&self, max: Option<Release>) -> bool {
        match (max, self.openshift) {
            (Some(max), Some(cluster)) => !max.outlasts(cluster.completed),
            _ => false,
        }
    }

    /// The version that is installed, as the bundle says it, or else the catalog.
    pub(super) fn version(&self) -> Option<&Version> {
        let installed = self.here.installed.as_ref()?;
        let of_catalog = || Some(&self.listed(installed)?.1.version.version);
        installed.version.as_ref().or_else(of_catalog)
    }
}
