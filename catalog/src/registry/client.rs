//! Client of the registry API that treats servers as untrusted.
//!
//! It limits what a server can consume: time to connect, time between two messages, message size, and the number and
//! total size of messages. A stream that ends without a status is an error, because a partial catalog must not look
//! like a complete one. Connections use HTTP/2 without TLS, as catalogs are served; proxies, environment variables and
//! redirects are not used.

mod error;

mod connector;

use std::{error::Error as _, time::Duration};

use futures::{Stream, TryStreamExt, stream};
use http::{Uri, uri::PathAndQuery};
use prost::Message;
use tokio::{sync::watch, time::timeout};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::proto;

pub use self::error::Error;

/// Limits for requests to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// Timeout for connecting.
    pub connect: Duration,
    /// Timeout for a single response, and for the time between two messages of a list.
    pub wait: Duration,
    /// Timeout for a complete list.
    pub list: Duration,
    /// Maximum size of a message in bytes.
    pub message: usize,
    /// Maximum number of messages in a list.
    pub messages: u64,
    /// Maximum size in bytes of all messages of a list, and of all single packages and bundles that are requested in
    /// one session.
    pub total: u64,
    /// Timeout for reading all requested packages.
    pub read: Duration,
    /// Approximate maximum of bytes that are retained.
    pub max_retained: usize,
}

impl Default for ClientLimits {
    /// Returns limits of ten times the requirements of the largest known catalogs.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            wait: Duration::from_secs(30),
            list: Duration::from_secs(600),
            message: 16 << 20,
            messages: 1_000_000,
            total: 2 << 30,
            read: Duration::from_secs(900),
            max_retained: 128 << 20,
        }
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// Maximum length of a server's message in errors, in characters.
const MAX_MESSAGE_LEN: usize = 500;
/// Message of tonic for a response that ended without a status.
const CUT_SHORT: &str = "protocol error: missing grpc-status trailer";

/// A connection to a catalog server. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    disconnected: watch::Receiver<()>,
    address: String,
    bounds: ClientLimits,
}

// === impl Client ===

