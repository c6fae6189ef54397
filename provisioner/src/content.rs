//! Content service: serves `/bundles/<name>.tgz` to clients that may read content, and accepts `/uploads/<name>.tgz` from
//! clients that may upload content.
//!
//! ```text
//!  TLS (own CA, or a Secret) ─> authentication (TokenReview) ─> authorization (SubjectAccessReview)
//!     ├─ GET, HEAD /bundles/<name>.tgz   plain content; ?content=original for the fetched content
//!     ├─ GET, HEAD /uploads/<name>.tgz   uploaded content
//!     ├─ PUT       /uploads/<name>.tgz ─> transfer::receive ─> store ─> ConfigMaps ─> status: pending
//!     └─ PUT       /unpack/<name>.tgz, with the token of the pod of the Bundle's Job ─> the same ─> the Job's annotation
//! ```
//!
//! Only the leader accepts content, because its controllers use the content.
//!
//! The body of an unauthorized request is not processed. Concurrent connections, API server requests, uploads and downloads
//! are limited, and every wait has a timeout.

mod authz;
mod download;
mod job_upload;
mod plain;
mod response;
mod routes;
mod stream;
mod upload;

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

use self::routes::ServiceState;
use crate::{
    cluster::versions::Versions,
    controllers::{bundle::Conversions, context::Context},
    runtime::{
        https,
        leader_flag::LeaderFlag,
        settings::Settings,
        tls::{CONTENT_CA, CertificateConfig, CertificateManager},
    },
};

/// Options of the content service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Address to listen on.
    pub bind: SocketAddr,
    /// Secret of the system namespace of type `kubernetes.io/tls` that another tool, such as cert-manager, manages. `None`:
    /// the service creates and rotates its own CA.
    pub tls_secret: Option<String>,
    /// Maximum number of concurrent uploads.
    pub uploads: usize,
    /// Maximum number of concurrent downloads.
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

/// Parts of the [`Context`] that the content service uses.
#[derive(Clone)]
pub struct Dependencies {
    /// Client with the permissions of the provisioner.
    pub client: Client,
    /// Settings of the flags.
    pub settings: Arc<Settings>,
    /// Store of the fetched content.
    pub store: Arc<Store>,
    /// Versions of the cluster: content is converted for the Kubernetes version.
    pub versions: Arc<Versions>,
    /// Runner of conversions within a shared memory budget.
    pub conversions: Arc<Conversions>,
    /// Context for fetching content that the store has lost, or that another replica has fetched. `None` disables fetching.
    pub refetch_context: Option<Context>,
    /// Leader flag: only the leader accepts content.
    pub leading: LeaderFlag,
    /// Clock; tests replace it.
    pub now: fn() -> Timestamp,
}

impl From<&Context> for Dependencies {
    fn from(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            settings: Arc::clone(&context.settings),
            store: Arc::clone(&context.store),
            versions: Arc::clone(&context.versions),
            conversions: Arc::clone(&context.conversions),
            refetch_context: Some(context.clone()),
            leading: context.leader.clone(),
            now: context.now,
        }
    }
}

/// Reason why the content service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("failed to bind the content service; choose another --content-bind-address")]
    Bind(#[from] https::Error),
}

/// A content service with a bound address that does not serve yet.
pub struct Service {
    https: https::Service,
    router: Router,
}

// === impl Service ===

impl Service {
    /// Binds the address.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn bind(parts: Dependencies, options: &Options) -> Result<Self, Error> {
        let settings = &parts.settings;
        let config = CertificateConfig {
            service: "content service",
            namespace: settings.system_namespace.clone(),
            ca_name: CONTENT_CA,
            external_secret: options.tls_secret.clone(),
            flag: "--content-tls-secret",
            names: names(
                &settings.system_namespace,
                [&settings.external_address, &settings.content_address],
            ),
            now: parts.now,
        };
        let certificates = CertificateManager::new(&parts.client, config);
        Ok(Self {
            https: https::Service::bind(options.bind, certificates).await?,
            router: routes::router(Arc::new(ServiceState::new(parts, options))),
        })
    }

    /// Returns the bound address: the system may have chosen the port.
    pub fn address(&self) -> SocketAddr {
        self.https.address()
    }

    /// Returns a watch that becomes true as soon as the service has a certificate and responds to requests.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.https.ready()
    }

    /// Serves until `stop` is cancelled, and then until running requests have finished or a timeout has passed.
    pub async fn run(self, stop: CancellationToken) {
        self.https.run(self.router, stop).await;
    }
}

/// Serves until `stop` is cancelled, and then until running requests have finished or a timeout has passed.
///
/// # Errors
/// Returns an error if the address cannot be bound. Later failures are logged and retried.
pub async fn serve(ctx: Context, options: Options, stop: CancellationToken) -> Result<(), Error> {
    let service = Service::bind((&ctx).into(), &options).await?;
    let task = ctx.ready.task("certificate of the content service");
    let mut ready = service.ready();
    let waiting = async move {
        // An error means that the service has ended, and then readiness need not wait for it.
        let _ = ready.wait_for(|ready| *ready).await;
        task.done();
    };
    tokio::join!(service.run(stop), waiting);
    Ok(())
}

/// Returns the host names and addresses of the service: those in the cluster, and those of configured addresses.
fn names(namespace: &str, configured: [&str; 2]) -> Vec<String> {
    let mut names = vec![
        format!("core.{namespace}.svc"),
        format!("core.{namespace}.svc.cluster.local"),
        format!("core.{namespace}"),
        // For port forwarding.
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    for address in configured {
        let url = url::Url::parse(address).ok();
        let host = url.and_then(|url| Some(url.host()?.to_string()));
        // URLs have brackets around IPv6 addresses.
        let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
        names.extend(host.filter(|host| !host.is_empty()));
    }
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
        let service = "https://core.rukpak-system.svc";
        let own = "core.rukpak-system core.rukpak-system.svc core.rukpak-system.svc.cluster.local";
        let all = |others: &[&str]| -> Vec<String> {
            let all = own.split(' ').chain(others.iter().copied());
            all.map(str::to_owned).collect()
        };
        assert_each!(|external, others| names("rukpak-system", [external, service]) => all(&others);
            service => vec!["127.0.0.1", "localhost"];
            "https://bundles.example.com:8443/x" => vec!["127.0.0.1", "bundles.example.com", "localhost"];
            "https://10.0.0.1" => vec!["10.0.0.1", "127.0.0.1", "localhost"];
            "https://[::1]:80" => vec!["127.0.0.1", "::1", "localhost"];
            "nonsense" => vec!["127.0.0.1", "localhost"];
        );
        // A process outside a pod.
        assert_rows!(names("rukpak-system", [service, "https://10.0.0.1"]) => all(&["10.0.0.1", "127.0.0.1", "localhost"]));
    }
}
