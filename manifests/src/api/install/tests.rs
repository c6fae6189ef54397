use std::collections::{BTreeMap, BTreeSet};

use super::*;

const TARGETS: [Target; 3] = [Target::Kubernetes, Target::OpenShift, Target::Payload];

fn kinds(options: &Options) -> Vec<String> {
    let kind = |object: &Value| object["kind"].as_str().unwrap().to_owned();
    objects(options).iter().map(kind).collect()
}

fn all(options: &Options, target: Target) -> Vec<Value> {
    documents(options, target)
        .into_iter()
        .map(|document| document.object)
        .collect()
}

fn only(objects: &[Value], kind: &str, name: &str) -> Value {
    let mut found = objects
        .iter()
        .filter(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    first.clone()
}

fn of_release() -> Vec<(String, Vec<Value>)> {
    let options = release::options("quay.io/rukpak/provisioner:v0.1.0".to_owned());
    release::files(&options)
        .into_iter()
        .map(|file| {
            let objects = yaml::documents(file.text.as_bytes());
            (file.name, objects.map(|it| it.unwrap()).collect())
        })
        .collect()
}

#[test]
fn a_disruption_budget_needs_something_to_keep() {
    let budget = "PodDisruptionBudget".to_owned();
    assert!(!kinds(&Options::default()).contains(&budget));
    let several = Options {
        replicas: 2,
        ..Options::default()
    };
    assert!(kinds(&several).contains(&budget));
    assert_eq!(kinds(&several).len(), kinds(&Options::default()).len() + 1);
}

#[test]
fn another_namespace_leaves_nothing_of_the_usual_one() {
    let options = Options {
        namespace: "elsewhere".to_owned(),
        ..Options::default()
    };
    let text =
        file(&options) + &openshift(&options) + &monitoring(&options) + &conversion(&options);
    assert!(!text.contains("rukpak-system"), "{text}");
    for (name, objects) in of_release() {
        let text = Value::from(objects).to_string();
        assert!(!text.contains("rukpak-system"), "{name}: {text}");
    }
}

#[test]
fn what_is_for_every_cluster_is_the_same_everywhere() {
    let options = Options::default();
    let plain = all(&options, Target::Kubernetes);
    for target in [Target::OpenShift, Target::Payload] {
        let objects = all(&options, target);
        for object in &plain {
            let (kind, name) = (
                &object["kind"],
                object["metadata"]["name"].as_str().unwrap(),
            );
            let other = only(&objects, kind.as_str().unwrap(), name);
            match kind.as_str().unwrap() {
                // These differ, and other tests say in what.
                "Namespace" | "Deployment" => {}
                _ => assert_eq!(other, *object, "{target:?}"),
            }
        }
    }
}

#[test]
fn deployments_differ_in_nothing_but_what_their_cluster_asks_for() {
    let options = Options::default();
    let deployment = |target| only(&all(&options, target), "Deployment", "core");
    let plain = deployment(Target::Kubernetes);
    // Fixed users and groups are refused by what admits pods on OpenShift.
    let mut expected = plain.clone();
    let template = &mut expected["spec"]["template"];
    template["metadata"]["annotations"] = json!({"openshift.io/required-scc": "restricted-v2"});
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let security = template["spec"]["securityContext"].as_object_mut().unwrap();
        assert_eq!(security.remove(field), Some(65532.into()));
    }
    assert_eq!(deployment(Target::OpenShift), expected);

    let payload = deployment(Target::Payload);
    let template = &mut expected["spec"]["template"];
    template["metadata"]["annotations"]["target.workload.openshift.io/management"] =
        payload["spec"]["template"]["metadata"]["annotations"]["target.workload.openshift.io/management"].clone();
    let pod = &payload["spec"]["template"]["spec"];
    for field in ["priorityClassName", "nodeSelector", "tolerations"] {
        assert!(!pod[field].is_null(), "{field}");
        template["spec"][field] = pod[field].clone();
    }
    let container = &mut template["spec"]["containers"][0];
    let resources = container["resources"].as_object_mut().unwrap();
    assert!(resources.remove("limits").is_some());
    container["args"]
        .as_array_mut()
        .unwrap()
        .push("--release-payload".into());
    let env = container["env"].as_array_mut().unwrap();
    env.push(json!({"name": "RELEASE_VERSION", "value": "0.0.1-snapshot"}));
    assert_eq!(payload, expected);
}

