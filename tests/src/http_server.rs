//! An HTTP server in a thread: the base of the servers that are not programs.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::{self, JoinHandle},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::{TestCa, address};

/// A server on a free port. Dropping the value stops the server with all its connections.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    scheme: &'static str,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    /// Answers requests over https with a certificate of the CA, or over http without a CA.
    pub fn start<A, F>(ca: Option<&TestCa>, answer: A) -> Self
    where
        A: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<Bytes>> + Send,
    {
        let listener = TcpListener::bind((address(), 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let tls = ca.map(|ca| TlsAcceptor::from(Arc::new(ca.identity().server())));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (stop, stopped) = oneshot::channel();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => (),
                    () = accept(listener, tls, Arc::new(answer)) => (),
                }
            });
        });
        Self {
            address,
            scheme,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the URL of a path that starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        // A second panic would abort the process without the message of the first.
        assert!(ended.is_ok() || thread::panicking(), "a server panicked");
    }
}

async fn accept<A, F>(listener: TcpListener, tls: Option<TlsAcceptor>, answer: Arc<A>)
where
    A: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Bytes>> + Send,
{
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, answer) = (tls.clone(), Arc::clone(&answer));
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let answer = answer(Request::from_parts(head, body)).await;
                    Ok::<_, hyper::Error>(answer.map(Full::new))
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            // Clients may disconnect at any time, and some must not trust the certificate: neither is an error of the server.
            let _ = match tls {
                None => http.serve_connection(TokioIo::new(stream), service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
                    Err(_) => Ok(()),
                },
            };
        });
    }
}

pub(crate) fn plain(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from("not here, or not for you\n"));
    *response.status_mut() = status;
    response
}

pub(crate) fn unauthorized() -> Response<Bytes> {
    let mut response = plain(StatusCode::UNAUTHORIZED);
    let challenge = "Basic realm=\"tests\"".parse().unwrap();
    response.headers_mut().insert("WWW-Authenticate", challenge);
    response
}

pub(crate) fn header<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}
