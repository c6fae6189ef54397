//! Requests that the API server rejects.

use k8s_openapi::api::core::v1::Secret;

use super::*;

/// The rejections of the API server have the causes that the tests of `apply::ssa` expect.
async fn rejections_have_a_cause(scene: &Scene) {
    // A service account without permissions.
    let mut config = world().await.cluster.config().clone();
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{}:none", scene.namespace));
    let client = Client::try_from(config).unwrap();
    let objects = [scene.text("a", "text")];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let report = scene.apply(&client).run(&plan.steps).await;
    assert_failed(&report, FailureKind::Forbidden, "cannot patch resource");

    // The API server accepts the request, and etcd rejects the object.
    let resource = format!("resource-{}", "y".repeat(60));
    let group = |n: usize| format!("group-{n}.{}.example.com", "x".repeat(50));
    let rule = |n| json!({"apiGroups": [group(n)], "resources": [resource], "verbs": ["get"]});
    let rules: Vec<_> = (0..12_000).map(rule).collect();
    let metadata = json!({"name": unique("large")});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    let unknown =
        tests::with!(deployment("unknown") => |object| object["spec"]["nonsense"] = 1.into());
    let too_large = "larger than the cluster can store";
    for (object, cause, part) in tests::rows![
        config_map(&unique("nowhere"), "a", "text"), FailureKind::Namespace => "spec.installNamespace";
        scene.text("larger", &"x".repeat(4 << 20)), FailureKind::Invalid => too_large;
        role, FailureKind::Invalid => too_large;
        unknown, FailureKind::Invalid => "nonsense";
    ] {
        assert_failed(&scene.run(&[object]).await, cause, part);
    }
}

/// A CRD whose names are taken fails, and so do objects of a kind that was removed.
async fn crds_are_not_waited_for_in_vain(scene: &Scene) {
    let group = scene.group();
    let mut second = scene.crd();
    second["metadata"]["name"] = format!("others.{group}").into();
    second["spec"]["names"]["plural"] = "others".into();
    second["spec"]["names"]["singular"] = "other".into();
    scene.install(&[scene.crd()]).await;
    let report = scene.run(&[second, deployment("unbegun")]).await;
    assert_failed(&report, FailureKind::NotEstablished, "names not accepted");
    assert_eq!(report.stopped_in, Some(Wave::Definitions));

    // The CRD is removed after the lookup of the kind.
    let plan = scene.plan(&[scene.widget("late")], &Inventory::new()).await;
    for plural in ["others", "widgets"] {
        let name = format!("{plural}.{group}");
        delete(&scene.crds(), &name).await;
        wait_deleted(scene.crds(), &name).await;
    }
    let failure = eventually("the kind is not served", async || {
        let report = scene.apply(&scene.client).run(&plan.steps).await;
        match report.failed.first() {
            Some(failure) if failure.cause == FailureKind::NotServed => Ok(failure.clone()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_has(&failure.message, "install its CRD or API server");
}

#[tokio::test]
async fn failures_have_causes_and_stop_the_next_wave() {
    let scene = Scene::new("failures").await;
    // All failures of a wave are reported, and the next wave does not begin.
    let objects = [
        tests::with!(scene.text("broken", "text") => |map| map["data"]["no key/"] = "x".into()),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "broken"}, "spec": {"ports": []}}),
        scene.text("fine", "text"),
        deployment("unbegun"),
    ];
    let report = scene.run(&objects).await;
    assert_eq!(report.stopped_in, Some(Wave::Configuration));
    assert_eq!(names(report.applied.keys()), ["fine"]);
    let failed = report.failed.iter();
    let failed = failed.map(|failure| (&*failure.identity.kind, failure.cause));
    tests::assert_rows!(failed.collect::<Vec<_>>() => ["ConfigMap", "Service"].map(|kind| (kind, FailureKind::Invalid)));
    assert_has(&report.failed[1].message, "spec.ports: Required value");

    // No message quotes the data of a Secret.
    for (field, value) in tests::rows![
        "data" => json!({"password": 4_711_471_147_u64});
        "data" => json!({"password": "not base64: 4711471147"});
        "stringData" => json!({"password": {"is": "4711471147"}});
        "type" => json!(4_711_471_147_u64);
    ] {
        let mut secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}});
        secret[field] = value;
        let report = scene.run(&[secret]).await;
        assert_failed(&report, FailureKind::Invalid, "secret");
        let message = &report.failed[0].message;
        assert!(!message.contains("4711471147"), "{message}");
    }
    tests::assert_rows!(scene.namespaced::<Secret>().get_opt("secret").await.unwrap() => None);

    rejections_have_a_cause(&scene).await;
    crds_are_not_waited_for_in_vain(&scene).await;
    scene.end().await;
}
