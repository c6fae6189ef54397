//! Builds the input of the approval of the next bundle, and reports its decision.

use catalog::{
    choose::{self, ChannelScope, Choice, Installed, Offer, Request, RequiredUpgrade},
    model::Release as Packed,
};
use manifests::{
    api::{bundle_instance::Constraint, platform_operator::NewRights},
    openshift::{MaxOpenShiftVersion, Release, maximum},
    version::Version,
};

use super::{super::CheckedPermissions, UpgradeChooser};
use crate::{
    cluster::overrides::ContentDigests,
    controllers::platform_operator::{
        approval::{self, UnblocksCluster},
        installed::Bundle,
    },
};

impl UpgradeChooser<'_> {
    /// Decides whether a bundle is approved, and returns its new permissions if they were computed.
    pub(super) fn step(&self, choice: &Choice) -> (approval::Decision, Option<NewRights>) {
        let checked = self.checked(choice);
        let gains = match checked.map(|checked| checked.permissions.as_ref()) {
            None => approval::PermissionChange::NotChecked,
            Some(Err(why)) => approval::PermissionChange::Unknown(why),
            Some(Ok(None)) => approval::PermissionChange::None,
            Some(Ok(Some(permissions))) => approval::PermissionChange::Digest(&permissions.digest),
        };
        let version = &choice.version;
        let unblocks_cluster = self.unblocks_cluster(
            version,
            choice
                .max_openshift
                .as_ref()
                .and_then(MaxOpenShiftVersion::release),
            (&choice.name, &choice.catalog, &choice.channel),
        );
        let decided = approval::decide(&self.approval(Some(approval::UpgradeCandidate {
            version: &version.version,
            unblocks_cluster,
            gains,
        })));
        let permissions = checked.and_then(|checked| checked.permissions.as_ref().ok()?.clone());
        (decided, permissions)
    }

    pub(super) fn checked(&self, choice: &Choice) -> Option<&CheckedPermissions> {
        let mut all = self.input.gains.iter();
        all.find(|gains| gains.image == choice.image)
    }

    /// Reports whether a bundle leads to one that does not block cluster upgrades, if the installed one does.
    pub(super) fn unblocks_cluster(
        &self,
        version: &Packed,
        max: Option<Release>,
        (name, catalog, channel): (&str, &str, &str),
    ) -> UnblocksCluster {
        let (Some(cluster), true) = (self.openshift, self.blocks()) else {
            return UnblocksCluster::None;
        };
        if !self.is_blocked_by(max) {
            return UnblocksCluster::Now;
        }
        let next = Installed {
            name: name.to_owned(),
            version: Some(version.clone()),
            catalog: Some(catalog.to_owned()),
        };
        let own = self.offers.iter().filter(|offer| offer.catalog == catalog);
        let own: Vec<Offer<'_>> = own.copied().collect();
        let ahead = self.asked(None, None, |request| {
            let request = Request {
                installed: Some(&next),
                channel: Some(channel),
                ..*request
            };
            choose::ahead(
                &request,
                ChannelScope::Default,
                cluster.completed.next(),
                &own,
            )
        });
        match ahead {
            RequiredUpgrade::UpgradeTo(_) => UnblocksCluster::Later,
            RequiredUpgrade::None | RequiredUpgrade::Unknown(_) => UnblocksCluster::None,
        }
    }

    pub(super) fn approval<'a>(
        &'a self,
        next: Option<approval::UpgradeCandidate<'a>>,
    ) -> approval::Input<'a> {
        let spec = &self.input.operator.spec;
        approval::Input {
            approval: spec.upgrade_approval,
            approved_version: spec.approved_version.as_deref(),
            permissions: spec.approve_new_rights,
            approved_rights: spec.approved_rights.as_deref(),
            installed: self.version(),
            cluster: Some(self.cluster()),
            kept: self.input.operator.approved_minors(),
            next,
        }
    }

    /// Returns the minor version that the cluster has reached.
    pub(super) fn cluster(&self) -> Release {
        let of_kubernetes = Release::new(self.kubernetes.major, self.kubernetes.minor);
        self.openshift
            .map_or(of_kubernetes, |releases| releases.completed)
    }

    /// Reports whether the installed bundle blocks cluster upgrades.
    fn blocks(&self) -> bool {
        let instance = self.input.existing.ours();
        let status = instance.and_then(|instance| instance.status.as_ref());
        let digests = status.map(ContentDigests::of_installed).unwrap_or_default();
        let mut overrides = self.overrides();
        let is_overridden = overrides.any(|list| {
            digests
                .find(list, Constraint::MaxOpenShiftVersion)
                .is_some()
        });
        let max = self.known_maximum().filter(|_| !is_overridden);
        self.is_blocked_by(max)
    }

    /// Returns the max OpenShift version of the installed bundle: that of a catalog if it can be determined, or else that
    /// of the bundle.
    fn known_maximum(&self) -> Option<Release> {
        let installed = self.current.installed.as_ref()?;
        let listed = self.listed(installed).map(|(_, listed)| listed);
        let of_catalog = listed.and_then(|listed| listed.max_openshift.as_ref()?.release());
        let of_bundle = || maximum(self.current.maximum.as_deref()?).ok();
        of_catalog.or_else(of_bundle)
    }

    /// Returns the installed bundle, with exactly this image, in the catalog with the highest priority, and that catalog's
    /// offer.
    pub(super) fn listed(
        &self,
        installed: &Bundle,
    ) -> Option<(&Offer<'_>, &catalog::model::Bundle)> {
        let digest = installed.digest.as_deref()?;
        let found = self.offers.iter().filter_map(|offer| match offer.answer {
            choose::CatalogAnswer::Package(package) => {
                let bundle = package.bundle(&installed.name)?;
                let (_, of) = bundle.image.rsplit_once('@')?;
                (of == digest).then_some((offer, bundle))
            }
            _ => None,
        });
        // Among equal priorities, the first catalog by name.
        found.min_by_key(|(offer, _)| std::cmp::Reverse(offer.priority))
    }

    /// Reports whether a bundle with this max OpenShift version blocks an upgrade to the next release.
    fn is_blocked_by(&self, max: Option<Release>) -> bool {
        match (max, self.openshift) {
            (Some(max), Some(cluster)) => !max.allows_next(cluster.completed),
            _ => false,
        }
    }

    /// Returns the installed version: that of the bundle, or else that of the catalog.
    pub(super) fn version(&self) -> Option<&Version> {
        let installed = self.current.installed.as_ref()?;
        let of_catalog = || Some(&self.listed(installed)?.1.version.version);
        installed.version.as_ref().or_else(of_catalog)
    }
}
