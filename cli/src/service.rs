//! The content service of the provisioner: through a port-forward to its pod, with TLS that is verified, and with a token
//! that the kubeconfig has or gets.
//!
//! ```text
//! rukpak ── API server ── kubelet ── pod of the leader :8443      pods/portforward
//!    └─ TLS, core.<system namespace>.svc, believed by ConfigMap rukpak-ca
//! ```

mod pod;
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
use unpacker::wire;

use crate::{
    args::ServiceArgs,
    cluster::Cluster,
    progress::{self, size},
};

/// Where the service's authority is published.
const AUTHORITY: &str = "rukpak-ca";
const KEY: &str = "ca.crt";

/// The most that is taken of an answer: several times what a bundle may have.
const MOST: u64 = 1 << 28;

/// The way to the service.
pub(crate) struct Service<'a> {
    cluster: &'a Cluster,
    roots: RootCertStore,
    token: token::Token,
    way: Way,
}

/// What has become of content that was sent.
pub(crate) enum Sent {
    Taken,
    /// It is refused for now: whoever it was sent to does not lead, or has too much to do.
    NotNow(String),
}

/// How it is reached.
enum Way {
    /// Through the API server.
    Forward,
    /// At an address.
    Direct { host: String, port: u16 },
}

impl<'a> Service<'a> {
    /// Finds out whom to believe and what to show.
    pub(crate) async fn new(cluster: &'a Cluster, args: &ServiceArgs) -> anyhow::Result<Self> {
        let way = match &args.content_address {
            None => Way::Forward,
            Some(url) => Way::Direct {
                host: url.host().unwrap_or_default().to_owned(),
                port: url.port_u16().unwrap_or(443),
            },
        };
        Ok(Self {
            cluster,
            roots: authorities(cluster).await?,
            token: token::get(cluster).await?,
            way,
        })
    }

    /// Sends content for a Bundle. Content that it has already is no error.
    pub(crate) async fn upload(&self, bundle: &str, archive: Bytes) -> anyhow::Result<Sent> {
        let what = format!("failed to upload the content of Bundle {bundle}");
        progress::show(&format!("uploading {}", size(archive.len() as u64)));
        let path = format!("/uploads/{bundle}.tgz");
        let request = self.request(Method::PUT, &path, Full::new(archive))?;
        let (status, body) = self.send(request).await.context(what.clone())?;
        if status.is_success() {
            return Ok(Sent::Taken);
        }
        let why = format!("{what}: {}", refusal(status, &body));
        if status == http::StatusCode::SERVICE_UNAVAILABLE {
            return Ok(Sent::NotNow(why));
        }
        bail!(why);
    }

    /// Fetches the content of a Bundle.
    pub(crate) async fn download(&self, bundle: &str, is_original: bool) -> anyhow::Result<Bytes> {
        let query = if is_original { "?content=original" } else { "" };
        let path = format!("/bundles/{bundle}.tgz{query}");
        let request = self.request(Method::GET, &path, Full::default())?;
        progress::show(&format!("downloading the content of {bundle}"));
        let (status, body) = self.send(request).await?;
        if !status.is_success() {
            bail!("{}", refusal(status, &body));
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
            .context("failed to make a request for the content service")
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(http::StatusCode, Bytes)> {
        let name = ServerName::try_from(self.name()).context("the service has no name")?;
        match &self.way {
            Way::Forward => {
                let mut forward = pod::forward(self.cluster).await?;
                let result =
                    transfer::exchange(&self.roots, name, forward.stream()?, request, MOST).await;
                match result {
                    // Why it broke is known here alone.
                    Err(error) => Err(forward.explain(error).await),
                    done => done,
                }
            }
            Way::Direct { host, port } => {
                let address = (host.trim_matches(['[', ']']), *port);
                let connected = tokio::net::TcpStream::connect(address);
                let connected = tokio::time::timeout(transfer::IDLE, connected).await;
                let stream = connected
                    .map_err(anyhow::Error::from)
                    .and_then(|done| Ok(done?))
                    .with_context(|| {
                        format!("the content service at {host}:{port} cannot be reached")
                    })?;
                transfer::exchange(&self.roots, name, stream, request, MOST).await
            }
        }
    }

    /// What its certificate says.
    fn name(&self) -> String {
        format!("core.{}.svc", self.cluster.system_namespace)
    }
}

/// Those that the service's certificate is believed by.
async fn authorities(cluster: &Cluster) -> anyhow::Result<RootCertStore> {
    let space = &cluster.system_namespace;
    let what = format!(
        "failed to read the authority of the content service, ConfigMap {space}/{AUTHORITY}"
    );
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), space);
    let map = match maps.get(AUTHORITY).await {
        Ok(map) => map,
        Err(error) if Cluster::is_absent(&error) => bail!(
            "there is no ConfigMap {space}/{AUTHORITY}: the provisioner makes it when it starts; is it in another \
             --system-namespace, or not running?"
        ),
        Err(error) => return Err(cluster.trouble(what, error)),
    };
    let text = map.data.as_ref().and_then(|data| data.get(KEY));
    let text = text.with_context(|| format!("ConfigMap {space}/{AUTHORITY} has no {KEY}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        roots
            .add(certificate.context(what.clone())?)
            .context(what.clone())?;
    }
    Ok(roots)
}

/// Why the service did not do it, in its own words.
fn refusal(status: http::StatusCode, body: &[u8]) -> String {
    let Ok(wire::Problem { reason, message }) = serde_json::from_slice(body) else {
        return format!("the content service answers {status}");
    };
    match status.as_u16() {
        403 => format!(
            "{message}: bind a ClusterRole that allows it, bundle-uploader for uploads or bundle-reader for downloads"
        ),
        _ => format!("{message} ({reason})"),
    }
}
