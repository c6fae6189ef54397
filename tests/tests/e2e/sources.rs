//! Bundles that the provisioner's pod fetches over the cluster network, and downloads of their content.

use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use serde_json::json;
use tests::Sshd;

use super::{
    bundle::{IMAGE, Operator},
    environment::{CORE_POD, SYSTEM, kubectl, world},
    wait,
};

// parity: b23
#[tokio::test]
async fn b23_repository_in_the_cluster_is_cloned_over_ssh() {
    let world = world().await;
    let server = Sshd::start();
    let commit = server
        .repository("tide")
        .commit("main", Operator::new("cloned", "1.0.0").dir().path());
    let (address, port) = server
        .host()
        .rsplit_once(':')
        .map(|(a, p)| (a.to_owned(), p.parse::<u16>().unwrap()))
        .unwrap();

    // As in a cluster: a name, a Service, and a server behind it.
    let namespace = world.cluster.temp_namespace("git").await.unwrap();
    let metadata = json!({"name": "local-git", "namespace": namespace.name()});
    let ports = json!([{"name": "ssh", "port": 2222, "targetPort": port}]);
    world.apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})).await;
    world
        .apply(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "local-git-1", "namespace": namespace.name(),
                "labels": {"kubernetes.io/service-name": "local-git"},
            },
            "ports": [{"name": "ssh", "port": port}],
            "endpoints": [{"addresses": [address]}],
        }))
        .await;
    world
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth",
            "metadata": {"name": "local-git", "namespace": SYSTEM},
            "stringData": {"ssh-privatekey": server.key()},
        }))
        .await;
    let url = server.url("tide");
    let user = url.trim_start_matches("ssh://").split('@').next().unwrap();
    let host = format!("local-git.{}.svc.cluster.local:2222", namespace.name());
    let repository = json!({
        "repository": format!("ssh://{user}@{host}/tide"),
        "ref": {"branch": "main"},
        "auth": {"secret": {"name": "local-git"}, "insecureSkipVerify": true},
    });
    world
        .bundle("b23", json!({"type": "git", "git": repository}))
        .await;
    let bundle = world.unpacked("b23").await;
    let resolved = serde_json::to_value(bundle.status.unwrap().resolved_source).unwrap();
    assert_eq!(resolved["git"]["ref"]["commit"], json!(commit));
    world.delete("b23").await;
}

// parity: b21
#[tokio::test]
async fn b21_job_downloads_content_with_service_account_token() {
    let world = world().await;
    let _unchanged = CORE_POD.read().await;
    let image = world.image("downloaded:v1.0.0");
    Operator::new("downloaded", "1.0.0").push(&image, &[]);
    let reference = json!({"ref": image, "insecureSkipTLSVerify": true});
    world
        .bundle("b21", json!({"type": "image", "image": reference}))
        .await;
    let status = world.unpacked("b21").await.status.unwrap();
    let url = status.content_url.unwrap();
    assert_eq!(url, "https://core.rukpak-system.svc/bundles/b21.tgz");

    let namespace = world.cluster.temp_namespace("download").await.unwrap();
    let namespace = namespace.name();
    let binding = format!("download-{namespace}");
    let account = format!("{namespace}:default");
    let binding_of = format!("{binding} --clusterrole=bundle-reader --serviceaccount={account}");
    kubectl(
        world.cluster,
        &format!("create clusterrolebinding {binding_of}"),
    );
    let maps = world.api::<ConfigMap>(SYSTEM);
    let ca_bundle = maps.get("rukpak-ca").await.unwrap();
    world
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": ca_bundle.data,
            "metadata": {"name": "authority", "namespace": namespace},
        }))
        .await;
    let container = json!({
        "name": "fetch", "image": IMAGE, "args": ["fetch", url],
        "env": [{"name": "CA_FILE", "value": "/authority/ca.crt"}],
        "volumeMounts": [{"name": "authority", "mountPath": "/authority"}],
    });
    let pod = json!({
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    });
    world
        .apply(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "fetch", "namespace": namespace},
            "spec": {"backoffLimit": 3, "template": {"spec": pod}},
        }))
        .await;
    wait::until(world.api::<Job>(namespace), "fetch", "complete", |job| {
        let status = job.status.as_ref();
        status.is_some_and(|status| status.succeeded == Some(1))
    })
    .await;
    // The logs of all pods of the Job: a pod that started too early may have failed.
    let selector = "--selector=batch.kubernetes.io/job-name=fetch --tail=-1";
    let names = kubectl(world.cluster, &format!("-n {namespace} logs {selector}"));
    let names: Vec<&str> = names.lines().collect();
    assert!(
        names.iter().any(|name| name.starts_with("manifests/")),
        "{names:?}"
    );
    kubectl(world.cluster, &["delete", "clusterrolebinding", &binding]);
    world.delete("b21").await;
}
