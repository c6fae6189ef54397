//! Versions of other Subscriptions in an InstallPlan. OLM makes one plan of all pending upgrades in a namespace. The plan
//! waits as soon as one Subscription there requires approval, so that it may contain versions that their owners have not
//! approved.
//!
//! Dependencies have no Subscription before their plan creates it, and upgrades that need no approval do not wait for this
//! command. The remaining ones are versions of Subscriptions that wait for their own owner.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{get_path, text};
use serde_json::Value;

/// Annotation in which OLM writes the properties of a bundle.
const PROPERTIES: &str = "operatorframework.io/properties";

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
    plan: &Value,
    subscriptions: &[Value],
    own: &str,
) -> BTreeSet<PendingApproval> {
    fn name(object: &Value) -> &str {
        text(object, &["metadata", "name"]).unwrap_or_default()
    }
    let packages = packages(plan);
    let is_own = |subscription: &&Value| name(subscription) == own;
    let own_package = subscriptions
        .iter()
        .find(is_own)
        .and_then(|subscription| text(subscription, &["spec", "name"]));
    let waiting = subscriptions.iter().filter(|subscription| {
        !is_own(subscription)
            && text(subscription, &["spec", "installPlanApproval"]) == Some("Manual")
    });
    let mut found = BTreeSet::new();
    for subscription in waiting {
        let field = |path: &[&str]| text(subscription, path).filter(|value| !value.is_empty());
        let (package, current, first) = (
            field(&["spec", "name"]),
            field(&["status", "currentCSV"]),
            field(&["spec", "startingCSV"]),
        );
        for (csv, csv_package) in &packages {
            let is_foreign = match csv_package {
                Some(csv_package) => {
                    Some(csv_package.as_str()) == package && package != own_package
                }
                // OLM updates the Subscription a moment after its plan, so the package is compared, if known.
                None => Some(csv.as_str()) == current || Some(csv.as_str()) == first,
            };
            if is_foreign {
                found.insert(PendingApproval {
                    csv: csv.clone(),
                    subscription: name(subscription).to_owned(),
                });
            }
        }
    }
    found
}

/// Explains why a plan is not approved, and how its owners can approve it.
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

/// Returns the ClusterServiceVersions that a plan installs.
pub(super) fn csvs(plan: &Value) -> BTreeSet<&str> {
    let named = list(plan, &["spec", "clusterServiceVersionNames"]).filter_map(Value::as_str);
    let steps = list(plan, &["status", "plan"]).filter_map(|step| text(step, &["resolving"]));
    let lookups = list(plan, &["status", "bundleLookups"]);
    let lookups = lookups.filter_map(|lookup| text(lookup, &["identifier"]));
    let all = named.chain(steps).chain(lookups);
    all.filter(|name| !name.is_empty()).collect()
}

/// Returns the packages of a plan's ClusterServiceVersions; `None` if the plan does not contain the package.
fn packages(plan: &Value) -> BTreeMap<String, Option<String>> {
    let mut found: BTreeMap<String, Option<String>> = csvs(plan)
        .into_iter()
        .map(|csv| (csv.to_owned(), None))
        .collect();
    let steps = list(plan, &["status", "plan"])
        .filter(|step| text(step, &["resource", "kind"]) == Some("ClusterServiceVersion"));
    let steps = steps.filter_map(|step| {
        let manifest: Value = serde_json::from_str(text(step, &["resource", "manifest"])?).ok()?;
        // The manifest is the object itself, or refers to the ConfigMap that has it.
        let properties = text(&manifest, &["metadata", "annotations", PROPERTIES])
            .or_else(|| text(&manifest, &["properties"]))?;
        Some((text(step, &["resource", "name"])?, package(properties)?))
    });
    let lookups = list(plan, &["status", "bundleLookups"]).filter_map(|lookup| {
        let properties = text(lookup, &["properties"])?;
        Some((text(lookup, &["identifier"])?, package(properties)?))
    });
    for (csv, package) in steps.chain(lookups) {
        found.insert(csv.to_owned(), Some(package));
    }
    found
}

