//! The conversion webhook: CatalogSources of the version `v1`, where the admin has put it into their definition.
//!
//! ```text
//!  apiserver ─ ConversionReview ─> /convert ─ review ─> manifests::api::catalog_source::convert      two replicas, no state
//!  Keeper: authority ─> definition: decide ─> spec.conversion.webhook.clientConfig.caBundle
//! ```
//!
//! While nobody answers here, whoever asks for a version that is not the stored one gets an error; and the garbage collector
//! and namespaces that go ask for the preferred one. So it runs by itself, twice, with an authority of its own, reads nothing
//! but what it is sent, and answers in a moment or not at all.

mod definition;
mod review;

use std::{
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{self, Body},
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
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::https::{
    self,
    tls::{Keeper, Kept},
};

pub use crate::https::Error;

/// The name of the Service, and of the Secret and the ConfigMap with its authority.
pub const NAME: &str = catalog_source::CONVERSION;
/// How much a request may say. An apiserver asks for all objects of an answer at once: thousands of CatalogSources.
const BODY: usize = 16 << 20;
/// How many requests are answered at once; others wait, for what is read of each may take ten times as much memory.
const AT_ONCE: usize = 2;
/// How long a request may take to come; and how long to come and to get its turn. The apiserver gives up after thirty
/// seconds.
const COMING: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(25);

/// How to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where to listen.
    pub bind: SocketAddr,
    /// The namespace of the Service.
    pub namespace: String,
    /// A Secret of that namespace, type `kubernetes.io/tls`, that somebody else keeps (cert-manager does). Without one, an
    /// authority of its own is made and kept.
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

/// A webhook that has its address, and does not answer yet.
pub struct Webhook {
    https: https::Service,
    believed: watch::Receiver<Option<String>>,
    client: Client,
    namespace: String,
}

// === impl Webhook ===

impl Webhook {
    /// Takes the address.
    ///
    /// # Errors
    /// When it cannot be listened on.
    pub async fn bind(client: &Client, options: Options) -> Result<Self, Error> {
        let namespace = options.namespace.clone();
        let kept = Kept {
            service: "conversion webhook",
            authority: NAME,
            given: options.tls_secret,
            flag: "--tls-secret",
            names: names(&options.namespace),
            namespace: options.namespace,
            now: Timestamp::now,
        };
        let keeper = Keeper::new(client, kept);
        Ok(Self {
            believed: keeper.believed(),
            https: https::Service::bind(options.bind, keeper).await?,
            client: client.clone(),
            namespace,
        })
    }

    /// Where it listens: of interest where the port was left to the system.
    pub fn address(&self) -> SocketAddr {
        self.https.address()
    }

    /// Answers until `stop`, and keeps what the apiserver has to believe in the definition.
    pub async fn run(self, stop: CancellationToken) {
        let keeping = definition::keep(&self.client, &self.namespace, self.believed);
        let keeping = stop.run_until_cancelled(keeping);
        tokio::join!(self.https.run(router(), stop.clone()), keeping);
    }
}

/// All names that the webhook is asked by.
fn names(namespace: &str) -> Vec<String> {
    vec![
        format!("{NAME}.{namespace}.svc"),
        format!("{NAME}.{namespace}.svc.cluster.local"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
    ]
}

fn router() -> Router {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    Router::new()
        .route(catalog_source::CONVERSION_PATH, routing::post(convert))
        // Whoever gets this far has seen a certificate, and more is not needed to be ready.
        .route("/readyz", routing::get(|| async { "ok" }))
        .with_state(places)
}

async fn convert(State(places): State<Arc<Semaphore>>, request: Request) -> Response {
    let answered = timeout(PATIENCE, async {
        let _place = places.acquire().await;
        let body = timeout(COMING, body::to_bytes(request.into_body(), BODY)).await;
        let slow = |_| {
            (
                StatusCode::REQUEST_TIMEOUT,
                "the request did not come".to_owned(),
            )
        };
        let body = body
            .map_err(slow)?
            .map_err(|error| (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
        // A definition has thousands of objects at the most, and each is small: no matter for another thread.
        review::answer(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
    });
    match answered.await {
        Ok(Ok(answer)) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, Body::from(answer)).into_response()
        }
        Ok(Err((status, problem))) => {
            warn!(problem, "a request cannot be answered");
            (status, problem).into_response()
        }
        Err(_) => {
            warn!("a request took too long to come");
            StatusCode::REQUEST_TIMEOUT.into_response()
        }
    }
}
