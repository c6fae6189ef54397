use std::collections::{BTreeMap, BTreeSet};

use super::*;

const TARGETS: [Target; 3] = [Target::Kubernetes, Target::OpenShift, Target::Payload];

fn usual(target: Target) -> Vec<Value> {
    let documents = documents(&Options::default(), target).into_iter();
    documents.map(|document| document.object).collect()
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

fn deployment(target: Target) -> Value {
    only(&usual(target), "Deployment", "core")
}

fn only(objects: &[Value], kind: &str, named: &str) -> Value {
    let mut objects = objects.iter();
    let found = objects.find(|object| object["kind"] == kind && name(object) == named);
    found.unwrap_or_else(|| panic!("no {kind} {named}")).clone()
}

fn of_release() -> Vec<(String, Vec<Value>)> {
    let options = release::options("quay.io/rukpak/provisioner:v0.1.0".to_owned());
    let files = release::files(&options).into_iter();
    let files = files.map(|file| {
        let objects = yaml::documents(file.text.as_bytes());
        (file.name, objects.map(Result::unwrap).collect())
    });
    files.collect()
}

#[test]
fn disruption_budget_needs_several_replicas() {
    let kinds = |replicas| -> Vec<Value> {
        let objects = objects(&with!(Options, replicas)).into_iter();
        objects.map(|mut object| object["kind"].take()).collect()
    };
    let (one, mut several) = (kinds(1), kinds(2));
    assert_eq!(several.len(), one.len() + 1);
    several.retain(|kind| kind != "PodDisruptionBudget");
    assert_eq!(several, one);
}

#[test]
fn other_namespace_replaces_the_default_everywhere() {
    let options = with!(Options, namespace: "elsewhere".to_owned());
    for text in [file, openshift, monitoring, conversion].map(|write| write(&options)) {
        assert!(!text.contains("rukpak-system"), "{text}");
    }
    for (name, objects) in of_release() {
        let text = Value::from(objects).to_string();
        assert!(!text.contains("rukpak-system"), "{name}: {text}");
    }
}

#[test]
fn common_objects_are_equal_for_all_targets() {
    for target in [Target::OpenShift, Target::Payload] {
        let objects = usual(target);
        for object in usual(Target::Kubernetes) {
            let kind = text(&object, "kind");
            let other = only(&objects, kind, name(&object));
            // These differ; other tests compare them.
            if !["Namespace", "Deployment"].contains(&kind) {
                assert_eq!(other, object, "{target:?}");
            }
        }
    }
}

#[test]
fn deployments_differ_only_in_cluster_requirements() {
    // The admission of pods on OpenShift rejects fixed users and groups.
    let mut expected = deployment(Target::Kubernetes);
    let template = &mut expected["spec"]["template"];
    template["metadata"]["annotations"] = json!({"openshift.io/required-scc": "restricted-v2"});
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        assert_rows!(template["spec"]["securityContext"].as_object_mut().unwrap().remove(field) => Some(65532.into()));
    }
    assert_eq!(deployment(Target::OpenShift), expected);

    let payload = deployment(Target::Payload);
    let template = &mut expected["spec"]["template"];
    let other = &payload["spec"]["template"];
    let management = "target.workload.openshift.io/management";
    template["metadata"]["annotations"][management] =
        other["metadata"]["annotations"][management].clone();
    for field in ["priorityClassName", "nodeSelector", "tolerations"] {
        assert!(!other["spec"][field].is_null(), "{field}");
        template["spec"][field] = other["spec"][field].clone();
    }
    let container = &mut template["spec"]["containers"][0];
    assert_rows!(container["resources"].as_object_mut().unwrap().remove("limits").is_some() => true);
    let mut push = |list: &str, item: Value| container[list].as_array_mut().unwrap().push(item);
    push("args", "--release-payload".into());
    // The Lease outlasts a rollout of the API server of a single-node cluster.
    push("args", "--lease-duration=137s".into());
    let version = json!({"name": "RELEASE_VERSION", "value": "0.0.1-snapshot"});
    push("env", version);
    assert_eq!(payload, expected);
}