#[test]
fn the_pod_has_limits_of_memory_and_storage() {
    for target in [Target::Kubernetes, Target::OpenShift] {
        let deployment = only(&all(&Options::default(), target), "Deployment", "core");
        let pod = &deployment["spec"]["template"]["spec"];
        let resources = json!({
            "requests": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "1Gi"},
            "limits": {"memory": "512Mi", "ephemeral-storage": "9Gi"},
        });
        assert_eq!(pod["containers"][0]["resources"], resources, "{target:?}");
        let sizes: Vec<&Value> = (0..2)
            .map(|at| &pod["volumes"][at]["emptyDir"]["sizeLimit"])
            .collect();
        assert_eq!(sizes, ["6Gi", "2Gi"], "{target:?}");
    }
}

#[test]
fn pods_ask_for_no_more_than_is_given_to_everybody() {
    for target in TARGETS {
        let deployment = only(&all(&Options::default(), target), "Deployment", "core");
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{target:?}");
        let profile = &pod["securityContext"]["seccompProfile"]["type"];
        assert_eq!(profile, "RuntimeDefault", "{target:?}");
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod[field].is_null(), "{target:?} {field}");
        }
        let container = &pod["containers"][0]["securityContext"];
        let expected = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        });
        assert_eq!(*container, expected, "{target:?}");
        for volume in pod["volumes"].as_array().unwrap() {
            assert!(volume["emptyDir"].is_object(), "{target:?} {volume}");
        }
    }
}

#[test]
fn a_payload_is_for_the_clusters_that_it_says_and_comes_in_order() {
    let files = of_release();
    let (references, files) = files.split_last().unwrap();
    assert_eq!(references.0, "image-references");
    let tag = &references.1[0]["spec"]["tags"][0];
    assert_eq!(tag["name"], "cluster-platform-operators-manager");
    let mut applied = BTreeMap::new();
    for (at, (name, objects)) in files.iter().enumerate() {
        let stem = name.strip_suffix(".yaml").unwrap();
        let (level, rest) = stem
            .split_once("_cluster-platform-operator-manager_")
            .unwrap();
        assert!(["0000_50", "0000_90"].contains(&level), "{name}");
        assert!(
            rest.starts_with(|first: char| first.is_ascii_digit()),
            "{name}"
        );
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
            applied
                .entry(object["kind"].as_str().unwrap().to_owned())
                .or_insert(at);
        }
    }
    // Whatever needs another comes after it.
    for (before, after) in [
        ("Namespace", "CustomResourceDefinition"),
        ("CustomResourceDefinition", "ServiceAccount"),
        ("ServiceAccount", "ClusterRoleBinding"),
        ("ClusterRoleBinding", "Deployment"),
        ("ValidatingAdmissionPolicy", "Deployment"),
        ("Deployment", "ClusterOperator"),
        ("ClusterOperator", "ServiceMonitor"),
    ] {
        assert!(
            applied[before] < applied[after],
            "{before} {after}: {applied:?}"
        );
    }
    // Every place of the image is one that a payload's builder finds.
    let text = Value::from(
        files
            .iter()
            .flat_map(|(_, it)| it.clone())
            .collect::<Vec<_>>(),
    );
    let image = tag["from"]["name"].as_str().unwrap();
    let deployment = files
        .iter()
        .flat_map(|(_, it)| it)
        .find(|it| it["kind"] == "Deployment");
    assert_eq!(
        text.to_string().matches(image).count(),
        2,
        "image and --unpack-image"
    );
    assert!(deployment.unwrap().to_string().contains(image));
}

