//! The bundles in the cluster, and the content that they are rendered from.

use std::collections::{BTreeMap, BTreeSet};

use apply::revision;
use convert::facts::Facts;
use kube::ResourceExt as _;
use manifests::api::{
    bundle::{Bundle, BundleStatus, Phase},
    instance::InstalledBundle,
    labels,
    revision::RevisionDetails,
};

use super::{
    content::{Content, NAMESPACE},
    controller::failure,
    server::Server,
};
use crate::{
    account,
    instance::{
        install::Rendered,
        outcome::{Failure, Retry},
        template,
    },
};

/// The content that bundles are rendered from.
pub(super) struct Registry {
    pub(super) contents: Vec<Content>,
    pub(super) is_reachable: bool,
    /// The Bundles in the cluster.
    pub(super) bundles: Vec<Bundle>,
    /// The templates whose content is in the content store.
    pub(super) stored: BTreeSet<usize>,
    /// The minor version of Kubernetes.
    pub(super) minor: u64,
}

/// The number of the content that a template names.
fn content_of(template: Option<&BTreeMap<String, String>>) -> usize {
    let label = template.and_then(|labels| labels.get("content"));
    label.unwrap().parse().unwrap()
}

impl Registry {
    /// Returns the Bundle of the template, which is created if it does not exist.
    pub(super) fn wanted(&mut self, server: &Server, hash: &str) -> Bundle {
        let name = template::bundle_name(&server.instance, hash);
        let has_name = |bundle: &Bundle| bundle.name_any() == name;
        if !self.bundles.iter().any(has_name) {
            let mut bundle = template::bundle(&server.instance, hash, &name);
            bundle.metadata.uid = Some(format!("uid-of-{name}"));
            bundle.status = Some(BundleStatus {
                phase: Some(Phase::Pending),
                ..BundleStatus::default()
            });
            self.bundles.push(bundle);
        }
        self.unpack();
        self.bundles
            .iter()
            .find(|bundle| has_name(bundle))
            .unwrap()
            .clone()
    }

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

    /// Renders a Bundle, as `install::render` does.
    pub(super) fn render(&self, server: &Server, bundle: &Bundle) -> Result<Rendered, Failure> {
        let number = content_of(bundle.metadata.labels.as_ref());
        if !self.stored.contains(&number) {
            return Err(failure(
                &bundle.name_any(),
                "the registry is unreachable",
                Retry::Soon,
            ));
        }
        let spec = &server.instance.spec;
        let config = spec.config.as_ref().and_then(|config| {
            let value = config.deployment_config.as_ref()?;
            u8::try_from(value.as_u64()?).ok()
        });
        let objects = self.contents[number].objects(config.unwrap_or_default());
        let account = spec.service_account.clone();
        let generation = server.status().observed_generation;
        Ok(Rendered {
            digest: revision::digest(
                &objects,
                account.as_ref().map(account::from_reference).as_ref(),
                NAMESPACE,
            ),
            objects,
            facts: Facts::default(),
            namespace: NAMESPACE.to_owned(),
            account,
            details: RevisionDetails {
                bundle: InstalledBundle {
                    name: bundle.name_any(),
                    uid: bundle.uid().unwrap_or_default(),
                    content_digest: format!("sha256:{number}"),
                },
                template_hash: bundle.labels().get(labels::TEMPLATE_HASH).cloned(),
                ..RevisionDetails::default()
            },
            removed_apis: Some(Vec::new()),
            is_same_generation: generation == server.instance.metadata.generation,
        })
    }
}
