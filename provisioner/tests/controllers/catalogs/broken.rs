//! Servers whose lists do not come to a good end.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, task::AbortHandle};

use super::{served::Server, *};

/// A text in a message of the protocol.
fn field(number: u8, text: &str) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(text.len()).unwrap()];
    field.extend_from_slice(text.as_bytes());
    field
}

/// A bundle of the package `tide`, in a frame of its own.
fn listed(version: &str) -> Bytes {
    let message = [
        field(1, &format!("tide.v{version}")),
        field(2, "tide"),
        field(3, "stable"),
        field(6, "example.com/tide:v1"),
        field(9, version),
    ]
    .concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat().into()
}

/// Serves lists of two good bundles that end with this status, or without any, at an address that was used before.
async fn serve(at: Option<SocketAddr>, status: Option<&'static str>) -> (SocketAddr, AbortHandle) {
    let at = at.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    let listener = eventually("the port is free", async || {
        let bound = TcpListener::bind(at).await;
        bound.map_err(|error| error.to_string())
    })
    .await;
    let address = listener.local_addr().unwrap();
    let service = service_fn(move |_: Request<Incoming>| {
        let bundles = ["2.0.0", "2.1.0"].map(|it| Frame::data(listed(it)));
        let end = status.map(|status| {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", status.parse().unwrap());
            Frame::trailers(trailers)
        });
        let frames = bundles.into_iter().chain(end).map(Ok::<_, Infallible>);
        let answer = Response::builder()
            .header("content-type", "application/grpc")
            .body(StreamBody::new(stream::iter(frames)));
        async { Ok::<_, Infallible>(answer.unwrap()) }
    });
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, serving.abort_handle())
}

#[tokio::test]
async fn half_a_list_takes_the_place_of_nothing() {
    let shelf = Shelf::new().await;
    served::want(&shelf, &["tide"]);
    let good = Server::start(None, &["1.0.0"]).await;
    let spec = |address: SocketAddr| json!({"address": address.to_string()});
    shelf.declare("catalogs", "known", spec(good.address)).await;
    let known = "catalogs/known: tide.v1.0.0";
    shelf.offers_become("tide", &[known]).await;

    // Of a catalog that was never read, nothing is known; what was read of the other one stays.
    let address = good.stop().await;
    let (_, again) = serve(Some(address), Some("14")).await;
    let (new, _) = serve(None, None).await;
    let (busy, _) = serve(None, Some("8")).await;
    shelf.declare("catalogs", "new", spec(new)).await;
    shelf.declare("catalogs", "busy", spec(busy)).await;
    for (name, words) in [
        ("known", "answered ListBundles with Unavailable"),
        ("new", "broke while it answered ListBundles"),
        ("busy", "answered ListBundles with ResourceExhausted"),
    ] {
        let name = format!("catalogs/{name}");
        shelf.is_in_trouble(&name, &[words]).await;
    }
    let unknown = [
        "catalogs/busy: unknown: …",
        known,
        "catalogs/new: unknown: …",
    ];
    shelf.offers_become("tide", &unknown).await;

    again.abort();
    let good = Server::start(Some(address), &["1.0.0", "1.1.0"]).await;
    let more = "catalogs/known: tide.v1.0.0 tide.v1.1.0";
    shelf
        .offers_become("tide", &[unknown[0], more, unknown[2]])
        .await;
    good.stop().await;
}
