//! Port-forward to the provisioner's pod.

use anyhow::{Context, anyhow};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Portforwarder},
};
use manifests::api::labels::LEADER;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Temporary;
use crate::cluster::Cluster;

/// Label selector of the provisioner's pods. The leader among them holds [`LEASE`].
const SELECTOR: &str = "app.kubernetes.io/name=rukpak,app.kubernetes.io/component=core";
const LEASE: &str = "core.rukpak.io";
/// Name of the container port.
const PORT_NAME: &str = "https";
const DEFAULT_PORT: u16 = 8443;

/// A forwarded port.
pub(super) struct PortForward {
    forwarder: Portforwarder,
    port: u16,
    pod: String,
}

/// Opens a port-forward. The error may be [`Temporary`].
pub(super) async fn forward(cluster: &Cluster) -> anyhow::Result<PortForward> {
    let space = &cluster.system_namespace;
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), space);
    let found = pods.list(&ListParams::default().labels(SELECTOR)).await;
    let found = found.map_err(|error| {
        cluster.explain(
            format!("failed to list the pods of the provisioner in namespace {space}"),
            error,
        )
    })?;
    let mut chosen = labeled_leader(&found.items);
    if chosen.is_none() {
        // No pod has the leader label during a change of the leader. Other pods reject uploads. Without permission to read
        // the Lease, any ready pod is tried.
        let leases = Api::<Lease>::namespaced(cluster.client.clone(), space);
        let holder = match leases.get_opt(LEASE).await {
            Ok(lease) => lease.and_then(|lease| lease.spec?.holder_identity),
            Err(_) => None,
        };
        chosen = choose(&found.items, holder.as_deref());
    }
    let Some(pod) = chosen else {
        let error = anyhow!(
            "no ready provisioner pod in namespace {space}; check \"kubectl -n {space} get pods\", or set another \
             --system-namespace, or --content-address"
        );
        return Err(Temporary(error).into());
    };
    let name = pod.name_any();
    let port = port(pod);
    let forwarder = pods.portforward(&name, &[port]).await.map_err(|error| {
        let is_temporary = is_temporary(&error);
        let problem = format!("failed to forward a port to pod {space}/{name}");
        let error = cluster.explain(problem, error);
        if is_temporary {
            Temporary(error).into()
        } else {
            error
        }
    })?;
    Ok(PortForward {
        forwarder,
        port,
        pod: format!("{space}/{name}"),
    })
}

/// Reports whether a later port-forward may succeed: the pod was deleted, or its node does not respond.
fn is_temporary(error: &kube::Error) -> bool {
    Cluster::is_absent(error) || matches!(error, kube::Error::Api(status) if status.code >= 500)
}

impl PortForward {
    pub(super) fn stream(
        &mut self,
    ) -> anyhow::Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static> {
        let stream = self.forwarder.take_stream(self.port);
        stream.context("failed to forward the port")
    }

    /// Adds the error of the kubelet to a connection error.
    pub(super) async fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let Some(kubelet_error) = self.forwarder.take_error(self.port) else {
            return error;
        };
        self.forwarder.abort();
        let limit = std::time::Duration::from_secs(1);
        match tokio::time::timeout(limit, kubelet_error).await {
            Ok(Some(message)) => anyhow!(
                "the port-forward to pod {} failed: {}",
                self.pod,
                message.trim()
            ),
            _ => error.context(format!("through a port-forward to pod {}", self.pod)),
        }
    }
}

/// Returns the pod that the Service selects.
fn labeled_leader(pods: &[Pod]) -> Option<&Pod> {
    pods.iter().find(|pod| {
        is_ready(pod)
            && pod
                .labels()
                .get(LEADER)
                .is_some_and(|value| value == "true")
    })
}

/// Returns the leader, whose identity in the Lease begins with the name of its pod, or else any ready pod.
fn choose<'a>(pods: &'a [Pod], holder: Option<&str>) -> Option<&'a Pod> {
    let ready = || pods.iter().filter(|pod| is_ready(pod));
    let is_leader = |pod: &&Pod| {
        let rest = holder.and_then(|holder| holder.strip_prefix(&pod.name_any()));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    ready().find(is_leader).or_else(|| ready().next())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .find(|port| port.name.as_deref() == Some(PORT_NAME))
        .and_then(|port| u16::try_from(port.container_port).ok())
        .unwrap_or(DEFAULT_PORT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: &str) -> Pod {
        let ports = json!([{"name": "metrics", "containerPort": 8080}, {"name": "https", "containerPort": 9443}]);
        let pod = json!({
            "metadata": {"name": name}, "spec": {"containers": [{"name": "provisioner", "ports": ports}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn unreachable_pods_are_temporary() {
        let refused = |code: u16| json!({"code": code, "details": {"name": "core-a"}});
        let is_temporary = |code| is_temporary(&crate::testing::refused(refused(code)));
        ::tests::assert_rows!([500, 502, 404, 403].map(is_temporary) => [true, true, true, false]);
    }

    #[test]
    fn the_leader_is_chosen_if_it_is_ready() {
        let pods = [
            pod("core-a", "True"),
            pod("core-b", "True"),
            pod("core-c", "False"),
        ];
        let chosen = |pods: &[Pod], holder| choose(pods, holder).map(kube::ResourceExt::name_any);
        let [a, b] = ["core-a", "core-b"].map(|name| Some(name.to_owned()));
        ::tests::assert_rows! {
            chosen(&pods, None) => a;
            chosen(&pods, Some("core-b_12ab")) => b;
            chosen(&pods, Some("core-b")) => b;
            chosen(&pods, Some("core-bb")) => a;
            chosen(&pods, Some("core-c")) => a;
            chosen(&pods[2..], Some("core-c")) => None;
        }
    }

    #[test]
    fn leader_is_the_ready_pod_with_the_label() {
        let labeled_pod = |name, ready, value: &str| {
            let mut pod = pod(name, ready);
            pod.labels_mut().insert(LEADER.to_owned(), value.to_owned());
            pod
        };
        let pods = [
            pod("core-a", "True"),
            labeled_pod("core-b", "False", "true"),
            labeled_pod("core-c", "True", "false"),
            labeled_pod("core-d", "True", "true"),
        ];
        assert_eq!(labeled_leader(&pods).unwrap().name_any(), "core-d");
        assert_eq!(labeled_leader(&pods[..3]), None);
    }

    #[test]
    fn the_port_is_found_by_its_name() {
        assert_eq!(port(&pod("core", "True")), 9443);
        assert_eq!(port(&Pod::default()), DEFAULT_PORT);
    }
}