#[test]
fn pods_run_on_linux_nodes() {
    let webhook = conversion(&Options::default());
    let mut webhook = yaml::documents(webhook.as_bytes()).map(Result::unwrap);
    let selector = |object: &Value| object["spec"]["template"]["spec"]["nodeSelector"].clone();
    let linux = json!({"kubernetes.io/os": "linux"});
    let mut control_plane = linux.clone();
    control_plane["node-role.kubernetes.io/control-plane"] = "".into();
    assert_rows! {
        selector(&webhook.find(|object| object["kind"] == "Deployment").unwrap()) => linux;
        selector(&deployment(Target::Kubernetes)) => linux;
        selector(&deployment(Target::OpenShift)) => linux;
        selector(&deployment(Target::Payload)) => control_plane;
    }
}

#[test]
fn pod_has_limits_of_memory_and_storage() {
    for target in [Target::Kubernetes, Target::OpenShift] {
        let pod = deployment(target)["spec"]["template"]["spec"].take();
        let resources = json!({"requests": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "1Gi"}, "limits": {
            "memory": "512Mi", "ephemeral-storage": "9Gi",
        }});
        assert_eq!(pod["containers"][0]["resources"], resources, "{target:?}");
        assert_rows!([0, 1].map(|at| &pod["volumes"][at]["emptyDir"]["sizeLimit"]) => ["6Gi", "2Gi"], "{target:?}");
    }
}

#[test]
fn pods_satisfy_the_restricted_profile() {
    for target in TARGETS {
        let pod = deployment(target)["spec"]["template"]["spec"].take();
        for (pointer, expected) in ::tests::rows![
            "/securityContext/runAsNonRoot" => json!(true);
            "/securityContext/seccompProfile/type" => json!("RuntimeDefault");
            "/hostNetwork" => json!(null);
            "/hostPID" => json!(null);
            "/hostIPC" => json!(null);
            "/containers/0/securityContext"
                => json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
        ] {
            assert_rows!(*pod.pointer(pointer).unwrap_or(&Value::Null) => expected, "{target:?} {pointer}");
        }
        let mut volumes = pod["volumes"].as_array().unwrap().iter();
        assert_rows!(volumes.find(|volume| !volume["emptyDir"].is_object()) => None, "{target:?}");
    }
}

#[test]
fn payload_has_its_clusters_and_order() {
    let files = of_release();
    let (references, files) = files.split_last().unwrap();
    assert_eq!(references.0, "image-references");
    let tag = &references.1[0]["spec"]["tags"][0];
    assert_eq!(tag["name"], "cluster-platform-operators-manager");
    let mut applied = BTreeMap::new();
    for (at, (name, objects)) in files.iter().enumerate() {
        let stem = name.strip_suffix(".yaml").unwrap();
        let parts = stem.split_once("_cluster-platform-operator-manager_");
        let (level, rest) = parts.unwrap();
        assert_rows!(["0000_50", "0000_90"].contains(&level) && rest.starts_with(char::is_numeric) => true, "{name}");
        for object in objects {
            let annotations = &object["metadata"]["annotations"];
            for (key, value) in ::tests::rows![
                "release.openshift.io/feature-set" => "TechPreviewNoUpgrade";
                "include.release.openshift.io/self-managed-high-availability" => "true";
                "include.release.openshift.io/single-node-developer" => "true";
                "exclude.release.openshift.io/internal-openshift-hosted" => "true";
            ] {
                assert_eq!(annotations[key], value, "{name}: {object}");
            }
            applied.entry(text(object, "kind").to_owned()).or_insert(at);
        }
    }
    // Every object follows its dependencies.
    let order = "Namespace CustomResourceDefinition ServiceAccount ClusterRoleBinding Deployment ClusterOperator ServiceMonitor";
    assert_rows!(order.split(' ').is_sorted_by(|one, two| applied[*one] < applied[*two]) => true, "{applied:?}");
    assert_rows!(applied["ValidatingAdmissionPolicy"] < applied["Deployment"] => true, "{applied:?}");
    // The builder of a payload finds every reference to the image.
    let objects = || files.iter().flat_map(|(_, objects)| objects);
    let image = tag["from"]["name"].as_str().unwrap();
    let count = |object: &Value| object.to_string().matches(image).count();
    // Image and --unpack-image.
    assert_eq!(objects().map(count).sum::<usize>(), 2);
    let mut deployments = objects().filter(|object| object["kind"] == "Deployment");
    assert!(count(deployments.next().unwrap()) > 0);
}

