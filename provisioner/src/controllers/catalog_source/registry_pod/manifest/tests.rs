use k8s_openapi::api::core::v1::Container;

use super::*;

const IMAGE: &str = "example.com/catalog:v1";

fn source(name: &str, more: &Value) -> CatalogSource {
    let mut metadata = json!({"name": name, "namespace": "shelf", "uid": "u-1"});
    metadata["annotations"] = more["annotations"].clone();
    object!({
        "metadata": metadata,
        "spec": {"sourceType": "grpc", "image": IMAGE, "secrets": more["secrets"].as_array().cloned().unwrap_or_default()},
    })
}

const AROUND: PodEnvironment<'static> = PodEnvironment {
    program: "example.com/rukpak:v1",
    is_restricted: false,
    chooses_users: false,
};

fn of_image(image: &str, source: &CatalogSource) -> Result<RegistryPodObjects, Invalid> {
    let (options, content) = (&Options::default(), PodServer::Entrypoint);
    let request = RegistryPodSpec {
        source,
        image,
        options,
        content,
    };
    objects(&request, &AROUND)
}

fn made(
    more: &Value,
    options: &Value,
    content: PodServer<'_>,
    around: &PodEnvironment<'_>,
) -> RegistryPodObjects {
    let request = RegistryPodSpec {
        source: &source("tide", more),
        image: IMAGE,
        options: &Options::read("spec.grpcPodConfig", Some(options)).unwrap(),
        content,
    };
    objects(&request, around).unwrap()
}

fn usual(options: &Value) -> RegistryPodObjects {
    made(&json!({}), options, PodServer::BuiltIn("/configs"), &AROUND)
}

fn spec(objects: &RegistryPodObjects) -> Value {
    serde_json::to_value(objects.pod.spec.as_ref().unwrap()).unwrap()
}

fn main(objects: &RegistryPodObjects) -> &Container {
    &objects.pod.spec.as_ref().unwrap().containers[0]
}

fn pod_hash(objects: &RegistryPodObjects) -> &str {
    &objects.pod.metadata.labels.as_ref().unwrap()[POD_HASH]
}

// parity: pod-2, pod-4
#[test]
fn pod_and_its_objects_match_those_of_olm() {
    let more = json!({"secrets": ["s", ""], "annotations": {"a": "b"}});
    let objects = made(&more, &Value::Null, PodServer::Entrypoint, &AROUND);
    let owner = |controls: bool| {
        json!([{
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "tide", "uid": "u-1",
            "controller": controls, "blockOwnerDeletion": false,
        }])
    };
    let labels = json!({"olm.managed": "true", "core.rukpak.io/catalog-pod": "true"});
    let service = serde_json::to_value(&objects.service).unwrap();
    let hashed = service["metadata"]["labels"]["olm.service-spec-hash"].clone();
    assert_rows! {
        serde_json::to_value(&objects.account).unwrap() => json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": [{"name": "s"}],
            "metadata": {
                "name": "tide", "namespace": "shelf", "annotations": {"core.rukpak.io/pull-secrets": "s"}, "labels": labels,
                "ownerReferences": owner(true),
            },
        });
        service => json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "tide", "namespace": "shelf", "ownerReferences": owner(false),
                "labels": {"olm.managed": "true", "core.rukpak.io/catalog-pod": "true", "olm.service-spec-hash": hashed},
            },
            "spec": {
                "ports": [{"name": "grpc", "port": 50051, "targetPort": 50051, "protocol": "TCP"}],
                // A pod of OLM, which lacks the last label, is not selected.
                "selector": {
                    "olm.catalogSource": "tide", "olm.managed": "true", "core.rukpak.io/catalog-pod": "true",
                },
            },
        });
    }
    let policy = |name: &str, spec: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": "shelf", "labels": labels, "ownerReferences": owner(false)},
            "spec": spec,
        })
    };
    assert_rows! {
        serde_json::to_value(&objects.policies).unwrap() => json!([
            policy("tide-grpc-server", json!({
                "podSelector": {"matchLabels": {"olm.catalogSource": "tide", "olm.managed": "true"}},
                "policyTypes": ["Ingress", "Egress"], "ingress": [{"ports": [{"port": 50051, "protocol": "TCP"}]}],
            })),
            policy("tide-unpack-bundles", json!({
                "podSelector": {
                    "matchLabels": {"olm.managed": "true"},
                    "matchExpressions": [{"key": "operatorframework.io/bundle-unpack-ref", "operator": "Exists"}],
                },
                "policyTypes": ["Ingress", "Egress"], "egress": [{}],
            })),
        ]);
    }
    let pod = serde_json::to_value(&objects.pod).unwrap();
    assert_rows! {
        pod["metadata"]["generateName"] => "tide-";
        pod["metadata"]["labels"] => json!({
            "olm.catalogSource": "tide", "olm.managed": "true", "core.rukpak.io/catalog-pod": "true",
            "olm.pod-spec-hash": pod_hash(&objects),
        });
        pod["metadata"]["annotations"] => json!({
            "a": "b", "core.rukpak.io/catalog-annotations": "a", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        });
        pod["metadata"]["ownerReferences"][0]["controller"] => true;
        pod["spec"] => json!({
            "serviceAccountName": "tide", "automountServiceAccountToken": false, "enableServiceLinks": false,
            "nodeSelector": {"kubernetes.io/os": "linux"}, "imagePullSecrets": [{"name": "s"}], "initContainers": [],
            "volumes": [],
            "containers": [{
                "name": "registry-server", "image": IMAGE, "imagePullPolicy": "Always",
                "ports": [{"name": "grpc", "containerPort": 50051, "protocol": "TCP"}],
                "readinessProbe": {"grpc": {"port": 50051}, "initialDelaySeconds": 5, "timeoutSeconds": 5},
                "livenessProbe": {"grpc": {"port": 50051}, "initialDelaySeconds": 10, "timeoutSeconds": 5},
                "startupProbe": {"grpc": {"port": 50051}, "periodSeconds": 10, "failureThreshold": 15, "timeoutSeconds": 5},
                "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {"readOnlyRootFilesystem": false}, "env": [],
            }],
        });
    }
}

