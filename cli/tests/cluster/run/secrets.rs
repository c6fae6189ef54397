//! Secrets that the image of a bundle is pulled with.

use manifests::api::bundle::ImageSource;
use serde_json::json;

use super::{get, scene::Operator};
use crate::world::{unique, until_it_says, world};

#[tokio::test(flavor = "multi_thread")]
async fn images_are_pulled_with_the_secrets_that_the_last_flags_name() {
    let world = world().await;
    let operator = Operator::new(&unique("secrets"));
    let name = &operator.name;
    let bundle = operator.publish("0.0.1");
    let image = async || -> ImageSource {
        let source = get(name).await.spec.template.spec.source;
        source.image.unwrap()
    };
    let again = "configured, for its image is to be pulled in another way";
    for (secret, said) in [("first", &*format!("/{name} created\n")), ("second", again)] {
        let args = [
            "run",
            "bundle",
            &bundle,
            "--use-http",
            "--pull-secret-name",
            secret,
        ];
        until_it_says(world.spawn(&args), said);
        assert_eq!(image().await.pull_secret.as_deref(), Some(secret));
    }
    world.ok(&format!("cleanup {name}"));

    // The provisioner believes the authority of a Secret.
    let secret = format!("{name}-ca");
    let flags = ["--ca-secret-name", &secret];
    world.run_bundle(&bundle, &flags).exits(1).says(&format!(
        "there is no Secret rukpak-system/{secret}, which --ca-secret-name names: make it with"
    ));
    let pem = tests::Authority::default().pem();
    let apply = async |key: &str, pem: &str| {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": "rukpak-system"},
            "stringData": {key: pem},
        });
        world.apply(&object).await;
    };
    apply("ca.crt", &pem).await;
    world
        .run_bundle(&bundle, &flags)
        .exits(1)
        .says("has no certificate in PEM under the key cert.pem");
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);
    apply("cert.pem", &pem).await;
    world.run_bundle(&bundle, &flags).exits(0);
    assert_eq!(image().await.certificate_data.as_ref(), Some(&pem));
    // The authority of the Secret changes; a command without the flag keeps it.
    let other = tests::Authority::new("another authority").pem();
    apply("cert.pem", &other).await;
    let args = [
        "run",
        "bundle",
        &bundle,
        "--use-http",
        "--ca-secret-name",
        &secret,
    ];
    until_it_says(world.spawn(&args), again);
    assert_eq!(image().await.certificate_data.as_ref(), Some(&other));
    world.run_bundle(&bundle, &[]).exits(0);
    assert_eq!(image().await.certificate_data.as_ref(), Some(&other));
    world.ok(&format!("cleanup {name}"));
}
