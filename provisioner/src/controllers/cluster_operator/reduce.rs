//! Reduces watched objects to the fields that decisions need, since thousands of them are cached. Pure; no I/O.

#![expect(
    clippy::unnecessary_wraps,
    reason = "readers have one signature, whether or not they need all of it"
)]

use std::collections::BTreeSet;

use convert::olm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{CustomResource, Resource};
use manifests::{
    api::{
        condition,
        config::{ClusterOperator, ClusterVersion, ObjectReference},
        limits,
        operator_condition::{OperatorCondition, OperatorConditionSpec, OperatorConditionStatus},
        platform_operator::PlatformOperator,
        platform_status::PlatformStatus,
    },
    object::truncate,
    openshift::ClusterRelease,
};
use serde::{Deserialize, Serialize};

use super::{
    model::{AGGREGATED, CORE},
    subscriptions::{Service, Subscription},
    upgradeable,
};
use crate::controllers::catalog_source::CatalogKey;

/// Maximum length of a cached message, in characters; more than is published of it.
pub(super) const MAX_MESSAGE_LEN: usize = 400;
/// Maximum length of the name of an object.
const MAX_NAME: usize = 253;
/// Maximum number of ClusterServiceVersions that count as a component's own.
const MAX_RELATED: usize = 256;

/// Read fields of a ClusterServiceVersion, a kind of OLM.
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
pub(crate) struct ServiceSpec {
    #[serde(default)]
    version: Option<String>,
}

/// State of a ClusterServiceVersion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceStatus {
    /// Reason, such as `Copied`.
    #[serde(default)]
    reason: Option<String>,
}

/// Read fields of a Subscription, a kind of OLM.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    root = "OlmSubscription",
    plural = "subscriptions",
    namespaced,
    status = "SubscriptionStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionSpec {
    /// Name of the CatalogSource.
    #[serde(default)]
    source: String,
    #[serde(default)]
    source_namespace: String,
    /// Name of the package.
    #[serde(default)]
    name: String,
}

/// State of a Subscription.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubscriptionStatus {
    /// Name of the installed ClusterServiceVersion; `None` before the first installation.
    #[serde(rename = "installedCSV", default)]
    installed: Option<String>,
}

/// Read fields of any ClusterOperator: the ClusterServiceVersions of its component.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    root = "Component",
    plural = "clusteroperators",
    status = "ComponentStatus",
    schema = "disabled"
)]
pub(crate) struct ComponentSpec {}

/// Objects of a component.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComponentStatus {
    #[serde(default)]
    related_objects: Option<Vec<ObjectReference>>,
}

/// An OperatorCondition. Unlike other objects it may have no spec, and one without a spec must not block cluster upgrades.
#[derive(Resource, Debug, Clone, Deserialize)]
#[resource(inherit = "OperatorCondition")]
pub(crate) struct OperatorConditionView {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: OperatorConditionSpec,
    #[serde(default)]
    status: Option<OperatorConditionStatus>,
}

/// Returns `namespace/name`, or the name of a cluster-scoped object.
pub(crate) fn name(object: &impl kube::ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

pub(crate) fn operator(mut operator: PlatformOperator) -> Option<PlatformOperator> {
    let metadata = &mut operator.metadata;
    (metadata.managed_fields, metadata.annotations) = (None, None);
    operator.spec.bundle = None;
    if let Some(status) = &mut operator.status {
        status.chosen_bundle = None;
        status.next_available = None;
        status.new_rights = None;
        retain(&mut status.conditions, &[condition::INSTALLED]);
    }
    // Changes of these fields have no effect on decisions.
    operator.metadata.resource_version = None;
    operator.metadata.generation = None;
    Some(operator)
}

fn retain(conditions: &mut Vec<Condition>, types: &[&str]) {
    conditions.retain(|condition| types.contains(&condition.type_.as_str()));
    conditions.shrink_to_fit();
    for condition in conditions {
        condition.message = truncate(&condition.message, MAX_MESSAGE_LEN);
        condition.observed_generation = None;
    }
}

pub(crate) fn version(version: ClusterVersion) -> Option<ClusterRelease> {
    Some(version.status.unwrap_or_default().cluster())
}

pub(crate) fn refusal(view: OperatorConditionView) -> Option<(String, String)> {
    let condition = OperatorCondition {
        metadata: view.metadata,
        spec: view.spec,
        status: view.status,
    };
    let refusal = condition.not_upgradeable()?;
    Some((
        truncate(&refusal.reason, MAX_MESSAGE_LEN),
        truncate(&refusal.message, MAX_MESSAGE_LEN),
    ))
}

pub(crate) fn service(service: ClusterServiceVersion) -> Option<Service> {
    let reason = service
        .status
        .as_ref()
        .and_then(|status| status.reason.as_deref());
    let mut operator = upgradeable::InstalledOperator::of_csv(&service.metadata, reason)?;
    // A release is short, and the start of any other value is sufficient.
    operator.max_openshift = operator
        .max_openshift
        .map(|maximum| truncate(&maximum, limits::WORD as usize));
    let version = service.spec.version;
    let version = version.map(|version| truncate(&version, limits::WORD as usize));
    let annotations = service.metadata.annotations.as_ref();
    let package = olm::package(|key| annotations?.get(key).map(String::as_str));
    Some(Service {
        operator,
        version,
        package: package.filter(|package| package.len() <= MAX_NAME),
    })
}

/// Returns a Subscription that has installed a ClusterServiceVersion, with names of a valid length.
pub(crate) fn subscription(subscription: OlmSubscription) -> Option<Subscription> {
    let spec = subscription.spec;
    let subscription = Subscription {
        namespace: subscription.metadata.namespace?,
        catalog: CatalogKey {
            namespace: spec.source_namespace,
            name: spec.source,
        },
        package: spec.name,
        installed: subscription.status?.installed?,
    };
    let names = [
        &subscription.catalog.namespace,
        &subscription.catalog.name,
        &subscription.package,
        &subscription.installed,
    ];
    let is_name = |name: &&String| !name.is_empty() && name.len() <= MAX_NAME;
    names.iter().all(is_name).then_some(subscription)
}

/// Returns the ClusterServiceVersions that a ClusterOperator of another component names. OLM may write their kind in place
/// of their resource.
pub(crate) fn component(component: Component) -> Option<BTreeSet<String>> {
    let name = component.metadata.name.as_deref()?;
    if [AGGREGATED, CORE].contains(&name) {
        return None;
    }
    let is_csv = |related: &ObjectReference| {
        let resource = related.resource.as_str();
        let is_named = ["clusterserviceversions", "ClusterServiceVersion"].contains(&resource);
        is_named && related.group == "operators.coreos.com"
    };
    let related = component.status.unwrap_or_default().related_objects;
    let related = related.into_iter().flatten().filter(is_csv);
    let names = related.filter_map(|related| {
        let name = format!("{}/{}", related.namespace?, related.name);
        (name.len() <= 2 * MAX_NAME).then_some(name)
    });
    Some(names.take(MAX_RELATED).collect())
}

pub(crate) fn cluster_operator(mut operator: ClusterOperator) -> Option<ClusterOperator> {
    operator.metadata.managed_fields = None;
    Some(operator)
}

pub(crate) fn status(mut status: PlatformStatus) -> Option<PlatformStatus> {
    status.metadata.managed_fields = None;
    Some(status)
}
