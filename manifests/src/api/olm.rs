//! Objects of OLM v0 (`operators.coreos.com`), reduced to the fields that rukpak-rs reads, and detection of OLM.
//!
//! OLM installs the CRDs. A missing field has its default value: an empty string means that OLM has not set the field.
//! States and reasons are strings, because their values differ between releases of OLM. The types are not serialized,
//! because an object that is written back would lose its other fields.

mod catalog_operator;

use std::{borrow::Cow, collections::BTreeSet};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time},
};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

pub use self::catalog_operator::{CatalogOperatorState, NAMESPACES, OPERATOR};
use super::catalog_source::GROUP;

/// Defines an object of OLM: a struct with metadata, spec and, if it is read, status.
macro_rules! olm_object {
    ($(#[$attribute:meta])* $kind:ident, $version:literal, $plural:literal, $spec:ident $(, $status:ident)?) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(default)]
        pub struct $kind {
            /// Metadata of the object.
            pub metadata: ObjectMeta,
            /// Desired state.
            pub spec: $spec,
            $(
                /// Observed state; all fields have their default before OLM sets it.
                pub status: $status,
            )?
        }

        impl $kind {
            /// Returns the name of the object, or an empty string if the name is missing.
            pub fn name(&self) -> &str {
                self.metadata.name.as_deref().unwrap_or_default()
            }
        }

        impl Resource for $kind {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Condition of an object of OLM. Each kind uses some of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OlmCondition {
    /// Type of the condition; empty in ClusterServiceVersions.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`; empty in ClusterServiceVersions.
    pub status: String,
    /// Phase of a ClusterServiceVersion; empty in other kinds.
    pub phase: String,
    /// Reason in CamelCase.
    pub reason: String,
    /// Description for people.
    pub message: String,
    /// Time of the last change of the status or phase; `None` if OLM has set none.
    pub last_transition_time: Option<Time>,
}

impl OlmCondition {
    /// Returns `reason: message`, as far as OLM has set them.
    pub fn describe(&self) -> String {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => "no reason given".to_owned(),
            (text, "") | ("", text) => text.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}

olm_object! {
    /// A Subscription to a channel of a package.
    Subscription, "v1alpha1", "subscriptions", SubscriptionSpec, SubscriptionStatus
}

impl Subscription {
    /// Returns the name of the current InstallPlan.
    pub fn install_plan(&self) -> Option<&str> {
        let plan = self.status.install_plan_ref.as_ref()?;
        plan.name.as_deref().filter(|name| !name.is_empty())
    }

    /// Reports whether the version that OLM is upgrading to does not exist yet.
    pub fn is_upgrade_pending(&self) -> bool {
        self.status.state == "UpgradePending"
    }
}

/// Package, catalog and channel of a Subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// Name of the package.
    pub name: String,
    /// Channel; empty means the default channel of the package.
    pub channel: String,
    /// Name of the CatalogSource.
    pub source: String,
    /// Namespace of the CatalogSource.
    pub source_namespace: String,
    /// ClusterServiceVersion that is installed first; empty means the channel head.
    #[serde(rename = "startingCSV")]
    pub starting_csv: String,
    /// `Manual` or `Automatic`; empty means `Automatic`.
    pub install_plan_approval: String,
}

/// Observed state of a Subscription.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// State of the upgrade: `AtLatestKnown`, `UpgradePending`, …
    pub state: String,
    /// Installed ClusterServiceVersion.
    #[serde(rename = "installedCSV")]
    pub installed_csv: String,
    /// ClusterServiceVersion that OLM is installing, or has installed.
    #[serde(rename = "currentCSV")]
    pub current_csv: String,
    /// Current InstallPlan.
    pub install_plan_ref: Option<ObjectReference>,
    /// Conditions. OLM changes them in place, so their order has no meaning.
    pub conditions: Vec<OlmCondition>,
}

olm_object! {
    /// An InstallPlan for the pending upgrades of a namespace.
    InstallPlan, "v1alpha1", "installplans", InstallPlanSpec, InstallPlanStatus
}

impl InstallPlan {
    /// Returns the ClusterServiceVersions that the plan installs.
    pub fn csvs(&self) -> BTreeSet<&str> {
        let named = &self.spec.cluster_service_version_names;
        let steps = self.status.plan.iter().map(|step| &step.resolving);
        let lookups = self.status.bundle_lookups.iter();
        let lookups = lookups.map(|lookup| &lookup.identifier);
        let all = named.iter().chain(steps).chain(lookups);
        all.map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// Reports whether the plan has failed. OLM does not retry it.
    pub fn has_failed(&self) -> bool {
        self.status.phase == "Failed"
    }

    /// Reports whether the plan is complete or has failed.
    pub fn has_ended(&self) -> bool {
        self.status.phase == "Complete" || self.has_failed()
    }
}

/// Content and approval of an InstallPlan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InstallPlanSpec {
    /// Whether OLM may execute the plan.
    pub approved: bool,
    /// ClusterServiceVersions that are installed.
    pub cluster_service_version_names: Vec<String>,
}

/// Observed state of an InstallPlan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InstallPlanStatus {
    /// Phase: `RequiresApproval`, `Installing`, `Complete`, `Failed`, …
    pub phase: String,
    /// Last error of the execution.
    pub message: String,
    /// Conditions.
    pub conditions: Vec<OlmCondition>,
    /// Objects that the plan creates.
    pub plan: Vec<Step>,
    /// Bundles whose content is looked up.
    pub bundle_lookups: Vec<BundleLookup>,
}

/// An object that an InstallPlan creates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Step {
    /// ClusterServiceVersion that needs the object.
    pub resolving: String,
    /// The object.
    pub resource: StepResource,
}

/// An object in an InstallPlan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StepResource {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The object as JSON, or a reference to the ConfigMap that contains it.
    pub manifest: String,
}