// parity: pod-4, pod-8
#[test]
fn provisioner_serves_the_files_of_the_image() {
    let legacy = json!({"readOnlyRootFilesystem": true});
    let restricted = json!({
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    });
    for (options, content, args, permissions) in ::tests::rows![
        json!({"securityContextConfig": "restricted"}), PodServer::BuiltIn("/configs"),
            &["serve", "/configs", "--port=50051"][..] => &restricted;
        json!({"extractContent": {"catalogDir": "/a"}}), PodServer::Entrypoint, &["serve", "/a", "--port=50051"] => &legacy;
        json!({"extractContent": {"catalogDir": "/a", "cacheDir": "/tmp/c"}}), PodServer::BuiltIn("/configs"),
            &["serve", "/a", "--port=50051", "--cache-from=/tmp/c"] => &legacy;
    ] {
        let pod = spec(&made(&json!({}), &options, content, &AROUND));
        let main = &pod["containers"][0];
        assert_rows! {
            pod["initContainers"] => json!([{
                "name": "extract-utilities", "image": "example.com/rukpak:v1", "imagePullPolicy": "IfNotPresent",
                "command": ["/provisioner", "copy", "/utilities"], "terminationMessagePolicy": "FallbackToLogsOnError",
                "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}}, "securityContext": permissions,
                "volumeMounts": [{"name": "utilities", "mountPath": "/utilities", "readOnly": false}],
            }]);
            main["image"] => IMAGE;
            main["command"] => json!(["/utilities/provisioner"]);
            main["args"] => json!(args);
            &main["securityContext"] => permissions;
            main["volumeMounts"] => json!([
                {"name": "utilities", "mountPath": "/utilities", "readOnly": true},
                {"name": "tmpdir", "mountPath": "/tmp"},
            ]);
            pod["volumes"] => json!([{"name": "utilities", "emptyDir": {}}, {"name": "tmpdir", "emptyDir": {}}]);
        }
    }
}

// parity: pod-9
#[test]
fn namespace_sets_the_default_security_context() {
    let legacy = [Value::Null, json!({"readOnlyRootFilesystem": false})];
    let hardened = json!({
        "readOnlyRootFilesystem": false, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    });
    let any_user = json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true});
    let own_user = with!(any_user.clone() => |security| security["runAsUser"] = 1001.into());
    let [any_user, own_user] = [any_user, own_user].map(|pod| [pod, hardened.clone()]);
    for (options, is_restricted, chooses_users, expected) in ::tests::rows![
        json!({}), false, false => &legacy;
        json!({}), true, false => &own_user;
        json!({}), true, true => &any_user;
        json!({"securityContextConfig": "restricted"}), false, false => &own_user;
        json!({"securityContextConfig": "legacy"}), true, false => &legacy;
    ] {
        let around = with!(AROUND => is_restricted: is_restricted, chooses_users: chooses_users);
        let pod = spec(&made(&json!({}), &options, PodServer::Entrypoint, &around));
        let found = [&pod, &pod["containers"][0]].map(|part| part["securityContext"].clone());
        assert_eq!(&found, expected, "{options} {is_restricted}");
    }
}