#[test]
fn payload_creates_foreign_crds_without_updates() {
    let objects = of_release().into_iter().flat_map(|(_, objects)| objects);
    let objects: Vec<Value> = objects.collect();
    let create_only = "release.openshift.io/create-only";
    assert_rows!(objects.iter().filter(|object| !object["metadata"]["annotations"][create_only].is_null()).count() => 1);
    let name = "platformoperators.platform.openshift.io";
    let annotations = &only(&objects, "CustomResourceDefinition", name)["metadata"]["annotations"];
    assert_eq!(annotations[create_only], "true");
    // The CRDs of other projects have this annotation, too.
    assert_rows!(annotations["api-approved.openshift.io"] => "https://github.com/openshift/api/pull/1234");
    assert_rows!(objects.iter().any(|object| object["spec"]["names"]["kind"] == "CatalogSource") => false);
}

#[test]
fn bindings_refer_to_existing_roles_and_accounts() {
    for target in TARGETS {
        let objects = usual(target);
        let has = |kind: &str, named: &Value| {
            let mut objects = objects.iter();
            objects.any(|object| object["kind"] == kind && object["metadata"]["name"] == *named)
        };
        // Bindings without a role are those of admission policies.
        for binding in objects.iter().filter(|object| !object["roleRef"].is_null()) {
            let role = &binding["roleRef"];
            assert!(has(text(role, "kind"), &role["name"]), "{binding}");
            for subject in binding["subjects"].as_array().unwrap() {
                let is_known = match text(subject, "namespace") {
                    "rukpak-system" => has("ServiceAccount", &subject["name"]),
                    namespace => namespace == "openshift-monitoring",
                };
                assert!(is_known, "{binding}");
            }
        }
    }
}

#[test]
fn write_roles_are_bound_only_by_admins() {
    for target in TARGETS {
        let objects = usual(target);
        for name in ["bundleinstances-admin", "platformoperators-admin"] {
            let role = only(&objects, "ClusterRole", name);
            // The role is not aggregated to default roles, and no binding refers to it.
            let labels = role["metadata"]["labels"].as_object().unwrap();
            assert!(labels.keys().all(|key| !key.contains("aggregate-to")));
            assert_rows!(objects.iter().all(|object| object["roleRef"]["name"] != name) => true);
            let mut rules = role["rules"].as_array().unwrap().iter();
            assert!(rules.any(|rule| {
                let verbs = rule["verbs"].as_array().unwrap();
                verbs.contains(&"create".into()) && verbs.contains(&"delete".into())
            }));
        }
    }
}

#[test]
fn oldest_kubernetes_serves_all_applied_apis() {
    // ValidatingAdmissionPolicies are the newest API.
    assert_eq!(OLDEST, crate::version::KubeVersion::new(1, 30));
    for object in TARGETS.into_iter().flat_map(usual) {
        let api = text(&object, "apiVersion");
        assert_rows!(api == "v1" || api.ends_with("/v1") => true, "{api} {}", object["kind"]);
    }
    // The pages that name the minimum version.
    let pages = "README.md docs/operations.md docs/openshift.md docs/platform-operators.md";
    for page in pages.split(' ') {
        let path = format!("{}/../{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        assert_rows!(text.contains("Kubernetes 1.30") && text.contains("OpenShift 4.17") => true, "{page}");
    }
}

#[test]
fn provisioner_reads_exactly_the_policies_of_its_file() {
    let names: BTreeSet<&str> = admission_policies().into_iter().collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for target in TARGETS {
        let objects = usual(target);
        for kind in "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding".split(' ') {
            let of_kind = objects.iter().filter(|object| object["kind"] == kind);
            assert_rows!(of_kind.map(name).collect::<BTreeSet<_>>() => names, "{target:?} {kind}");
        }
        let role = only(&objects, "ClusterRole", "provisioner");
        let rules = role["rules"].as_array().unwrap().iter();
        let of_group = rules.filter(|rule| rule["apiGroups"] == json!([admission::GROUP]));
        let expected = json!({
            "apiGroups": [admission::GROUP], "resourceNames": admission_policies(), "verbs": ["get"],
            "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        });
        assert_eq!(of_group.collect::<Vec<_>>(), [&expected]);
    }
}
