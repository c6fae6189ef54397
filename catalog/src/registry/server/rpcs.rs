//! Handlers of the rpcs.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{
    StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use prost::Message;
use tonic::{Code, Status, body::Body, metadata::MetadataMap, server::NamedService};
use tower::Service;

use super::instrument::{Call, CallObserver};
use crate::registry::{
    document::is_plain,
    index::Entry,
    proto,
    query::{self, NotFound},
    store::{self, ListCursor, Store},
};

/// Header with which a client acknowledges that the rpc is experimental.
const ACKNOWLEDGE: &str = "x-acknowledge-experimental";

/// Service `api.Registry`, with the observer of its calls.
#[derive(Debug, Clone)]
pub(super) struct Registry(pub(super) Arc<Store>, pub(super) CallObserver);

/// Service `api.ExperimentalRegistry`, with the observer of its calls.
#[derive(Debug, Clone)]
pub(super) struct Experimental(pub(super) Arc<Store>, pub(super) CallObserver);

pub(super) type Answers = BoxStream<'static, Result<Bytes, Status>>;
pub(super) type Answering = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

impl NamedService for Registry {
    const NAME: &'static str = "api.Registry";
}

impl NamedService for Experimental {
    const NAME: &'static str = "api.ExperimentalRegistry";
}

impl Service<http::Request<Body>> for Registry {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let store = Arc::clone(&self.0);
        let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
        let call = |rpc| Call::new(rpc, Arc::clone(&store), self.1.clone());
        match rpc {
            "ListPackages" => call("ListPackages")
                .stream(request, |store, _: &proto::ListPackageRequest, _| {
                    Ok(list_packages(store))
                }),
            "GetPackage" => call("GetPackage").unary(request, get_package),
            "GetBundle" => call("GetBundle").unary(request, get_bundle),
            "GetBundleForChannel" => {
                call("GetBundleForChannel").unary(request, get_bundle_for_channel)
            }
            "GetChannelEntriesThatReplace" => {
                call("GetChannelEntriesThatReplace").stream(request, entries_that_replace)
            }
            "GetBundleThatReplaces" => {
                call("GetBundleThatReplaces").unary(request, bundle_that_replaces)
            }
            "GetChannelEntriesThatProvide" => {
                call("GetChannelEntriesThatProvide").stream(request, entries_that_provide)
            }
            "GetLatestChannelEntriesThatProvide" => {
                call("GetLatestChannelEntriesThatProvide").stream(request, latest_that_provide)
            }
            "GetDefaultBundleThatProvides" => {
                call("GetDefaultBundleThatProvides").unary(request, default_that_provides)
            }
            "ListBundles" => call("ListBundles")
                .stream(request, |store, _: &proto::ListBundlesRequest, _| {
                    Ok(list_bundles(store))
                }),
            _ => Call::unknown(&request, self.1.clone()),
        }
    }
}

impl Service<http::Request<Body>> for Experimental {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        const RPC: &str = "ExperimentalListPackageCustomSchemas";
        let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
        match rpc {
            RPC => {
                Call::new(RPC, Arc::clone(&self.0), self.1.clone()).stream(request, custom_schemas)
            }
            _ => Call::unknown(&request, self.1.clone()),
        }
    }
}

// These functions can read the store and therefore run on threads where blocking is allowed. Streams read on such
// threads, too.

fn list_packages(store: &Store) -> Answers {
    let names = store.index.packages.iter().map(|package| {
        let name = package.name.clone();
        proto::PackageName { name }
    });
    messages(names)
}

fn get_package(store: &Store, request: &proto::GetPackageRequest) -> Result<Bytes, Status> {
    let package = query::package(&store.index, &request.name)?;
    Ok(package.encode_to_vec().into())
}

fn get_bundle(store: &Store, request: &proto::GetBundleRequest) -> Result<Bytes, Status> {
    let proto::GetBundleRequest {
        pkg_name,
        channel_name,
        csv_name,
    } = request;
    encode_single(
        store,
        query::bundle(&store.index, pkg_name, channel_name, csv_name),
    )
}

fn get_bundle_for_channel(
    store: &Store,
    request: &proto::GetBundleInChannelRequest,
) -> Result<Bytes, Status> {
    encode_single(
        store,
        query::head(&store.index, &request.pkg_name, &request.channel_name),
    )
}

fn entries_that_replace(
    store: &Arc<Store>,
    request: &proto::GetAllReplacementsRequest,
    _: &MetadataMap,
) -> Result<Answers, Status> {
    Ok(messages(query::replacing_entries(
        &store.index,
        &request.csv_name,
    )?))
}

