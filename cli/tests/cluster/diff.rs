//! `rukpak diff`. docs/cli.md and the tests of revisions cover changed and pruned objects, docs/cli.md and the unit tests
//! permissions, and the unit tests and the tests of revisions values of Secrets.

use std::fs;

use serde_json::{Value, json};

use crate::environment::{Rukpak as _, plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn objects_and_fields_are_compared() {
    let world = world().await;
    let name = unique("diff");
    let dir = plain(&[&name], "one");
    let bundle = text(&dir);

    // No object exists: all objects are new, and none is created.
    tests::assert_runs! { world; "diff {name} {bundle}" => 1, ["1 object to create, 0 to change, 0 to prune:"]; }
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
    let next = plain(&[&name], "two");
    let next = text(&next);
    tests::assert_runs! { world;
        "install {name} {bundle}" => 0, _;
        "diff {name} {bundle}" => 0, "";
    }
    // Fields written by servers are not a difference, and a diff changes nothing.
    let run = world.run(&format!("diff {name} {next}")).exits(1);
    run.out_has("-  text: one\n+  text: two\n");
    for word in ["managedFields", "resourceVersion", "uid:"] {
        run.out_lacks(word);
    }
    world.ok(&format!("diff {name} {bundle}"));

    // Rejections by the API server are reported.
    let write = |file: &str, object: &Value| {
        tests::write(dir.path(), file, object.to_string());
    };
    let metadata = json!({"name": name, "namespace": "default"});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 123_456}]}});
    write("manifests/more.yaml", &service);
    tests::assert_runs! { world; "diff {name} {bundle}" => 2, _, "would be rejected", "123456"; }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-more")}});
    write("manifests/more.yaml", &map);
    let odd = json!({"apiVersion": "no.example.com/v1", "kind": "Strange", "metadata": metadata});
    write("manifests/odd.yaml", &odd);
    tests::assert_runs! { world;
        "diff {name} {bundle}" => 1, ["2 objects to create"], "kind not served by the cluster";
        "diff {name} /no/such/directory" => 2, _;
    }
    fs::remove_file(dir.path().join("manifests/more.yaml")).unwrap();
    tests::assert_runs! { world;
        "diff {name} {bundle}" => 1, ["1 object to create", "+ Strange default/{name}"], "kind not served by the cluster";
    }

    // A deferred object of an optional API is not reported as a difference.
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": metadata});
    write("manifests/odd.yaml", &monitor);
    tests::assert_runs! { world;
        "diff {name} {bundle}" => 1, ["1 object to create", "+ ServiceMonitor default/{name}"];
        "install {name} {bundle}" => 0, _;
        "diff {name} {bundle}" => 0, "", "kind not served by the cluster";
    }
    world.remove(&name);
}
