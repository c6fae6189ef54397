//! Manifests of the registry pod of a catalog and of the objects that belong to it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Pod, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
};
use kube::Resource;
use manifests::{
    api::{catalog_source::CatalogSource, labels},
    names,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Invalid, Options, Security, memory, spec_hash::hash};

/// Label with the name of the catalog. It is empty on an update pod.
pub(crate) const CATALOG: &str = "olm.catalogSource";
/// Label of an update pod with the name of its catalog.
pub(crate) const UPDATE: &str = "catalogsource.operators.coreos.com/update";
/// Label of all objects of a registry pod.
pub(crate) const MANAGED: &str = "olm.managed";
/// Label of the pod with the hash of its desired spec.
pub(crate) const POD_HASH: &str = "olm.pod-spec-hash";
/// Label of the Service with the hash of its desired spec.
pub(crate) const SERVICE_HASH: &str = "olm.service-spec-hash";
/// Annotation of a CatalogSource with the priority class of its pod. It takes precedence over the pod options.
pub(crate) const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
/// Annotation of the pod that lists the annotations copied from the catalog, separated by commas. All others are foreign.
pub(crate) const COPIED_ANNOTATIONS: &str = "core.rukpak.io/catalog-annotations";
/// Maximum size of that list in bytes. A longer list is omitted, because the size of annotations is limited.
const MAX_COPIED_ANNOTATIONS_SIZE: usize = 4096;
/// Label of OLM's unpack Jobs.
const UNPACK: &str = "operatorframework.io/bundle-unpack-ref";
/// Annotation that lets the cluster autoscaler evict a pod without a controller.
const EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// Name of the container that serves the catalog.
pub(crate) const CONTAINER: &str = "registry-server";
/// Port at which every catalog is served.
pub(crate) const PORT: u16 = 50051;
/// Directory of the provisioner's binary in the catalog's container.
const UTILITIES: &str = "/utilities";
/// User of restricted pods if the cluster does not choose one (OLM v0 parity).
const USER: u32 = 1001;

/// Desired registry pod of a catalog.
#[derive(Debug, Clone, Copy)]
pub struct RegistryPodSpec<'a> {
    /// CatalogSource that owns the objects.
    pub source: &'a CatalogSource,
    /// Image of the catalog.
    pub image: &'a str,
    /// Pod options of the CatalogSource.
    pub options: &'a Options,
    /// Program that serves the catalog.
    pub content: PodServer<'a>,
}

/// Program that serves a catalog from its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodServer<'a> {
    /// The provisioner's binary, from this directory or database. A directory in the pod options takes precedence.
    BuiltIn(&'a str),
    /// The image's own entrypoint.
    Entrypoint,
}

/// Cluster settings that affect the pod.
#[derive(Debug, Clone, Copy)]
pub struct PodEnvironment<'a> {
    /// Image of the provisioner.
    pub program: &'a str,
    /// True if the namespace enforces the Pod Security Standard `restricted`.
    pub is_restricted: bool,
    /// True if the cluster chooses the users of pods, as OpenShift does.
    pub chooses_users: bool,
}

/// Objects of a registry pod.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryPodObjects {
    /// ServiceAccount of the pod, with its pull secrets. It has no permissions.
    pub account: ServiceAccount,
    /// Service of the catalog: `<name>.<namespace>.svc:50051`.
    pub service: Service,
    /// Policies for ingress to the pod and for the egress of the pod and of unpack Jobs.
    pub policies: [NetworkPolicy; 2],
    /// Pod with `generateName`; the API server chooses its name.
    pub pod: Pod,
}

/// Returns the manifests of a catalog's registry pod. Equal hash labels mean equal desired specs.
///
/// # Errors
/// Returns an error if the catalog cannot have a registry pod.
pub fn objects(
    desired: &RegistryPodSpec<'_>,
    environment: &PodEnvironment<'_>,
) -> Result<RegistryPodObjects, Invalid> {
    let name = desired.source.metadata.name.as_deref().unwrap_or_default();
    let service = name.replace('.', "-");
    names::dns_1035_label(&service).map_err(|problem| Invalid::Name {
        name: name.to_owned(),
        service: service.clone(),
        problem,
    })?;
    let selector = json!({CATALOG: name, MANAGED: "true"});
    let make = ObjectBuilder { desired, name };
    let secrets: Vec<Value> = (desired.source.spec.secrets.iter())
        .filter(|secret| !secret.is_empty())
        .map(|secret| json!({"name": secret}))
        .collect();
    let ports = json!([{"name": "grpc", "port": PORT, "targetPort": PORT, "protocol": "TCP"}]);
    // A leftover pod of OLM lacks the last label.
    let service_selector = json!({CATALOG: name, MANAGED: "true", labels::CATALOG_POD: "true"});
    let spec = json!({"ports": ports, "selector": service_selector});
    let hashed = hash(&spec);
    let service_labels = json!({SERVICE_HASH: hashed});
    let serving = json!({
        "podSelector": {"matchLabels": selector},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
    });
    let unpacking = json!({
        "podSelector": {
            "matchLabels": {MANAGED: "true"},
            "matchExpressions": [{"key": UNPACK, "operator": "Exists"}],
        },
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{}],
    });
    let policy = |suffix: &str, spec: Value| {
        make.object(
            &format!("{name}-{suffix}"),
            false,
            &json!({}),
            json!({"spec": spec}),
        )
    };
    Ok(RegistryPodObjects {
        account: make.account(&secrets)?,
        service: make.object(&service, false, &service_labels, json!({"spec": spec}))?,
        policies: [
            policy("grpc-server", serving)?,
            policy("unpack-bundles", unpacking)?,
        ],
        pod: make.pod(&pod(desired, environment, &secrets))?,
    })
}

