//! The content service: hands out `/bundles/<name>.tgz` to those who may read, and takes `/uploads/<name>.tgz` from those
//! who may upload.
//!
//! ```text
//!  TLS (own authority, or a Secret) ─> who (TokenReview) ─> may they (SubjectAccessReview)
//!     ├─ GET, HEAD /bundles/<name>.tgz   plain content; ?content=original as it came
//!     ├─ GET, HEAD /uploads/<name>.tgz   what was uploaded
//!     ├─ PUT       /uploads/<name>.tgz ─> wire::receive ─> store ─> ConfigMaps ─> status: pending
//!     └─ PUT       /unpack/<name>.tgz, with the token of the pod of the Bundle's Job ─> the same ─> the Job's annotation
//! ```
//!
//! Content is taken by the replica that leads alone: it is what works with it.
//!
//! Nothing is read of a request whose sender may not make it. Connections, requests to the apiserver, uploads and
//! downloads at the same time are bounded, and so is every wait.

mod access;
mod answer;
mod bundles;
mod listen;
mod plain;
mod routes;
mod stream;
mod tls;
mod unpack;
mod uploads;

use std::{
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
};

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use unpacker::Store;

use crate::{
    context::Context, leading::Leading, preflight::versions::Versions, settings::Settings,
};

pub use listen::Service;

/// The Secret with the service's own authority, and the ConfigMap with what clients have to believe, key `ca.crt`.
pub const AUTHORITY: &str = "rukpak-ca";

/// How to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where to listen.
    pub bind: SocketAddr,
    /// A Secret of the system namespace, type `kubernetes.io/tls`, that somebody else keeps (cert-manager does). Without
    /// one, the service makes and keeps an authority of its own.
    pub tls_secret: Option<String>,
    /// How many uploads are taken at once.
    pub uploads: usize,
    /// How many archives are handed out at once.
    pub downloads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: (Ipv6Addr::UNSPECIFIED, 8443).into(),
            tls_secret: None,
            uploads: 4,
            downloads: 32,
        }
    }
}

/// What the service needs of the [`Context`].
#[derive(Clone)]
pub struct Parts {
    /// With the provisioner's own rights.
    pub client: Client,
    /// What was decided by flags.
    pub settings: Arc<Settings>,
    /// Bundles' content.
    pub store: Arc<Store>,
    /// Content is converted for the version of the apiserver.
    pub versions: Arc<Versions>,
    /// Fetches what the store has lost, or never had as another replica fetched it; without it, nothing does.
    pub mender: Option<Context>,
    /// Only who leads takes content.
    pub leading: Leading,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl From<&Context> for Parts {
    fn from(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            settings: Arc::clone(&context.settings),
            store: Arc::clone(&context.store),
            versions: Arc::clone(&context.versions),
            mender: Some(context.clone()),
            leading: context.leading.clone(),
            now: context.now,
        }
    }
}

/// Why there is no content service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error(
        "failed to listen on {address} for the content service; choose another --content-bind-address"
    )]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The TLS library refuses its own defaults.
    #[error("failed to set TLS up for the content service")]
    Tls(#[from] rustls::Error),
}

/// Serves until `stop`, and then until what is under way has ended, within a bound.
///
/// # Errors
/// When the address cannot be listened on. Whatever goes wrong later is logged and tried again.
pub async fn serve(ctx: Context, options: Options, stop: CancellationToken) -> Result<(), Error> {
    let service = Service::bind((&ctx).into(), &options).await?;
    let task = ctx.ready.task("have a certificate for the content service");
    let mut ready = service.ready();
    let waiting = async move {
        // Whichever way it ends: a service that has gone is no reason to wait.
        let _ = ready.wait_for(|ready| *ready).await;
        task.done();
    };
    tokio::join!(service.run(stop), waiting);
    Ok(())
}
