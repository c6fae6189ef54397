//! Requests of an idle provisioner, from the audit log of a dedicated API server.

use std::{fs, path::Path};

use cluster::{AUDIT_LOG, Cluster, Options as ClusterOptions};
use support::{Options, Provisioner};
use tests::Registry;

use super::*;

/// The time without requests after which the provisioner is idle.
const REST: Duration = Duration::from_secs(4);

/// Logs all completed requests, except watches and the requests of the control plane itself.
const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- {level: None, users: ["system:apiserver", "system:kube-controller-manager"]}
- {level: None, userGroups: ["system:serviceaccounts"]}
- {level: None, nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]}
- {level: None, verbs: [watch]}
- {level: Metadata}
"#;

/// Lists all requests as `verb path`.
fn requests(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} {}",
                text("verb"),
                text("requestURI"),
                event["user"]["username"]
            )
        })
        .collect()
}

/// Counts the writes to objects of this name.
fn writes(log: &Path, name: &str) -> usize {
    let path_ends = |request: &str| {
        let path = request.split([' ', '?']).nth(1).unwrap_or_default();
        !request.starts_with("get ") && path.ends_with(&format!("/{name}"))
    };
    let requests = requests(log);
    requests.iter().filter(|request| path_ends(request)).count()
}

/// Waits until no request is sent during [`REST`]. Requests in progress may complete first.
async fn at_rest(log: &Path) {
    let mut before = requests(log);
    for attempts in 1.. {
        // The test measures a period without requests, so it sleeps.
        tokio::time::sleep(REST).await;
        let after = requests(log);
        let new: Vec<_> = after.iter().skip(before.len()).cloned().collect();
        if new.is_empty() {
            return;
        }
        assert!(attempts < 3, "it does not come to rest: {new:#?}");
        before = after;
    }
}

// parity: rukpak-27, complaint-12
#[tokio::test]
async fn idle_provisioner_is_silent_and_restart_applies_nothing() {
    let cluster = Cluster::start_with(&ClusterOptions {
        audit_policy: Some(POLICY),
        ..ClusterOptions::default()
    })
    .await
    .unwrap();
    let log = cluster.dir().unwrap().join(AUDIT_LOG);
    support::prepare(&cluster).await;
    let registry = Registry::plain();
    let store = support::storage();
    let options = Options {
        storage: Some(store.path().to_owned()),
        ..Options::default()
    };
    let provisioner = Provisioner::start(&cluster, options.clone()).await;

    // Null values, fields that the API server defaults, and a kind whose health depends on its status.
    let mut odd = map("default", "odd", &[("v", "1")]);
    odd["binaryData"] = Value::Null;
    let objects = [
        odd,
        map("default", "plain", &[("v", "1")]),
        map("default", "away", &[("v", "1")]),
        deployment("default", "web", 0, "v1", "works"),
        support::crd("rest.example.com", "Widget"),
        json!({"apiVersion": "rest.example.com/v1", "kind": "Widget", "metadata": {"name": "small", "namespace": "default"}, "spec": {"size": 1}}),
    ];
    let image = support::push(&registry, "rest:v1", &plain(&objects)).await;
    let client = cluster.client().unwrap();
    let instances: Api<BundleInstance> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let instance = support::instance("rest", "plain", support::image(&image));
    let params = kube::api::PostParams::default();
    instances.create(&params, &instance).await.unwrap();
    let healthy = |instance: &BundleInstance| {
        support::has(&instance.status.as_ref()?.conditions, "Healthy", "True").then_some(())
    };
    support::wait_for(instances.clone(), "rest", "healthy", healthy).await;
    at_rest(&log).await;

    // Fields that other clients add are left alone. The last change drifts an applied field: its repair shows that the
    // controller has observed the others.
    let others = json!({"metadata": {"labels": {"theirs": "1"}}, "data": {"theirs": "1"}});
    let count = || ["odd", "web", "small", "plain"].map(|name| writes(&log, name));
    let before = count();
    patch_as_other(&maps, "odd", others).await;
    patch_as_other(&maps, "plain", json!({"data": {"v": "2"}})).await;
    let repaired =
        |config_map: &ConfigMap| (config_map.data.as_ref()?.get("v")? == "1").then_some(());
    support::wait_for(maps.clone(), "plain", "repaired", repaired).await;
    at_rest(&log).await;
    let [odd, web, small, ..] = before;
    let [odd_now, web_now, small_now, _] = count();
    // One of the writes is the write of this test.
    assert_eq!((odd_now, web_now, small_now), (odd + 1, web, small));
    let odd = maps.get("odd").await.unwrap();
    assert_eq!(odd.labels()["theirs"], "1");
    assert_eq!(odd.data.unwrap()["theirs"], "1");

    // A restarted provisioner only reads.
    provisioner.stop().await;
    let before = count();
    let status_before = instances.get("rest").await.unwrap().status;
    let provisioner = Provisioner::start(&cluster, options.clone()).await;
    at_rest(&log).await;
    assert_eq!(count(), before, "{}", provisioner.log());
    assert_eq!(instances.get("rest").await.unwrap().status, status_before);

    // It also repairs drift that occurred during its downtime.
    provisioner.kill().await;
    patch_as_other(&maps, "plain", json!({"data": {"v": "2"}})).await;
    support::delete(&maps, "away").await;
    let before = count();
    let _provisioner = Provisioner::start(&cluster, options).await;
    support::wait_for(maps.clone(), "plain", "repaired", repaired).await;
    support::wait_for(maps.clone(), "away", "repaired", repaired).await;
    at_rest(&log).await;
    let [odd, web, small, _] = before;
    let [odd_now, web_now, small_now, _] = count();
    assert_eq!((odd_now, web_now, small_now), (odd, web, small));
}
