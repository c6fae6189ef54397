//! The objects of a catalog with a pod of its own.

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

use super::{Invalid, Options, Security, hash::hash, quantity};

/// On the objects of a catalog: its name. On an update pod it is empty.
pub(crate) const CATALOG: &str = "olm.catalogSource";
/// On an update pod: the name of its catalog.
pub(crate) const UPDATE: &str = "catalogsource.operators.coreos.com/update";
/// On all of them.
pub(crate) const MANAGED: &str = "olm.managed";
/// On the pod: the hash of what was declared.
pub(crate) const POD_HASH: &str = "olm.pod-spec-hash";
/// On the Service: the same.
pub(crate) const SERVICE_HASH: &str = "olm.service-spec-hash";
/// On a CatalogSource: the priority class of its pod. It counts before what the options say.
pub(crate) const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
/// On the pod: which of its annotations are the catalog's, separated by commas. All others are somebody else's.
pub(crate) const CARRIED: &str = "core.rukpak.io/catalog-annotations";
/// Where it says so of more bytes, it does not: annotations have their limit.
const MOST_CARRIED: usize = 4096;
/// Of OLM's unpack Jobs.
const UNPACK: &str = "operatorframework.io/bundle-unpack-ref";
/// Lets the autoscaler take a node away although pods without a controller are on it.
const EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The container that serves.
pub(crate) const CONTAINER: &str = "registry-server";
/// Where every catalog is served.
pub(crate) const PORT: u16 = 50051;
/// Where our program is, in images that are not ours.
const UTILITIES: &str = "/utilities";
/// The user of restricted pods, where the cluster does not choose one: OLM's.
const USER: u32 = 1001;

/// A catalog that is to have a pod.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Its CatalogSource.
    pub source: &'a CatalogSource,
    /// Its image.
    pub image: &'a str,
    /// What it says about the pod.
    pub options: &'a Options,
    /// What serves it.
    pub content: Content<'a>,
}

/// What serves a catalog in its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// Our program, from this folder or database. What the options say of the folder counts before it.
    Ours(&'a str),
    /// The image's own program, whatever it serves.
    Entrypoint,
}

/// What matters of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Our image.
    pub program: &'a str,
    /// Whether the namespace takes restricted pods only.
    pub is_restricted: bool,
    /// Whether the cluster itself chooses users for pods, as OpenShift does.
    pub chooses_users: bool,
}

/// The objects of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// With which the pod pulls; it has no rights.
    pub account: ServiceAccount,
    /// `<name>.<namespace>.svc:50051`.
    pub service: Service,
    /// Who may reach the pod, and what it may reach.
    pub policies: [NetworkPolicy; 2],
    /// The pod, which gets its name from the API server.
    pub pod: Pod,
}

/// The objects of a catalog. The same is wanted as long as their hashes are the same.
///
/// # Errors
/// When the catalog cannot have such.
pub fn objects(wanted: &Wanted<'_>, around: &Around<'_>) -> Result<Objects, Invalid> {
    let name = wanted.source.metadata.name.as_deref().unwrap_or_default();
    let service = name.replace('.', "-");
    names::dns_1035_label(&service).map_err(|problem| Invalid::Name {
        name: name.to_owned(),
        service: service.clone(),
        problem,
    })?;
    let selector = json!({CATALOG: name, MANAGED: "true"});
    let make = Make { wanted, name };
    let secrets: Vec<Value> = (wanted.source.spec.secrets.iter())
        .filter(|it| !it.is_empty())
        .map(|it| json!({"name": it}))
        .collect();
    let ports = json!([{"name": "grpc", "port": PORT, "targetPort": PORT, "protocol": "TCP"}]);
    let spec = json!({"ports": ports, "selector": selector});
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
    Ok(Objects {
        account: make.account(&secrets)?,
        service: make.object(&service, false, &service_labels, json!({"spec": spec}))?,
        policies: [
            policy("grpc-server", serving)?,
            policy("unpack-bundles", unpacking)?,
        ],
        pod: make.pod(&pod(wanted, around, &secrets))?,
    })
}

/// Makes objects of one catalog.
struct Make<'a> {
    wanted: &'a Wanted<'a>,
    name: &'a str,
}

// === impl Make ===