impl Client {
    /// Connects to `host:port`, the format of `spec.address` of a CatalogSource.
    ///
    /// # Errors
    /// Returns an error if the address is invalid, or if the server does not accept the connection within the timeout.
    pub async fn connect(address: &str, bounds: ClientLimits) -> Result<Self> {
        let uri = uri(address)?;
        let endpoint = Endpoint::from(uri)
            .connect_timeout(bounds.connect)
            .http2_keep_alive_interval(bounds.wait)
            .keep_alive_timeout(bounds.wait)
            .tcp_nodelay(true)
            .http2_max_header_list_size(16 << 10)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(2 << 20);
        let (alive, disconnected) = watch::channel(());
        let connector = connector::OneShotConnector::new(alive);
        let connect = timeout(bounds.connect, endpoint.connect_with_connector(connector));
        let channel = match connect.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(source)) => {
                let address = address.to_owned();
                return Err(Error::Connect { address, source });
            }
            Err(_) => {
                return Err(Error::Timeout {
                    address: address.to_owned(),
                    rpc: "the connection",
                    after: bounds.connect,
                });
            }
        };
        let address = address.to_owned();
        Ok(Self {
            channel,
            disconnected,
            address,
            bounds,
        })
    }

    /// Waits until the connection breaks because the server ended or stopped responding. The client does not reconnect;
    /// call [`Self::connect`] again.
    pub fn disconnected(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut disconnected = self.disconnected.clone();
        async move { while disconnected.changed().await.is_ok() {} }
    }

    /// Checks that the connection is not broken.
    ///
    /// # Errors
    /// Returns [`Error::Disconnected`] if the connection is broken.
    pub fn check_connected(&self, rpc: &'static str) -> Result<()> {
        match self.disconnected.has_changed() {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broken(rpc, "the server closed the connection".to_owned())),
        }
    }

    /// Returns the limits of this client.
    pub fn bounds(&self) -> &ClientLimits {
        &self.bounds
    }

    /// Returns the address of the catalog server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the names of all packages.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request, stalls or exceeds the limits.
    pub async fn list_packages(&self) -> Result<Vec<String>> {
        let list = self.list("/api.Registry/ListPackages", proto::ListPackageRequest {});
        list.map_ok(|package: proto::PackageName| package.name)
            .try_collect()
            .await
    }

    /// Returns a package with its channels and their heads.
    ///
    /// # Errors
    /// Returns an error if the package is not found, or if the server rejects the request, stalls or exceeds the
    /// limits.
    pub async fn get_package(&self, name: &str) -> Result<proto::Package> {
        let name = name.to_owned();
        self.one(
            "/api.Registry/GetPackage",
            proto::GetPackageRequest { name },
        )
        .await
    }

    /// Returns a bundle with its manifests, without the bundles that it replaces and skips.
    ///
    /// # Errors
    /// Returns an error if the bundle is not found, or if the server rejects the request, stalls or exceeds the limits.
    pub async fn get_bundle(
        &self,
        package: &str,
        channel: &str,
        name: &str,
    ) -> Result<proto::Bundle> {
        let request = proto::GetBundleRequest {
            pkg_name: package.to_owned(),
            channel_name: channel.to_owned(),
            csv_name: name.to_owned(),
        };
        self.one("/api.Registry/GetBundle", request).await
    }

    /// Lists every bundle of every channel. Bundles with an image come without manifests. The list is complete only if
    /// it ends without an error.
    pub fn list_bundles(&self) -> impl Stream<Item = Result<proto::Bundle>> + Send + use<> {
        self.list("/api.Registry/ListBundles", proto::ListBundlesRequest {})
    }

    async fn one<Q, A>(&self, rpc: &'static str, request: Q) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc();
        let call = async {
            grpc.ready()
                .await
                .map_err(|error| self.unavailable(rpc, &error))?;
            let path = PathAndQuery::from_static(rpc);
            let answer = grpc.unary(Request::new(request), path, ProstCodec::default());
            answer.await.map_err(|status| self.refused(rpc, &status))
        };
        let answer = timeout(self.bounds.wait, call).await;
        Ok(answer
            .map_err(|_| self.timeout_error(rpc, self.bounds.wait))??
            .into_inner())
    }

    /// Lists messages. The request is sent when the stream is first polled.
    fn list<Q, A>(
        &self,
        rpc: &'static str,
        request: Q,
    ) -> impl Stream<Item = Result<A>> + Send + use<Q, A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let client = self.clone();
        let start = async move {
            let listing = ListStream::start(client, rpc, request).await?;
            Ok(stream::try_unfold(listing, |mut listing| async {
                Ok(listing.next().await?.map(|message| (message, listing)))
            }))
        };
        stream::once(start).try_flatten()
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(self.bounds.message)
    }

    fn unavailable(&self, rpc: &'static str, error: &tonic::transport::Error) -> Error {
        self.broken(rpc, describe_error(error))
    }

    fn broken(&self, rpc: &'static str, message: String) -> Error {
        Error::Disconnected {
            address: self.address.clone(),
            rpc: short(rpc),
            message,
        }
    }

    fn refused(&self, rpc: &'static str, status: &Status) -> Error {
        let address = self.address.clone();
        let rpc = short(rpc);
        // Message of tonic for a message that exceeds the limit, before it is received.
        if status.code() == Code::OutOfRange
            && status
                .message()
                .starts_with("Error, decoded message length too large")
        {
            let limit = self.bounds.message as u64;
            return Error::TooLarge {
                address,
                rpc,
                limit,
                unit: "bytes in one message",
            };
        }
        // A status with a source, or with this message, comes from the transport and not from the server. Most broken
        // connections have no specific code and would look like `Unknown`, which servers also return for missing
        // packages.
        if status.source().is_some() || status.message().starts_with(CUT_SHORT) {
            return self.broken(rpc, describe_error(status));
        }
        let message = status.message().chars().take(MAX_MESSAGE_LEN).collect();
        Error::Refused {
            address,
            rpc,
            code: status.code(),
            message,
        }
    }

    fn timeout_error(&self, rpc: &'static str, after: Duration) -> Error {
        Error::Timeout {
            address: self.address.clone(),
            rpc: short(rpc),
            after,
        }
    }

    fn too_large(&self, rpc: &'static str, limit: u64, unit: &'static str) -> Error {
        Error::TooLarge {
            address: self.address.clone(),
            rpc: short(rpc),
            limit,
            unit,
        }
    }
}

