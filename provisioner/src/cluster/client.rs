//! Clients of the API server with a small memory footprint.
//!
//! The clients of kube keep every connection for as long as the server does, each with buffers as large as its largest
//! object. These clients close idle connections early and limit the buffers. Certificates, credentials, impersonation,
//! retries and timeouts are the same as in kube.

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, Client as HyperClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _, DynBody, retry::RetryPolicy},
};
use tower::{BoxError, ServiceBuilder, ServiceExt as _, layer::layer_fn, retry::RetryLayer};

use crate::runtime::fence::{Fence, Fenced};

/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the buffer of a connection in each direction, in bytes.
const MAX_BUFFER_SIZE: usize = 64 << 10;

/// Returns a client whose writes stop once the fence is closed.
///
/// # Errors
/// Returns an error if the certificates or credentials are invalid.
pub(crate) fn new(config: Config, fence: &Fence) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        let fence = layer_fn(|service| Fenced::new(service, fence.clone()));
        return Ok(ClientBuilder::try_from(config)?.with_layer(&fence).build());
    }
    let retry = || RetryLayer::new(RetryPolicy::server_retry());
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(retry))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        // Below the retry layer, so that each attempt checks the fence.
        .layer(layer_fn(|service| Fenced::new(service, fence.clone())))
        .map_err(BoxError::from)
        .service(connections(&config)?)
        .map_response(|response: Response<Incoming>| {
            response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        });
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

fn connections(config: &Config) -> Result<HyperClient<Connector, Body>, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(Builder::new(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        // Without the timer, idle connections are closed only when a connection is requested.
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(MAX_BUFFER_SIZE)
        .build(connector))
}