impl Make<'_> {
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
            .filter_map(|it| it.get("name")?.as_str())
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
        let annotations = self.wanted.source.metadata.annotations.clone();
        let mut annotations: BTreeMap<String, String> = annotations.unwrap_or_default();
        annotations.remove(CARRIED);
        let names: Vec<&str> = annotations.keys().map(String::as_str).collect();
        let carried = Some(names.join(",")).filter(|it| !it.is_empty() && it.len() <= MOST_CARRIED);
        annotations.extend(carried.map(|it| (CARRIED.to_owned(), it)));
        annotations.insert(EVICT.to_owned(), "true".to_owned());
        put(&mut metadata, "annotations", json!(annotations));
        typed(metadata, json!({"spec": spec}))
    }

    fn metadata(&self, controls: bool, more: &Value) -> Value {
        let source = self.wanted.source;
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

/// An object of these parts. Only what the CatalogSource itself brings can be wrong with it.
fn typed<K: DeserializeOwned>(metadata: Value, mut rest: Value) -> Result<K, Invalid> {
    put(&mut rest, "metadata", metadata);
    serde_json::from_value(rest).map_err(|error| Invalid::Option {
        field: "the CatalogSource".to_owned(),
        problem: error.to_string(),
    })
}

/// The spec of the pod.
fn pod(wanted: &Wanted<'_>, around: &Around<'_>, secrets: &[Value]) -> Value {
    let Wanted {
        source, options, ..
    } = wanted;
    let annotation = source.metadata.annotations.as_ref();
    let annotation = annotation
        .and_then(|it| it.get(PRIORITY_CLASS))
        .filter(|it| !it.is_empty());
    let priority = annotation.or(options.priority_class_name.as_ref());
    let usual = BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())]);
    let restricted = match options.security_context_config {
        Some(security) => security == Security::Restricted,
        None => around.is_restricted,
    };
    let served = Served::new(wanted, around, restricted);
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
        json!(priority.filter(|it| !it.is_empty())),
    );
    if restricted {
        let mut security =
            json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true});
        if !around.chooses_users {
            put(&mut security, "runAsUser", USER);
        }
        set("securityContext", security);
    }
    spec
}

/// What of the pod depends on who serves.
struct Served {
    before: Vec<Value>,
    container: Value,
    volumes: Vec<Value>,
}

// === impl Served ===

impl Served {
    fn new(wanted: &Wanted<'_>, around: &Around<'_>, restricted: bool) -> Self {
        let options = wanted.options;
        let extract = options.extract_content.as_ref();
        let folder = match (extract, wanted.content) {
            (Some(extract), _) => Some(extract.catalog_dir.as_str()),
            (None, Content::Ours(folder)) => Some(folder),
            (None, Content::Entrypoint) => None,
        };
        let security = |read_only: bool| {
            let mut security = json!({"readOnlyRootFilesystem": read_only});
            if restricted {
                put(&mut security, "allowPrivilegeEscalation", false);
                put(&mut security, "capabilities", json!({"drop": ["ALL"]}));
            }
            security
        };
        let mut container = container(wanted, options);
        let Some(folder) = folder else {
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
            folder.to_owned(),
            format!("--port={PORT}"),
        ];
        args.extend(
            extract
                .and_then(|it| it.cache_dir.as_ref())
                .map(|it| format!("--cache-from={it}")),
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
            "image": around.program,
            "imagePullPolicy": pull_policy(around.program, "IfNotPresent"),
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

fn container(wanted: &Wanted<'_>, options: &Options) -> Value {
    let probe = |more: Value| {
        let mut probe = json!({"grpc": {"port": PORT}, "timeoutSeconds": 5});
        for (key, value) in more.as_object().into_iter().flatten() {
            put(&mut probe, key, value.clone());
        }
        probe
    };
    let memory = options.memory_target.as_deref();
    // Only programs in Go know it: ours keeps an index in memory, and nothing that could be less.
    let limit = memory.and_then(quantity::bytes).map(quantity::go_limit);
    let env: Vec<Value> = limit
        .map(|limit| json!({"name": "GOMEMLIMIT", "value": limit}))
        .into_iter()
        .collect();
    json!({
        "name": CONTAINER,
        "image": wanted.image,
        "imagePullPolicy": pull_policy(wanted.image, "Always"),
        "ports": [{"name": "grpc", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": probe(json!({"initialDelaySeconds": 5})),
        "livenessProbe": probe(json!({"initialDelaySeconds": 10})),
        "startupProbe": probe(json!({"periodSeconds": 10, "failureThreshold": 15})),
        "resources": {"requests": {"cpu": "10m", "memory": memory.unwrap_or("50Mi")}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": env,
    })
}

/// Sets a field of an object.
fn put(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value.into());
    }
}

/// What is pinned is what it was.
fn pull_policy(image: &str, otherwise: &'static str) -> &'static str {
    if image.contains('@') {
        "IfNotPresent"
    } else {
        otherwise
    }
}
