use catalog::choose::{CatalogAnswer, Offer};
use convert::removed_apis::request_counts::RequestCount;
use manifests::{
    api::{bundle_instance::BundleInstance, labels},
    openshift::Release,
};
use serde_json::{Value, json};

use super::*;
use crate::controllers::platform_operator::fixtures::limited;

fn instance() -> BundleInstance {
    with_revisions(&json!([]))
}

fn with_revisions(revisions: &Value) -> BundleInstance {
    let accounts = (0..100).map(|number| format!("tide/a{number} 0f1e2d3c4b5a"));
    let accounts: Vec<String> = accounts.collect();
    object!({
        "metadata": {"name": "tide", "uid": "1"},
        "status": {
            "installedBundleName": "a-1", "appliedDigest": "x",
            "inventory": {"count": 200, "kinds": [
                {"apiVersion": "v1", "kind": "Secret", "objects": ["tide/operator 0f1e2d3c4b5a"]},
                {"apiVersion": "v1", "kind": "ServiceAccount", "objects": accounts},
            ]},
            "package": "tide", "clusterServiceVersion": "tide.v1.0.0", "version": "1.0.0", "revisions": revisions,
        },
    })
}

fn removed(instance: &BundleInstance, calls: &ApiCalls) -> Removed {
    uses::removed(
        &ObservedInstance::new(instance),
        calls,
        KubeVersion::new(1, 24),
    )
}

fn counted(account: &str, until: &str) -> ApiCalls {
    let user = json!({"username": format!("system:serviceaccount:{account}"), "requestCount": 7});
    let status = json!({"removedInRelease": until, "last24h": [{"byNode": [{"byUser": [user]}]}]});
    let count: RequestCount = serde_json::from_value(status).unwrap();
    with!(ApiCalls::default() => |calls| calls.add("cronjobs.v1beta1.batch", &count))
}

/// Returns a revision with these uses of removed APIs: the release without the API, and the message.
fn revision(number: i64, state: &str, uses: &[(&str, &str)]) -> Value {
    let uses = uses
        .iter()
        .map(|use_| json!({"removedIn": use_.0, "message": use_.1}));
    json!({
        "number": number, "state": state, "cause": "Upgrade", "bundle": "a-1", "digest": "d", "checksum": "c", "parts": 1,
        "created": "2026-01-01T00:00:00Z", "removedApis": uses.collect::<Vec<_>>(),
    })
}

fn active(uses: &[(&str, &str)]) -> Value {
    revision(1, "Active", uses)
}

#[test]
fn live_revisions_and_counted_calls_use_removed_apis() {
    let budget = ("1.25", "PodDisruptionBudget tide/a");
    let cron = ("1.26", "CronJob tide/a");
    let role = ("1.25", "ClusterRole tide");
    let unknown =
        || with!(active(&[]) => |revision| revision.as_object_mut().unwrap().remove("removedApis"));
    let call = "ServiceAccount tide/a1 called cronjobs.v1beta1.batch 7 times within a day; Kubernetes 1.25 does not serve this API";
    let none = ApiCalls::default;
    for (revisions, calls, expected) in ::tests::rows![
        json!([]), none() => (vec![], true);
        json!([unknown()]), none() => (vec![], true);
        json!([unknown()]), counted("tide:a1", "1.25") => (vec![call], true);
        json!([unknown(), revision(2, "RollingOut", &[budget])]), none() => (vec![budget.1], true);
        json!([active(&[budget]), revision(2, "RollingOut", &[])]), none() => (vec![budget.1], false);
        json!([active(&[]), revision(2, "RollingOut", &[budget, role, cron])]), none() => (vec![role.1, budget.1], false);
        json!([active(&[budget]), revision(2, "RollingOut", &[budget])]), none() => (vec![budget.1], false);
        json!([revision(0, "Archived", &[budget]), active(&[])]), none() => (vec![], false);
        json!([active(&[cron])]), none() => (vec![], false);
        json!([active(&[budget])]), counted("tide:a1", "1.25") => (vec![call, budget.1], false);
        json!([active(&[])]), counted("tide:a1", "1.26") => (vec![], false);
        json!([active(&[])]), counted("tide:operator", "1.25") => (vec![], false);
        json!([active(&[])]), counted("other:a1", "1.25") => (vec![], false);
    ] {
        let found = removed(&with_revisions(&revisions), &calls);
        assert_rows!((found.messages.iter().map(String::as_str).collect(), found.is_incomplete) => expected, "{revisions}");
    }
    let absent =
        with!(instance() => |absent| absent.status.as_mut().unwrap().installed_bundle_name = None);
    assert_rows!(removed(&absent, &none()) => Removed::default());
}

