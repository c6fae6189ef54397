//! Conversion webhook: converts CatalogSources if the admin has added the version `v1` to their CRD.
//!
//! ```text
//!  API server ─ ConversionReview ─> /convert ─ review ─> manifests::api::catalog_source::convert  two replicas, no state
//!  CertificateManager: CA ─> crd: decide ─> spec.conversion.webhook.clientConfig.caBundle
//! ```
//!
//! Without the webhook, requests for a version that is not stored fail. The garbage collector and the namespace controller
//! request the preferred version. So the webhook runs in two separate replicas with its own CA, reads only the request, and
//! responds quickly or not at all. Every client in the cluster can send requests, so a request acquires a slot only after
//! it was received completely.

mod body;
mod crd;
mod review;

use std::{
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
    routing,
};
use http::{StatusCode, header};
use jiff::Timestamp;
use kube::Client;
use manifests::api::catalog_source;
use tokio::{
    sync::{Semaphore, watch},
    time::{error::Elapsed, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::body::MemoryBudget;
use crate::runtime::{
    https,
    tls::{CertificateConfig, CertificateManager},
};

pub use crate::runtime::https::Error;

/// Name of the Service, and of the Secret and the ConfigMap with its CA.
pub const NAME: &str = catalog_source::CONVERSION;
/// Maximum number of concurrent conversions, because a conversion may need twenty times the memory of its request.
const MAX_CONCURRENT: usize = 2;
/// Timeout for receiving a request and acquiring a slot. The API server gives up after thirty seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);

/// Options of the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Address to listen on.
    pub bind: SocketAddr,
    /// Namespace of the Service.
    pub namespace: String,
    /// Secret of that namespace of type `kubernetes.io/tls` that another tool, such as cert-manager, manages. `None`: the
    /// webhook creates and rotates its own CA.
    pub tls_secret: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: (Ipv6Addr::UNSPECIFIED, 8443).into(),
            namespace: "rukpak-system".to_owned(),
            tls_secret: None,
        }
    }
}

/// A webhook with a bound address that does not serve yet.
pub struct Webhook {
    https: https::Service,
    ca_bundle: watch::Receiver<Option<String>>,
    client: Client,
    namespace: String,
}

// === impl Webhook ===

impl Webhook {
    /// Binds the address.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn bind(client: &Client, options: Options) -> Result<Self, Error> {
        let namespace = options.namespace.clone();
        let config = CertificateConfig {
            service: "conversion webhook",
            ca_name: NAME,
            external_secret: options.tls_secret,
            flag: "--tls-secret",
            names: names(&options.namespace),
            namespace: options.namespace,
            now: Timestamp::now,
        };
        let certificates = CertificateManager::new(client, config);
        Ok(Self {
            ca_bundle: certificates.ca_bundle(),
            https: https::Service::bind(options.bind, certificates).await?,
            client: client.clone(),
            namespace,
        })
    }

    /// Returns the bound address: the system may have chosen the port.
    pub fn address(&self) -> SocketAddr {
        self.https.address()
    }

    /// Serves until `stop` is cancelled, and keeps the CA bundle in the CRD up to date.
    pub async fn run(self, stop: CancellationToken) {
        let crd_reconciler = crd::reconcile(&self.client, &self.namespace, self.ca_bundle);
        let crd_reconciler = stop.run_until_cancelled(crd_reconciler);
        tokio::join!(self.https.run(router(), stop.clone()), crd_reconciler);
    }
}

/// Returns the host names and addresses of the webhook.
fn names(namespace: &str) -> Vec<String> {
    vec![
        format!("{NAME}.{namespace}.svc"),
        format!("{NAME}.{namespace}.svc.cluster.local"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
    ]
}

/// Limits that all requests share.
#[derive(Debug, Clone)]
struct Shared {
    memory: MemoryBudget,
    slots: Arc<Semaphore>,
}

/// Reason why a request is not answered.
#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error(transparent)]
    Body(#[from] body::Error),
    #[error(transparent)]
    Review(#[from] review::Error),
    #[error("the request was queued for more than {} seconds", REQUEST_TIMEOUT.as_secs())]
    Timeout(#[from] Elapsed),
}

fn router() -> Router {
    let shared = Shared {
        memory: MemoryBudget::new(),
        slots: Arc::new(Semaphore::new(MAX_CONCURRENT)),
    };
    Router::new()
        .route(catalog_source::CONVERSION_PATH, routing::post(convert))
        // A TLS connection implies a certificate, which is all that readiness requires.
        .route("/readyz", routing::get(|| async { "ok" }))
        .with_state(shared)
}

async fn convert(State(shared): State<Shared>, request: Request) -> Response {
    match answer(&shared, request.into_body()).await {
        Ok(answer) => {
            let headers = [(header::CONTENT_TYPE, "application/json")];
            (headers, Body::from(answer)).into_response()
        }
        Err(error) => {
            let problem = manifests::error::chain(&error);
            warn!(problem, "failed to answer a request");
            (error.status(), problem).into_response()
        }
    }
}

async fn answer(shared: &Shared, body: Body) -> Result<Vec<u8>, WebhookError> {
    let response = timeout(REQUEST_TIMEOUT, async {
        let body = shared.memory.read(body).await?;
        let _slot = shared.slots.acquire().await;
        // Usually a single small object, so the conversion needs no blocking thread.
        Ok(review::answer(&body.bytes)?)
    });
    response.await?
}

// === impl WebhookError ===

impl WebhookError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Body(body::Error::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(body::Error::Slow) | Self::Timeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(body::Error::Broken(_)) | Self::Review(_) => StatusCode::BAD_REQUEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::stream;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    #[tokio::test]
    async fn stalled_requests_take_no_slot() {
        let shared = Shared {
            memory: MemoryBudget::new(),
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT)),
        };
        let mut stalled = JoinSet::new();
        for _ in 0..24 {
            let shared = shared.clone();
            let body = Body::from_stream(stream::pending::<io::Result<Vec<u8>>>());
            stalled.spawn(async move { answer(&shared, body).await });
        }
        yield_now().await;
        assert_eq!(shared.slots.available_permits(), MAX_CONCURRENT);
        let other = answer(&shared, Body::from("[]"));
        let other = timeout(Duration::from_secs(1), other).await;
        assert_rows!(matches!(other, Ok(Err(WebhookError::Review(_)))) => true, "{other:?}");
        assert_rows!(stalled.try_join_next().is_none() => true, "the stalled requests continue");
        stalled.shutdown().await;
    }
}
