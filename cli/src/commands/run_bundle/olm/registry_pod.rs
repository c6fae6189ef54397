//! Registry pod of a catalog, and the ConfigMaps with its content.
//!
//! rukpak's server reads compressed parts, so that it needs no second container. Any other image gets the arguments of
//! `opm`, `serve DIRECTORY -p 50051`, and its parts are unpacked by another container. `opm` creates its cache in the
//! directory for temporary files, which is a separate volume. It also supports the readiness probe.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use manifests::names;
use serde_json::{Value, json};

use super::config_map_parts::Parts;
use crate::args::SecurityContext;

/// gRPC port of the registry pod.
pub(super) const PORT: u16 = 50051;
/// Label of all objects of a CatalogSource; its value is the UID of the CatalogSource.
pub(super) const OWNER: &str = "core.rukpak.io/catalog-source";
/// Only key of each ConfigMap, as in operator-sdk.
const KEY: &str = "extraFBC";
/// Maximum length of a pod name that is also its host name.
const MAX_NAME_LEN: usize = 63;
const PARTS: &str = "parts";
const UNPACKED: &str = "catalog";
const TMP: &str = "tmp";

/// Parameters of the registry pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodRequest<'a> {
    pub(super) namespace: &'a str,
    /// Name of the CatalogSource.
    pub(super) source: &'a str,
    pub(super) owner: &'a OwnerReference,
    /// Bundle image, from which the name of the pod is derived.
    pub(super) bundle: &'a str,
    /// Image of the server.
    pub(super) image: &'a str,
    /// Image that unpacks the parts; `None` if the server unpacks them.
    pub(super) unpacks: Option<&'a str>,
    /// User ID of all containers; `None` leaves it to the images or to the cluster.
    pub(super) user: Option<i64>,
    pub(super) pull_policy: &'a str,
    pub(super) pull_secret: Option<&'a str>,
    pub(super) service_account: Option<&'a str>,
    pub(super) security: SecurityContext,
}

