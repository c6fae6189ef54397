//! The bundles in the cluster, and the content that they are rendered from.

use convert::bundle_info::BundleInfo;
use manifests::api::{
    bundle::{BundleStatus, Phase},
    bundle_instance::InstalledBundle,
};

use super::*;
use crate::{cluster::impersonation, controllers::bundle_instance::rollout::digest};

#[derive(Default)]
pub(super) struct Registry {
    pub(super) contents: Vec<Content>,
    pub(super) is_reachable: bool,
    pub(super) bundles: Vec<Bundle>,
    /// The templates whose content is in the content store.
    pub(super) stored: BTreeSet<usize>,
    pub(super) minor: u64,
}

fn content_of(template: Option<&BTreeMap<String, String>>) -> usize {
    let label = template.and_then(|labels| labels.get("content"));
    label.unwrap().parse().unwrap()
}

impl Registry {
    /// Unpacks the Bundles, and stores their content, as far as the registry is reachable.
    fn unpack(&mut self) {
        if !self.is_reachable {
            return;
        }
        for bundle in &mut self.bundles {
            let number = content_of(bundle.metadata.labels.as_ref());
            let status = bundle.status.as_mut().unwrap();
            status.phase = Some(Phase::Unpacked);
            status.content_digest = Some(format!("sha256:{number}"));
            self.stored.insert(number);
        }
    }
}

impl Server {
    /// Returns the Bundle of the template, which is created if it does not exist.
    pub(super) fn desired(&mut self, hash: &str) -> Bundle {
        let name = template::bundle_name(&self.instance, hash);
        let has_name = |bundle: &Bundle| bundle.name_any() == name;
        let registry = &mut self.registry;
        if !registry.bundles.iter().any(has_name) {
            let mut bundle = template::bundle(&self.instance, hash, &name);
            bundle.metadata.uid = Some(format!("uid-of-{name}"));
            bundle.status = Some(with!(BundleStatus, phase: Some(Phase::Pending)));
            registry.bundles.push(bundle);
        }
        registry.unpack();
        let mut bundles = registry.bundles.iter();
        let found = bundles.find(|bundle| has_name(bundle));
        found.unwrap().clone()
    }

    pub(super) fn has_content(&self, bundle: &Bundle) -> bool {
        let number = content_of(bundle.metadata.labels.as_ref());
        self.registry.stored.contains(&number)
    }

    /// Renders a Bundle, as `rollout::render` does.
    pub(super) fn render(&self, bundle: &Bundle) -> Result<Rendered, Failure> {
        let number = content_of(bundle.metadata.labels.as_ref());
        let name = bundle.name_any();
        if !self.has_content(bundle) {
            let problem = "the registry is unreachable";
            return Err(failure(&name, problem, RetryClass::Soon));
        }
        let spec = &self.instance.spec;
        let config = spec.config.as_ref().and_then(|config| {
            let value = config.deployment_config.as_ref()?;
            u8::try_from(value.as_u64()?).ok()
        });
        let objects = self.registry.contents[number].objects(config.unwrap_or_default());
        let account = spec.service_account.clone();
        let applier = account.as_ref().map(impersonation::from_reference);
        let installed = InstalledBundle {
            name,
            uid: bundle.uid().unwrap_or_default(),
            content_digest: format!("sha256:{number}"),
        };
        let template_hash = bundle.labels().get(labels::TEMPLATE_HASH).cloned();
        let provisioner = env!("CARGO_PKG_VERSION").to_owned();
        let kubernetes = KubeVersion::new(1, self.registry.minor).to_string();
        Ok(Rendered {
            digest: revision::digest(&objects, applier.as_ref(), NAMESPACE),
            objects,
            facts: BundleInfo::default(),
            namespace: NAMESPACE.to_owned(),
            account,
            configuration_hash: Some(digest::configuration_hash(spec, bundle)),
            details: with!(RevisionDetails, bundle: installed, template_hash, provisioner, kubernetes),
            removed_apis: Some(Vec::new()),
        })
    }
}
