//! Memory of a catalog with 200,000 bundles.

use serde_json::{Value, json};

use crate::{bundle::Workspace, sources::memory};

const PACKAGES: usize = 200;
/// Bundles per package. A million bundles are also within the limit, but take five times the time and memory.
const BUNDLES: usize = 1000;
/// Maximum memory per bundle in bytes, including all related data. Its document has 150 bytes.
const MAX_BYTES_PER_BUNDLE: usize = 1300;

/// Returns a package of minimal bundles in one channel that is longer than any real one.
fn package(name: &str) -> String {
    let mut entries = vec![json!({"name": format!("{name}.0")})];
    entries.extend((1..BUNDLES).map(
        |at| json!({"name": format!("{name}.{at}"), "replaces": format!("{name}.{}", at - 1)}),
    ));
    let bundle = |at| {
        let package = json!({"packageName": name, "version": format!("0.{at}.0")});
        json!({
            "schema": "olm.bundle", "package": name, "name": format!("{name}.{at}"), "image": "a/b:c",
            "properties": [{"type": "olm.package", "value": package}],
        })
    };
    let head = [
        json!({"schema": "olm.package", "name": name, "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": name, "name": "a", "entries": entries}),
    ];
    let blobs = head.into_iter().chain((0..BUNDLES).map(bundle));
    let blobs: Vec<String> = blobs.map(|blob: Value| blob.to_string()).collect();
    blobs.join("\n")
}

// parity: load-10
#[test]
fn memory_per_bundle_is_bounded() {
    let workspace = Workspace::new();
    for name in (0..PACKAGES).map(|at| format!("p{at}")) {
        workspace.write(&format!("catalog/{name}"), package(&name));
    }
    let peak = memory::peak(&workspace, "catalog validate catalog");
    let allowed = (PACKAGES * BUNDLES * MAX_BYTES_PER_BUNDLE) as u64 >> 10;
    eprintln!("{} bundles, at most {peak} KiB", PACKAGES * BUNDLES);
    assert!(peak < allowed, "{peak} KiB, and {allowed} are allowed");
}