#[test]
fn messages_about_removed_apis_are_bounded() {
    let roles = (0..100).map(|number| format!("Role tide/{number}"));
    let roles: Vec<String> = roles.collect();
    let uses: Vec<_> = roles.iter().map(|role| ("1.25", &**role)).collect();
    let instance = with_revisions(&json!([active(&uses)]));
    let found = removed(&instance, &ApiCalls::default()).messages;
    assert_eq!(found.len(), 65);
    assert_rows!(found[64] => "36 more uses of APIs that Kubernetes 1.25 does not serve");
}

fn offer(answer: CatalogAnswer<'_>) -> Offer<'_> {
    Offer {
        catalog: "ours/mine",
        priority: 0,
        answer,
    }
}

#[test]
fn unblocking_version_is_installable_on_this_cluster() {
    let maxima = [("1.0.0", "4.20"), ("1.1.0", "4.21"), ("1.2.0", "4.20")];
    let package = limited(&maxima.map(|(version, _)| version), &maxima);
    let found = |instance: &BundleInstance, answer: CatalogAnswer<'_>, release: u64| {
        let running = (Release::new(4, release), None);
        let instance = ObservedInstance::new(instance);
        upgrade_path(&instance, None, &[offer(answer)], running)
    };
    let whole = CatalogAnswer::Package(&package);
    let away = CatalogAnswer::Unavailable("away");
    let upgrade = UpgradeRemedy::Upgrade("1.1.0".to_owned());
    let unavailable = "catalog ours/mine is currently unavailable".to_owned();
    let unknown = UpgradeRemedy::Unknown(unavailable);
    let tide = instance();
    let mut nameless = tide.clone();
    let facts = &mut nameless.status.as_mut().unwrap().facts;
    (facts.package, facts.cluster_service_version) = (None, None);
    assert_rows! {
        found(&tide, whole, 20) => upgrade;
        found(&tide, whole, 21) => UpgradeRemedy::None;
        found(&tide, away, 20) => unknown;
        found(&nameless, whole, 20) => UpgradeRemedy::None;
    }

    // Plain manifests do not contain their name; the recorded choice does.
    let digest = format!("sha256:{}", "a".repeat(64));
    let memo = json!({
        "package": "tide", "name": "tide.v1.0.0", "version": "1.0.0", "channel": "stable", "catalog": "ours/mine",
        "image": format!("quay.io/tide@{digest}"), "mediaType": "plain+v0",
    });
    let memo = (labels::CHOSEN_BUNDLE.to_owned(), memo.to_string());
    nameless.metadata.annotations = Some([memo].into());
    let source = json!({"type": "image", "image": {"ref": format!("quay.io/tide@{digest}")}});
    nameless.status.as_mut().unwrap().resolved_source = serde_json::from_value(source).unwrap();
    let other = with!(offer(whole) => catalog: "ours/other");
    let others = [offer(CatalogAnswer::Pending), other];
    assert_rows! {
        found(&nameless, whole, 20) => upgrade;
        found(&nameless, away, 20) => unknown;
        // The bundle is from this catalog, so no other catalog is used.
        upgrade_path(&ObservedInstance::new(&nameless), None, &others, (Release::new(4, 20), None)) => unknown;
    }
}

#[test]
fn unlisted_catalog_may_offer_an_unblocking_version() {
    assert_rows! {
        remedy(&ObservedInstance::new(&instance()), None, &Catalogs::default(), (Release::new(4, 20), None))
            => UpgradeRemedy::Unknown("catalogs have not been listed yet".to_owned());
    }
}