/// A list that is being received.
struct ListStream<A> {
    client: Client,
    rpc: &'static str,
    messages: Streaming<A>,
    until: tokio::time::Instant,
    count: u64,
    size: u64,
}

// === impl ListStream ===

impl<A: Message + Default + 'static> ListStream<A> {
    async fn start<Q: Message + 'static>(
        client: Client,
        rpc: &'static str,
        request: Q,
    ) -> Result<Self> {
        let until = tokio::time::Instant::now() + client.bounds.list;
        let mut grpc = client.grpc();
        let call = async {
            grpc.ready()
                .await
                .map_err(|error| client.unavailable(rpc, &error))?;
            let path = PathAndQuery::from_static(rpc);
            let answer = grpc.server_streaming(Request::new(request), path, ProstCodec::default());
            answer.await.map_err(|status| client.refused(rpc, &status))
        };
        let answer = timeout(client.bounds.wait, call).await;
        let messages = answer
            .map_err(|_| client.timeout_error(rpc, client.bounds.wait))??
            .into_inner();
        Ok(Self {
            client,
            rpc,
            messages,
            until,
            count: 0,
            size: 0,
        })
    }

    async fn next(&mut self) -> Result<Option<A>> {
        let Self { client, rpc, .. } = self;
        let bounds = client.bounds;
        let remaining = self
            .until
            .saturating_duration_since(tokio::time::Instant::now());
        let (wait, limit) = if remaining < bounds.wait {
            (remaining, bounds.list)
        } else {
            (bounds.wait, bounds.wait)
        };
        let next = timeout(wait, self.messages.message()).await;
        let next = next.map_err(|_| client.timeout_error(rpc, limit))?;
        let Some(message) = next.map_err(|status| client.refused(rpc, &status))? else {
            return Ok(None);
        };
        self.count += 1;
        self.size += message.encoded_len() as u64;
        if self.count > bounds.messages {
            return Err(client.too_large(rpc, bounds.messages, "messages"));
        }
        if self.size > bounds.total {
            return Err(client.too_large(rpc, bounds.total, "bytes"));
        }
        Ok(Some(message))
    }
}

/// Formats a transport error with its causes.
fn describe_error(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(error) = next.filter(|_| message.len() < MAX_MESSAGE_LEN) {
        message = format!("{message}: {error}");
        next = error.source();
    }
    message.chars().take(MAX_MESSAGE_LEN).collect()
}

/// Returns the last segment of an rpc's path.
fn short(rpc: &'static str) -> &'static str {
    rpc.rsplit('/').next().unwrap_or(rpc)
}

/// Parses an address that consists of host and port only: no scheme, path or user info.
fn uri(address: &str) -> Result<Uri> {
    let wrong = || Error::Address {
        address: address.chars().take(300).collect(),
    };
    let authority: http::uri::Authority = address.parse().map_err(|_| wrong())?;
    if authority.port_u16().is_none_or(|port| port == 0)
        || authority.host().is_empty()
        || address.contains('@')
    {
        return Err(wrong());
    }
    Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query("/")
        .build()
        .map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
