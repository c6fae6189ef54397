//! The service apart from the rpcs: health, reflection, limits, shutdown; and our client against it.

use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::{v1, v1alpha};

use crate::fixture::{Served, big};
use crate::*;

async fn channel(served: &Served) -> tonic::transport::Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", served.address));
    endpoint.unwrap().connect().await.unwrap()
}

// parity: grpc-6
#[tokio::test]
async fn health_is_reported_for_every_service_name() {
    let served = Served::both().await;
    let mut client = HealthClient::new(channel(&served).await);
    for service in ["", "Registry", "api.Registry", "nothing of this kind"] {
        let service = service.to_owned();
        assert_rows!(client.check(HealthCheckRequest { service }).await.unwrap().into_inner().status => 1);
    }
    assert_rows!(client.watch(HealthCheckRequest::default()).await.unwrap_err().code() => Code::Unimplemented);
}

// parity: grpc-6
#[tokio::test]
async fn reflection_returns_the_protocol() {
    use tonic_reflection::pb::v1::{
        server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let served = Served::both().await;
    let channel = channel(&served).await;
    let ask = |request: MessageRequest| {
        let mut client = ServerReflectionClient::new(channel.clone());
        let request = with!(v1::ServerReflectionRequest, message_request: Some(request));
        async move {
            let answers = client.server_reflection_info(futures::stream::iter([request]));
            let answer = answers.await.unwrap().into_inner().message().await;
            answer.unwrap().unwrap().message_response.unwrap()
        }
    };
    let list = MessageRequest::ListServices(String::new());
    let MessageResponse::ListServicesResponse(list) = ask(list).await else {
        panic!("no list");
    };
    let names = list.service.into_iter().map(|service| service.name);
    let mut names: Vec<String> = names.collect();
    names.sort();
    let expected = "api.ExperimentalRegistry api.Registry grpc.health.v1.Health grpc.reflection.v1.ServerReflection";
    assert_eq!(names.join(" "), expected);
    let symbol = MessageRequest::FileContainingSymbol("api.Registry".into());
    let MessageResponse::FileDescriptorResponse(files) = ask(symbol).await else {
        panic!("no file");
    };
    let file = files.file_descriptor_proto[0].as_slice();
    assert_rows!(prost_types::FileDescriptorProto::decode(file).unwrap().name() => "registry.proto");

    // Older tools.
    let mut old = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let services = v1alpha::server_reflection_request::MessageRequest::ListServices(String::new());
    let request = with!(v1alpha::ServerReflectionRequest, message_request: Some(services));
    let answers = old.server_reflection_info(futures::stream::iter([request]));
    let mut answers = answers.await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
}

#[tokio::test]
async fn hundred_concurrent_clients_get_equal_answers() {
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
async fn service_stops_on_shutdown() {
    let served = Served::both().await;
    let client = served.client().await;
    client.list_packages().await.unwrap();
    let stopped = timeout(Duration::from_secs(10), served.stop()).await;
    assert!(stopped.is_ok());
    // The client connects again.
    assert!(client.list_packages().await.is_err());
}

#[tokio::test]
async fn unread_list_ends_with_the_service() {
    let directory = big(400, 100_000);
    let served = Served::start(directory.path()).await;
    let client = served.client().await;
    let mut list = Box::pin(client.list_bundles());
    let first = list.try_next().await.unwrap().unwrap();
    assert_eq!(first.csv_name, "big.v1.0.0");
    // Forty megabytes are not sent: the client has not requested more. The service first asks it to finish, and then
    // closes.
    let stopped = timeout(Duration::from_secs(40), served.stop()).await;
    assert!(stopped.is_ok());
    assert!(list.try_collect::<Vec<_>>().await.is_err());
}
