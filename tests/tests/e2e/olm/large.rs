//! A catalog that is too large for one ConfigMap, with another program than ours that serves it.

use std::{fs, iter};

use serde_json::json;

use super::{
    command::{annotation, names, parts},
    index::{self, Version},
    page::story,
    world::{OPM, world},
};

/// What unpacks parts unless another one is named; here it is this machine's shell.
const UNPACKER: &str = "ubi9/ubi:9.8";

/// Story 3: what is composed is what opm serves today. The index is large at first, and small when the operator is upgraded: parts
/// that are not needed any more go, and nothing else. Nobody may be root, and the image that unpacks would be.
// parity: run-6, run-15, sdk-17, sdk-21
#[tokio::test]
async fn story_3_a_catalog_of_three_parts_is_served_by_opm_and_becomes_one() {
    let world = world().await;
    let space = "run-large";
    world.restricted_namespace(space).await;
    index::publish_tools(UNPACKER, &["sh", "gzip"]);
    let other = Version::publish("cockle", "1.0.0");
    let folder = index::write(&[&other]);
    let noise = folder.path().join("configs/noise.json");
    fs::write(&noise, blobs()).unwrap();
    index::publish_folder("large:v1", folder.path());

    for version in ["0.0.1", "0.0.2"] {
        Version::publish("scallop", version);
    }
    let [first, second] = story("### Story 3: a catalog in several parts, served by opm");
    first.plays(world, space, &[]);
    let many = parts(world, space, "scallop-catalog");
    assert_eq!(many.len(), 3, "{many:?}");
    // Of somebody else, however it is called.
    let foreign = "scallop-catalog-configmap-partition-0123456789abc-1";
    world
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": foreign, "namespace": space},
        }))
        .await;

    fs::remove_file(noise).unwrap();
    index::publish_folder("large:v1", folder.path());
    let mut before = names(world, space, "configmap");
    second.plays(world, space, &[]);
    let pod = annotation(world, space, "scallop-catalog", "registry-pod-name");
    let path = "jsonpath={.spec.containers[*].image}";
    let serving = world.kubectl(&["-n", space, "get", "pod", &pod, "-o", path]);
    assert_eq!(serving, OPM);
    let few = parts(world, space, "scallop-catalog");
    assert!(
        few.len() == 2 && few.contains(&format!("configmap/{foreign}")),
        "{few:?}"
    );
    let after = names(world, space, "configmap");
    before.retain(|it| !many.contains(it));
    assert!(
        before.iter().all(|it| after.contains(it)),
        "{before:?}, {after:?}"
    );
}

/// Three megabytes that hardly compress, which are no business of anybody who reads catalogs.
fn blobs() -> String {
    let mut state = 0_u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(
            b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
                [(state >> 58) as usize],
        )
    };
    let blobs = (0..30).map(|number| {
        let data: String = iter::repeat_with(&mut letter).take(100_000).collect();
        json!({"schema": "example.com.noise", "name": number.to_string(), "data": data}).to_string()
    });
    blobs.collect()
}
