//! Clients of the API server that keep little.
//!
//! kube's own ones keep every connection for as long as the server does, each with buffers as large as the largest object
//! that went through it. Here a connection that is not used is closed soon, and buffers are bounded. Everything else is
//! as in kube: certificates, credentials, impersonation, retries, timeouts.

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

use crate::process::{Fence, Fenced};

/// How long a connection that nobody uses stays open.
const IDLE: Duration = Duration::from_secs(10);
/// How much a connection buffers in each direction.
const BUFFER: usize = 64 << 10;

/// Makes a client that changes nothing once the fence is closed.
///
/// # Errors
/// When certificates or credentials are no good.
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
        // Below those who try again: each try looks at the clock.
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
        .pool_idle_timeout(IDLE)
        // Without it they are closed only when somebody looks for one.
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(BUFFER)
        .build(connector))
}
