//! A stand-in for a node, for tests that need Ready pods without a kubelet: a Node object and a task that binds pods to it
//! and reports them Running and Ready through the API, as KWOK does. **No container runs.** Pods of Jobs succeed at once,
//! and terminating pods are removed at once. A pod with the value `fails` in its annotation [`FATE`] never becomes Ready:
//! its first container waits with `CrashLoopBackOff`.
//!
//! ```text
//!  pod without a node ── bind ──> pod ── status ──> Running, Ready (or Succeeded) ── deleted? ──> removed
//! ```

use std::thread;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use crate::{Cluster, Error, Result, control_plane};

/// The name of the stand-in node, which also has the label `cluster-tests/stand-in`.
pub const NAME: &str = "stand-in";

/// An annotation of pods: with `fails` a pod never becomes Ready.
pub const FATE: &str = "cluster-tests/fate";

const MANAGER: &str = "stand-in-node";
/// The interval of heartbeats. The node lifecycle controller waits 40 seconds for one.
const HEARTBEAT: Duration = Duration::from_secs(10);

impl Cluster {
    /// Creates the stand-in node and starts its task, once for a cluster. The task ends with the process.
    pub async fn stand_in_node(&self) -> Result<()> {
        self.node
            .get_or_try_init(|| async {
                register(&self.client()?).await?;
                let config = self.config().clone();
                // A separate runtime, because the runtime of a test ends with the test.
                thread::Builder::new()
                    .name(MANAGER.to_owned())
                    .spawn(move || keep_in_own_runtime(&config))
                    .map_err(Error::io("start the stand-in node's keeper"))?;
                Ok(())
            })
            .await
            .copied()
    }
}

async fn register(client: &Client) -> Result<()> {
    let labels = json!({
        "cluster-tests/stand-in": "true", "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    });
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": labels}});
    let params = PatchParams::apply(MANAGER).force();
    let nodes: Api<Node> = Api::all(client.clone());
    let applied = nodes.patch(NAME, &params, &Patch::Apply(&node)).await;
    applied.map_err(Error::api("create the stand-in node"))?;
    let reported = beat(client).await;
    reported.map_err(Error::api("report the stand-in node Ready"))
}

/// Reports the node as Ready, and renews its lease.
async fn beat(client: &Client) -> kube::Result<()> {
    let now = k8s_openapi::jiff::Timestamp::now();
    let status = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}, "status": {
        "allocatable": {"cpu": "1k", "memory": "1Ti", "pods": "10k"},
        "capacity": {"cpu": "1k", "memory": "1Ti", "pods": "10k"},
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "StandIn", "message": "no kubelet: nothing runs here",
            "lastHeartbeatTime": now.to_string(),
        }],
    }});
    let params = PatchParams::apply(MANAGER).force();
    let nodes: Api<Node> = Api::all(client.clone());
    let status = Patch::Apply(&status);
    nodes.patch_status(NAME, &params, &status).await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": NAME, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}")},
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    leases.patch(NAME, &params, &Patch::Apply(&lease)).await?;
    Ok(())
}

fn keep_in_own_runtime(config: &Config) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    let result = runtime.map_err(Error::io("start a runtime"));
    let result = result.and_then(|runtime| {
        runtime.block_on(async {
            let client = control_plane::client(config)?;
            tokio::join!(heart(&client), advance_pods(&client));
            Ok::<_, Error>(())
        })
    });
    if let Err(error) = result {
        eprintln!("cluster: the stand-in node has no keeper: {error}");
    }
}

async fn heart(client: &Client) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        // The control plane ends before this task, so errors are expected.
        let _ = beat(client).await;
    }
}

/// Advances every pod by one step whenever it changes.
async fn advance_pods(client: &Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    let events = watcher(pods, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events.applied_objects());
    loop {
        match events.try_next().await {
            Ok(Some(pod)) => {
                // The next event of the pod is the retry.
                let _ = advance(client, &pod).await;
            }
            Ok(None) => return,
            Err(_) => {} // the watcher starts again after a back-off
        }
    }
}

async fn advance(client: &Client, pod: &Pod) -> kube::Result<()> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    if pod.metadata.deletion_timestamp.is_some() {
        if node == Some(NAME) {
            let now = DeleteParams::default().grace_period(0);
            pods.delete(&name, &now).await?;
        }
        return Ok(());
    }
    let Some(node) = node else {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NAME},
        });
        let params = PostParams::default();
        let bound = pods.create_subresource::<_, Value>("binding", &name, &params, &binding);
        return bound.await.map(drop);
    };
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    if node != NAME || !matches!(phase, None | Some("Pending")) {
        return Ok(());
    }
    let status = self::status(pod);
    let status =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": status});
    let params = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&status);
    pods.patch_status(&name, &params, &patch).await.map(drop)
}

fn status(pod: &Pod) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let fate = pod.annotations().get(FATE);
    let fails = fate.is_some_and(|fate| fate == "fails");
    let mut owners = pod.owner_references().iter();
    let (phase, ready, state) = if fails {
        let message = "the pod's annotation requests this";
        let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        ("Running", "False", state)
    } else if owners.any(|owner| owner.kind == "Job") {
        let state = json!({"exitCode": 0, "reason": "Completed", "finishedAt": now});
        ("Succeeded", "False", json!({"terminated": state}))
    } else {
        ("Running", "True", json!({"running": {"startedAt": now}}))
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers = containers.map(|container| {
        json!({
            "name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": "",
            "ready": ready == "True", "started": !fails, "restartCount": i32::from(fails), "state": state,
        })
    });
    let containers: Value = containers.collect();
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": now});
    json!({
        "phase": phase, "startTime": now, "containerStatuses": containers,
        "conditions": [condition("Initialized", "True"), condition("ContainersReady", ready), condition("Ready", ready)],
    })
}
