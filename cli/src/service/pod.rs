//! The pod that is talked to, and the port-forward to it.

use anyhow::{Context, anyhow, bail};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Portforwarder},
};
use manifests::api::labels::LEADER;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::cluster::Cluster;

/// The pods of the provisioner, and the Lease that one of them holds.
const SELECTOR: &str = "app.kubernetes.io/name=rukpak,app.kubernetes.io/component=core";
const LEASE: &str = "core.rukpak.io";
/// The port, by its name in the pod.
const PORT: &str = "https";
const USUAL_PORT: u16 = 8443;

/// A forwarded port.
pub(super) struct Forward {
    forwarder: Portforwarder,
    port: u16,
    pod: String,
}

/// Opens a port-forward.
pub(super) async fn forward(cluster: &Cluster) -> anyhow::Result<Forward> {
    let space = &cluster.system_namespace;
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), space);
    let found = pods.list(&ListParams::default().labels(SELECTOR)).await;
    let found = found.map_err(|error| {
        cluster.trouble(
            format!("failed to look for the provisioner's pod in {space}"),
            error,
        )
    })?;
    let mut chosen = labeled(&found.items);
    if chosen.is_none() {
        // Between two leaders. Others than the leader take no uploads; without the right to read the Lease, it is luck.
        let leases = Api::<Lease>::namespaced(cluster.client.clone(), space);
        let holder = match leases.get_opt(LEASE).await {
            Ok(lease) => lease.and_then(|lease| lease.spec?.holder_identity),
            Err(_) => None,
        };
        chosen = choose(&found.items, holder.as_deref());
    }
    let Some(pod) = chosen else {
        bail!(
            "there is no pod of the provisioner that is ready in {space}: see kubectl -n {space} get pods, choose another \
             --system-namespace, or name its address with --content-address"
        );
    };
    let name = pod.name_any();
    let port = port(pod);
    let forwarder = pods.portforward(&name, &[port]).await.map_err(|error| {
        cluster.trouble(
            format!("failed to forward a port to pod {space}/{name}"),
            error,
        )
    })?;
    Ok(Forward {
        forwarder,
        port,
        pod: format!("{space}/{name}"),
    })
}

impl Forward {
    pub(super) fn stream(
        &mut self,
    ) -> anyhow::Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static> {
        let stream = self.forwarder.take_stream(self.port);
        stream.context("the port was not forwarded")
    }

    /// Adds what the kubelet says to what has gone wrong.
    pub(super) async fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let Some(told) = self.forwarder.take_error(self.port) else {
            return error;
        };
        self.forwarder.abort();
        let limit = std::time::Duration::from_secs(1);
        match tokio::time::timeout(limit, told).await {
            Ok(Some(message)) => anyhow!(
                "the port-forward to pod {} broke: {}",
                self.pod,
                message.trim()
            ),
            _ => error.context(format!("through a port-forward to pod {}", self.pod)),
        }
    }
}

/// The pod that the Service leads to.
fn labeled(pods: &[Pod]) -> Option<&Pod> {
    pods.iter()
        .find(|pod| is_ready(pod) && pod.labels().get(LEADER).is_some_and(|it| it == "true"))
}

/// The leader, whose identity begins with its pod's name; otherwise one that is ready.
fn choose<'a>(pods: &'a [Pod], holder: Option<&str>) -> Option<&'a Pod> {
    let ready = || pods.iter().filter(|pod| is_ready(pod));
    let leads = |pod: &&Pod| {
        let rest = holder.and_then(|holder| holder.strip_prefix(&pod.name_any()));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    ready().find(leads).or_else(|| ready().next())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|it| it.type_ == "Ready" && it.status == "True")
}

fn port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .find(|port| port.name.as_deref() == Some(PORT))
        .and_then(|port| u16::try_from(port.container_port).ok())
        .unwrap_or(USUAL_PORT)
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
    fn the_leader_is_labelled() {
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
        assert_eq!(labeled(&pods).unwrap().name_any(), "core-d");
        assert_eq!(labeled(&pods[..3]), None);
    }

    #[test]
    fn the_port_is_found_by_its_name() {
        assert_eq!(port(&pod("core", "True")), 9443);
        assert_eq!(port(&Pod::default()), USUAL_PORT);
    }
}