#[test]
fn definitions_of_others_are_made_but_not_replaced_by_a_payload() {
    let objects: Vec<Value> = of_release().into_iter().flat_map(|(_, it)| it).collect();
    let name = "platformoperators.platform.openshift.io";
    let definition = only(&objects, "CustomResourceDefinition", name);
    let annotations = &definition["metadata"]["annotations"];
    assert_eq!(annotations["release.openshift.io/create-only"], "true");
    // Theirs has this one, too.
    let approved = "https://github.com/openshift/api/pull/1234";
    assert_eq!(annotations["api-approved.openshift.io"], approved);
    let created_only = |it: &&Value| {
        let annotations = &it["metadata"]["annotations"];
        !annotations["release.openshift.io/create-only"].is_null()
    };
    assert_eq!(objects.iter().filter(created_only).count(), 1);
    assert!(
        !objects
            .iter()
            .any(|it| it["spec"]["names"]["kind"] == "CatalogSource")
    );
}

#[test]
fn every_binding_is_of_a_role_and_an_account_that_are_there() {
    for target in TARGETS {
        let objects = all(&Options::default(), target);
        let named = |kind: &str| -> BTreeSet<String> {
            let of_kind = objects.iter().filter(|it| it["kind"] == kind);
            of_kind
                .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let accounts = named("ServiceAccount");
        for binding in objects
            .iter()
            .filter(|it| it["kind"].as_str().unwrap().ends_with("Binding"))
        {
            let role = &binding["roleRef"];
            if role.is_null() {
                continue; // of a policy
            }
            let roles = named(role["kind"].as_str().unwrap());
            assert!(roles.contains(role["name"].as_str().unwrap()), "{binding}");
            for subject in binding["subjects"].as_array().unwrap() {
                let is_ours = subject["namespace"] == "rukpak-system"
                    && accounts.contains(subject["name"].as_str().unwrap());
                let is_prometheus = subject["namespace"] == "openshift-monitoring";
                assert!(is_ours || is_prometheus, "{binding}");
            }
        }
    }
}

#[test]
fn whoever_may_write_platform_operators_is_said_by_an_admin() {
    for target in TARGETS {
        let objects = all(&Options::default(), target);
        for name in ["bundleinstances-admin", "platformoperators-admin"] {
            let role = only(&objects, "ClusterRole", name);
            // In no role that a cluster has anyway, and bound to nobody.
            let labels = role["metadata"]["labels"].as_object().unwrap();
            assert!(labels.keys().all(|key| !key.contains("aggregate-to")));
            assert!(objects.iter().all(|it| it["roleRef"]["name"] != name));
            let rules = role["rules"].as_array().unwrap();
            assert!(rules.iter().any(|it| {
                let verbs = it["verbs"].as_array().unwrap();
                verbs.contains(&"create".into()) && verbs.contains(&"delete".into())
            }));
        }
    }
}

#[test]
fn the_oldest_kubernetes_serves_everything_that_is_applied() {
    // ValidatingAdmissionPolicies are what came last.
    let policies = crate::version::KubeVersion::new(1, 30);
    assert_eq!(OLDEST, policies);
    for target in TARGETS {
        for object in all(&Options::default(), target) {
            let api = object["apiVersion"].as_str().unwrap();
            let stable = api == "v1" || api.ends_with("/v1");
            assert!(stable, "{api} {}", object["kind"]);
        }
    }
    // The pages that say from where on.
    for page in [
        "README.md",
        "docs/operations.md",
        "docs/openshift.md",
        "docs/platform-operators.md",
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(page);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("Kubernetes 1.30"), "{page}");
        assert!(text.contains("OpenShift 4.17"), "{page}");
    }
}

#[test]
fn the_provisioner_reads_exactly_the_policies_of_its_file() {
    let names: BTreeSet<&str> = admission_policies().into_iter().collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for target in TARGETS {
        let objects = all(&Options::default(), target);
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ] {
            let of_kind = objects.iter().filter(|object| object["kind"] == kind);
            let found = of_kind.map(|object| object["metadata"]["name"].as_str().unwrap());
            assert_eq!(found.collect::<BTreeSet<_>>(), names, "{target:?} {kind}");
        }
        let role = only(&objects, "ClusterRole", "provisioner");
        let rules = role["rules"].as_array().unwrap().iter();
        let of_group = |rule: &&Value| rule["apiGroups"] == json!([admission::GROUP]);
        let expected = json!({
            "apiGroups": [admission::GROUP],
            "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            "resourceNames": admission_policies(),
            "verbs": ["get"],
        });
        assert_eq!(rules.filter(of_group).collect::<Vec<_>>(), [&expected]);
    }
}
