//! Versions of other Subscriptions in an InstallPlan. OLM makes one plan of all pending upgrades in a namespace. The plan
//! waits as soon as one Subscription there requires approval, so that it may contain versions that their owners have not
//! approved.
//!
//! Dependencies have no Subscription before their plan creates it, and upgrades that need no approval do not wait for this
//! command. The remaining ones are versions of Subscriptions that wait for their own owner.

use std::collections::{BTreeMap, BTreeSet};

use convert::olm;
use manifests::{
    api::olm::{InstallPlan, Step, Subscription},
    object::text,
    openshift::INSTALLED_PROPERTIES_ANNOTATION as PROPERTIES,
};
use serde_json::Value;

/// Version that the owner of another Subscription has to approve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PendingApproval {
    /// Name of the ClusterServiceVersion.
    csv: String,
    /// Name of its Subscription.
    subscription: String,
}

/// Returns the versions of a plan that this Subscription must not approve, given all Subscriptions of the namespace.
pub(super) fn pending_approvals(
    plan: &InstallPlan,
    subscriptions: &[Subscription],
    own: &str,
) -> BTreeSet<PendingApproval> {
    let packages = packages(plan);
    let own_package = subscriptions
        .iter()
        .find(|subscription| subscription.name() == own)
        .map(|subscription| &subscription.spec.name);
    let waiting = subscriptions.iter().filter(|subscription| {
        subscription.name() != own && subscription.spec.install_plan_approval == "Manual"
    });
    let mut pending = BTreeSet::new();
    for subscription in waiting {
        let spec = &subscription.spec;
        for (csv, package) in &packages {
            let is_foreign = match package {
                Some(package) => *package == spec.name && own_package != Some(package),
                // OLM updates the Subscription a moment after its plan. A known package is therefore compared instead.
                None => *csv == subscription.status.current_csv || *csv == spec.starting_csv,
            };
            if is_foreign {
                pending.insert(PendingApproval {
                    csv: (*csv).to_owned(),
                    subscription: subscription.name().to_owned(),
                });
            }
        }
    }
    pending
}

/// Explains why a plan is not approved, and how the user can approve it.
pub(super) fn refusal(others: &BTreeSet<PendingApproval>, plan: &str, namespace: &str) -> String {
    let versions: Vec<String> = others
        .iter()
        .map(|other| format!("{} (Subscription {})", other.csv, other.subscription))
        .collect();
    format!(
        "InstallPlan {plan} also installs {}, which requires manual approval; to approve all of it, run: kubectl patch \
         installplan {plan} --namespace {namespace} --type merge --patch '{{\"spec\":{{\"approved\":true}}}}'; then run the \
         same command again",
        versions.join(", ")
    )
}

/// Returns the packages of a plan's ClusterServiceVersions; `None` if the plan does not contain the package.
fn packages(plan: &InstallPlan) -> BTreeMap<&str, Option<String>> {
    let package = |properties: &str| olm::package(|_| Some(properties));
    let mut found: BTreeMap<&str, Option<String>> =
        plan.csvs().into_iter().map(|csv| (csv, None)).collect();
    for step in &plan.status.plan {
        if step.resource.kind == "ClusterServiceVersion"
            && let Some(properties) = properties(step)
            && let Some(package) = package(&properties)
        {
            found.insert(&step.resource.name, Some(package));
        }
    }
    for lookup in &plan.status.bundle_lookups {
        if let Some(package) = package(&lookup.properties) {
            found.insert(&lookup.identifier, Some(package));
        }
    }
    found
}

