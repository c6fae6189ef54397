//! Client of the provisioner's content service. It connects through a port-forward to the pod, verifies its certificate,
//! and authenticates with a token of the kubeconfig or a requested one.
//!
//! ```text
//! rukpak ── API server ── kubelet ── pod of the leader :8443      pods/portforward
//!    └─ TLS, core.<system namespace>.svc, verified with ConfigMap rukpak-ca
//! ```

mod port_forward;
mod token;
mod transfer;

use anyhow::{Context, bail};
use http::{Method, Request, header};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use unpacker::transfer::Problem;

use super::Cluster;
use crate::{
    args::ServiceArgs,
    output::progress::{self, size},
};

/// ConfigMap with the CA certificate of the service.
const CA_CONFIG_MAP: &str = "rukpak-ca";
const CA_KEY: &str = "ca.crt";

/// Maximum size of a response in bytes: several times the limit of a bundle.
const MAX_RESPONSE_SIZE: u64 = 1 << 28;

/// Connection to the content service.
pub(crate) struct ContentService<'a> {
    cluster: &'a Cluster,
    roots: RootCertStore,
    token: token::Token,
    transport: Transport,
}

/// A failure that a later attempt may not have, as during a change of the leader: no pod is ready, or the connection fails.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Temporary(anyhow::Error);

/// Result of an upload.
pub(crate) enum UploadResult {
    Accepted,
    /// Temporary failure, with its reason: no pod is ready, or the pod is unreachable, not the leader or too busy.
    RetryLater(String),
}

/// Transport to the service.
enum Transport {
    /// Through a port-forward of the API server.
    PortForward,
    /// Directly, at an address.
    Direct { host: String, port: u16 },
}

impl<'a> ContentService<'a> {
    /// Reads the CA certificate and a token.
    pub(crate) async fn new(cluster: &'a Cluster, args: &ServiceArgs) -> anyhow::Result<Self> {
        let transport = match &args.content_address {
            None => Transport::PortForward,
            Some(url) => Transport::Direct {
                host: url.host().unwrap_or_default().to_owned(),
                port: url.port_u16().unwrap_or(443),
            },
        };
        Ok(Self {
            cluster,
            roots: ca_roots(cluster).await?,
            token: token::get(cluster).await?,
            transport,
        })
    }

    /// Uploads the content of a Bundle. An upload of existing content succeeds.
    pub(crate) async fn upload(
        &self,
        bundle: &str,
        archive: Bytes,
    ) -> anyhow::Result<UploadResult> {
        let problem = format!("failed to upload the content of Bundle {bundle}");
        progress::display(&format!("uploading {}", size(archive.len() as u64)));
        let path = format!("/uploads/{bundle}.tgz");
        let request = self.request(Method::PUT, &path, Full::new(archive))?;
        let (status, body) = match self.send(request).await {
            Ok(response) => response,
            Err(error) if error.is::<Temporary>() => {
                return Ok(UploadResult::RetryLater(format!("{problem}: {error:#}")));
            }
            Err(error) => return Err(error.context(problem)),
        };
        if status.is_success() {
            return Ok(UploadResult::Accepted);
        }
        let reason = format!("{problem}: {}", describe_rejection(status, &body));
        if status == http::StatusCode::SERVICE_UNAVAILABLE {
            return Ok(UploadResult::RetryLater(reason));
        }
        bail!(reason);
    }

    /// Fetches the content of a Bundle.
    pub(crate) async fn download(&self, bundle: &str, is_original: bool) -> anyhow::Result<Bytes> {
        let query = if is_original { "?content=original" } else { "" };
        let path = format!("/bundles/{bundle}.tgz{query}");
        let request = self.request(Method::GET, &path, Full::default())?;
        progress::display(&format!("downloading the content of {bundle}"));
        let (status, body) = self.send(request).await?;
        if !status.is_success() {
            bail!("{}", describe_rejection(status, &body));
        }
        Ok(body)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Full<Bytes>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.name())
            .header(header::AUTHORIZATION, self.token.bearer())
            .header(header::CONTENT_TYPE, "application/gzip")
            .body(body)
            .context("failed to create a request for the content service")
    }

    /// Sends a request. The error may be [`Temporary`].
    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(http::StatusCode, Bytes)> {
        let name = ServerName::try_from(self.name())
            .context("invalid TLS server name for the content service")?;
        let (roots, limit) = (&self.roots, MAX_RESPONSE_SIZE);
        let (is_tls_error, error) = match &self.transport {
            Transport::PortForward => {
                let mut forward = port_forward::forward(self.cluster).await?;
                let stream = forward.stream()?;
                match transfer::exchange(roots, name, stream, request, limit).await {
                    // Only the port-forward knows the reason of a broken connection.
                    Err(error) => (transfer::is_tls_error(&error), forward.explain(error).await),
                    done => return done,
                }
            }
            Transport::Direct { host, port } => {
                let address = (host.trim_matches(['[', ']']), *port);
                let connected = tokio::net::TcpStream::connect(address);
                let connected = tokio::time::timeout(transfer::IDLE_TIMEOUT, connected).await;
                let stream = connected
                    .map_err(anyhow::Error::from)
                    .and_then(|done| Ok(done?))
                    .with_context(|| {
                        format!("failed to reach the content service at {host}:{port}")
                    })
                    .map_err(Temporary)?;
                match transfer::exchange(roots, name, stream, request, limit).await {
                    Err(error) => (transfer::is_tls_error(&error), error),
                    done => return done,
                }
            }
        };
        Err(if is_tls_error {
            error
        } else {
            Temporary(error).into()
        })
    }

    /// Returns the DNS name in the certificate of the service.
    fn name(&self) -> String {
        format!("core.{}.svc", self.cluster.system_namespace)
    }
}

/// Reads the CA certificates that verify the certificate of the service.
async fn ca_roots(cluster: &Cluster) -> anyhow::Result<RootCertStore> {
    let space = &cluster.system_namespace;
    let problem =
        format!("failed to read the CA of the content service, ConfigMap {space}/{CA_CONFIG_MAP}");
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), space);
    let map = match maps.get(CA_CONFIG_MAP).await {
        Ok(map) => map,
        Err(error) if Cluster::is_absent(&error) => bail!(
            "ConfigMap {space}/{CA_CONFIG_MAP} not found, although the provisioner creates it at startup; check that \
             the provisioner is running, or set --system-namespace"
        ),
        Err(error) => return Err(cluster.explain(problem, error)),
    };
    let text = map.data.as_ref().and_then(|data| data.get(CA_KEY));
    let text =
        text.with_context(|| format!("ConfigMap {space}/{CA_CONFIG_MAP} has no key {CA_KEY}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        roots
            .add(certificate.context(problem.clone())?)
            .context(problem.clone())?;
    }
    Ok(roots)
}

/// Describes an error response of the service.
fn describe_rejection(status: http::StatusCode, body: &[u8]) -> String {
    let Ok(Problem { reason, message }) = serde_json::from_slice(body) else {
        return format!("content service returned {status}");
    };
    match status.as_u16() {
        403 => format!(
            "{message}; bind a ClusterRole that allows it, bundle-uploader for uploads or bundle-reader for downloads"
        ),
        _ => format!("{message} ({reason})"),
    }
}
