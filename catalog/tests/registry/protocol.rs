//! The protocol file, the served descriptors and the Rust messages are equal.

use std::{collections::BTreeSet, fs, path::Path};

use catalog::registry::{DESCRIPTORS, proto};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, Value};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");

#[test]
fn descriptors_are_generated_from_the_protocol() {
    let mut compiler = protox::Compiler::new([DIR]).unwrap();
    compiler.include_imports(true);
    compiler.open_file("registry.proto").unwrap();
    let made = compiler.encode_file_descriptor_set();
    let file = Path::new(DIR).join("registry.bin");
    if std::env::var("RUKPAK_GENERATE").is_ok_and(|value| value == "write") {
        fs::write(&file, &made).unwrap();
    }
    assert_rows!(fs::read(&file).unwrap() == made => true, "proto/registry.bin is stale: make generate");
}

/// Fills every field of a message, and converts it with the descriptor and back.
fn compare<M: Message + Default>(pool: &DescriptorPool, compared: &mut BTreeSet<String>) {
    let name = std::any::type_name::<M>().rsplit("::").next().unwrap();
    let descriptor = pool.get_message_by_name(&format!("api.{name}")).unwrap();
    compared.insert(name.to_owned());
    let full = filled(&descriptor, 3);
    let message = M::decode(full.encode_to_vec().as_slice()).unwrap();
    let back =
        DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(back, full, "{name}");
    // A field that the protocol file lacks would be unknown.
    assert_eq!(back.unknown_fields().count(), 0, "{name}");
}

fn filled(descriptor: &MessageDescriptor, number: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let value = |at: usize| match field.kind() {
            Kind::String => Value::String(format!("{} {number} {at}", field.full_name())),
            Kind::Message(inner) => Value::Message(filled(&inner, number + at)),
            other => panic!("{other:?}"),
        };
        let value = if field.is_list() {
            Value::List((0..3).map(value).collect())
        } else {
            value(0)
        };
        message.set_field(&field, value);
    }
    message
}

#[test]
fn messages_equal_those_of_the_protocol() {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut compared = BTreeSet::new();
    macro_rules! compare {
        ($($message:ident)+) => { $(compare::<proto::$message>(&pool, &mut compared);)+ };
    }
    compare! {
        Channel PackageName Package GroupVersionKind Dependency Property Bundle ChannelEntry ListPackageRequest
        ListBundlesRequest GetPackageRequest GetBundleRequest GetBundleInChannelRequest GetAllReplacementsRequest
        GetReplacementRequest GetAllProvidersRequest GetLatestProvidersRequest GetDefaultProviderRequest Deprecation
        ExperimentalListPackageCustomSchemasRequest
    }
    let all = pool.all_messages();
    let all = all.filter(|message| message.package_name() == "api");
    let all: BTreeSet<String> = all.map(|message| message.name().to_owned()).collect();
    assert_eq!(compared, all);
}
