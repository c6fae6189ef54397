//! `rukpak diff`. docs/cli.md and the unit tests cover its report of permissions; the unit tests and the tests of revisions cover
//! values of Secrets.

use serde_json::{Value, json};

use crate::environment::{Rukpak as _, plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn objects_and_fields_are_compared() {
    let world = world().await;
    let name = unique("diff");
    let removed = format!("{name}-gone");
    let dir = plain(&[&name, &removed], "one");
    let bundle = text(&dir);

    // No object exists: all objects are new, and none is created.
    tests::assert_runs! { world;
        "diff {name} {bundle}" => 1, ["2 objects to create, 0 to change, 0 to prune:"];
    }
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
    let new = format!("{name}-new");
    let next = plain(&[&name, &new], "two");
    let next = text(&next);
    tests::assert_runs! { world;
        "install {name} {bundle}" => 0, _;
        "diff {name} {bundle}" => 0, "";
        "diff {name} {next}" => 1, [
            "1 object to create, 1 to change, 1 to prune:\n", "  ~ ConfigMap default/{name}\n",
            "  - ConfigMap default/{removed}\n", "  + ConfigMap default/{new}\n", "-  text: one\n+  text: two\n"
        ];
    }
    // Fields written by servers are not a difference, and a diff changes nothing.
    let run = world.run(&format!("diff {name} {next}"));
    for word in ["managedFields", "resourceVersion", "uid:"] {
        run.out_lacks(word);
    }
    world.ok(&format!("diff {name} {bundle}"));

    // Rejections by the API server are reported.
    let write = |object: Value| {
        let text = object.to_string();
        tests::write(dir.path(), "manifests/more.yaml", text);
    };
    let metadata = json!({"name": name, "namespace": "default"});
    let spec = json!({"ports": [{"port": 123_456}]});
    write(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}));
    tests::assert_runs! { world;
        "diff {name} {bundle}" => 2, _, "would be rejected", "123456";
    }
    let secret = |word: &str| {
        write(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": word}}),
        );
    };
    secret("hunter2");
    world.ok(&format!("install {name} {bundle}"));
    secret("other-one");
    let run = world.run(&format!("diff {name} {bundle}"));
    run.out_has("*** (changed)");
    for word in ["hunter2", "other-one", "aHVudGVyMg", "b3RoZXItb25l"] {
        run.out_lacks(word);
    }
    let more = format!("{name}-more");
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": more}});
    tests::write(dir.path(), "manifests/z.yaml", more.to_string());
    write(
        json!({"apiVersion": "no.example.com/v1", "kind": "Strange", "metadata": {"name": name}}),
    );
    tests::assert_runs! { world;
        "diff {name} {bundle}" => 1, ["1 object to create"], "kind not served by the cluster";
        "diff {name} /no/such/folder" => 2, _;
    }
    world.remove(&name);
}
