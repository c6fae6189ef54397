//! The conversion webhook: CatalogSources of the version `v1`, where the admin has put it into their definition.
//!
//! ```text
//!  API server ─ ConversionReview ─> /convert ─ review ─> manifests::api::catalog_source::convert      two replicas, no state
//!  Keeper: authority ─> definition: decide ─> spec.conversion.webhook.clientConfig.caBundle
//! ```
//!
//! While nobody answers here, whoever asks for a version that is not the stored one gets an error; and the garbage collector
//! and namespaces that go ask for the preferred one. So it runs by itself, twice, with an authority of its own, reads nothing
//! but what it is sent, and answers in a moment or not at all. Anybody in the cluster can send something; so a request takes
//! nobody's turn before all of it is there.

mod body;
mod definition;
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

use self::body::Room;
use crate::https::{
    self,
    tls::{Keeper, Kept},
};

pub use crate::https::Error;

/// The name of the Service, and of the Secret and the ConfigMap with its authority.
pub const NAME: &str = catalog_source::CONVERSION;
/// How many requests are answered at once; others wait, for what is made of each may take twenty times as much memory.
const AT_ONCE: usize = 2;
/// How long a request may take to come and to get its turn. The API server gives up after thirty seconds.
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

    /// Answers until `stop`, and keeps what the API server has to believe in the definition.
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

/// What requests have to share.
#[derive(Debug, Clone)]
struct Shared {
    room: Room,
    turns: Arc<Semaphore>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Body(#[from] body::Error),
    #[error(transparent)]
    Review(#[from] review::Error),
    #[error("its turn did not come within {} seconds", PATIENCE.as_secs())]
    Late(#[from] Elapsed),
}

fn router() -> Router {
    let shared = Shared {
        room: Room::new(),
        turns: Arc::new(Semaphore::new(AT_ONCE)),
    };
    Router::new()
        .route(catalog_source::CONVERSION_PATH, routing::post(convert))
        // Whoever gets this far has seen a certificate, and more is not needed to be ready.
        .route("/readyz", routing::get(|| async { "ok" }))
        .with_state(shared)
}

async fn convert(State(shared): State<Shared>, request: Request) -> Response {
    match answer(&shared, request.into_body()).await {
        Ok(answer) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, Body::from(answer)).into_response()
        }
        Err(refused) => {
            let problem = unpacker::job::chain(&refused);
            warn!(problem, "a request cannot be answered");
            (refused.status(), problem).into_response()
        }
    }
}

async fn answer(shared: &Shared, body: Body) -> Result<Vec<u8>, Refused> {
    let answered = timeout(PATIENCE, async {
        let body = shared.room.read(body).await?;
        let _turn = shared.turns.acquire().await;
        // One object as a rule, and a small one: no matter for another thread.
        Ok(review::answer(&body.bytes)?)
    });
    answered.await?
}

// === impl Refused ===

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::Body(body::Error::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(body::Error::Slow) | Self::Late(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(body::Error::Broken(_)) | Self::Review(_) => StatusCode::BAD_REQUEST,
        }
    }
}
