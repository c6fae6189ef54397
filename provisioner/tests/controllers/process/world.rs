//! What all tests of controllers rely on.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use manifests::api::{bundle::Bundle, instance::BundleInstance};

use crate::support::{self, unique, world};

#[tokio::test]
async fn the_world_of_the_tests_is_what_an_admin_has_prepared() {
    let world = world().await;
    let bundles: Api<Bundle> = world.api();
    bundles.list(&ListParams::default()).await.unwrap();
    let instances: Api<BundleInstance> = world.api();
    instances.list(&ListParams::default()).await.unwrap();
    let namespaces: Api<Namespace> = world.api();
    namespaces.get(support::SYSTEM).await.unwrap();
}

#[tokio::test]
async fn bundles_of_the_tests_convert_and_can_be_pulled() {
    let world = world().await;
    let name = unique("world");
    let operator = support::operator(&name, "1.0.0", &[]);
    let plain = support::plain(&[support::config_map("default", "greeting", "hello")]);
    for (class, content) in [
        (convert::Class::Registry, operator),
        (convert::Class::Plain, plain),
    ] {
        let options = convert::Options {
            class: Some(class),
            ..convert::Options::default()
        };
        let conversion = convert::plain(&content, &options);
        assert!(conversion.objects.is_some(), "{:?}", conversion.report);

        let image = format!("{name}:{class:?}").to_lowercase();
        let image = world.push(&image, &content).await;
        let source = unpacker::source::Image {
            reference: image.parse().unwrap(),
            platform: None,
        };
        let fetched = unpacker::fetch(
            &unpacker::Source::Image(source),
            &support::insecure(),
            &unpacker::Options::default(),
            &unpacker::Progress::default(),
        )
        .await
        .unwrap();
        assert_eq!(fetched.tree.into_content().unwrap(), content);
    }
}

#[tokio::test]
async fn the_provisioner_of_the_tests_is_ready() {
    let provisioner = world().await.provisioner().await;
    let ready = reqwest::get(format!("{}/readyz", provisioner.url("probes"))).await;
    assert!(ready.unwrap().status().is_success());
}
