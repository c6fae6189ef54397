//! `rukpak diff`.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{plain, text, unique, world};

fn write(bundle: &TempDir, name: &str, object: &Value) {
    let path = bundle.path().join("manifests").join(name);
    fs::write(path, format!("{object:#}")).unwrap();
}

/// A role and who has it, under a name that changes with the version.
fn role(name: &str, version: &str, verbs: &[&str]) -> [Value; 2] {
    let metadata = json!({"name": format!("{name}-{version}")});
    let group = "rbac.authorization.k8s.io";
    [
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": verbs}],
        }),
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": format!("{name}-{version}")},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_objects_and_fields_are_compared_without_secrets() {
    let world = world().await;
    let name = unique("diff");
    let gone = format!("{name}-gone");
    let bundle = plain(&[&name, &gone], "one");
    let [granted, bound] = role(&name, "v1", &["get", "delete"]);
    write(&bundle, "role.yaml", &granted);
    write(&bundle, "binding.yaml", &bound);

    // Nothing is there: everything is new, and nothing is made.
    let run = world.fail(&format!("diff {name} {}", text(&bundle)));
    run.out_starts_with("Rights gained:\n");
    run.out_has("4 objects new, 0 changed, 0 leave the bundle:");
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);

    world.ok(&format!("install {name} {}", text(&bundle)));
    let run = world.ok(&format!("diff {name} {}", text(&bundle)));
    assert_eq!(run.out, "");

    let next = plain(&[&name], "two");
    let [granted, bound] = role(&name, "v2", &["get", "list"]);
    write(&next, "role.yaml", &granted);
    write(&next, "binding.yaml", &bound);
    let run = world.fail(&format!("diff {name} {}", text(&next)));
    let account = format!("  ServiceAccount default/{name}, in the whole cluster:\n");
    let right = |verb: &str| {
        format!("    - {{apiGroups: [\"\"], resources: [\"nodes\"], verbs: [\"{verb}\"]}}\n")
    };
    let first = format!(
        "Rights gained:\n{account}{}\nRights lost:\n{account}{}\n2 objects new, 1 changed, 3 leave the bundle:\n",
        right("list"),
        right("delete"),
    );
    run.out_starts_with(first);
    for line in [
        format!("  ~ ConfigMap default/{name}\n"),
        format!("  - ConfigMap default/{gone}\n"),
        format!("  + ClusterRole {name}-v2\n"),
        "-  text: one\n+  text: two\n".to_owned(),
    ] {
        run.out_has(line);
    }
    // What servers write is no difference, and nothing has changed yet.
    for word in ["managedFields", "resourceVersion", "uid:"] {
        run.out_lacks(word);
    }
    let diff = format!("diff {name} {}", text(&bundle));
    world.ok(&diff);

    // Values of Secrets are not printed, and refusals of the API server are.
    let secret = |value: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "default"},
            "stringData": {"password": value},
        })
    };
    write(&bundle, "secret.yaml", &secret("hunter2"));
    world.ok(&format!("install {name} {}", text(&bundle)));
    write(&bundle, "secret.yaml", &secret("other-one"));
    let run = world.fail(&diff);
    run.out_has("another one");
    for value in ["hunter2", "other-one", "aHVudGVyMg", "b3RoZXItb25l"] {
        run.out_lacks(value);
    }
    let bad = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 123_456}]},
    });
    write(&bundle, "service.yaml", &bad);
    world
        .run(&diff)
        .exits(2)
        .says("would be refused")
        .says("123456");
    let strange = json!({
        "apiVersion": "no.example.com/v1",
        "kind": "Strange",
        "metadata": {"name": name},
    });
    write(&bundle, "service.yaml", &strange);
    world.fail(&diff).says("does not serve");
    world.run(&["diff", &name, "/no/such/folder"]).exits(2);
    world.remove(&name);
}
