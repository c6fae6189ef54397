//! The BundleInstances of platform operators: the labeled ones as they are, and of all others the metadata, for one of
//! them may have an operator's name.

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
use manifests::api::{instance::BundleInstance, labels, platform::PlatformOperator};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::{declare, here, plan::There};
use apply::backoff::Pauses;

type Metadata = PartialObjectMeta<BundleInstance>;

/// What is known of them.
pub(super) struct Instances {
    client: Client,
    labeled: Store<BundleInstance>,
    others: Store<Metadata>,
}

/// The BundleInstance of an operator's name.
pub(super) enum Named {
    Nothing,
    Ours(Arc<BundleInstance>),
    Others { is_leaving: bool },
    Former,
}

/// Knows nothing yet; what is returned beside it follows them, and tells the names of those that change.
pub(super) fn follow(
    client: &Client,
    changed: UnboundedSender<ObjectRef<PlatformOperator>>,
) -> (Instances, impl Future<Output = ()> + Send + use<>) {
    let (labeled, labeled_writer) = reflector::store();
    let (others, others_writer) = reflector::store();
    let config = |selector: &str| watcher::Config::default().labels(selector);
    let label = labels::PLATFORM_OPERATOR;
    let ours = watcher(Api::<BundleInstance>::all(client.clone()), config(label))
        .backoff(Pauses::default())
        .modify(declare::keep_own_fields)
        .reflect(labeled_writer)
        .touched_objects()
        .map(|result| result.map(|it| it.name_any()));
    let other = watcher(
        Api::<Metadata>::all(client.clone()),
        config(&format!("!{label}")),
    )
    .backoff(Pauses::default())
    .modify(|it| it.metadata.managed_fields = None)
    .reflect(others_writer)
    .touched_objects()
    .map(|result| result.map(|it| it.name_any()));
    let following = stream::select(ours, other).for_each(move |name| {
        match name {
            Ok(name) => {
                // The controller is there as long as this is, or the process ends.
                let _ = changed.send(ObjectRef::new(&name));
            }
            Err(error) => {
                warn!(%error, "the watch of BundleInstances failed; it is taken up again");
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
    /// Waits until it is known which there are.
    pub(super) async fn are_listed(&self) -> Result<(), WriterDropped> {
        self.labeled.wait_until_ready().await?;
        self.others.wait_until_ready().await
    }

    /// Those of platform operators.
    pub(super) fn labeled(&self) -> Vec<Arc<BundleInstance>> {
        self.labeled.state()
    }

    /// The package of an operator's, if it has one.
    pub(super) fn package(&self, operator: &PlatformOperator) -> Option<String> {
        let instance = self.labeled.get(&ObjectRef::new(&operator.name_any()))?;
        let package = here::package(&instance);
        Some(package.unwrap_or_else(|| operator.spec.package.name.clone()))
    }

    /// The one of this operator's name.
    pub(super) async fn named(&self, operator: &PlatformOperator) -> Result<Named, kube::Error> {
        let name = operator.name_any();
        if let Some(instance) = self.labeled.get(&ObjectRef::new(&name)) {
            let metadata = &instance.metadata;
            return Ok(if is_of(metadata, operator) {
                Named::Ours(instance)
            } else {
                others(metadata, operator)
            });
        }
        match self.others.get(&ObjectRef::new(&name)) {
            None => Ok(Named::Nothing),
            Some(other) if !is_of(&other.metadata, operator) => {
                Ok(others(&other.metadata, operator))
            }
            // Somebody has taken the label off; it is looked at, and labeled again.
            Some(_) => {
                let api = Api::<BundleInstance>::all(self.client.clone());
                let mut found = api.get_opt(&name).await?;
                if let Some(found) = &mut found {
                    declare::keep_own_fields(found);
                }
                Ok(found.map_or(Named::Nothing, |it| Named::Ours(Arc::new(it))))
            }
        }
    }
}

fn others(metadata: &ObjectMeta, operator: &PlatformOperator) -> Named {
    let is_leaving = metadata.deletion_timestamp.is_some();
    let name = operator.name_any();
    let kind = PlatformOperator::kind(&());
    let mut owners = metadata.owner_references.iter().flatten();
    let is_former =
        owners.any(|it| it.controller == Some(true) && it.kind == kind && it.name == name);
    if is_former && !is_leaving {
        Named::Former
    } else {
        Named::Others { is_leaving }
    }
}

/// Reports whether a BundleInstance was made for this operator, and not for one of the same name that is gone.
fn is_of(metadata: &ObjectMeta, operator: &PlatformOperator) -> bool {
    let uid = operator.uid();
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid.as_ref())
}

// === impl Named ===

impl Named {
    pub(super) fn there(&self) -> There<'_> {
        match self {
            Self::Nothing => There::Nothing,
            Self::Ours(instance) => There::Ours(instance),
            Self::Others { is_leaving } => There::Others {
                is_leaving: *is_leaving,
            },
            Self::Former => There::Former,
        }
    }
}