/// A bundle whose content is looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BundleLookup {
    /// ClusterServiceVersion of the bundle.
    pub identifier: String,
    /// Properties of the bundle as JSON.
    pub properties: String,
}

olm_object! {
    /// A version of an operator.
    ClusterServiceVersion, "v1alpha1", "clusterserviceversions", ClusterServiceVersionSpec, ClusterServiceVersionStatus
}

/// Declarations of a version.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterServiceVersionSpec {
    /// The version.
    pub version: String,
    /// ClusterServiceVersion that this one replaces.
    pub replaces: String,
    /// CRDs of the operator.
    #[serde(rename = "customresourcedefinitions")]
    pub crds: CustomResourceDefinitions,
    /// Installation of the operator.
    pub install: InstallStrategy,
}

/// CRDs that an operator owns. Those that it only requires are not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinitions {
    /// Owned CRDs.
    pub owned: Vec<OwnedCrd>,
}

/// A CRD that an operator owns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OwnedCrd {
    /// Name of the CRD.
    pub name: String,
}

/// Installation of an operator.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct InstallStrategy {
    /// Details of the strategy `deployment`.
    pub spec: StrategyDetails,
}

/// Permissions of an operator. Its Deployments are not read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StrategyDetails {
    /// Permissions in the whole cluster.
    pub cluster_permissions: Vec<Permissions>,
    /// Permissions in the watched namespaces.
    pub permissions: Vec<Permissions>,
}

/// Permissions of a ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Permissions {
    /// Name of the ServiceAccount.
    pub service_account_name: String,
    /// Rules of the role.
    pub rules: Value,
}

/// Observed state of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterServiceVersionStatus {
    /// Current phase, with its reason and message.
    #[serde(flatten)]
    pub latest: OlmCondition,
    /// The last twenty phases with their reasons, oldest first.
    pub conditions: Vec<OlmCondition>,
}

olm_object! {
    /// The OperatorGroup of a namespace.
    OperatorGroup, "v1", "operatorgroups", OperatorGroupSpec
}

impl OperatorGroup {
    /// Value of `upgradeStrategy` that allows upgrades from failed versions.
    pub const FAIL_FORWARD: &str = "TechPreviewUnsafeFailForward";

    /// Reports whether OLM upgrades from failed versions.
    pub fn fails_forward(&self) -> bool {
        self.spec.upgrade_strategy == Self::FAIL_FORWARD
    }

    /// Reports whether a label selector selects the namespaces, so that they are unknown in advance. As in OLM, an empty
    /// selector is ignored.
    pub fn is_selecting(&self) -> bool {
        self.spec.selector.as_ref().is_some_and(|selector| {
            let expressions = selector.match_expressions.iter().flatten().count();
            let labels = selector.match_labels.iter().flatten().count();
            expressions + labels > 0
        })
    }
}

/// Watched namespaces.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OperatorGroupSpec {
    /// Watched namespaces; empty means all namespaces, unless there is a selector.
    pub target_namespaces: BTreeSet<String>,
    /// Label selector of watched namespaces.
    pub selector: Option<LabelSelector>,
    /// Upgrade strategy: `Default` or [`OperatorGroup::FAIL_FORWARD`].
    pub upgrade_strategy: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn condition_is_described_by_reason_and_message() {
        assert_each!(|fields, expected| serde_json::from_value::<OlmCondition>(fields).unwrap().describe() => expected;
            json!({"type": "Installed", "status": "False", "reason": "Denied", "message": "no"}) => "Denied: no";
            json!({"reason": "Denied"}) => "Denied";
            json!({"message": "no", "phase": "Failed", "lastTransitionTime": null}) => "no";
            json!({}) => "no reason given";
        );
    }

    #[test]
    fn missing_fields_have_their_default() {
        assert_rows!(serde_json::from_value::<Subscription>(json!({})).unwrap() => Subscription::default());
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "tide.v1"},
            "status": {"phase": "Failed", "reason": "Copied", "requirementStatus": [{}], "conditions": [{"phase": "Pending"}]},
        }))
        .unwrap();
        let status = &csv.status;
        assert_eq!(csv.spec, ClusterServiceVersionSpec::default());
        assert_rows!((csv.name(), &*status.latest.describe(), &*status.conditions[0].phase) => ("tide.v1", "Copied", "Pending"));
    }

    #[test]
    fn objects_have_the_api_versions_of_olm() {
        ::tests::assert_rows! {
            Subscription::url_path(&(), Some("a")) => "/apis/operators.coreos.com/v1alpha1/namespaces/a/subscriptions";
            OperatorGroup::api_version(&()) => "operators.coreos.com/v1";
        }
    }
}
