//! Operators that OLM installed.

use super::*;

/// Adds a ClusterServiceVersion with these annotations to the cluster.
pub(super) fn put(facts: &mut ClusterState, name: &str, annotations: &Value) {
    let (namespace, csv) = name.split_once('/').unwrap();
    let service = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": csv, "namespace": namespace, "annotations": annotations}, "spec": {"version": "1.0.0"},
    });
    let service = reduce::service(serde_json::from_value(service).unwrap()).unwrap();
    facts.services.put(name.to_owned(), service);
}

/// Returns the annotation that OLM writes for a bundle of the package `moon` with this value.
pub(super) fn properties(value: &str) -> Value {
    let properties = json!([
        {"type": "olm.package", "value": {"packageName": "moon", "version": "1.0.0"}},
        {"type": "olm.maxOpenShiftVersion", "value": value},
    ]);
    json!({"operatorframework.io/properties": json!({"properties": properties}).to_string()})
}

fn subscription(status: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "moon", "namespace": "ops"},
        "spec": {"name": "moon", "source": "mine", "sourceNamespace": "catalogs", "channel": "stable"},
        "status": status,
    })
}

fn subscribe(facts: &mut ClusterState, subscription: Value) {
    let read = reduce::subscription(serde_json::from_value(subscription).unwrap()).unwrap();
    facts.subscriptions.put("ops/moon".to_owned(), read);
}

fn component(name: &str, related: &Value) -> (String, std::collections::BTreeSet<String>) {
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {},
        "status": {"relatedObjects": related},
    });
    let read = reduce::component(serde_json::from_value(operator).unwrap());
    (name.to_owned(), read.unwrap_or_default())
}

const OLM: &str = "operator-lifecycle-manager";

// parity: max-6
#[test]
fn a_subscriptions_catalog_counts_for_its_csv() {
    let mut facts = facts();
    put(&mut facts, "ops/moon.v1", &properties("4.12"));
    let raised = declares("\"4.13\"");
    let with = |subscribed: Option<CatalogMaximum>| with!(TestInputs, subscribed);
    let blocked = "IncompatibleOperatorsInstalled";
    // No Subscription names the ClusterServiceVersion yet.
    assert_eq!(gate(&facts, &with(Some(raised.clone()))).0, blocked);
    let installed = json!({"installedCSV": "moon.v1"});
    subscribe(&mut facts, subscription(&installed));
    assert_each!(|subscribed, reason| gate(&facts, &with(subscribed)).0 => reason;
        Some(raised.clone()) => "AsExpected";
        Some(declares("4.12")) => blocked;
        None => blocked;
    );
    // Catalogs are read for the package, and the last value counts while the catalog is unavailable.
    let decided = decided(&facts, &with(Some(raised))).unwrap();
    assert_eq!(decided.packages, ["moon".to_owned()].into());
    let maxima = decided.maxima.unwrap();
    assert_rows! {
        maxima["moon/moon.v1@catalogs/mine"] => "\"4.13\"";
        maxima["moon/moon.v1@*"] => "\"4.13\"";
        gate(&facts, &TestInputs { kept: Some(Arc::new(maxima)), ..with(Some(CatalogMaximum::Unavailable(None))) }).0 => "AsExpected";
    }
    // Catalogs outside of the admin's namespaces are ignored.
    let unknown = super::decided(&facts, &with(None)).unwrap();
    assert!(unknown.packages.is_empty() && unknown.maxima.unwrap().is_empty());
    // Values of catalogs mean nothing elsewhere.
    facts.version.mark_not_served();
    assert_rows!(super::decided(&facts, &with(Some(CatalogMaximum::NotFound))).unwrap().packages.is_empty() => true);
}

#[test]
fn edited_subscriptions_do_not_lift_the_gate() {
    let blocked = "IncompatibleOperatorsInstalled";
    let reported = "; 4.13 of the Subscription's catalog is ignored because another CatalogSource declares a lower value \
                    or cannot be read; correct or delete that CatalogSource";
    let of = |package: &str, lowest| {
        let mut facts = facts();
        put(&mut facts, "ops/moon.v1", &properties("4.12"));
        let mut edited = subscription(&json!({"installedCSV": "moon.v1"}));
        edited["spec"]["name"] = package.into();
        subscribe(&mut facts, edited);
        let inputs = with!(TestInputs::default() => subscribed: Some(declares("4.13")), lowest: Some(lowest));
        let (reason, message) = gate(&facts, &inputs);
        (reason, message.contains(reported))
    };
    assert_each!(|package, lowest, reason, is_reported| of(package, lowest) => (reason, is_reported);
        // The author of the CSV's own catalog has raised the value.
        "moon", declares("4.13"), "AsExpected" => false;
        // The user has made the Subscription name another catalog, or another package.
        "moon", declares("4.12"), blocked => true;
        "moon", CatalogMaximum::Unavailable(None), blocked => true;
        "sun", declares("4.13"), blocked => false;
    );
}