/// Returns the properties in the manifest of a ClusterServiceVersion. The manifest is the object itself, or refers to the
/// ConfigMap that has it.
fn properties(step: &Step) -> Option<String> {
    let manifest: Value = serde_json::from_str(&step.resource.manifest).ok()?;
    let properties = text(&manifest, &["metadata", "annotations", PROPERTIES]);
    let properties = properties.or_else(|| text(&manifest, &["properties"]))?;
    Some(properties.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn properties(package: &str) -> String {
        json!({"properties": [
            {"type": "olm.gvk", "value": {}},
            {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
        ]})
        .to_string()
    }

    /// A step of an InstallPlan. The manifest depends on whether OLM has unpacked the bundle.
    fn step(csv: &str, manifest: &Value) -> Value {
        let resource =
            json!({"kind": "ClusterServiceVersion", "name": csv, "manifest": manifest.to_string()});
        json!({"resolving": csv, "resource": resource})
    }

    fn subscription(name: &str, package: &str, approval: &str, current: &str) -> Subscription {
        object!({
            "metadata": {"name": name},
            "spec": {"name": package, "installPlanApproval": approval},
            "status": {"currentCSV": current},
        })
    }

    fn pending() -> BTreeSet<PendingApproval> {
        let [csv, subscription] = ["coral.v1", "coral"].map(str::to_owned);
        BTreeSet::from([PendingApproval { csv, subscription }])
    }

    // parity: sdk-8
    #[test]
    fn manual_approvals_of_others_are_left_to_them() {
        let own = subscription("tide-sub", "tide", "Manual", "tide.v2");
        let plan = |csvs: &[&str], steps: Value, lookups: Value| -> InstallPlan {
            object!({"spec": {"clusterServiceVersionNames": csvs}, "status": {"plan": steps, "bundleLookups": lookups}})
        };
        let with = |steps, lookups| plan(&["tide.v2", "coral.v1"], steps, lookups);
        let named = with(json!([]), json!([]));
        let unpacked = json!({"kind": "ConfigMap", "properties": properties("coral")});
        let whole = json!({"metadata": {"annotations": {PROPERTIES: properties("coral")}}});
        let lookup = json!({"identifier": "coral.v1", "properties": properties("coral")});
        let manual = |current: &str| subscription("coral", "coral", "Manual", current);
        let (pending, none) = (&pending(), &BTreeSet::new());
        ::tests::assert_each!(|plan, others, expected|
            pending_approvals(&plan, &[others, vec![own.clone()]].concat(), "tide-sub") => *expected;
            // A dependency without a Subscription.
            named.clone(), vec![] => none;
            with(json!([step("coral.v1", &whole)]), json!([])), vec![] => none;
            // Its Subscription is automatic; the plan waits only because of "tide-sub".
            named.clone(), vec![subscription("coral", "coral", "Automatic", "coral.v1")] => none;
            named.clone(), vec![subscription("coral", "coral", "", "coral.v1")] => none;
            named.clone(), vec![manual("coral.v1")] => pending;
            // The plan exists, and the status of the other Subscription is not updated yet.
            named.clone(), vec![manual("")] => none;
            with(json!([step("coral.v1", &unpacked)]), json!([])), vec![manual("")] => pending;
            with(json!([step("coral.v1", &whole)]), json!([])), vec![manual("coral.v0")] => pending;
            with(json!([]), json!([lookup])), vec![manual("")] => pending;
            // A pending version that is not in the plan.
            plan(&["tide.v2"], json!([]), json!([])), vec![manual("coral.v1")] => none;
            // Another Subscription to the same package does not count.
            with(json!([step("tide.v2", &json!({"properties": properties("tide")}))]), json!([])),
                vec![subscription("tide", "tide", "Manual", "tide.v2")] => none;
            // A malformed manifest is ignored.
            with(json!([step("coral.v1", &json!("{"))]), json!([])), vec![manual("")] => none;
        );
    }

    // parity: sdk-8
    #[test]
    fn refusal_names_the_approval_command() {
        let text = refusal(&pending(), "install-1", "tides");
        for part in [
            "InstallPlan install-1 also installs coral.v1 (Subscription coral), which requires manual approval",
            "kubectl patch installplan install-1 --namespace tides --type merge --patch '{\"spec\":{\"approved\":true}}'",
        ] {
            ::tests::assert_has(&text, part);
        }
    }
}