fn package(properties: &str) -> Option<String> {
    let properties: Value = serde_json::from_str(properties).ok()?;
    let mut all = list(&properties, &["properties"]);
    let package = all.find(|property| text(property, &["type"]) == Some("olm.package"))?;
    text(package, &["value", "packageName"]).map(str::to_owned)
}

fn list<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> {
    get_path(object, path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
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

    fn subscription(name: &str, package: &str, approval: &str, current: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"name": package, "installPlanApproval": approval},
            "status": {"currentCSV": current},
        })
    }

    // parity: sdk-8
    #[test]
    fn manual_approvals_of_others_are_left_to_them() {
        let own = subscription("tide-sub", "tide", "Manual", "tide.v2");
        let named = json!({"spec": {"clusterServiceVersionNames": ["tide.v2", "coral.v1"]}});
        let unpacked = json!({"kind": "ConfigMap", "properties": properties("coral")});
        let whole = json!({"metadata": {"annotations": {PROPERTIES: properties("coral")}}});
        let with = |steps: Value, lookups: Value| {
            json!({
                "spec": {"clusterServiceVersionNames": ["tide.v2", "coral.v1"]},
                "status": {"plan": steps, "bundleLookups": lookups},
            })
        };
        let lookup = json!({"identifier": "coral.v1", "properties": properties("coral")});
        let manual = |current: &str| subscription("coral", "coral", "Manual", current);
        let pending = &[("coral.v1", "coral")][..];
        for (plan, others_there, expected) in ::tests::rows![
            // A dependency without a Subscription.
            named.clone(), vec![] => &[][..];
            with(json!([step("coral.v1", &whole)]), json!([])), vec![] => &[];
            // Its Subscription is automatic; the plan waits only because of "tide-sub".
            named.clone(), vec![subscription("coral", "coral", "Automatic", "coral.v1")] => &[];
            named.clone(), vec![subscription("coral", "coral", "", "coral.v1")] => &[];
            named.clone(), vec![manual("coral.v1")] => pending;
            // The plan exists, and the status of the other Subscription is not updated yet.
            named.clone(), vec![manual("")] => &[];
            with(json!([step("coral.v1", &unpacked)]), json!([])), vec![manual("")] => pending;
            with(json!([step("coral.v1", &whole)]), json!([])), vec![manual("coral.v0")] => pending;
            with(json!(null), json!([lookup])), vec![manual("")] => pending;
            // A pending version that is not in the plan.
            json!({"spec": {"clusterServiceVersionNames": ["tide.v2"]}}), vec![manual("coral.v1")] => &[];
            // Another Subscription to the same package does not count.
            with(json!([step("tide.v2", &json!({"properties": properties("tide")}))]), json!([])),
                vec![subscription("tide", "tide", "Manual", "tide.v2")] => &[];
            // Malformed steps are ignored.
            with(json!([{"resource": 1}, step("coral.v1", &json!("{"))]), json!("x")), vec![manual("")] => &[];
            json!([]), vec![manual("coral.v1")] => &[];
        ] {
            let mut all = others_there;
            all.push(own.clone());
            let found = pending_approvals(&plan, &all, "tide-sub");
            let found: Vec<(&str, &str)> = found
                .iter()
                .map(|approval| (approval.csv.as_str(), approval.subscription.as_str()))
                .collect();
            assert_eq!(found, expected, "{plan} {all:?}");
        }
    }

    // parity: sdk-8
    #[test]
    fn refusal_names_the_approval_command() {
        let others = BTreeSet::from([PendingApproval {
            csv: "coral.v1".to_owned(),
            subscription: "coral".to_owned(),
        }]);
        let text = refusal(&others, "install-1", "tides");
        for part in [
            "InstallPlan install-1 also installs coral.v1 (Subscription coral), which requires manual approval",
            "kubectl patch installplan install-1 --namespace tides --type merge --patch '{\"spec\":{\"approved\":true}}'",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
