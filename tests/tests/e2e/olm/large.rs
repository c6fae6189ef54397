//! A catalog that is too large for one ConfigMap, served by opm instead of the provisioner's image.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{
    command::Space,
    docs::story,
    environment::OPM,
    index::{self, Version},
};

/// The default image that unpacks the parts; the test publishes this machine's shell under its name.
const UNPACKER: &str = "ubi9/ubi:9.8";

/// Story 3: opm serves the composed catalog. The index is large at first, and small when the operator is upgraded: only the
/// parts that are no longer needed are deleted. The namespace denies root, which the unpacking image would run as.
// parity: run-6, run-15, sdk-17, sdk-21
#[tokio::test]
async fn story_3_opm_serves_catalog_that_shrinks_to_one_part() {
    let space = Space::restricted("run-large").await;
    index::publish_tools(UNPACKER, &["sh", "gzip"]);
    let other = Version::publish("cockle", "1.0.0");
    let dir = index::write(&[&other]);
    let noise = dir.path().join("configs/noise.json");
    fs::write(&noise, blobs()).unwrap();
    index::publish_dir("large:v1", dir.path());

    for version in ["0.0.1", "0.0.2"] {
        Version::publish("scallop", version);
    }
    let [first, second] = story("### Story 3: a catalog in several parts, served by opm");
    first.plays(&space, &[]);
    let many = space.parts("scallop-catalog");
    assert_eq!(many.len(), 3, "{many:?}");
    // A ConfigMap of another owner, with the name of a part.
    let foreign = "scallop-catalog-configmap-partition-0123456789abc-1";
    space.kubectl(&["create", "configmap", foreign]);

    fs::remove_file(noise).unwrap();
    index::publish_dir("large:v1", dir.path());
    let mut before = space.names("configmap");
    second.plays(&space, &[]);
    let pod = space.annotation("scallop-catalog", "registry-pod-name");
    let path = "jsonpath={.spec.containers[*].image}";
    let serving = space.kubectl(&["get", "pod", &pod, "-o", path]);
    assert_eq!(serving, OPM);
    let few = space.parts("scallop-catalog");
    assert!(few.contains(&format!("configmap/{foreign}")), "{few:?}");
    assert_eq!(few.len(), 2, "{few:?}");
    let after = space.names("configmap");
    before.retain(|name| !many.contains(name) && !after.contains(name));
    assert_eq!(before, [""; 0], "{after:?}");
}

/// Three megabytes that hardly compress, in a schema that catalog readers ignore.
fn blobs() -> String {
    let blobs = (0..30).map(|number| {
        let data = STANDARD.encode(tests::noise(number, 75_000));
        json!({"schema": "example.com.noise", "name": number.to_string(), "data": data}).to_string()
    });
    blobs.collect()
}
