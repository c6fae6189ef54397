//! Which of an instance's Bundles is to be in the cluster.

use kube::ResourceExt as _;
use manifests::api::{
    bundle::Bundle,
    condition::{self, reason},
    instance::{BundleInstance, BundleInstanceStatus},
};

use super::{
    install::{Settled, Target},
    memory::Memory,
    rollback, status,
    trust::is_unpacked,
};

/// What there is to choose from.
pub(super) struct Known<'a> {
    pub(super) status: &'a BundleInstanceStatus,
    /// Of the template.
    pub(super) hash: &'a str,
    /// The Bundle of the template, if it could be made.
    pub(super) wanted: Option<&'a Bundle>,
    /// What is installed, if its content is there.
    pub(super) installed: Option<&'a Bundle>,
    /// What was installed before that.
    pub(super) previous: Option<&'a Bundle>,
}

impl<'a> Known<'a> {
    /// What is to be in the cluster.
    pub(super) fn target(&self, memory: &Memory) -> Option<Target<'a>> {
        let as_it_is = |bundle| Target {
            bundle,
            way_back_from: None,
        };
        if self.status.failed_template_hash.as_deref() != Some(self.hash) {
            // The old one stays as it was declared while the new one is not ready, or cannot even be made.
            let ready = self.wanted.filter(|bundle| is_unpacked(bundle));
            return ready.or(self.installed).map(as_it_is);
        }
        // The way back, also where it has not been gone to its end yet.
        let failed = self.wanted.map(kube::ResourceExt::name_any);
        let is_failed = self.status.installed_bundle_name == failed;
        let back = if is_failed {
            self.previous
        } else {
            self.installed
        };
        // A failed Bundle that was replaced has a new name, so that it is not recognized as failed.
        let bundle = back.or(self.installed).or(self.previous)?;
        let why = || (self.hash.to_owned(), why_it_failed(self.status, memory));
        Some(Target {
            bundle,
            way_back_from: (Some(bundle.name_any()) != failed).then(why),
        })
    }

    /// Why to go back, and to which Bundle.
    pub(super) fn way_back(
        &self,
        instance: &BundleInstance,
        target: &Target<'_>,
        settled: &Settled,
    ) -> Option<(String, &'a Bundle)> {
        // Another template than the one that does not work is not to blame.
        self.wanted
            .filter(|wanted| wanted.metadata.name == target.bundle.metadata.name)?;
        let failure = rollback::reason(instance, self.status, &settled.install, &settled.health)?;
        let back = rollback::to(self.status, target, self.installed, self.previous)?;
        Some((failure, back))
    }
}

/// Why the template was given up, as was told then.
fn why_it_failed(status: &BundleInstanceStatus, memory: &Memory) -> String {
    if let Some((_, why)) = memory
        .gave_up
        .as_ref()
        .filter(|(hash, _)| status.failed_template_hash.as_ref() == Some(hash))
    {
        return why.clone();
    }
    let told = status
        .conditions
        .iter()
        .find(|c| c.type_ == condition::INSTALLED && c.reason == reason::ROLLED_BACK)
        .and_then(|c| status::failure(&c.message));
    told.unwrap_or("see the events of that time").to_owned()
}
