//! What is kept of each object: thousands of them are in memory for as long as the process runs. No I/O.

#![expect(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "readers have one signature, whether or not they need all of it"
)]

use std::borrow::Cow;

use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use kube::{CustomResource, Resource};
use manifests::{
    api::{
        bounds, condition,
        config::{ClusterOperator, ClusterVersion},
        instance::BundleInstance,
        labels,
        operator_condition::{OperatorCondition, OperatorConditionSpec, OperatorConditionStatus},
        platform::PlatformOperator,
        platform_status::PlatformStatus,
    },
    object::shortened,
    openshift::Cluster,
};
use serde::{Deserialize, Serialize};

use crate::platform::gate;

/// How much of a message is kept, in characters: more than is repeated of it.
const LONGEST_MESSAGE: usize = 400;

/// As much of a ClusterServiceVersion as is read. Its definition is OLM's.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "ClusterServiceVersion",
    plural = "clusterserviceversions",
    namespaced,
    status = "ServiceStatus",
    schema = "disabled"
)]
pub(super) struct ServiceSpec {}

/// How OLM sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ServiceStatus {
    /// `Copied`, for one.
    #[serde(default)]
    reason: Option<String>,
}

/// An OperatorCondition: unlike other objects it may have no spec, and who has made one so must not close the gate.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: OperatorConditionSpec,
    #[serde(default)]
    status: Option<OperatorConditionStatus>,
}

impl Resource for Asked {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        OperatorCondition::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        OperatorCondition::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        OperatorCondition::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        OperatorCondition::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// `namespace/name`, or the name of what is in no namespace.
pub(super) fn name(object: &impl kube::ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

pub(super) fn operator(mut operator: PlatformOperator) -> Option<PlatformOperator> {
    let metadata = &mut operator.metadata;
    (metadata.managed_fields, metadata.annotations) = (None, None);
    operator.spec.bundle = None;
    if let Some(status) = &mut operator.status {
        status.chosen_bundle = None;
        status.next_available = None;
        status.new_rights = None;
        keep(&mut status.conditions, &[condition::INSTALLED]);
    }
    // What follows from a change shows elsewhere.
    operator.metadata.resource_version = None;
    operator.metadata.generation = None;
    Some(operator)
}

pub(super) fn instance(mut instance: BundleInstance) -> Option<BundleInstance> {
    let metadata = &mut instance.metadata;
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key == labels::CHOSEN_BUNDLE);
    }
    (metadata.resource_version, metadata.generation) = (None, None);
    instance.spec.template = manifests::api::instance::BundleTemplate::default();
    instance.spec.config = None;
    if let Some(status) = &mut instance.status {
        // Its number tells whether what was installed is something else.
        if let Some(inventory) = &mut status.inventory {
            (inventory.kinds, inventory.more) = (Vec::new(), None);
        }
        status.waiting = Vec::new();
        status.released = Vec::new();
        let needed = [
            condition::HAS_VALID_BUNDLE,
            condition::INSTALLED,
            condition::HEALTHY,
        ];
        keep(&mut status.conditions, &needed);
    }
    Some(instance)
}

fn keep(conditions: &mut Vec<Condition>, types: &[&str]) {
    conditions.retain(|it| types.contains(&it.type_.as_str()));
    for condition in conditions {
        condition.message = shortened(&condition.message, LONGEST_MESSAGE);
        condition.observed_generation = None;
    }
}

pub(super) fn version(version: ClusterVersion) -> Option<Cluster> {
    Some(version.status.unwrap_or_default().cluster())
}

pub(super) fn refusal(asked: Asked) -> Option<(String, String)> {
    let condition = OperatorCondition {
        metadata: asked.metadata,
        spec: asked.spec,
        status: asked.status,
    };
    let refusal = condition.refusal()?;
    Some((
        shortened(&refusal.reason, LONGEST_MESSAGE),
        shortened(&refusal.message, LONGEST_MESSAGE),
    ))
}

pub(super) fn service(service: ClusterServiceVersion) -> Option<gate::Operator> {
    let reason = service.status.as_ref().and_then(|it| it.reason.as_deref());
    let mut operator = gate::Operator::of_csv(&service.metadata, reason)?;
    // A release is short, and of anything else a word tells enough.
    operator.maximum = operator
        .maximum
        .map(|maximum| shortened(&maximum, bounds::WORD as usize));
    Some(operator)
}

pub(super) fn cluster_operator(mut operator: ClusterOperator) -> Option<ClusterOperator> {
    operator.metadata.managed_fields = None;
    Some(operator)
}

pub(super) fn status(mut status: PlatformStatus) -> Option<PlatformStatus> {
    status.metadata.managed_fields = None;
    Some(status)
}
