//! A real kube-apiserver accepts the objects of converted bundles.

use std::{collections::BTreeSet, path::Path};

use cluster::{Cluster, DryRun, Error};
use convert::{NamespaceObject, Options};
use kube::{
    api::{Api, DeleteParams, DynamicObject},
    core::{ApiResource, GroupVersionKind},
    runtime::wait::{await_condition, conditions},
};
use manifests::{
    content::{Builder, Content, Limits},
    object::Object,
};
use serde_json::{Value, json};
use tests::{chain, corpus};

/// Objects of real bundles that no API server accepts because of an error in the bundle.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

fn convert(bundle: &Path, namespace: &str) -> Vec<Object> {
    let unpacked = unpacker::open(bundle, &unpacker::Options::default()).unwrap();
    let options = Options {
        install_namespace: Some(namespace.to_owned()),
        namespace_object: NamespaceObject::Omit,
        ..Options::default()
    };
    let conversion = convert::plain(&unpacked.content, &options);
    let reasons: Vec<_> = conversion
        .report
        .refusals()
        .map(ToString::to_string)
        .collect();
    conversion
        .objects
        .unwrap_or_else(|| panic!("{} is refused: {reasons:?}", bundle.display()))
}

/// The results of applying a bundle's objects.
#[derive(Default)]
struct Results {
    accepted: usize,
    established: usize,
    /// Kinds that a plain cluster does not serve.
    unknown: BTreeSet<String>,
    /// Rejected objects, with the API server's message.
    rejected: Vec<(String, String)>,
}

/// Creates CRDs and waits until they are Established, so that custom resources can follow; applies other objects as a dry
/// run. A CRD is deleted only before another bundle creates it again, because a deletion takes seconds.
async fn apply_all(cluster: &Cluster, objects: &[Object], crds: &mut BTreeSet<String>) -> Results {
    let mut results = Results::default();
    for object in objects {
        let is_crd = object.kind() == "CustomResourceDefinition";
        let dry_run = if is_crd { DryRun::No } else { DryRun::Yes };
        if is_crd && !crds.insert(object.name().to_owned()) {
            delete_crd(cluster, object.name()).await;
        }
        match cluster.apply(object.value(), dry_run).await {
            Ok(_) if is_crd => match cluster.wait_established(object.name()).await {
                Ok(()) => results.established += 1,
                Err(error) => results.reject(object, &error),
            },
            Ok(_) => results.accepted += 1,
            Err(Error::UnknownKind(kind)) => {
                results
                    .unknown
                    .insert(format!("{}/{} {}", kind.group, kind.version, kind.kind));
            }
            Err(error) => results.reject(object, &error),
        }
    }
    results
}

impl Results {
    fn reject(&mut self, object: &Object, error: &Error) {
        let rejected = (object.identity().to_string(), chain(error));
        self.rejected.push(rejected);
    }
}

/// Returns a bundle with these objects.
fn bundle(objects: &[Value]) -> Content {
    let mut bundle = Builder::new(Limits::default());
    for (number, object) in objects.iter().enumerate() {
        let (path, text) = (format!("manifests/{number}.json"), object.to_string());
        bundle.add(&path, 0o644, &mut text.as_bytes()).unwrap();
    }
    bundle.finish()
}

