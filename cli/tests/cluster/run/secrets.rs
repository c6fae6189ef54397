//! The CA for pulling the image of a bundle. Unit tests cover the other pull settings.

use serde_json::json;

use super::{get, support::Operator};
use crate::environment::{Rukpak as _, interrupt_after_output, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn ca_of_the_image_follows_the_flags_of_the_last_command() {
    let world = world().await;
    let operator = Operator::new(&unique("secrets"));
    let name = &operator.name;
    let run = format!("run bundle {} --use-http", operator.publish("0.0.1"));
    let image = async || get(name).await.spec.template.spec.source.image.unwrap();
    // The provisioner trusts the CA of a Secret.
    let secret = format!("{name}-ca");
    let with_ca = format!("{run} --ca-secret-name {secret}");
    tests::assert_runs! { world;
        "{with_ca}" => 1, "", "Secret rukpak-system/{secret} of --ca-secret-name not found; create it with";
    }
    let [pem, other] = ["a CA", "another CA"].map(|name| tests::TestCa::new(name).pem());
    let apply = async |pem: &str| {
        let metadata = json!({"name": secret, "namespace": "rukpak-system"});
        world.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"cert.pem": pem}})).await;
    };
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);
    apply(&pem).await;
    world.ok(&with_ca);
    assert_eq!(image().await.certificate_data.as_ref(), Some(&pem));
    // The CA in the Secret changes; a command without the flag keeps the last one.
    apply(&other).await;
    interrupt_after_output(world.spawn(&with_ca), "configured with other pull settings");
    assert_eq!(image().await.certificate_data.as_ref(), Some(&other));
    world.ok(&run);
    assert_eq!(image().await.certificate_data.as_ref(), Some(&other));
    world.ok(&format!("cleanup {name}"));
}
