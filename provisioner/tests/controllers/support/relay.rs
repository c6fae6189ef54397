//! A relay to the real apiserver, which has no time for some requests, or never answers them.

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

/// What becomes of requests that have one of these in their path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// They are answered as an apiserver does that has no time: clients try again.
    Busy(&'static [&'static str]),
    /// They are answered as an apiserver does whose storage fails: clients do not try again.
    Failed(&'static [&'static str]),
    /// They are not answered, and streams say nothing any more.
    Silent(&'static [&'static str]),
}

/// Whoever comes through it has the administrator's rights.
pub(crate) struct Relay {
    here: SocketAddr,
    fault: watch::Sender<Option<Fault>>,
    server: AbortHandle,
}

struct There {
    client: Client,
    fault: watch::Receiver<Option<Fault>>,
}

impl Relay {
    pub(crate) async fn new(cluster: &cluster::Cluster) -> Self {
        Self::at(cluster, ([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn at(cluster: &cluster::Cluster, here: SocketAddr) -> Self {
        let listener = TcpListener::bind(here).await.unwrap();
        let here = listener.local_addr().unwrap();
        let fault = watch::Sender::new(None);
        let there = There {
            client: cluster.client().unwrap(),
            fault: fault.subscribe(),
        };
        let router = Router::new().fallback(pass).with_state(Arc::new(there));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            here,
            fault,
            server: server.abort_handle(),
        }
    }

    /// The text of the kubeconfig that leads through it.
    pub(crate) fn kubeconfig(&self) -> String {
        Self::kubeconfig_of(&self.here.to_string())
    }

    /// A provisioner that goes through it.
    pub(crate) fn options(&self) -> Options {
        Options {
            kubeconfig: Some(self.kubeconfig()),
            ..Options::default()
        }
    }

    /// The same, for a line that leads to it.
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

    /// From now on, until something else is said.
    pub(crate) fn fails(&self, fault: Fault) {
        self.fault.send_replace(Some(fault));
    }

    /// All is well again.
    pub(crate) fn mend(&self) {
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

async fn pass(State(there): State<Arc<There>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let hits = |fault: &Option<Fault>| fault.filter(|fault| fault.hits(&path));
    let mut fault = there.fault.clone();
    let now = hits(&fault.borrow());
    if let Some(now) = now {
        if now.is_silent() {
            let _ = fault.wait_for(|fault| hits(fault).is_none()).await;
        }
        let (code, reason, message) = match now {
            Fault::Failed(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "etcdserver: request timed out",
            ),
            Fault::Busy(_) | Fault::Silent(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "too many requests in flight",
            ),
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "code": code.as_u16(), "status": "Failure",
                            "reason": reason, "message": message});
        return (code, [(CONNECTION, "close")], status.to_string()).into_response();
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(HOST);
    let body = to_bytes(body, 16 << 20).await.unwrap();
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    let Ok(answer) = there.client.send(request).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (parts, body) = answer.into_parts();
    let (of_stream, mut later) = (path.clone(), fault.clone());
    let hit = async move {
        let is_hit = |fault: &Option<Fault>| fault.is_some_and(|fault| fault.hits(&of_stream));
        let _ = fault.wait_for(is_hit).await;
    };
    // Streams that go on end, or stay open and say nothing.
    let silence = async move {
        let is_over = |fault: &Option<Fault>| {
            !fault.is_some_and(|fault| fault.is_silent() && fault.hits(&path))
        };
        let _ = later.wait_for(is_over).await;
    };
    let silence = futures::stream::once(silence).filter_map(|()| async { None });
    let stream = body
        .into_data_stream()
        .take_until(Box::pin(hit))
        .chain(silence);
    Response::from_parts(parts, Body::from_stream(stream))
}