fn bundle_that_replaces(
    store: &Store,
    request: &proto::GetReplacementRequest,
) -> Result<Bytes, Status> {
    let proto::GetReplacementRequest {
        csv_name,
        pkg_name,
        channel_name,
    } = request;
    encode_single(
        store,
        query::replacing(&store.index, csv_name, pkg_name, channel_name),
    )
}

fn entries_that_provide(
    store: &Arc<Store>,
    request: &proto::GetAllProvidersRequest,
    _: &MetadataMap,
) -> Result<Answers, Status> {
    let api = [&*request.group, &*request.version, &*request.kind];
    Ok(messages(query::providing_entries(&store.index, api)?))
}

fn latest_that_provide(
    store: &Arc<Store>,
    request: &proto::GetLatestProvidersRequest,
    _: &MetadataMap,
) -> Result<Answers, Status> {
    let api = [&*request.group, &*request.version, &*request.kind];
    Ok(messages(query::latest_providing(&store.index, api)?))
}

fn default_that_provides(
    store: &Store,
    request: &proto::GetDefaultProviderRequest,
) -> Result<Bytes, Status> {
    let api = [&*request.group, &*request.version, &*request.kind];
    encode_single(store, query::default_providing(&store.index, api))
}

fn list_bundles(store: &Arc<Store>) -> Answers {
    let store = Arc::clone(store);
    let parts = stream::try_unfold(Some(ListCursor::default()), move |cursor| {
        let store = Arc::clone(&store);
        async move {
            let Some(cursor) = cursor else {
                return Ok(None);
            };
            let read = tokio::task::spawn_blocking(move || store.list(cursor));
            let (messages, next) = read.await.map_err(broken)??;
            Ok::<_, Status>(Some((stream::iter(messages).map(Ok), next)))
        }
    });
    parts.try_flatten().boxed()
}

fn custom_schemas(
    store: &Arc<Store>,
    request: &proto::ExperimentalListPackageCustomSchemasRequest,
    metadata: &MetadataMap,
) -> Result<Answers, Status> {
    if metadata
        .get(ACKNOWLEDGE)
        .is_none_or(|value| value != "true")
    {
        return Ok(stream::empty().boxed());
    }
    let proto::ExperimentalListPackageCustomSchemasRequest {
        schema,
        package_name,
    } = request;
    if schema.is_empty() {
        return Err(Status::invalid_argument("schema is required"));
    }
    for (field, name) in [("schema", schema), ("package", package_name)] {
        if !is_plain(name) && !name.is_empty() {
            let text = format!(
                "invalid custom schema query: {field} {name:?} contains characters other than letters, digits, \".\", \"_\" and \"-\""
            );
            return Err(Status::invalid_argument(text));
        }
    }
    let blobs = store.index.blobs.iter();
    let matching = blobs.filter(|blob| blob.schema == *schema && blob.package == *package_name);
    let ranges: Vec<_> = matching.map(|blob| blob.blob).collect();
    let store = Arc::clone(store);
    let read = move |range| {
        let store = Arc::clone(&store);
        async move {
            let read = tokio::task::spawn_blocking(move || store.read(&range));
            Ok(Bytes::from(read.await.map_err(broken)??))
        }
    };
    Ok(stream::iter(ranges).then(read).boxed())
}

fn encode_single(store: &Store, entry: Result<Entry<'_>, NotFound>) -> Result<Bytes, Status> {
    Ok(store.read_all(&entry?)?)
}

fn messages<M: Message>(messages: impl IntoIterator<Item = M>) -> Answers {
    let bytes: Vec<_> = messages
        .into_iter()
        .map(|message| Ok(message.encode_to_vec().into()))
        .collect();
    stream::iter(bytes).boxed()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn broken(error: tokio::task::JoinError) -> Status {
    Status::internal(format!("failed to create the response: {error}"))
}

impl From<NotFound> for Status {
    /// Returns the code of a plain Go error.
    fn from(not_found: NotFound) -> Self {
        Self::new(Code::Unknown, not_found.to_string())
    }
}

impl From<store::Error> for Status {
    /// Logs the error and hides the path of the store from clients.
    fn from(error: store::Error) -> Self {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "failed to read the store"
        );
        match error {
            store::Error::Damaged { .. } => Self::data_loss("the catalog's store is damaged"),
            store::Error::File { .. } | store::Error::TooLarge { .. } => {
                Self::internal("failed to read the catalog's store")
            }
        }
    }
}