/// Builder of the objects of one catalog.
struct ObjectBuilder<'a> {
    desired: &'a RegistryPodSpec<'a>,
    name: &'a str,
}

// === impl ObjectBuilder ===

impl ObjectBuilder<'_> {
    fn object<K>(
        &self,
        name: &str,
        controls: bool,
        labels: &Value,
        rest: Value,
    ) -> Result<K, Invalid>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        let mut metadata = self.metadata(controls, labels);
        put(&mut metadata, "name", name);
        typed(metadata, rest)
    }

    fn account(&self, secrets: &[Value]) -> Result<ServiceAccount, Invalid> {
        let names: Vec<&str> = secrets
            .iter()
            .filter_map(|secret| secret.get("name")?.as_str())
            .collect();
        let mut metadata = self.metadata(true, &json!({}));
        put(&mut metadata, "name", self.name);
        put(
            &mut metadata,
            "annotations",
            json!({labels::PULL_SECRETS: names.join(",")}),
        );
        typed(metadata, json!({"imagePullSecrets": secrets}))
    }

    fn pod(&self, spec: &Value) -> Result<Pod, Invalid> {
        let labels = json!({CATALOG: self.name, POD_HASH: hash(spec)});
        let mut metadata = self.metadata(true, &labels);
        put(&mut metadata, "generateName", format!("{}-", self.name));
        let annotations = self.desired.source.metadata.annotations.clone();
        let mut annotations: BTreeMap<String, String> = annotations.unwrap_or_default();
        annotations.remove(COPIED_ANNOTATIONS);
        let names: Vec<&str> = annotations.keys().map(String::as_str).collect();
        let carried = Some(names.join(","))
            .filter(|names| !names.is_empty() && names.len() <= MAX_COPIED_ANNOTATIONS_SIZE);
        annotations.extend(carried.map(|names| (COPIED_ANNOTATIONS.to_owned(), names)));
        annotations.insert(EVICT.to_owned(), "true".to_owned());
        put(&mut metadata, "annotations", json!(annotations));
        typed(metadata, json!({"spec": spec}))
    }

    fn metadata(&self, controls: bool, more: &Value) -> Value {
        let source = self.desired.source;
        let mut labels = Map::from_iter([
            (MANAGED.to_owned(), json!("true")),
            (labels::CATALOG_POD.to_owned(), json!("true")),
        ]);
        labels.extend(
            more.as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        json!({
            "namespace": source.metadata.namespace,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": CatalogSource::api_version(&()),
                "kind": CatalogSource::kind(&()),
                "name": self.name,
                "uid": source.metadata.uid.as_deref().unwrap_or_default(),
                "controller": controls,
                "blockOwnerDeletion": false,
            }],
        })
    }
}

/// Builds a typed object. It fails only for invalid values from the CatalogSource.
fn typed<K: DeserializeOwned>(metadata: Value, mut rest: Value) -> Result<K, Invalid> {
    put(&mut rest, "metadata", metadata);
    serde_json::from_value(rest).map_err(|error| Invalid::Option {
        field: "the CatalogSource".to_owned(),
        problem: error.to_string(),
    })
}

