//! Permissions that an account lacks.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::DynamicObject;
use manifests::yaml;

use super::*;
use crate::support::service_account;

async fn no_permission_is_missing(case: &Case) {
    let problems = async || case.run().await.problems;
    support::until("nothing is missing", problems, Vec::is_empty).await;
}

/// Returns the objects of a bundle with an operator, including permissions that the account does not hold itself.
fn operator(namespace: &str, name: &str) -> Vec<Value> {
    let rbac = |kind: &str, name: &str, mut object: Value| {
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name});
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    };
    let binding = |kind: &str, role: &str| {
        json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [support::account(namespace, "operator")]})
    };
    let wide = json!({"rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["watch"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]});
    let narrow = json!({"rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["lock"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    ]});
    vec![
        config(namespace, "settings", &json!({})),
        tests::with!(crate::apply::deployment("operator") => |object| object["metadata"]["namespace"] = json!(namespace)),
        support::crd(&format!("{name}.tests.rukpak.io"), "Widget"),
        rbac("ClusterRole", name, wide),
        rbac("ClusterRoleBinding", name, binding("ClusterRole", name)),
        rbac("Role", "operator", narrow),
        rbac("RoleBinding", "operator", binding("Role", "operator")),
        rbac("RoleBinding", "viewer", binding("ClusterRole", "view")),
    ]
}

// parity: rukpak-46
#[tokio::test]
async fn granting_the_listed_permissions_is_sufficient() {
    let world = world().await;
    let namespace = world.cluster.temp_namespace("tenant").await.unwrap();
    let account = service_account(world.cluster, namespace.name(), "installer").await;
    let name = unique("rights");
    let roles = world.api::<ClusterRole>();
    support::found("the aggregated rules of the role view", async || {
        let view = roles.get_opt("view").await.unwrap()?;
        view.rules.filter(|rules| !rules.is_empty())
    })
    .await;
    let objects = operator(namespace.name(), &name);
    let mut case = Case::new(world.cluster, namespace.name(), &objects).by(&account);
    let metadata = json!({"name": "old", "namespace": namespace.name()});
    let leaving =
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata});
    let entry = tests::with!(Entry, version: "policy/v1".to_owned());
    let leaving = Object::try_from(leaving).unwrap();
    case.inventory.insert(leaving.identity(), entry);

    let found = case.run().await;
    assert_eq!(found.problems.len(), 1, "{found:#?}");
    let message = messages(&found, Check::Rights)[0];
    assert_eq!(found.warnings, [], "{found:#?}");
    for part in [
        &format!("ServiceAccount {namespace}/installer lacks permissions"),
        r#"- {apiGroups: ["", "apps"], resources: ["*"], verbs: ["watch"]}"#,
        r#"- {nonResourceURLs: ["/metrics"], verbs: ["get"]}"#,
        r#"resources: ["horizontalpodautoscalers", "horizontalpodautoscalers/status"], verbs: ["get", "list", "watch"]}"#,
        r#"- {apiGroups: [""], resources: ["configmaps"], resourceNames: ["lock"], verbs: ["update"]}"#,
        r#"- {apiGroups: ["policy"], resources: ["poddisruptionbudgets"], resourceNames: ["old"], verbs: ["delete"]}"#,
    ] {
        assert_has(message, part);
    }

    let (_, granted) = message.split_once("\n---\n").unwrap();
    for object in yaml::documents(granted.as_bytes()) {
        world.apply(&object.unwrap()).await;
    }
    no_permission_is_missing(&case).await;

    // The API server agrees.
    let steps = case.steps().await;
    let api = |step: &ApplyStep| -> Api<DynamicObject> {
        let (client, resource) = (case.client.clone(), &step.kind.resource);
        if step.kind.namespaced {
            Api::namespaced_with(client, step.object.namespace(), resource)
        } else {
            Api::all_with(client, resource)
        }
    };
    for step in &steps {
        let mut object = step.object.value().clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("ownerReferences"); // the instance does not exist
        let params = PatchParams::apply("rukpak");
        let (api, patch) = (api(step), Patch::Apply(&object));
        let name = step.object.name();
        api.patch(name, &params, &patch).await.unwrap();
    }
    for step in steps.iter().rev() {
        support::delete(&api(step), step.object.name()).await;
    }
}

#[tokio::test]
async fn account_with_escalate_and_bind_needs_no_permissions() {
    let world = world().await;
    let namespace = world.cluster.temp_namespace("tenant").await.unwrap();
    let account = service_account(world.cluster, namespace.name(), "installer").await;
    let name = unique("bypass");
    let rbac = "rbac.authorization.k8s.io";
    let all = json!(["get", "list", "watch", "create", "patch", "delete"]);
    let rules = json!([
        {"apiGroups": [rbac], "resources": ["clusterroles"], "verbs": all},
        {"apiGroups": [rbac], "resources": ["clusterroles"], "resourceNames": [name], "verbs": ["escalate"]},
        {"apiGroups": [rbac], "resources": ["rolebindings"], "verbs": all},
        {"apiGroups": [rbac], "resources": ["clusterroles"], "resourceNames": [name, "view"], "verbs": ["bind"]},
    ]);
    let subject = support::account(&account.namespace, &account.name);
    let installer = format!("{name}-installer");
    support::grant(world.cluster, &subject, None, &installer, &rules).await;
    let mut objects = operator(namespace.name(), &name);
    objects
        .retain(|object| object["kind"] == "ClusterRole" || object["metadata"]["name"] == "viewer");
    assert_eq!(objects.len(), 2);
    let case = Case::new(world.cluster, namespace.name(), &objects).by(&account);
    no_permission_is_missing(&case).await;
}
