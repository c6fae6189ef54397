//! Cases that need a separate cluster: provisioners that restart, and several provisioners.

use cluster::Lease;
use kube::{Client, api::ListParams};
use tempfile::TempDir;

use super::*;
use crate::content::support::visit;
use crate::support::{unpacked, with_controllers};

pub(super) async fn cluster() -> Lease {
    let cluster = with_controllers().await;
    unpack_account(&cluster).await;
    cluster
}

pub(super) async fn start(cluster: &Cluster, dir: &TempDir) -> (Provisioner, Kubelet) {
    let mut options = Options::with_flags(&["--controllers=bundle", "--image-pull=job"]);
    options.storage = Some(dir.path().to_owned());
    let provisioner = Provisioner::start(cluster, options).await;
    let kubelet = Kubelet::new(cluster.client().unwrap(), &provisioner.url("content"));
    (provisioner, kubelet)
}

/// Creates a Bundle that does not say who pulls its image.
pub(super) async fn bundle(client: &Client, name: &str) -> Api<Bundle> {
    let api: Api<Bundle> = Api::all(client.clone());
    let source = image(&format!("127.0.0.1:1/{name}:v1"));
    create(&api, &super::bundle(name, "plain", source)).await;
    api
}

fn content_digest(bundle: &Bundle) -> Option<String> {
    bundle.status.as_ref()?.content_digest.clone()
}

#[tokio::test]
async fn jobs_outlast_restarts_and_a_lost_store() {
    let cluster = cluster().await;
    let client = cluster.client().unwrap();
    let (dir, name) = (storage(), "comes");
    let content = small(name);
    let (first, node) = start(&cluster, &dir).await;
    let bundles = bundle(&client, name).await;
    let (pod, job) = (node.pod(name).await, node.job(name).await);
    first.kill().await;

    // The same Job continues, and delivers to the provisioner that runs then.
    let (second, node) = start(&cluster, &dir).await;
    node.run(&pod, &content).await.unwrap();
    let before = unpacked(&bundles, name).await;
    assert_eq!(node.job(name).await.uid(), job.uid());
    second.kill().await;

    // With an empty store, the node pulls again; the Bundle does not change.
    let empty = storage();
    let (_third, node) = start(&cluster, &empty).await;
    let again = next_job(&node, name, &job).await;
    let pod = node.pod(name).await;
    tests::assert_rows!(bundles.get(name).await.unwrap().status => before.status);
    // Other content is rejected and reported.
    let changed = node.run(&pod, &small("other content")).await;
    assert_has(changed.unwrap_err(), "this Bundle is pinned");
    let lost = json!({"type": "ContentAvailable", "message": "*this Bundle is pinned*"});
    let lost = json!({"status": {"conditions": [lost]}});
    tests::assert_rows!(content_digest(&wait_part(bundles.clone(), name, lost).await) => content_digest(&before));
    next_job(&node, name, &again).await;
    node.run(&node.pod(name).await, &content).await.unwrap();
    let after = wait_for(bundles, name, "available", |bundle: &Bundle| {
        (bundle.status.as_ref()?.conditions.len() == 1).then_some(())
    })
    .await;
    assert_eq!(content_digest(&after), content_digest(&before));
}

/// Creates a pod that stands for a provisioner of these tests.
async fn replica(pods: &Api<Pod>, name: &str, leads: bool) {
    let mut labels =
        json!({"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/component": "core"});
    if leads {
        labels["core.rukpak.io/leader"] = "true".into();
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"serviceAccountName": "unpack", "containers": [{"name": "provisioner", "image": "a"}]},
    });
    create(pods, &serde_json::from_value(pod).unwrap()).await;
}

async fn start_in(pod: &str, cluster: &Cluster) -> Provisioner {
    let duration = "--lease-duration=60s";
    let mut options = Options::with_flags(&["--controllers=bundle", "--leader-elect", duration]);
    options.environment = vec![("POD_NAME", pod.to_owned())];
    Provisioner::start(cluster, options).await
}

/// Waits until exactly these pods have the label that the Service selects.
async fn labeled(pods: &Api<Pod>, expected: &[&str]) {
    let labeled = async || {
        let all = ListParams::default().labels("core.rukpak.io/leader=true");
        let found = pods.list(&all).await.unwrap();
        found.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    until(&format!("{expected:?}"), labeled, |found| found == expected).await;
}

// parity: rukpak-24
#[tokio::test]
async fn service_selects_the_leader_and_others_reject_content() {
    let cluster = cluster().await;
    let client = cluster.client().unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    // The label of the second pod is left from an earlier container, and the third pod has no provisioner.
    for (name, leads) in [("one", false), ("two", true), ("three", true)] {
        replica(&pods, name, leads).await;
    }
    let first = start_in("one", &cluster).await;
    first.wait_log("leading").await;
    labeled(&pods, &["one"]).await;
    let second = start_in("two", &cluster).await;
    second.wait_log("waiting for the leader Lease").await;

    // The provisioner corrects the leader label if another client removes or adds it.
    for (pod, value) in [("one", None), ("two", Some("true"))] {
        let label = json!({"metadata": {"labels": {"core.rukpak.io/leader": value}}});
        merge(&pods, pod, &label).await;
        labeled(&pods, &["one"]).await;
    }

    // A request to the address of the second replica reaches it all the same.
    let bundles: Api<Bundle> = Api::all(client.clone());
    create(&bundles, &super::bundle("two", "plain", nowhere("two"))).await;
    let node = Kubelet::new(client.clone(), &second.url("content"));
    let pod = node.pod("two").await;
    let (browser, base) = visit(client, &second).await;
    let request = browser.put(format!("{base}/unpack/two.tgz")).body("x");
    let request = request.bearer_auth(node.token(&pod).await);
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert_has(text, "this replica is not the leader");

    // The first replica ends and loses its label; then the second receives the content.
    first.stop().await;
    second.wait_log("leading").await;
    labeled(&pods, &["two"]).await;
    node.run(&pod, &small("two")).await.unwrap();
    unpacked(&bundles, "two").await;
    second.stop().await;
    labeled(&pods, &[]).await;
}
