//! Caches of BundleInstances: those with the label of a platform operator, and the metadata of all others, since one of
//! them may have the name of an operator.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    core::{ObjectMeta, PartialObjectMeta},
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store, store::WriterDropped},
        watcher,
    },
};
use manifests::api::{
    bundle_instance::BundleInstance, labels, platform_operator::PlatformOperator,
};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::{choose::ExistingInstance, installed, instance_manifest};
use apply::{api_error, backoff::WatchBackoff};

type Metadata = PartialObjectMeta<BundleInstance>;

/// Caches of BundleInstances.
pub(crate) struct Instances {
    client: Client,
    labeled: Store<BundleInstance>,
    others: Store<Metadata>,
}

/// Owner of the BundleInstance with the name of an operator.
pub(crate) enum NameOwner {
    Nothing,
    Ours(Arc<BundleInstance>),
    Foreign { is_leaving: bool },
    Orphaned,
}

/// Creates empty caches, and a future that fills them and sends the names of changed BundleInstances.
pub(crate) fn follow(
    client: &Client,
    changed: UnboundedSender<ObjectRef<PlatformOperator>>,
) -> (Instances, impl Future<Output = ()> + Send + use<>) {
    let (labeled, labeled_writer) = reflector::store();
    let (others, others_writer) = reflector::store();
    let config = |selector: &str| watcher::Config::default().labels(selector);
    let label = labels::PLATFORM_OPERATOR;
    let own = watcher(Api::<BundleInstance>::all(client.clone()), config(label))
        .backoff(WatchBackoff::default())
        .modify(instance_manifest::retain_own_fields)
        .reflect(labeled_writer)
        .touched_objects()
        .map(|result| result.map(|instance| instance.name_any()));
    let other = watcher(
        Api::<Metadata>::all(client.clone()),
        config(&format!("!{label}")),
    )
    .backoff(WatchBackoff::default())
    .modify(|instance| instance.metadata.managed_fields = None)
    .reflect(others_writer)
    .touched_objects()
    .map(|result| result.map(|instance| instance.name_any()));
    let following = stream::select(own, other).for_each(move |name| {
        match name {
            Ok(name) => {
                // The controller exists as long as this stream, or the process ends.
                let _ = changed.send(ObjectRef::new(&name));
            }
            Err(error) => {
                let error = api_error::chain(&error);
                warn!(error, "watch of BundleInstances failed; reconnecting");
            }
        }
        std::future::ready(())
    });
    let instances = Instances {
        client: client.clone(),
        labeled,
        others,
    };
    (instances, following)
}

// === impl Instances ===

impl Instances {
    /// Waits until the first lists are complete.
    pub(crate) async fn are_listed(&self) -> Result<(), WriterDropped> {
        self.labeled.wait_until_ready().await?;
        self.others.wait_until_ready().await
    }

    /// Returns the BundleInstances of platform operators.
    pub(crate) fn labeled(&self) -> Vec<Arc<BundleInstance>> {
        self.labeled.state()
    }

    /// Returns the package of an operator's BundleInstance; `None` without a BundleInstance.
    pub(crate) fn package(&self, operator: &PlatformOperator) -> Option<String> {
        let instance = self.labeled.get(&ObjectRef::new(&operator.name_any()))?;
        let package = installed::package(&instance);
        Some(package.unwrap_or_else(|| operator.spec.package.name.clone()))
    }

    /// Returns the BundleInstance with the name of this operator.
    pub(crate) async fn named(
        &self,
        operator: &PlatformOperator,
    ) -> Result<NameOwner, kube::Error> {
        let name = operator.name_any();
        if let Some(instance) = self.labeled.get(&ObjectRef::new(&name)) {
            let metadata = &instance.metadata;
            return Ok(if is_of(metadata, operator) {
                NameOwner::Ours(instance)
            } else {
                foreign(metadata, operator)
            });
        }
        match self.others.get(&ObjectRef::new(&name)) {
            None => Ok(NameOwner::Nothing),
            Some(other) if !is_of(&other.metadata, operator) => {
                Ok(foreign(&other.metadata, operator))
            }
            // Another client has removed the label. The live object is used, and labeled again.
            Some(_) => {
                let api = Api::<BundleInstance>::all(self.client.clone());
                let mut found = api.get_opt(&name).await?;
                if let Some(found) = &mut found {
                    instance_manifest::retain_own_fields(found);
                }
                Ok(found.map_or(NameOwner::Nothing, |instance| {
                    NameOwner::Ours(Arc::new(instance))
                }))
            }
        }
    }
}

fn foreign(metadata: &ObjectMeta, operator: &PlatformOperator) -> NameOwner {
    let is_leaving = metadata.deletion_timestamp.is_some();
    let name = operator.name_any();
    let kind = PlatformOperator::kind(&());
    let mut owners = metadata.owner_references.iter().flatten();
    let is_former = owners
        .any(|owner| owner.controller == Some(true) && owner.kind == kind && owner.name == name);
    if is_former && !is_leaving {
        NameOwner::Orphaned
    } else {
        NameOwner::Foreign { is_leaving }
    }
}

/// Reports whether a BundleInstance was created for this operator, not for an earlier one with the same name.
fn is_of(metadata: &ObjectMeta, operator: &PlatformOperator) -> bool {
    let uid = operator.uid();
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid.as_ref())
}

// === impl NameOwner ===

impl NameOwner {
    pub(crate) fn existing(&self) -> ExistingInstance<'_> {
        match self {
            Self::Nothing => ExistingInstance::Nothing,
            Self::Ours(instance) => ExistingInstance::Ours(instance),
            Self::Foreign { is_leaving } => ExistingInstance::Foreign {
                is_leaving: *is_leaving,
            },
            Self::Orphaned => ExistingInstance::Orphaned,
        }
    }
}
