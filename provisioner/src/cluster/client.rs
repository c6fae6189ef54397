//! Clients of the API server with a small memory footprint.
//!
//! The clients of kube keep every connection for as long as the server does, each with buffers as large as its largest
//! object. These clients close idle connections early and limit the buffers. Certificates, credentials, impersonation,
//! retries and timeouts are the same as in kube.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
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
use tower::{
    BoxError, Service, ServiceBuilder, ServiceExt as _, buffer::BufferLayer, layer::layer_fn,
    retry::RetryLayer, util::option_layer,
};

use crate::runtime::fence::{Fence, Fenced};

/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the buffer of a connection in each direction, in bytes.
const MAX_BUFFER_SIZE: usize = 64 << 10;
/// Maximum number of requests that wait for the client of a proxy, as in the client of kube itself.
const MAX_QUEUED_REQUESTS: usize = 1024;

/// Returns a client whose writes stop once the fence is closed.
///
/// # Errors
/// Returns an error if the certificates or credentials are invalid.
pub(crate) fn new(mut config: Config, fence: &Fence) -> Result<Client, kube::Error> {
    let retry = || RetryLayer::new(RetryPolicy::server_retry());
    let retry = config.default_retry.then(retry);
    if config.proxy_url.is_some() {
        config.default_retry = false;
        return Ok(fenced(ClientBuilder::try_from(config)?, fence, retry));
    }
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
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

/// Builds a client whose attempts, retries included, check the fence. The builder itself must not retry.
fn fenced<S, B>(
    builder: ClientBuilder<S>,
    fence: &Fence,
    retry: Option<RetryLayer<RetryPolicy>>,
) -> Client
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    builder
        // Retries need a service that can be cloned.
        .with_layer(&BufferLayer::<Request<Body>>::new(MAX_QUEUED_REQUESTS))
        .with_layer(&layer_fn(|service| Fenced::new(service, fence.clone())))
        .with_layer(&option_layer(retry))
        .build()
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

#[cfg(test)]
mod tests {
    use std::{future, sync::mpsc};

    use ::tests::assert_has;
    use http::StatusCode;
    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn retries_through_a_proxy_check_the_fence() {
        let (fence, (sender, sent)) = (Fence::default(), mpsc::channel());
        let closing = fence.clone();
        // The Lease expires during the first attempt, whose response asks for a retry.
        let overloaded = service_fn(move |_: Request<Body>| {
            sender.send(()).unwrap();
            closing.close_at(Instant::now());
            let response = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
            future::ready(response.body(Body::empty()).map_err(BoxError::from))
        });
        let retry = RetryLayer::new(RetryPolicy::server_retry());
        let builder = ClientBuilder::new(overloaded, "default");
        let client = fenced(builder, &fence, Some(retry));
        let request = Request::post("/apis").body(Vec::new()).unwrap();
        let error = client.request_text(request).await.unwrap_err();
        assert_has(error, "no longer leading");
        assert_eq!(sent.try_iter().count(), 1);
    }
}
