//! Where an operator is counts when a namespace was named: what is elsewhere stays, and is not what was asked for.

use serde_json::json;

use super::{get, scene::Operator, text};
use crate::world::{unique, until_it_says, world};

#[tokio::test(flavor = "multi_thread")]
async fn without_olm_too_what_is_in_another_namespace_stays() {
    let world = world().await;
    let operator = Operator::new(&unique("place"));
    let name = &operator.name;
    let [image, next] = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let prod = operator.namespace();
    let run = |image: &str, namespace: &str| {
        world.run(&["run", "bundle", image, "--use-http", "-n", namespace])
    };
    run(&image, &prod).exits(0);
    let before = get(name).await;

    let cleaned = world.ok(&format!("cleanup {name} -n ci-123"));
    assert_eq!(cleaned.out, "");
    cleaned.says(&format!(
        "warning: package \"{name}\" not found in namespace ci-123; BundleInstance {name} is installed in {prod}\n"
    ));
    // Both are not the same, although the bundle is.
    for image in [&image, &next] {
        run(image, "ci-123").exits(1).says(&format!(
            "BundleInstance {name} is installed in {prod}, and watches all namespaces, so that it cannot be in ci-123 as well"
        ));
    }
    world
        .fail(&format!("run bundle-upgrade {next} --use-http -n ci-123"))
        .says(&format!(
            "BundleInstance {name} is installed in {prod}, and cannot be moved to ci-123"
        ));
    let after = get(name).await;
    assert_eq!(
        (after.spec, after.metadata.uid),
        (before.spec, before.metadata.uid)
    );
    assert_eq!(text(&operator).await.as_deref(), Some("0.0.1"));

    run(&image, &prod)
        .exits(0)
        .says("is there already, of this bundle");
    let upgrade = ["run", "bundle-upgrade", &next, "--use-http", "-n", &prod];
    world.ok(&upgrade);
    let cleaned = world
        .ok(&format!(
            "cleanup {name} -n {prod} --delete-operator-groups --service-account=x"
        ))
        .says("warning: --delete-operator-groups, --service-account means nothing without OLM\n");
    assert_eq!(cleaned.out, format!("Operator \"{name}\" uninstalled\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_olm_the_provisioner_believes_the_authority_of_a_secret() {
    let world = world().await;
    let operator = Operator::new(&unique("authority"));
    let name = &operator.name;
    let image = operator.publish("0.0.1");
    let secret = format!("{name}-ca");
    let args = [
        "run",
        "bundle",
        &image,
        "--use-http",
        "--ca-secret-name",
        &secret,
    ];
    world.fail(&args).says(&format!(
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
        .fail(&args)
        .says("has no certificate in PEM under the key cert.pem");
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);

    apply("cert.pem", &pem).await;
    world.ok(&args);
    let certificates = async || {
        let source = get(name).await.spec.template.spec.source;
        source.image.unwrap().certificate_data
    };
    assert_eq!(certificates().await.as_ref(), Some(&pem));
    // It has got another one meanwhile; and whoever says nothing leaves it.
    let other = tests::Authority::new("another authority").pem();
    apply("cert.pem", &other).await;
    until_it_says(
        world.spawn(&args),
        "configured, for its image is to be pulled in another way",
    );
    assert_eq!(certificates().await.as_ref(), Some(&other));
    world.ok(&args[..4]);
    assert_eq!(certificates().await.as_ref(), Some(&other));
    world.ok(&format!("cleanup {name}"));
}
