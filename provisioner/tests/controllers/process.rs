//! The process and the world of the tests themselves.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use manifests::api::bundle::Bundle;

use crate::support::{self, world};

#[tokio::test]
async fn the_world_of_the_tests_is_what_an_admin_has_prepared() {
    let world = world().await;
    let bundles: Api<Bundle> = world.api();
    bundles
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let namespaces: Api<Namespace> = world.api();
    namespaces.get(support::SYSTEM).await.unwrap();
}

#[tokio::test]
async fn bundles_of_the_tests_convert_and_can_be_pulled() {
    let world = world().await;
    let name = support::unique("world");
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

        let image = world
            .push(&format!("{name}:{class:?}").to_lowercase(), &content)
            .await;
        let source = unpacker::source::Image {
            reference: image.parse().unwrap(),
            platform: None,
        };
        let access = support::insecure();
        let fetched = unpacker::fetch(
            &unpacker::Source::Image(source),
            &access,
            &unpacker::Options::default(),
            &unpacker::Progress::default(),
        )
        .await
        .unwrap();
        assert_eq!(fetched.tree.into_content().unwrap(), content);
    }
}
