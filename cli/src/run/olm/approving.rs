//! What an InstallPlan would install beside what was asked for. OLM makes one plan of all that is due in a namespace, and
//! has it wait as soon as one Subscription there waits for approval: so a plan may have what somebody else has not allowed.
//!
//! Dependencies have no Subscription before their plan makes it, and those that need no approval would have got it without
//! us. What is left are the versions of Subscriptions that wait for their own owner.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{at, text};
use serde_json::Value;

/// Where OLM writes the properties of a bundle.
const PROPERTIES: &str = "operatorframework.io/properties";

/// What somebody else has to approve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Other {
    /// A ClusterServiceVersion.
    csv: String,
    /// Whose it is.
    subscription: String,
}

/// What of a plan is not this Subscription's to approve, given all Subscriptions of the namespace.
pub(super) fn others(plan: &Value, subscriptions: &[Value], own: &str) -> BTreeSet<Other> {
    fn name(it: &Value) -> &str {
        text(it, &["metadata", "name"]).unwrap_or_default()
    }
    let packages = packages(plan);
    let is_own = |it: &&Value| name(it) == own;
    let own_package = subscriptions
        .iter()
        .find(is_own)
        .and_then(|it| text(it, &["spec", "name"]));
    let waiting = subscriptions
        .iter()
        .filter(|it| !is_own(it) && text(it, &["spec", "installPlanApproval"]) == Some("Manual"));
    let mut found = BTreeSet::new();
    for subscription in waiting {
        let said = |path: &[&str]| text(subscription, path).filter(|it| !it.is_empty());
        let (package, current, first) = (
            said(&["spec", "name"]),
            said(&["status", "currentCSV"]),
            said(&["spec", "startingCSV"]),
        );
        for (csv, of) in &packages {
            let is_theirs = match of {
                Some(of) => Some(of.as_str()) == package && package != own_package,
                // The Subscription is written a moment after its plan, so the package counts where it is known.
                None => Some(csv.as_str()) == current || Some(csv.as_str()) == first,
            };
            if is_theirs {
                found.insert(Other {
                    csv: csv.clone(),
                    subscription: name(subscription).to_owned(),
                });
            }
        }
    }
    found
}

/// Why a plan is not approved, and how its owners can do it.
pub(super) fn refusal(others: &BTreeSet<Other>, plan: &str, namespace: &str) -> String {
    let told: Vec<String> = others
        .iter()
        .map(|it| format!("{} (Subscription {})", it.csv, it.subscription))
        .collect();
    format!(
        "InstallPlan {plan} would install {} as well, which waits for approval by somebody else; whoever may decide that approves \
         all of it with: kubectl patch installplan {plan} --namespace {namespace} --type merge --patch \
         '{{\"spec\":{{\"approved\":true}}}}'; then run the same command again",
        told.join(", ")
    )
}

/// The ClusterServiceVersions that a plan installs.
pub(super) fn csvs(plan: &Value) -> BTreeSet<&str> {
    let named = list(plan, &["spec", "clusterServiceVersionNames"]).filter_map(Value::as_str);
    let steps = list(plan, &["status", "plan"]).filter_map(|it| text(it, &["resolving"]));
    let lookups = list(plan, &["status", "bundleLookups"]);
    let lookups = lookups.filter_map(|it| text(it, &["identifier"]));
    let all = named.chain(steps).chain(lookups);
    all.filter(|it| !it.is_empty()).collect()
}

/// The packages of a plan's ClusterServiceVersions, as far as it tells them.
fn packages(plan: &Value) -> BTreeMap<String, Option<String>> {
    let mut found: BTreeMap<String, Option<String>> = csvs(plan)
        .into_iter()
        .map(|it| (it.to_owned(), None))
        .collect();
    let steps = list(plan, &["status", "plan"])
        .filter(|it| text(it, &["resource", "kind"]) == Some("ClusterServiceVersion"));
    let steps = steps.filter_map(|it| {
        let manifest: Value = serde_json::from_str(text(it, &["resource", "manifest"])?).ok()?;
        // It is the object, or says in which ConfigMap that is.
        let properties = text(&manifest, &["metadata", "annotations", PROPERTIES])
            .or_else(|| text(&manifest, &["properties"]))?;
        Some((text(it, &["resource", "name"])?, package(properties)?))
    });
    let lookups = list(plan, &["status", "bundleLookups"]).filter_map(|it| {
        let properties = text(it, &["properties"])?;
        Some((text(it, &["identifier"])?, package(properties)?))
    });
    for (csv, package) in steps.chain(lookups) {
        found.insert(csv.to_owned(), Some(package));
    }
    found
}

fn package(properties: &str) -> Option<String> {
    let properties: Value = serde_json::from_str(properties).ok()?;
    let mut all = list(&properties, &["properties"]);
    let package = all.find(|it| text(it, &["type"]) == Some("olm.package"))?;
    text(package, &["value", "packageName"]).map(str::to_owned)
}

fn list<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> {
    at(object, path)
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

    /// A step, as OLM writes it for a bundle that was unpacked, and for one that was not.
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
    fn what_others_have_to_approve_is_left_to_them() {
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
        let theirs = &[("coral.v1", "coral")][..];
        for (plan, others_there, expected) in ::tests::rows![
            // A dependency: nobody has asked for it.
            named.clone(), vec![] => &[][..];
            with(json!([step("coral.v1", &whole)]), json!([])), vec![] => &[];
            // It would be installed by itself, were it not for us.
            named.clone(), vec![subscription("coral", "coral", "Automatic", "coral.v1")] => &[];
            named.clone(), vec![subscription("coral", "coral", "", "coral.v1")] => &[];
            named.clone(), vec![manual("coral.v1")] => theirs;
            // The plan is there, and the other Subscription does not tell yet.
            named.clone(), vec![manual("")] => &[];
            with(json!([step("coral.v1", &unpacked)]), json!([])), vec![manual("")] => theirs;
            with(json!([step("coral.v1", &whole)]), json!([])), vec![manual("coral.v0")] => theirs;
            with(json!(null), json!([lookup])), vec![manual("")] => theirs;
            // What waits, and is not in the plan.
            json!({"spec": {"clusterServiceVersionNames": ["tide.v2"]}}), vec![manual("coral.v1")] => &[];
            // Another Subscription to the same package is nobody else's.
            with(json!([step("tide.v2", &json!({"properties": properties("tide")}))]), json!([])),
                vec![subscription("tide", "tide", "Manual", "tide.v2")] => &[];
            // What cannot be read names nothing.
            with(json!([{"resource": 1}, step("coral.v1", &json!("{"))]), json!("x")), vec![manual("")] => &[];
            json!([]), vec![manual("coral.v1")] => &[];
        ] {
            let mut all = others_there;
            all.push(own.clone());
            let found = others(&plan, &all, "tide-sub");
            let found: Vec<(&str, &str)> = found
                .iter()
                .map(|it| (it.csv.as_str(), it.subscription.as_str()))
                .collect();
            assert_eq!(found, expected, "{plan} {all:?}");
        }
    }

    // parity: sdk-8
    #[test]
    fn a_refusal_says_how_to_approve() {
        let others = BTreeSet::from([Other {
            csv: "coral.v1".to_owned(),
            subscription: "coral".to_owned(),
        }]);
        let told = refusal(&others, "install-1", "tides");
        for part in [
            "InstallPlan install-1 would install coral.v1 (Subscription coral) as well",
            "kubectl patch installplan install-1 --namespace tides --type merge --patch '{\"spec\":{\"approved\":true}}'",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
}
