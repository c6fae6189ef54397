//! A client of the registry API that believes no server.
//!
//! What a server may take and send is bounded: time to connect, time between two messages, the size of one message, the
//! number and the size of all of them. A stream that ends without saying that it is complete is an error, for half a
//! catalog must not look like one. HTTP/2 without TLS, as catalogs are served; no proxy, no environment, no redirect.

mod error;

mod once;

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

use super::wire;

pub use self::error::Error;

/// How much is taken from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// For a connection to be there.
    pub connect: Duration,
    /// For one answer, or between two messages of a list.
    pub wait: Duration,
    /// For a list to be complete.
    pub list: Duration,
    /// Bytes of one message.
    pub message: usize,
    /// Messages of a list.
    pub messages: u64,
    /// Bytes of all messages of a list, and of all that single bundles are asked for in one reading.
    pub total: u64,
    /// For all that is wanted to be read.
    pub read: Duration,
    /// About how many bytes are kept of it.
    pub kept: usize,
}

impl Default for Bounds {
    /// Ten times what the largest known catalogs need.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            wait: Duration::from_secs(30),
            list: Duration::from_secs(600),
            message: 16 << 20,
            messages: 1_000_000,
            total: 2 << 30,
            read: Duration::from_secs(900),
            kept: 128 << 20,
        }
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// Characters of a server's words that are shown.
const SHOWN: usize = 500;
/// How tonic says that an answer ended without a status.
const CUT_SHORT: &str = "protocol error: missing grpc-status trailer";

/// A connection to a catalog. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    lost: watch::Receiver<()>,
    address: String,
    bounds: Bounds,
}

// === impl Client ===