#[test]
fn subscriptions_count_once_they_have_installed_a_csv() {
    let read =
        |object: &Value| reduce::subscription(serde_json::from_value(object.clone()).unwrap());
    let valid = subscription(&json!({"installedCSV": "moon.v1"}));
    assert!(read(&valid).is_some());
    for status in [json!({}), json!(null), json!({"installedCSV": ""})] {
        assert_eq!(read(&subscription(&status)), None, "{status}");
    }
    for field in ["name", "source", "sourceNamespace"] {
        for value in [json!(""), json!("x".repeat(254))] {
            assert_rows!(read(&with!(valid.clone() => |invalid| invalid["spec"][field] = value)) => None, "{field}");
        }
        let absent =
            with!(valid.clone() => |absent| absent["spec"].as_object_mut().unwrap().remove(field));
        assert_eq!(read(&absent), None, "{field}");
    }
}

// parity: max-olm-4
#[test]
fn payload_csvs_are_those_that_a_cluster_operator_names() {
    let related = |group: &str, resource: &str, name: &str| {
        json!([
            {"group": "", "resource": "namespaces", "name": "olm"},
            {"group": group, "resource": resource, "namespace": "olm", "name": name},
        ])
    };
    let csvs = |name: &str| related("operators.coreos.com", "clusterserviceversions", name);
    let package_server = "operator-lifecycle-manager-packageserver";
    for (operator, related, annotations, is_payload) in ::tests::rows![
        package_server, csvs("packageserver"), json!({}) => true;
        package_server, related("operators.coreos.com", "ClusterServiceVersion", "packageserver"), json!({}) => true;
        package_server, csvs("other"), json!({}) => false;
        package_server, csvs(""), json!({}) => false;
        package_server, related("example.com", "clusterserviceversions", "packageserver"), json!({}) => false;
        package_server, json!([]), json!({}) => false;
        package_server, json!(null), json!({}) => false;
        // The gate's own ClusterOperator.
        AGGREGATED, csvs("packageserver"), json!({}) => false;
        // OLM names a bundle's ClusterServiceVersion by its label, and a bundle can copy annotations of the payload.
        "forged", csvs("packageserver"), json!({"operatorframework.io/properties": "{}"}) => false;
        "other", json!([]), json!({"include.release.openshift.io/self-managed-high-availability": "true"}) => false;
    ] {
        let mut facts = facts();
        put(&mut facts, "olm/packageserver", &annotations);
        let (name, read) = component(operator, &related);
        facts.components.put(name, read);
        let (reason, message) = gate(&facts, &TestInputs::default());
        assert_rows! {
            match reason { "AsExpected" => true, "IndeterminateOperatorsInstalled" => false, other => panic!("{other}") }
                => is_payload, "{operator} {related}: {message}";
        }
    }
}

#[test]
fn related_objects_of_cluster_operators_are_bounded() {
    let csv = |namespace: &str, number: usize| {
        json!({
            "group": "operators.coreos.com", "resource": "clusterserviceversions", "namespace": namespace,
            "name": number.to_string(),
        })
    };
    let (_, read) = component("a", &(0..10_000).map(|number| csv("olm", number)).collect());
    assert_eq!(read.len(), 256);
    let (_, read) = component("a", &json!([csv(&"x".repeat(100_000), 1), csv("olm", 1)]));
    assert_eq!(read, ["olm/1".to_owned()].into());
}

#[test]
fn judgment_of_olm_requires_its_cluster_operator() {
    let mut facts = facts();
    put(&mut facts, "ops/moon.v1", &properties("4.x"));
    let differs = format!("ClusterOperator {OLM} evaluates these");
    let (_, message) = gate(&facts, &TestInputs::default());
    assert!(!message.contains(&differs), "{message}");
    let (name, read) = component(OLM, &json!([]));
    facts.components.put(name, read);
    let (reason, message) = gate(&facts, &TestInputs::default());
    assert_eq!(reason, "IndeterminateOperatorsInstalled");
    let line = "- blocks the upgrade, because OLM blocks upgrades on values that it rejects: ops/moon.v1 (failed to \
                parse";
    assert_rows! {
        message.contains(&differs) && message.contains(line) => true, "{message}";
        message.starts_with("The following operators may not run on the next OpenShift Version: ops/moon.v1\n") => true;
    }
}
