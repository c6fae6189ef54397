//! What is around the rpcs: health, reflection, limits, the end of the service; and our client against it.

use std::time::Duration;

use catalog::registry::{DESCRIPTORS, client::Error};
use futures::TryStreamExt;
use prost::Message;
use prost_reflect::DescriptorPool;
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};
use tonic::{Code, Request, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::{v1, v1alpha};

use crate::{
    dynamic::Dynamic,
    fixture::{Served, bundle, folder},
};

async fn channel(served: &Served) -> tonic::transport::Channel {
    Endpoint::from_shared(format!("http://{}", served.address))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

// parity: grpc-6
#[tokio::test]
async fn health_is_told_of_whatever_is_asked_for() {
    let served = Served::both().await;
    let mut client = HealthClient::new(channel(&served).await);
    for service in ["", "Registry", "api.Registry", "nothing of this kind"] {
        let asked = HealthCheckRequest {
            service: service.into(),
        };
        assert_eq!(
            client.check(asked).await.unwrap().into_inner().status,
            1,
            "{service}"
        );
    }
    let watch = client
        .watch(HealthCheckRequest::default())
        .await
        .unwrap_err();
    assert_eq!(watch.code(), Code::Unimplemented);
}

// parity: grpc-6
#[tokio::test]
async fn reflection_tells_the_protocol() {
    use tonic_reflection::pb::v1::{
        server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let served = Served::both().await;
    let channel = channel(&served).await;
    let ask = |request: MessageRequest| {
        let mut client = ServerReflectionClient::new(channel.clone());
        async move {
            let request = v1::ServerReflectionRequest {
                host: String::new(),
                message_request: Some(request),
            };
            let asked = Request::new(futures::stream::iter([request]));
            let mut answers = client
                .server_reflection_info(asked)
                .await
                .unwrap()
                .into_inner();
            answers
                .message()
                .await
                .unwrap()
                .unwrap()
                .message_response
                .unwrap()
        }
    };
    let MessageResponse::ListServicesResponse(list) =
        ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list");
    };
    let mut names: Vec<String> = list.service.into_iter().map(|it| it.name).collect();
    names.sort();
    let expected = [
        "api.ExperimentalRegistry",
        "api.Registry",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ];
    assert_eq!(names, expected);
    let symbol = MessageRequest::FileContainingSymbol("api.Registry".into());
    let MessageResponse::FileDescriptorResponse(files) = ask(symbol).await else {
        panic!("no file");
    };
    let file = prost_types::FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice())
        .unwrap();
    assert_eq!(file.name(), "registry.proto");

    // Older tools.
    let mut old = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::ListServices(String::new()),
        ),
    };
    let asked = Request::new(futures::stream::iter([request]));
    let mut answers = old
        .server_reflection_info(asked)
        .await
        .unwrap()
        .into_inner();
    assert!(answers.message().await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_not_served_is_unimplemented() {
    let served = Served::both().await;
    let channel = channel(&served).await;
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    assert!(pool.get_service_by_name("api.Registry").is_some());
    for path in [
        "/api.Registry/Nothing",
        "/api.ExperimentalRegistry/ListBundles",
        "/api.Other/ListBundles",
    ] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let status = grpc
            .unary(Request::new(()), path.parse().unwrap(), codec)
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn enormous_requests_are_refused() {
    let served = Served::both().await;
    let client = served.client().await;
    let error = client.get_package(&"x".repeat(1 << 20)).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Refused {
                code: Code::OutOfRange,
                ..
            } | Error::TooLarge { .. }
        ),
        "{error:?}"
    );
    assert_eq!(client.list_packages().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_hundred_clients_at_once_get_the_same() {
    let served = Served::both().await;
    let client = served.client().await;
    let expected: Vec<_> = client.list_bundles().try_collect().await.unwrap();
    let lists = (0..100).map(|_| client.list_bundles().try_collect::<Vec<_>>());
    for list in futures::future::join_all(lists).await {
        assert_eq!(list.unwrap(), expected);
    }
}

// parity: grpc-9
#[tokio::test]
async fn the_service_ends_when_it_is_told_to() {
    let served = Served::both().await;
    let address = served.address;
    let client = served.client().await;
    client.list_packages().await.unwrap();
    timeout(Duration::from_secs(10), served.stop())
        .await
        .unwrap();
    assert!(client.list_packages().await.is_err());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_list_that_nobody_takes_ends_with_the_service() {
    let bundles: Vec<String> = (0..400).map(|at| format!("1.{at}.0")).collect();
    let big = serde_json::json!({"type": "big", "value": "x".repeat(100_000)});
    let mut metas =
        vec![serde_json::json!({"schema": "olm.package", "name": "big", "defaultChannel": "c"})];
    let entries: Vec<_> = (0..400)
        .map(|at| match at {
            0 => serde_json::json!({"name": "big.v1.0.0"}),
            _ => serde_json::json!({"name": format!("big.v1.{at}.0"), "replaces": format!("big.v1.{}.0", at - 1)}),
        })
        .collect();
    metas.push(serde_json::json!({"schema": "olm.channel", "package": "big", "name": "c", "entries": entries}));
    metas.extend(
        bundles
            .iter()
            .map(|it| bundle("big", it, std::slice::from_ref(&big))),
    );
    let folder = folder(&[("big.json", &metas)]);
    let served = Served::of(folder.path()).await;
    let client = served.client().await;
    let mut list = Box::pin(client.list_bundles());
    let first = list.try_next().await.unwrap().unwrap();
    assert_eq!(first.csv_name, "big.v1.0.0");
    // Forty megabytes are not on their way: the client has not asked for more. It is told to hurry, and then left.
    timeout(Duration::from_secs(40), served.stop())
        .await
        .unwrap();
    let rest: Result<Vec<_>, _> = list.try_collect().await;
    assert!(rest.is_err());
}

#[tokio::test]
async fn whoever_speaks_no_http_is_no_harm() {
    let served = Served::both().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok());
    let client = Dynamic::connect(served.address).await;
    let packages = client
        .call("api.Registry/ListPackages", serde_json::json!({}))
        .await
        .unwrap();
    assert_eq!(packages.len(), 2);
}