// parity: pod-7
#[test]
fn pod_options_replace_defaults() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    }}});
    let pod = spec(&usual(&json!({
        "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": affinity,
        "memoryTarget": "30Mi",
    })));
    assert_eq!(pod["nodeSelector"], json!({"a": "b"}));
    assert_rows!(pod["tolerations"] => json!([{"key": "a", "operator": "Exists"}]));
    assert_eq!(pod["affinity"], affinity);
    let main = &pod["containers"][0];
    assert_rows!(main["resources"] => json!({"requests": {"cpu": "10m", "memory": "30Mi"}}));
    assert_rows!(main["env"] => json!([{"name": "GOMEMLIMIT", "value": "30MiB"}]));
    assert_rows!(spec(&usual(&json!({"nodeSelector": {}})))["nodeSelector"] => json!({}));
}

// parity: pod-6
#[test]
fn priority_annotation_precedes_the_option() {
    for (annotation, option, expected) in [
        (None, Value::Null, None),
        (None, json!("a"), Some("a")),
        (None, json!(""), None),
        (Some(""), json!("a"), Some("a")),
        (Some("b"), Value::Null, Some("b")),
        (Some("b"), json!("a"), Some("b")),
        (Some("b"), json!(""), Some("b")),
    ] {
        let pair = annotation.map(|text| (PRIORITY_CLASS, text));
        let annotations: BTreeMap<&str, &str> = pair.into_iter().collect();
        let more = json!({"annotations": annotations});
        let options = json!({"priorityClassName": option});
        let objects = made(&more, &options, PodServer::Entrypoint, &AROUND);
        assert_rows!(objects.pod.spec.unwrap().priority_class_name.as_deref() => expected, "{annotation:?} {option}");
    }
}

// parity: pod-10
#[test]
fn pinned_image_is_pulled_only_if_missing() {
    let source = source("tide", &json!({}));
    assert_each!(|image, policy| main(&of_image(image, &source).unwrap()).image_pull_policy.as_deref() => Some(policy);
        "example.com/catalog:v1" => "Always";
        "example.com/catalog@sha256:00" => "IfNotPresent";
    );
}

// parity: pod-3
#[test]
fn pod_hash_changes_with_the_pod() {
    let usual_hash = pod_hash(&usual(&json!({}))).to_owned();
    assert_rows! {
        (30..=38).contains(&usual_hash.len()) => true, "{usual_hash}";
        usual_hash.bytes().all(|one| one.is_ascii_alphanumeric()) => true;
        usual_hash => pod_hash(&usual(&Value::Null));
        // Annotations do not change the hash, secrets do.
        usual_hash => pod_hash(&made(&json!({"annotations": {"a": "b"}}), &json!({}), PodServer::BuiltIn("/configs"), &AROUND));
    }
    let own_content = PodServer::BuiltIn("/configs");
    let secret = made(&json!({"secrets": ["s"]}), &json!({}), own_content, &AROUND);
    let entry = made(&json!({}), &json!({}), PodServer::Entrypoint, &AROUND);
    let memory = usual(&json!({"memoryTarget": "1Gi"}));
    let image = of_image("example.com/catalog:v2", &source("tide", &json!({}))).unwrap();
    assert_ne!(pod_hash(&entry), pod_hash(&image));
    let hashes = [&secret, &entry, &memory, &image].map(pod_hash);
    assert!(hashes.iter().all(|hash| *hash != usual_hash), "{hashes:?}");
    // The hash is a number: Go's big.Int formats the same digest like this.
    assert_eq!(hash(&json!({})), "4JmfNSKty2gqXbrQg2UonZs2626R3g4xHXikSh");
}

// parity: pod-12
#[test]
fn invalid_service_names_are_rejected() {
    for (name, service) in ::tests::rows![
        "tide" => Ok("tide");
        "tide.v1.x" => Ok("tide-v1-x");
        "4-tides" => Err("*use another name*");
        &"a".repeat(63) => Ok(&*"a".repeat(63));
        &"a".repeat(64) => Err("*use another name*");
    ] {
        let made = of_image(IMAGE, &source(name, &json!({})));
        let names = made.map(|made| (made.service.metadata.name, made.account.metadata.name));
        let expected = service.map(|service| (Some(service.to_owned()), Some(name.to_owned())));
        ::tests::table::assert_outcome(names, expected, name);
    }
}