/// Returns the pod spec.
fn pod(
    desired: &RegistryPodSpec<'_>,
    environment: &PodEnvironment<'_>,
    secrets: &[Value],
) -> Value {
    let RegistryPodSpec {
        source, options, ..
    } = desired;
    let annotation = source.metadata.annotations.as_ref();
    let annotation = annotation
        .and_then(|annotations| annotations.get(PRIORITY_CLASS))
        .filter(|class| !class.is_empty());
    let priority = annotation.or(options.priority_class_name.as_ref());
    let usual = BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())]);
    let restricted = match options.security_context_config {
        Some(security) => security == Security::Restricted,
        None => environment.is_restricted,
    };
    let served = ServerParts::new(desired, environment, restricted);
    let mut spec = json!({
        "serviceAccountName": source.metadata.name,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "nodeSelector": options.node_selector.as_ref().unwrap_or(&usual),
        "imagePullSecrets": secrets,
        "initContainers": served.before,
        "containers": [served.container],
        "volumes": served.volumes,
    });
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            put(&mut spec, key, value);
        }
    };
    set("tolerations", json!(options.tolerations));
    set("affinity", json!(options.affinity));
    set(
        "priorityClassName",
        json!(priority.filter(|class| !class.is_empty())),
    );
    if restricted {
        let mut security =
            json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true});
        if !environment.chooses_users {
            put(&mut security, "runAsUser", USER);
        }
        set("securityContext", security);
    }
    spec
}

/// Parts of the pod spec that depend on the program that serves.
struct ServerParts {
    before: Vec<Value>,
    container: Value,
    volumes: Vec<Value>,
}

// === impl ServerParts ===

impl ServerParts {
    fn new(
        desired: &RegistryPodSpec<'_>,
        environment: &PodEnvironment<'_>,
        restricted: bool,
    ) -> Self {
        let options = desired.options;
        let extract = options.extract_content.as_ref();
        let directory = match (extract, desired.content) {
            (Some(extract), _) => Some(extract.catalog_dir.as_str()),
            (None, PodServer::BuiltIn(directory)) => Some(directory),
            (None, PodServer::Entrypoint) => None,
        };
        let security = |read_only: bool| {
            let mut security = json!({"readOnlyRootFilesystem": read_only});
            if restricted {
                put(&mut security, "allowPrivilegeEscalation", false);
                put(&mut security, "capabilities", json!({"drop": ["ALL"]}));
            }
            security
        };
        let mut container = container(desired, options);
        let Some(directory) = directory else {
            put(&mut container, "securityContext", security(false));
            return Self {
                before: Vec::new(),
                container,
                volumes: Vec::new(),
            };
        };
        let mount = |read_only: bool| json!({"name": "utilities", "mountPath": UTILITIES, "readOnly": read_only});
        let mut args = vec![
            "serve".to_owned(),
            directory.to_owned(),
            format!("--port={PORT}"),
        ];
        args.extend(
            extract
                .and_then(|extract| extract.cache_dir.as_ref())
                .map(|directory| format!("--cache-from={directory}")),
        );
        put(
            &mut container,
            "command",
            json!([format!("{UTILITIES}/provisioner")]),
        );
        put(&mut container, "args", json!(args));
        put(&mut container, "securityContext", security(true));
        put(
            &mut container,
            "volumeMounts",
            json!([mount(true), {"name": "tmpdir", "mountPath": "/tmp"}]),
        );
        let before = json!({
            "name": "extract-utilities",
            "image": environment.program,
            "imagePullPolicy": pull_policy(environment.program, "IfNotPresent"),
            "command": ["/provisioner", "copy", UTILITIES],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
            "securityContext": security(true),
            "volumeMounts": [mount(false)],
        });
        Self {
            before: vec![before],
            container,
            volumes: vec![
                json!({"name": "utilities", "emptyDir": {}}),
                json!({"name": "tmpdir", "emptyDir": {}}),
            ],
        }
    }
}

fn container(desired: &RegistryPodSpec<'_>, options: &Options) -> Value {
    let probe = |more: Value| {
        let mut probe = json!({"grpc": {"port": PORT}, "timeoutSeconds": 5});
        for (key, value) in more.as_object().into_iter().flatten() {
            put(&mut probe, key, value.clone());
        }
        probe
    };
    let memory = options.memory_target.as_deref();
    // Only Go programs read this variable. The provisioner's binary keeps nothing but an index in memory.
    let limit = memory.and_then(memory::parse_bytes).map(memory::go_limit);
    let env: Vec<Value> = limit
        .map(|limit| json!({"name": "GOMEMLIMIT", "value": limit}))
        .into_iter()
        .collect();
    json!({
        "name": CONTAINER,
        "image": desired.image,
        "imagePullPolicy": pull_policy(desired.image, "Always"),
        "ports": [{"name": "grpc", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": probe(json!({"initialDelaySeconds": 5})),
        "livenessProbe": probe(json!({"initialDelaySeconds": 10})),
        "startupProbe": probe(json!({"periodSeconds": 10, "failureThreshold": 15})),
        "resources": {"requests": {"cpu": "10m", "memory": memory.unwrap_or("50Mi")}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": env,
    })
}

/// Sets a field of a JSON object.
fn put(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value.into());
    }
}

/// Returns `IfNotPresent` for a pinned image, because its content cannot change.
fn pull_policy(image: &str, otherwise: &'static str) -> &'static str {
    if image.contains('@') {
        "IfNotPresent"
    } else {
        otherwise
    }
}
