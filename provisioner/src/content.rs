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
//! Nothing is read of a request whose sender may not make it. Connections, requests to the API server, uploads and
//! downloads at the same time are bounded, and so is every wait.

mod access;
mod answer;
mod bundles;
mod plain;
mod routes;
mod stream;
mod unpack;
mod uploads;

use std::{
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::Router;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use unpacker::Store;

use self::routes::Shared;
use crate::{
    bundle::Conversions,
    context::Context,
    https::{
        self,
        tls::{Keeper, Kept},
    },
    leading::Leading,
    settings::Settings,
    versions::Versions,
};

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
    /// Content is converted for the version of the API server.
    pub versions: Arc<Versions>,
    /// Converts content, within a shared amount of memory.
    pub conversions: Arc<Conversions>,
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
            conversions: Arc::clone(&context.conversions),
            mender: Some(context.clone()),
            leading: context.leading.clone(),
            now: context.now,
        }
    }
}

/// Why there is no content service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has no address.
    #[error("there is no content service; choose another --content-bind-address")]
    Bind(#[from] https::Error),
}

/// A content service that has its address, and does not answer yet.
pub struct Service {
    https: https::Service,
    router: Router,
}

// === impl Service ===

impl Service {
    /// Takes the address.
    ///
    /// # Errors
    /// When it cannot be listened on.
    pub async fn bind(parts: Parts, options: &Options) -> Result<Self, Error> {
        let settings = &parts.settings;
        let kept = Kept {
            service: "content service",
            namespace: settings.system_namespace.clone(),
            authority: AUTHORITY,
            given: options.tls_secret.clone(),
            flag: "--content-tls-secret",
            names: names(&settings.system_namespace, &settings.external_address),
            now: parts.now,
        };
        let keeper = Keeper::new(&parts.client, kept);
        Ok(Self {
            https: https::Service::bind(options.bind, keeper).await?,
            router: routes::router(Arc::new(Shared::new(parts, options))),
        })
    }

    /// Where it listens: of interest where the port was left to the system.
    pub fn address(&self) -> SocketAddr {
        self.https.address()
    }

    /// Becomes true as soon as requests are answered: there is a certificate.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.https.ready()
    }

    /// Serves until `stop`, and then until what is under way has ended, within a bound.
    pub async fn run(self, stop: CancellationToken) {
        self.https.run(self.router, stop).await;
    }
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

/// All names that the service is asked by.
fn names(namespace: &str, external: &str) -> Vec<String> {
    let mut names = vec![
        format!("core.{namespace}.svc"),
        format!("core.{namespace}.svc.cluster.local"),
        format!("core.{namespace}"),
        // Through a port that is forwarded.
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    let external = url::Url::parse(external).ok();
    let host = external.and_then(|url| Some(url.host()?.to_string()));
    // An address of version 6 stands in brackets there.
    let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
    names.extend(host.filter(|host| !host.is_empty()));
    names.sort_by_key(|name| names_order(name));
    names.dedup();
    names
}

fn names_order(name: &str) -> (bool, String) {
    (!name.starts_with("core."), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_for_every_name_that_clients_may_use() {
        let external = "https://core.rukpak-system.svc";
        let own = "core.rukpak-system core.rukpak-system.svc core.rukpak-system.svc.cluster.local";
        let all = |others: &[&str]| -> Vec<String> {
            let all = own.split(' ').chain(others.iter().copied());
            all.map(str::to_owned).collect()
        };
        for (external, others) in ::tests::rows![
            external => vec!["127.0.0.1", "localhost"];
            "https://bundles.example.com:8443/x" => vec!["127.0.0.1", "bundles.example.com", "localhost"];
            "https://10.0.0.1" => vec!["10.0.0.1", "127.0.0.1", "localhost"];
            "https://[::1]:80" => vec!["127.0.0.1", "::1", "localhost"];
            "nonsense" => vec!["127.0.0.1", "localhost"];
        ] {
            assert_eq!(names("rukpak-system", external), all(&others), "{external}");
        }
    }
}
