use std::collections::BTreeMap;

use super::*;
use crate::testing::set;

fn subscription(package: &str, source: &str, installed: &str, current: &str) -> Subscription {
    object!({
        "metadata": {"name": format!("{package}-sub"), "namespace": "tides"},
        "spec": {"name": package, "source": source, "sourceNamespace": "tides"},
        "status": {"installedCSV": installed, "currentCSV": current},
    })
}

fn source(publisher: &str) -> Option<CatalogSource> {
    object!({"metadata": {"name": "tide-catalog", "namespace": "tides"}, "spec": {"publisher": publisher}})
}

fn csv(name: &str, replaces: &str) -> ClusterServiceVersion {
    object!({"metadata": {"name": name}, "spec": {"replaces": replaces}})
}

fn labeled(name: &str, replaces: &str) -> ClusterServiceVersion {
    let labels = BTreeMap::from([("operators.coreos.com/tide.tides".to_owned(), String::new())]);
    ::tests::with!(csv(name, replaces) => metadata.labels: Some(labels))
}

// parity: sdk-33
#[test]
fn shared_and_foreign_catalog_sources_are_kept() {
    let own = subscription("tide", "tide-catalog", "tide.v1", "later");
    let complete = CleanupPlan {
        subscription: Some("tide-sub".to_owned()),
        csvs: set(&["tide.v1"]),
        source: Some(("tide-catalog".to_owned(), "tides".to_owned())),
        kept_source_reason: None,
    };
    let only_csv = ::tests::with!(CleanupPlan, csvs: set(&["tide.v1"]));
    let keeps_source = |reason: &str| {
        let reason = format!("catalogsource \"tide-catalog\" in namespace tides is kept: {reason}");
        ::tests::with!(complete.clone() => source: None, kept_source_reason: Some(reason))
    };
    let reef = subscription("reef", "tide-catalog", "", "");
    let reef = ::tests::with!(reef => metadata.namespace: Some("other".to_owned()));
    let csvs = [labeled("tide.v1", "")];
    ::tests::assert_each!(|all, source, expected| plan(&all, &csvs, source.as_ref(), "tides", "tide") => expected;
        vec![], None => only_csv.clone();
        // The Subscription was deleted manually or never created.
        vec![], source("operator-sdk") => CleanupPlan { subscription: None, ..complete.clone() };
        vec![], source("another tool") => only_csv;
        vec![own.clone()], source("operator-sdk") => complete.clone();
        vec![own.clone()], None => CleanupPlan { source: None, ..complete.clone() };
        vec![own.clone()], source("another tool") => keeps_source("not created by \"run bundle\"");
        vec![own.clone(), reef], source("operator-sdk") => keeps_source("other Subscriptions use it");
    );
}

// parity: sdk-34
#[test]
fn crds_that_another_operator_owns_are_kept() {
    let owner = |namespace: &str, owned: &str| -> ClusterServiceVersion {
        object!({
            "metadata": {"namespace": namespace, "name": "tide.v1"},
            "spec": {"customresourcedefinitions": {"owned": [{"name": owned}]}},
        })
    };
    let own = |csv: &ClusterServiceVersion| csv.metadata.namespace.as_deref() == Some("tides");
    let prefix = "customresourcedefinition \"a\" and all of its custom resources are kept: ";
    let shared = "clusterserviceversion \"tide.v1\" in namespace other also owns the CRD";
    let unknown = "cannot determine whether another operator owns it: no; use --delete-crds to delete it anyway";
    let no = "no".to_owned();
    for (owners, is_requested, delete, keep) in ::tests::rows![
        Ok(vec![]), false, &["a", "b"][..] => None;
        Ok(vec![owner("tides", "a")]), false, &["a", "b"] => None;
        // The same operator is installed in two namespaces.
        Ok(vec![owner("tides", "a"), owner("other", "a")]), false, &["b"] => Some(shared);
        Ok(vec![owner("other", "a")]), true, &["b"] => Some(shared);
        Ok(vec![owner("other", "c")]), false, &["a", "b"] => None;
        Err(&no), true, &["a", "b"] => None;
    ] {
        let owners = owners.as_deref().map_err(|error| *error);
        let found = crds(set(&["a", "b"]), owners, own, is_requested);
        let keep = keep.map(|reason| format!("{prefix}{reason}"));
        ::tests::assert_rows!((found.delete, found.keep) => (set(delete), keep.into_iter().collect()));
    }
    let found = crds(set(&["a"]), Err(&no), own, false);
    ::tests::assert_rows!((found.delete, found.keep) => (set(&[]), vec![format!("{prefix}{unknown}")]));
}

// parity: sdk-33
#[test]
fn cleanup_selects_exactly_the_versions_of_the_package() {
    let tide = |installed: &str, current: &str| subscription("tide", "", installed, current);
    ::tests::assert_each!(|subscriptions, all, expected| csvs(&subscriptions, &all, "tides", "tide") => set(expected);
        vec![], vec![csv("reef.v1", "")] => &[][..];
        vec![tide("tide.v1", "tide.v1")], vec![csv("tide.v1", ""), csv("reef.v1", "")] => &["tide.v1"];
        vec![tide("", "tide.v1")], vec![csv("tide.v1", "")] => &["tide.v1"];
        // An upgrade failed or is still running.
        vec![tide("tide.v1", "tide.v2")], vec![csv("tide.v1", ""), csv("tide.v2", "tide.v1")] => &["tide.v1", "tide.v2"];
        vec![tide("tide.v3", "tide.v3")], vec![csv("tide.v1", "tide.v3"), csv("tide.v2", "tide.v1"), csv("tide.v3", "tide.v2")]
            => &["tide.v1", "tide.v2", "tide.v3"];
        // The Subscription is already deleted.
        vec![], vec![csv("tide.v1", ""), labeled("tide.v2", "tide.v1")] => &["tide.v1", "tide.v2"];
        // Another package has the same truncated label, or was replaced by this one.
        vec![subscription("reef", "", "reef.v1", "reef.v1")], vec![labeled("tide.v1", "reef.v1"), labeled("reef.v1", "")]
            => &["tide.v1"];
    );
}

#[test]
fn labels_are_truncated_as_by_olm() {
    let long = "a".repeat(60);
    ::tests::assert_rows! {
        component("tide", "tides") => "operators.coreos.com/tide.tides";
        component(&long, "bcde") => format!("operators.coreos.com/{long}.bc");
        component(&long, "b-cd") => format!("operators.coreos.com/{long}.b");
        component(&long, "b") => format!("operators.coreos.com/{long}.b");
    }
}
