use serde_json::json;

use super::*;

fn subscribed(namespace: &str, package: &str, source: &str, csv: &str) -> Value {
    json!({
        "metadata": {"name": format!("{package}-sub"), "namespace": namespace, "uid": format!("{namespace}/{package}")},
        "spec": {"name": package, "source": source, "sourceNamespace": "tides"},
        "status": {"installedCSV": csv, "currentCSV": "later"},
    })
}

fn source(publisher: &str) -> Value {
    json!({"metadata": {"name": "tide-catalog"}, "spec": {"publisher": publisher}})
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn csv(name: &str, replaces: &str, is_labelled: bool) -> Value {
    let mut csv = json!({"metadata": {"name": name, "labels": {}}, "spec": {"replaces": replaces}});
    if is_labelled {
        csv["metadata"]["labels"]["operators.coreos.com/tide.tides"] = "".into();
    }
    csv
}

// parity: sdk-33
#[test]
fn shared_and_foreign_catalog_sources_are_kept() {
    let own = subscribed("tides", "tide", "tide-catalog", "tide.v1");
    let complete = CleanupPlan {
        subscription: Some("tide-sub".to_owned()),
        csvs: names(&["tide.v1"]),
        source: Some(("tide-catalog".to_owned(), "tides".to_owned())),
        kept_source_reason: None,
    };
    let kept_source_reason = |reason: &str| {
        Some(format!(
            "catalogsource \"tide-catalog\" in namespace tides is kept: {reason}"
        ))
    };
    for (subscriptions, source, expected) in ::tests::rows![
        vec![], None => CleanupPlan { csvs: names(&["tide.v1"]), ..CleanupPlan::default() };
        // The Subscription was deleted manually or never created.
        vec![], Some(source("operator-sdk")) => CleanupPlan { subscription: None, ..complete.clone() };
        vec![], Some(source("somebody")) => CleanupPlan { csvs: names(&["tide.v1"]), ..CleanupPlan::default() };
        vec![own.clone()], Some(source("operator-sdk")) => complete.clone();
        vec![own.clone()], None => CleanupPlan { source: None, ..complete.clone() };
        vec![own.clone()], Some(source("somebody"))
            => CleanupPlan { source: None, kept_source_reason: kept_source_reason("not created by \"run bundle\""), ..complete.clone() };
        vec![own.clone(), subscribed("other", "reef", "tide-catalog", "")], Some(source("operator-sdk"))
            => CleanupPlan { source: None, kept_source_reason: kept_source_reason("other Subscriptions use it"), ..complete.clone() };
    ] {
        let csvs = [csv("tide.v1", "", true)];
        let found = plan(&subscriptions, &csvs, source.as_ref(), "tides", "tide");
        assert_eq!(found, expected, "{subscriptions:?} {source:?}");
    }
}

// parity: sdk-34
#[test]
fn crds_that_another_operator_owns_are_kept() {
    let owner = |namespace: &str, owned: &str| {
        Owner::from_csv(&json!({
            "metadata": {"namespace": namespace, "name": "tide.v1"},
            "spec": {"customresourcedefinitions": {"owned": [{"name": owned}]}},
        }))
    };
    let own = |candidate: &Owner| candidate.namespace == "tides";
    let prefix = "customresourcedefinition \"a\" and all of its custom resources are kept: ";
    let shared = "clusterserviceversion \"tide.v1\" in namespace other also owns it";
    let unknown = "cannot determine whether another operator owns it: no; use --delete-crds to delete it anyway";
    let no = "no".to_owned();
    for (owners, is_asked_for, delete, keep) in ::tests::rows![
        Ok(vec![]), false, &["a", "b"][..] => None;
        Ok(vec![owner("tides", "a")]), false, &["a", "b"] => None;
        // The same operator is installed in two namespaces.
        Ok(vec![owner("tides", "a"), owner("other", "a")]), false, &["b"] => Some(shared);
        Ok(vec![owner("other", "a")]), true, &["b"] => Some(shared);
        Ok(vec![owner("other", "c")]), false, &["a", "b"] => None;
        Err(&no), true, &["a", "b"] => None;
    ] {
        let owners = owners.as_deref().map_err(|error| *error);
        let found = crds(names(&["a", "b"]), owners, own, is_asked_for);
        let keep = keep.map(|reason| format!("{prefix}{reason}"));
        let expected = (names(delete), keep.into_iter().collect());
        assert_eq!((found.delete, found.keep), expected);
    }
    let found = crds(names(&["a"]), Err(&no), own, false);
    let expected = (names(&[]), vec![format!("{prefix}{unknown}")]);
    assert_eq!((found.delete, found.keep), expected);
}

// parity: sdk-33
#[test]
fn cleanup_selects_exactly_the_versions_of_the_package() {
    let subscription = |package: &str, installed: &str, current: &str| {
        json!({
            "metadata": {"name": package, "namespace": "tides"}, "spec": {"name": package},
            "status": {"installedCSV": installed, "currentCSV": current},
        })
    };
    let tide = |installed: &str, current: &str| subscription("tide", installed, current);
    let mut copy = csv("tide.v1", "", true);
    copy["metadata"]["labels"]["olm.copiedFrom"] = "other".into();
    for (subscriptions, all, expected) in ::tests::rows![
        vec![], vec![csv("reef.v1", "", false)] => &[][..];
        vec![tide("tide.v1", "tide.v1")], vec![csv("tide.v1", "", false), csv("reef.v1", "", false)] => &["tide.v1"];
        vec![tide("", "tide.v1")], vec![csv("tide.v1", "", false)] => &["tide.v1"];
        // An upgrade failed or is still running.
        vec![tide("tide.v1", "tide.v2")], vec![csv("tide.v1", "", false), csv("tide.v2", "tide.v1", false)]
            => &["tide.v1", "tide.v2"];
        vec![tide("tide.v3", "tide.v3")],
            vec![csv("tide.v1", "tide.v3", false), csv("tide.v2", "tide.v1", false), csv("tide.v3", "tide.v2", false)]
            => &["tide.v1", "tide.v2", "tide.v3"];
        // The Subscription is already deleted.
        vec![], vec![csv("tide.v1", "", false), csv("tide.v2", "tide.v1", true)] => &["tide.v1", "tide.v2"];
        vec![tide("tide.v1", "")], vec![copy] => &[];
        // Another package has the same truncated label, or was replaced by this one.
        vec![subscription("reef", "reef.v1", "reef.v1")], vec![csv("tide.v1", "reef.v1", true), csv("reef.v1", "", true)]
            => &["tide.v1"];
    ] {
        let found = csvs(&subscriptions, &all, "tides", "tide");
        assert_eq!(found, names(expected), "{subscriptions:?} {all:?}");
    }
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