impl Client {
    /// Connects to `host:port`, as in the `spec.address` of a CatalogSource.
    ///
    /// # Errors
    /// When that is no address, or nobody is there in time.
    pub async fn connect(address: &str, bounds: Bounds) -> Result<Self> {
        let uri = uri(address)?;
        let endpoint = Endpoint::from(uri)
            .connect_timeout(bounds.connect)
            .http2_keep_alive_interval(bounds.wait)
            .keep_alive_timeout(bounds.wait)
            .tcp_nodelay(true)
            .http2_max_header_list_size(16 << 10)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(2 << 20);
        let (alive, lost) = watch::channel(());
        let connector = once::Connector::new(alive);
        let connect = timeout(bounds.connect, endpoint.connect_with_connector(connector));
        let channel = match connect.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(source)) => {
                let address = address.to_owned();
                return Err(Error::Connect { address, source });
            }
            Err(_) => {
                return Err(Error::Stalled {
                    address: address.to_owned(),
                    rpc: "the connection",
                    after: bounds.connect,
                });
            }
        };
        let address = address.to_owned();
        Ok(Self {
            channel,
            lost,
            address,
            bounds,
        })
    }

    /// Waits until the connection breaks: the server has ended, or says nothing any more. There is no other one after it;
    /// whoever wants to go on connects again.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.clone();
        async move { while lost.changed().await.is_ok() {} }
    }

    /// An error if the connection is broken by now.
    ///
    /// # Errors
    /// [`Error::Broken`], and nothing else.
    pub fn still_there(&self, rpc: &'static str) -> Result<()> {
        match self.lost.has_changed() {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broken(rpc, "the server has ended".to_owned())),
        }
    }

    /// How much is taken from the server.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Where the catalog is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The names of all packages.
    ///
    /// # Errors
    /// When the server refuses, stalls or exceeds the bounds.
    pub async fn list_packages(&self) -> Result<Vec<String>> {
        let list = self.list("/api.Registry/ListPackages", wire::ListPackageRequest {});
        list.map_ok(|it: wire::PackageName| it.name)
            .try_collect()
            .await
    }

    /// A package, its channels and their heads.
    ///
    /// # Errors
    /// When the server does not have it, refuses, stalls or exceeds the bounds.
    pub async fn get_package(&self, name: &str) -> Result<wire::Package> {
        let name = name.to_owned();
        self.one("/api.Registry/GetPackage", wire::GetPackageRequest { name })
            .await
    }

    /// A bundle with its manifests, without what it replaces and skips.
    ///
    /// # Errors
    /// When the server does not have it, refuses, stalls or exceeds the bounds.
    pub async fn get_bundle(
        &self,
        package: &str,
        channel: &str,
        name: &str,
    ) -> Result<wire::Bundle> {
        let asked = wire::GetBundleRequest {
            pkg_name: package.to_owned(),
            channel_name: channel.to_owned(),
            csv_name: name.to_owned(),
        };
        self.one("/api.Registry/GetBundle", asked).await
    }

    /// Every bundle of every channel, without manifests where there is an image. The list is complete only if it ends
    /// without an error.
    pub fn list_bundles(&self) -> impl Stream<Item = Result<wire::Bundle>> + Send + use<> {
        self.list("/api.Registry/ListBundles", wire::ListBundlesRequest {})
    }

    async fn one<Q, A>(&self, rpc: &'static str, asked: Q) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc();
        let call = async {
            grpc.ready()
                .await
                .map_err(|it| self.unavailable(rpc, &it))?;
            let path = PathAndQuery::from_static(rpc);
            let answer = grpc.unary(Request::new(asked), path, ProstCodec::default());
            answer.await.map_err(|it| self.refused(rpc, &it))
        };
        let answer = timeout(self.bounds.wait, call).await;
        Ok(answer
            .map_err(|_| self.stalled(rpc, self.bounds.wait))??
            .into_inner())
    }

    /// Asks when it is first polled.
    fn list<Q, A>(
        &self,
        rpc: &'static str,
        asked: Q,
    ) -> impl Stream<Item = Result<A>> + Send + use<Q, A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let client = self.clone();
        let start = async move {
            let listing = Listing::start(client, rpc, asked).await?;
            Ok(stream::try_unfold(listing, |mut listing| async {
                Ok(listing.next().await?.map(|it| (it, listing)))
            }))
        };
        stream::once(start).try_flatten()
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(self.bounds.message)
    }

    fn unavailable(&self, rpc: &'static str, error: &tonic::transport::Error) -> Error {
        self.broken(rpc, words(error))
    }

    fn broken(&self, rpc: &'static str, message: String) -> Error {
        Error::Broken {
            address: self.address.clone(),
            rpc: short(rpc),
            message,
        }
    }

    fn refused(&self, rpc: &'static str, status: &Status) -> Error {
        let address = self.address.clone();
        let rpc = short(rpc);
        // How tonic says that a message is longer than allowed, before it takes it.
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
        // What a server says comes from nowhere else. Most of what breaks a connection has no code of its own, and would
        // look like a server that says "unknown", as they do of what they do not have.
        if status.source().is_some() || status.message().starts_with(CUT_SHORT) {
            return self.broken(rpc, words(status));
        }
        let message = status.message().chars().take(SHOWN).collect();
        Error::Refused {
            address,
            rpc,
            code: status.code(),
            message,
        }
    }

    fn stalled(&self, rpc: &'static str, after: Duration) -> Error {
        Error::Stalled {
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

/// A list on its way.
struct Listing<A> {
    client: Client,
    rpc: &'static str,
    messages: Streaming<A>,
    until: tokio::time::Instant,
    count: u64,
    size: u64,
}

// === impl Listing ===

impl<A: Message + Default + 'static> Listing<A> {
    async fn start<Q: Message + 'static>(
        client: Client,
        rpc: &'static str,
        asked: Q,
    ) -> Result<Self> {
        let until = tokio::time::Instant::now() + client.bounds.list;
        let mut grpc = client.grpc();
        let call = async {
            grpc.ready()
                .await
                .map_err(|it| client.unavailable(rpc, &it))?;
            let path = PathAndQuery::from_static(rpc);
            let answer = grpc.server_streaming(Request::new(asked), path, ProstCodec::default());
            answer.await.map_err(|it| client.refused(rpc, &it))
        };
        let answer = timeout(client.bounds.wait, call).await;
        let messages = answer
            .map_err(|_| client.stalled(rpc, client.bounds.wait))??
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
        let left = self
            .until
            .saturating_duration_since(tokio::time::Instant::now());
        let (wait, told) = if left < bounds.wait {
            (left, bounds.list)
        } else {
            (bounds.wait, bounds.wait)
        };
        let next = timeout(wait, self.messages.message()).await;
        let next = next.map_err(|_| client.stalled(rpc, told))?;
        let Some(message) = next.map_err(|it| client.refused(rpc, &it))? else {
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

/// What the transport says, and from where that comes.
fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(error) = next.filter(|_| words.len() < SHOWN) {
        words = format!("{words}: {error}");
        next = error.source();
    }
    words.chars().take(SHOWN).collect()
}

/// The last part of an rpc's path.
fn short(rpc: &'static str) -> &'static str {
    rpc.rsplit('/').next().unwrap_or(rpc)
}

/// Nothing but a host and a port: no scheme, no path, no name and password.
fn uri(address: &str) -> Result<Uri> {
    let wrong = || Error::Address {
        address: address.chars().take(300).collect(),
    };
    let authority: http::uri::Authority = address.parse().map_err(|_| wrong())?;
    if authority.port_u16().is_none_or(|it| it == 0)
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
