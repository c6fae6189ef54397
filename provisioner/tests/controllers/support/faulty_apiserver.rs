//! A relay to the real API server that fails or blocks selected requests.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{
        StatusCode,
        header::{CONNECTION, HOST},
    },
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, task::AbortHandle};

use super::Options;

/// The fault for requests whose path contains one of these parts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Answers that the server is too busy: clients retry.
    Busy(&'static [&'static str]),
    /// Answers that the storage has failed: clients do not retry.
    Failed(&'static [&'static str]),
    /// Answers nothing, and blocks open streams.
    Silent(&'static [&'static str]),
}

/// A relay whose requests have the permissions of cluster-admin.
pub(crate) struct Relay {
    address: SocketAddr,
    fault: watch::Sender<Option<Fault>>,
    server: AbortHandle,
}

struct Target {
    client: Client,
    fault: watch::Receiver<Option<Fault>>,
}

impl Relay {
    pub(crate) async fn new(cluster: &cluster::Cluster) -> Self {
        Self::at(cluster, ([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn at(cluster: &cluster::Cluster, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let fault = watch::Sender::new(None);
        let target = Target {
            client: cluster.client().unwrap(),
            fault: fault.subscribe(),
        };
        let router = Router::new().fallback(pass).with_state(Arc::new(target));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            fault,
            server: server.abort_handle(),
        }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        Self::kubeconfig_of(&self.address.to_string())
    }

    /// Returns the start options of a provisioner that uses the relay.
    pub(crate) fn options(&self) -> Options {
        tests::with!(Options, kubeconfig: Some(self.kubeconfig()))
    }

    /// Like [`Relay::kubeconfig`], for a line to the relay.
    pub(crate) fn kubeconfig_of(host: &str) -> String {
        let server = format!("http://{host}");
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "relay",
            "clusters": [{"name": "relay", "cluster": {"server": server}}],
            "users": [{"name": "relay", "user": {}}],
            "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "relay"}}],
        })
        .to_string()
    }

    /// Sets the fault until the next change.
    pub(crate) fn fails(&self, fault: Fault) {
        self.fault.send_replace(Some(fault));
    }

    pub(crate) fn restore(&self) {
        self.fault.send_replace(None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fault {
    fn hits(&self, path: &str) -> bool {
        let (Self::Busy(parts) | Self::Failed(parts) | Self::Silent(parts)) = self;
        parts.iter().any(|part| path.contains(part))
    }

    fn is_silent(&self) -> bool {
        matches!(self, Self::Silent(_))
    }
}

async fn pass(State(target): State<Arc<Target>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let hits = |fault: &Option<Fault>| fault.filter(|fault| fault.hits(&path));
    let mut fault = target.fault.clone();
    let now = hits(&fault.borrow());
    if let Some(now) = now {
        if now.is_silent() {
            let _ = fault.wait_for(|fault| hits(fault).is_none()).await;
        }
        let (code, reason, message) = match now {
            Fault::Failed(_) => (500, "InternalError", "etcdserver: request timed out"),
            Fault::Busy(_) | Fault::Silent(_) => {
                (503, "ServiceUnavailable", "too many requests in flight")
            }
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "status": "Failure",
                            "reason": reason, "message": message});
        let (code, close) = (StatusCode::from_u16(code).unwrap(), [(CONNECTION, "close")]);
        return (code, close, status.to_string()).into_response();
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(HOST);
    let body = to_bytes(body, 16 << 20).await.unwrap();
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    let Ok(answer) = target.client.send(request).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (parts, body) = answer.into_parts();
    let (of_stream, mut later) = (path.clone(), fault.clone());
    let hit = async move {
        let is_hit = |fault: &Option<Fault>| fault.is_some_and(|fault| fault.hits(&of_stream));
        let _ = fault.wait_for(is_hit).await;
    };
    // Open streams end, or carry no data.
    let silence = async move {
        let is_over = |fault: &Option<Fault>| {
            !fault.is_some_and(|fault| fault.is_silent() && fault.hits(&path))
        };
        let _ = later.wait_for(is_over).await;
    };
    let stream = body
        .into_data_stream()
        .take_until(Box::pin(hit))
        .chain(futures::stream::once(silence).filter_map(|()| async { None }));
    Response::from_parts(parts, Body::from_stream(stream))
}