async fn delete_crd(cluster: &Cluster, name: &str) {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> =
        Api::all_with(cluster.client().unwrap(), &ApiResource::from_gvk(&kind));
    let uid = api.get(name).await.unwrap().metadata.uid.unwrap();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    await_condition(api, name, conditions::is_deleted(&uid))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_accepts_every_converted_corpus_bundle() {
    let Some(corpus) = corpus() else { return };
    let cluster = Cluster::start().await.unwrap();
    let mut all = Results::default();
    let mut crds = BTreeSet::new();
    for case in corpus.cases().filter(|case| case.outcome == "converted") {
        let namespace = cluster.temp_namespace("corpus").await.unwrap();
        let results = apply_all(
            &cluster,
            &convert(&corpus.bundle(case), namespace.name()),
            &mut crds,
        )
        .await;
        all.accepted += results.accepted;
        all.established += results.established;
        all.unknown.extend(results.unknown);
        let expected = |object: &str, message: &str| {
            EXCEPTIONS.iter().any(|exception| {
                case.bundle == exception.0
                    && object.starts_with(exception.1)
                    && message.contains(exception.2)
            })
        };
        let unexpected = results
            .rejected
            .into_iter()
            .filter(|(object, message)| !expected(object, message));
        all.rejected.extend(
            unexpected.map(|(object, message)| (format!("{}: {object}", case.bundle), message)),
        );
    }
    eprintln!(
        "{} objects accepted, {} definitions established; not served by a plain cluster: {:?}",
        all.accepted, all.established, all.unknown
    );
    assert!(all.rejected.is_empty(), "{:#?}", all.rejected);
    let built_in = |kind: &&String| {
        !kind.contains('.')
            || kind.contains(".k8s.io/v1 ") && !kind.starts_with("autoscaling.k8s.io")
    };
    assert_eq!(
        all.unknown.iter().find(built_in),
        None,
        "a built-in API was not brought up to date"
    );
}

/// One object for each removed API that old bundles contain.
fn old_objects() -> Vec<Value> {
    let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let role = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role_ref =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let hpa_target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let rules = |port: Value| json!([{"host": "h.example.com", "http": {"paths": [{"path": "/", "backend": {"serviceName": "s", "servicePort": port}}]}}]);
    vec![
        json!({"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "old-ingress"}, "spec": {"rules": rules(json!(80))}}),
        json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": "ingress"},
            "spec": {"backend": {"serviceName": "s", "servicePort": "http"}, "rules": rules(json!("http"))}}),
        json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "IngressClass", "metadata": {"name": "class"}, "spec": {"controller": "example.com/c"}}),
        json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": selector}}),
        json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "empty-budget"}, "spec": {"minAvailable": 1, "selector": {}}}),
        json!({"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "job"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job}}}),
        json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PriorityClass", "metadata": {"name": "priority"}, "value": 7}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "ClusterRole", "metadata": {"name": "role"}, "rules": role}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "ClusterRoleBinding", "metadata": {"name": "binding"},
            "roleRef": role_ref, "subjects": [{"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "User", "name": "u"}]}),
        json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "old-deployment"}, "spec": {"template": pod}}),
        json!({"apiVersion": "extensions/v1beta1", "kind": "DaemonSet", "metadata": {"name": "old-daemons"}, "spec": {"template": pod}}),
        json!({"apiVersion": "apps/v1beta2", "kind": "StatefulSet", "metadata": {"name": "old-set"}, "spec": {"serviceName": "s", "selector": selector, "template": pod}}),
        json!({"apiVersion": "autoscaling/v2beta1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler1"}, "spec": {
            "scaleTargetRef": hpa_target, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 60}}]}}),
        json!({"apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler2"}, "spec": {
            "scaleTargetRef": hpa_target, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}}),
        json!({"apiVersion": "coordination.k8s.io/v1beta1", "kind": "Lease", "metadata": {"name": "lease"}, "spec": {"holderIdentity": "me"}}),
        json!({"apiVersion": "storage.k8s.io/v1beta1", "kind": "StorageClass", "metadata": {"name": "storage"}, "provisioner": "example.com/p"}),
        json!({"apiVersion": "node.k8s.io/v1beta1", "kind": "RuntimeClass", "metadata": {"name": "runtime"}, "handler": "h"}),
        json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": {"name": "olds.example.k8s.io"},
            "spec": {"group": "example.k8s.io", "version": "v1", "names": {"plural": "olds", "kind": "Old"}, "scope": "Namespaced"}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_accepts_objects_upgraded_from_old_apis() {
    let cluster = Cluster::shared().await.unwrap();
    let namespace = cluster.temp_namespace("old").await.unwrap();
    let mut objects = old_objects();
    for object in &mut objects {
        object["metadata"]["namespace"] = namespace.name().into();
    }
    let conversion = convert::plain(&bundle(&objects), &Options::default());
    let reasons: Vec<_> = conversion
        .report
        .refusals()
        .map(ToString::to_string)
        .collect();
    let objects = conversion.objects.unwrap_or_else(|| panic!("{reasons:?}"));
    let results = apply_all(cluster, &objects, &mut BTreeSet::new()).await;
    assert_eq!(results.rejected, []);
    assert_eq!(results.unknown, BTreeSet::new());
    assert_eq!(results.accepted + results.established, old_objects().len());
}

/// A custom resource of a v1beta1 CRD keeps fields that the CRD's schema does not declare.
// parity: convert-15
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_of_an_upgraded_crd_lose_no_data() {
    let cluster = Cluster::shared().await.unwrap();
    let namespace = cluster.temp_namespace("data").await.unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "keepers.data.example.com"},
        "spec": {
            "group": "data.example.com", "version": "v1", "scope": "Namespaced",
            "names": {"plural": "keepers", "kind": "Keeper"},
            "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
                "known": {"type": "string"},
                "list": {"type": "array", "items": {"properties": {"a": {"type": "integer"}}}},
            }}}}},
        },
    });
    let converted = convert::plain(&bundle(&[crd]), &Options::default());
    let objects = converted.objects.unwrap();
    cluster.apply(objects[0].value(), DryRun::No).await.unwrap();
    cluster
        .wait_established("keepers.data.example.com")
        .await
        .unwrap();
    let resource = json!({
        "apiVersion": "data.example.com/v1", "kind": "Keeper",
        "metadata": {"name": "k", "namespace": namespace.name()},
        "spec": {"known": "x", "unknown": {"deep": [1]}, "list": [{"a": 1, "b": {"c": true}}]},
        "extra": {"at": "the root"},
    });
    let stored = cluster.apply(&resource, DryRun::No).await.unwrap();
    assert_eq!(stored.data["spec"], resource["spec"]);
    assert_eq!(stored.data["extra"], resource["extra"]);
}
