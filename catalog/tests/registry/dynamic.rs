//! A client that uses only the protocol's descriptors.

use std::net::SocketAddr;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstEncoder;

pub(crate) struct Dynamic {
    pool: DescriptorPool,
    channel: Channel,
}

impl Dynamic {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let files = protox::compile(["registry.proto"], [dir]).unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Self {
            pool: DescriptorPool::from_file_descriptor_set(files).unwrap(),
            channel: endpoint.connect().await.unwrap(),
        }
    }

    /// Returns all answers of an rpc of the registry, as JSON with the field names of the protocol.
    pub(crate) async fn call(&self, rpc: &str, asked: Value) -> Result<Vec<Value>, Status> {
        let path = format!("api.Registry/{rpc}");
        self.call_with(&path, asked, &[]).await
    }

    /// The same for any service, with request headers.
    pub(crate) async fn call_with(
        &self,
        rpc: &str,
        asked: Value,
        headers: &[(&'static str, &str)],
    ) -> Result<Vec<Value>, Status> {
        let (service, method) = rpc.split_once('/').unwrap();
        let service = self.pool.get_service_by_name(service).unwrap();
        let mut methods = service.methods();
        let method = methods.find(|candidate| candidate.name() == method);
        let method = method.unwrap();
        let message = DynamicMessage::deserialize(method.input(), asked).unwrap();
        let mut request = Request::new(message);
        for (key, value) in headers {
            request.metadata_mut().insert(*key, value.parse().unwrap());
        }
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let path = format!("/{rpc}").parse().unwrap();
        let answers = grpc.server_streaming(request, path, Typed(method.output()));
        let mut stream = answers.await?.into_inner();
        let mut answers = Vec::new();
        while let Some(answer) = stream.message().await? {
            let options = SerializeOptions::new().use_proto_field_name(true);
            assert_eq!(answer.unknown_fields().count(), 0);
            let answer = answer.serialize_with_options(serde_json::value::Serializer, &options);
            answers.push(answer.unwrap());
        }
        assert!(method.is_server_streaming() || answers.len() == 1);
        Ok(answers)
    }
}

struct Typed(MessageDescriptor);

impl Codec for Typed {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = ProstEncoder<DynamicMessage>;
    type Decoder = Self;

    fn encoder(&mut self) -> ProstEncoder<DynamicMessage> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self {
        Self(self.0.clone())
    }
}

impl Decoder for Typed {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.0.clone(), bytes).map(Some);
        message.map_err(|error| Status::internal(error.to_string()))
    }
}