impl PodRequest<'_> {
    /// Returns the name of the pod: the last letters of the bundle reference, as in operator-sdk, and a hash of the pod
    /// spec, which contains the names of the parts. A changed catalog or setting thus gets a new pod, and an unchanged one
    /// reuses the existing pod.
    fn name(&self, spec: &Value) -> String {
        let hash = names::hash(&[&spec.to_string()]);
        let mut name = String::new();
        for letter in self.bundle.chars() {
            match letter.to_ascii_lowercase() {
                letter if letter.is_ascii_alphanumeric() => name.push(letter),
                _ if name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }
        let max_len = MAX_NAME_LEN - hash.len() - 1;
        let cut = name.len().saturating_sub(max_len);
        let name = name.get(cut..).unwrap_or_default().trim_matches('-');
        format!("{name}-{hash}")
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        let labels = BTreeMap::from([(OWNER.to_owned(), self.owner.uid.clone())]);
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels),
            owner_references: Some(vec![self.owner.clone()]),
            ..ObjectMeta::default()
        }
    }

    /// Returns the ConfigMaps with the parts of the catalog.
    pub(super) fn config_maps(&self, parts: &Parts) -> Vec<ConfigMap> {
        let names = parts.names(self.source).into_iter();
        let maps = names.zip(&parts.data).map(|(name, data)| ConfigMap {
            binary_data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(data.clone()))])),
            immutable: Some(true),
            metadata: self.metadata(name),
            ..ConfigMap::default()
        });
        maps.collect()
    }

    /// Returns the pod.
    ///
    /// # Errors
    /// Returns an error only if the manifest below is not a valid pod.
    pub(super) fn pod(&self, parts: &Parts) -> serde_json::Result<Pod> {
        let directory = format!("/{}-configs", self.source);
        let parts = parts.names(self.source);
        let sources: Vec<Value> = parts
            .iter()
            .map(|name| {
                let path = format!("{name}.yaml.gz");
                json!({"configMap": {"name": name, "items": [{"key": KEY, "path": path}]}})
            })
            .collect();
        let is_hardened = self.security == SecurityContext::Restricted;
        let container = if is_hardened {
            json!({
                "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            })
        } else {
            json!({})
        };
        let (served, mut volumes) = if self.unpacks.is_some() {
            (UNPACKED, vec![json!({"name": UNPACKED, "emptyDir": {}})])
        } else {
            (PARTS, Vec::new())
        };
        volumes.push(json!({"name": PARTS, "projected": {"sources": sources}}));
        volumes.push(json!({"name": TMP, "emptyDir": {}}));
        let unpacking = self.unpacks.map(|image| {
            let script = format!("for part in /compressed/*.gz; do name=${{part##*/}}; gzip -d -c <\"$part\" >\"{directory}/${{name%.gz}}\" || exit 1; done");
            json!({
                "name": "registry-grpc-init", "image": image, "command": ["sh", "-c", script],
                "securityContext": container,
                "volumeMounts": [
                    {"name": PARTS, "mountPath": "/compressed", "readOnly": true},
                    {"name": UNPACKED, "mountPath": directory},
                ],
            })
        });
        let server = json!({
            "name": "registry-grpc", "image": self.image, "imagePullPolicy": self.pull_policy,
            "args": ["serve", directory, "-p", PORT.to_string()],
            "ports": [{"name": "grpc", "containerPort": PORT}],
            "readinessProbe": {"grpc": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 3},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": container,
            "volumeMounts": [
                {"name": served, "mountPath": directory, "readOnly": true},
                {"name": TMP, "mountPath": "/tmp"},
            ],
        });
        let mut spec = json!({
            "initContainers": unpacking.into_iter().collect::<Vec<Value>>(),
            "containers": [server],
            "volumes": volumes,
            "automountServiceAccountToken": false,
        });
        if let Some(spec) = spec.as_object_mut() {
            if let Some(name) = self.service_account {
                spec.insert("serviceAccountName".to_owned(), name.into());
            }
            if let Some(name) = self.pull_secret {
                spec.insert("imagePullSecrets".to_owned(), json!([{"name": name}]));
            }
            if is_hardened {
                let mut pod =
                    json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
                if let (Some(user), Some(pod)) = (self.user, pod.as_object_mut()) {
                    pod.insert("runAsUser".to_owned(), user.into());
                }
                spec.insert("securityContext".to_owned(), pod);
            }
        }
        Ok(Pod {
            metadata: self.metadata(self.name(&spec)),
            spec: Some(serde_json::from_value(spec)?),
            status: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static CATALOG: LazyLock<OwnerReference> = LazyLock::new(|| {
        object!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "tide-catalog", "uid": "1-2-3",
        })
    });

    fn parts() -> Parts {
        Parts {
            data: vec![b"one".to_vec(), b"two".to_vec()],
            hash: "0123456789abc".to_owned(),
        }
    }

    fn request() -> PodRequest<'static> {
        PodRequest {
            namespace: "tides",
            source: "tide-catalog",
            owner: &CATALOG,
            bundle: "quay.io/example/tide:v1",
            image: "quay.io/rukpak/provisioner:v1",
            unpacks: None,
            user: None,
            pull_policy: "Always",
            pull_secret: None,
            service_account: None,
            security: SecurityContext::Legacy,
        }
    }

    /// Uses an image that does not read compressed parts.
    fn by_opm() -> PodRequest<'static> {
        ::tests::with!(request() => image: "quay.io/example/opm", unpacks: Some("registry.example.com/ubi"))
    }

    fn rendered(request: PodRequest<'_>) -> Value {
        serde_json::to_value(request.pod(&parts()).unwrap()).unwrap()
    }

    // parity: sdk-16
    #[test]
    fn pod_names_contain_the_bundle_and_a_hash() {
        for (bundle, expected) in ::tests::rows![
            "tide" => "tide";
            "quay.io/Example/tide:v1.0" => "quay-io-example-tide-v1-0";
            "--x__y--" => "x-y";
            "registry.example.com:5000/some/very/long/path/to/a/bundle@sha256:abcdef"
                => "om-5000-some-very-long-path-to-a-bundle-sha256-abcdef";
        ] {
            let name = ::tests::with!(request() => bundle: bundle).name(&json!({}));
            assert!(name.len() <= MAX_NAME_LEN, "{name}");
            assert!(names::dns_label(&name).is_ok(), "{name}");
            let (bundle, hash) = name.rsplit_once('-').unwrap();
            assert_eq!(hash.len(), 13, "{name}");
            assert!(expected.ends_with(bundle), "{name}, not {expected}");
        }
    }

    #[test]
    fn every_difference_changes_the_pod_name() {
        let other = ::tests::with!(parts() => hash: "another".to_owned());
        let name = |request: PodRequest<'_>, parts: &Parts| {
            request.pod(parts).unwrap().metadata.name.unwrap()
        };
        let own = name(request(), &parts());
        assert_eq!(name(request(), &parts()), own);
        assert_ne!(name(request(), &other), own);
        for changed in [
            ::tests::with!(request() => image: "quay.io/example/opm"),
            ::tests::with!(request() => unpacks: Some("registry.example.com/ubi")),
            ::tests::with!(request() => pull_policy: "Never"),
            ::tests::with!(request() => pull_secret: Some("pull")),
            ::tests::with!(request() => service_account: Some("runner")),
            ::tests::with!(request() => security: SecurityContext::Restricted),
        ] {
            assert_ne!(name(changed, &parts()), own, "{changed:?}");
        }
    }

    // parity: run-15
    #[test]
    fn our_server_reads_the_parts_itself() {
        let pod = rendered(request());
        let part = |number| {
            let name = format!("tide-catalog-configmap-partition-0123456789abc-{number}");
            json!({"configMap": {"name": name, "items": [{"key": "extraFBC", "path": format!("{name}.yaml.gz")}]}})
        };
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("quay-io-example-tide-v1-"), "{name}");
        let metadata = json!({
            "name": name, "namespace": "tides", "labels": {"core.rukpak.io/catalog-source": "1-2-3"},
            "ownerReferences": [{
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "tide-catalog", "uid": "1-2-3",
            }],
        });
        let spec = json!({
            "automountServiceAccountToken": false,
            "initContainers": [],
            "containers": [{
                "name": "registry-grpc", "image": "quay.io/rukpak/provisioner:v1", "imagePullPolicy": "Always",
                "args": ["serve", "/tide-catalog-configs", "-p", "50051"],
                "ports": [{"name": "grpc", "containerPort": 50051}],
                "readinessProbe": {"grpc": {"port": 50051}, "periodSeconds": 1, "failureThreshold": 3},
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {},
                "volumeMounts": [
                    {"name": "parts", "mountPath": "/tide-catalog-configs", "readOnly": true},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            }],
            "volumes": [
                {"name": "parts", "projected": {"sources": [part(1), part(2)]}},
                {"name": "tmp", "emptyDir": {}},
            ],
        });
        assert_eq!((&pod["metadata"], &pod["spec"]), (&metadata, &spec));
    }

    // parity: sdk-21
    #[test]
    fn opm_serves_parts_unpacked_by_an_init_container() {
        let spec = &rendered(by_opm())["spec"];
        let (unpacks, serves) = (&spec["initContainers"][0], &spec["containers"][0]);
        let dir = "/tide-catalog-configs";
        let script = "for part in /compressed/*.gz; do name=${part##*/}; \
                      gzip -d -c <\"$part\" >\"/tide-catalog-configs/${name%.gz}\" || exit 1; done";
        let volumes = spec["volumes"].as_array().unwrap();
        let names: Vec<&Value> = volumes.iter().map(|volume| &volume["name"]).collect();
        ::tests::assert_rows! {
            unpacks["command"] => json!(["sh", "-c", script]);
            unpacks["volumeMounts"] => json!([
                {"name": "parts", "mountPath": "/compressed", "readOnly": true}, {"name": "catalog", "mountPath": dir},
            ]);
            // The entrypoint of the image is used because opm's image has no shell.
            serves["command"] => json!(null);
            serves["args"] => json!(["serve", dir, "-p", "50051"]);
            // The cache is in the temporary directory, and the compressed parts are not in the served directory.
            serves["volumeMounts"] => json!([
                {"name": "catalog", "mountPath": dir, "readOnly": true}, {"name": "tmp", "mountPath": "/tmp"},
            ]);
            [&spec["initContainers"][1], &spec["containers"][1], &spec["securityContext"]] => [&Value::Null; 3];
            names => ["catalog", "parts", "tmp"];
        }
    }

    // parity: sdk-19
    #[test]
    fn restricted_pods_are_hardened_in_every_container() {
        let request = ::tests::with!(by_opm() => user: Some(1001), pull_policy: "IfNotPresent",
            pull_secret: Some("pull"), service_account: Some("runner"), security: SecurityContext::Restricted);
        let spec = &rendered(request)["spec"];
        let hardened = json!({
            "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        });
        let profile = json!({"type": "RuntimeDefault"});
        ::tests::assert_each!(|place, expected| spec.pointer(place) => Some(&expected);
            "/securityContext" => json!({"runAsNonRoot": true, "runAsUser": 1001, "seccompProfile": profile});
            "/initContainers/0/securityContext" => hardened.clone();
            "/containers/0/securityContext" => hardened;
            "/initContainers/0/image" => json!("registry.example.com/ubi");
            "/containers/0/volumeMounts/0/name" => json!("catalog");
            "/containers/0/imagePullPolicy" => json!("IfNotPresent");
            "/serviceAccountName" => json!("runner");
            "/imagePullSecrets" => json!([{"name": "pull"}]);
        );
    }

    // parity: sdk-17
    #[test]
    fn parts_are_immutable_and_owned_by_the_catalog() {
        let maps = request().config_maps(&parts());
        let data: Vec<Value> = maps.iter().map(|map| json!(map.binary_data)).collect();
        assert_eq!(data, ["b25l", "dHdv"].map(|data| json!({"extraFBC": data})));
        for map in maps {
            assert_eq!(map.immutable, Some(true));
            assert_eq!(map.metadata.owner_references, Some(vec![CATALOG.clone()]));
        }
    }
}
