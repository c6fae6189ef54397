//! `deploymentConfig`: the fields of a Subscription's `spec.config`, applied to every Deployment.
//!
//! | field | semantics |
//! | --- | --- |
//! | `env` | replaces a variable of the same name, or is added; all containers |
//! | `envFrom` | added unless an equal entry exists; all containers |
//! | `volumes`, `volumeMounts` | replace an entry of the same name, or are added |
//! | `tolerations` | added unless an equal entry exists |
//! | `resources` | replaces those of all containers |
//! | `nodeSelector` | replaces the whole selector |
//! | `affinity` | `{}` removes it; each given member replaces that member, and `{}` removes it |
//! | `annotations` | added to the Deployment and its pods; existing ones take precedence |
//! | `proxy` | `httpProxy`, `httpsProxy`, `noProxy` become variables of all containers, unless `env` sets any of them |
//!
//! Init containers are unchanged (operator-controller parity).

use manifests::go_types::{self, ProblemKind};
use manifests::object::{add_missing, child_mut, mapping, text, type_name};
use manifests::yaml;
use serde_json::{Map, Value, json};

use crate::csv;

/// A validated `deploymentConfig`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeploymentConfig(Map<String, Value>);

impl DeploymentConfig {
    /// Estimates the memory that the configuration adds to a container, in bytes.
    pub(crate) fn memory(&self) -> usize {
        yaml::memory(&Value::Object(self.0.clone()))
    }
}

/// Error of a document that is not a `deploymentConfig`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("deploymentConfig: {}", .problems.join("; "))]
pub struct Error {
    problems: Vec<String>,
}

const PROXY: [(&str, &str); 3] = [
    ("httpProxy", "HTTP_PROXY"),
    ("httpsProxy", "HTTPS_PROXY"),
    ("noProxy", "NO_PROXY"),
];

impl TryFrom<Value> for DeploymentConfig {
    type Error = Error;

    /// Accepts the configuration itself, or a document that contains it under `deploymentConfig`.
    fn try_from(mut value: Value) -> Result<Self, Error> {
        if let Some(inner) = value.get_mut("deploymentConfig") {
            value = inner.take();
        }
        let mut config = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => {
                return Err(Error {
                    problems: vec![format!("is {}, not a mapping", type_name(&other))],
                });
            }
        };
        let mut problems = Vec::new();
        // Removed before the check, because OLM's type has neither field.
        let proxy = config.remove("proxy");
        if config.remove("selector").is_some() {
            problems.push("selector has no effect on an installed operator; remove it".to_owned());
        }
        let mut config = Value::Object(config);
        // The check drops an empty nodeSelector. In OLM, it removes the nodeSelector of the pods.
        let selector = config.get("nodeSelector").and_then(Value::as_object);
        let clears_selector = selector.is_some_and(Map::is_empty);
        for problem in go_types::conform(&mut config, go_types::deployment_config()) {
            problems.push(match problem.kind {
                ProblemKind::Unknown { hint } => format!(
                    "unknown field {}; {}",
                    problem.path,
                    csv::did_you_mean(hint.as_ref())
                ),
                ProblemKind::Mismatch {
                    expected, found, ..
                } => format!("{} must be {expected}, not {found}", problem.path),
            });
        }
        if clears_selector {
            mapping(&mut config).insert("nodeSelector".into(), json!({}));
        }
        if let Some(proxy) = proxy {
            problems.extend(check_proxy(&proxy));
            mapping(&mut config).insert("proxy".into(), proxy);
        }
        if problems.is_empty() {
            Ok(Self(std::mem::take(mapping(&mut config))))
        } else {
            Err(Error { problems })
        }
    }
}

fn check_proxy(proxy: &Value) -> Vec<String> {
    let Some(map) = proxy.as_object() else {
        return vec![format!("proxy must be a mapping, not {}", type_name(proxy))];
    };
    let wrong = map.iter().filter_map(|(key, value)| {
        if !PROXY.iter().any(|(field, _)| field == key) {
            Some(format!(
                "unknown field proxy.{key}; use httpProxy, httpsProxy or noProxy"
            ))
        } else if !value.is_string() {
            Some(format!(
                "proxy.{key} must be a string, not {}",
                type_name(value)
            ))
        } else {
            None
        }
    });
    wrong.collect()
}

/// Applies the configuration to a Deployment.
pub(crate) fn apply(config: &DeploymentConfig, deployment: &mut Value) {
    let config = &config.0;
    if let Some(annotations) = config.get("annotations").and_then(Value::as_object) {
        add_missing(
            child_mut(child_mut(deployment, "metadata"), "annotations"),
            annotations,
        );
        let template = child_mut(child_mut(deployment, "spec"), "template");
        add_missing(
            child_mut(child_mut(template, "metadata"), "annotations"),
            annotations,
        );
    }
    let pod = child_mut(child_mut(child_mut(deployment, "spec"), "template"), "spec");
    let env = variables(config);
    if let Some(containers) = pod.get_mut("containers").and_then(Value::as_array_mut) {
        for container in containers {
            by_name(container, "env", &env);
            if let Some(sources) = config.get("envFrom").and_then(Value::as_array) {
                append_missing(container, "envFrom", sources);
            }
            if let Some(mounts) = config.get("volumeMounts").and_then(Value::as_array) {
                apply_mounts(container, mounts);
            }
            if let Some(resources) = config.get("resources") {
                mapping(container).insert("resources".into(), resources.clone());
            }
        }
    }
    if let Some(volumes) = config.get("volumes").and_then(Value::as_array) {
        by_name(pod, "volumes", volumes);
    }
    if let Some(tolerations) = config.get("tolerations").and_then(Value::as_array) {
        append_missing(pod, "tolerations", tolerations);
    }
    match config.get("nodeSelector").and_then(Value::as_object) {
        Some(selector) if selector.is_empty() => {
            mapping(pod).remove("nodeSelector");
        }
        Some(selector) => {
            mapping(pod).insert("nodeSelector".into(), selector.clone().into());
        }
        None => {}
    }
    if let Some(affinity) = config.get("affinity").and_then(Value::as_object) {
        apply_affinity(affinity, pod);
    }
}

/// Returns the variables to set: `env`, and those of the proxy unless `env` sets a proxy variable, as in OLM.
fn variables(config: &Map<String, Value>) -> Vec<Value> {
    let mut env = config
        .get("env")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let overridden = env.iter().any(|v| {
        PROXY
            .iter()
            .any(|(_, name)| text(v, &["name"]) == Some(name))
    });
    if let Some(proxy) = config.get("proxy").filter(|_| !overridden) {
        for (field, name) in PROXY {
            if let Some(value) = text(proxy, &[field]).filter(|value| !value.is_empty()) {
                env.push(json!({"name": name, "value": value}));
            }
        }
    }
    env
}

fn apply_affinity(affinity: &Map<String, Value>, pod: &mut Value) {
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    if affinity.is_empty() {
        mapping(pod).remove("affinity");
        return;
    }
    let current = child_mut(pod, "affinity");
    for (part, value) in affinity {
        if is_empty(value) {
            mapping(current).remove(part);
        } else {
            mapping(current).insert(part.clone(), value.clone());
        }
    }
    if is_empty(current) {
        mapping(pod).remove("affinity");
    }
}

/// Returns the list at a key, which is created if it is missing. Returns `None` if no entries are to be added.
fn list_to_extend<'a>(
    value: &'a mut Value,
    key: &str,
    more: &[Value],
) -> Option<&'a mut Vec<Value>> {
    if more.is_empty() {
        return None;
    }
    let list = mapping(value).entry(key).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
}

/// Replaces the entries of the same name, and adds all others.
pub(crate) fn by_name(holder: &mut Value, key: &str, more: &[Value]) {
    if let Some(list) = list_to_extend(holder, key, more) {
        for entry in more {
            replace_or_add(list, usize::MAX, entry);
        }
    }
}

/// Replaces the container's first mount of the same volume. Adds all mounts of other volumes, also several of one volume, as
/// in OLM.
fn apply_mounts(container: &mut Value, mounts: &[Value]) {
    if let Some(list) = list_to_extend(container, "volumeMounts", mounts) {
        let existing_count = list.len();
        for mount in mounts {
            replace_or_add(list, existing_count, mount);
        }
    }
}

/// Replaces the entry of the same name among the first `count` ones, or else adds the entry.
fn replace_or_add(list: &mut Vec<Value>, count: usize, entry: &Value) {
    let mut first = list.iter_mut().take(count);
    match first.find(|existing| existing.get("name") == entry.get("name")) {
        Some(existing) => existing.clone_from(entry),
        None => list.push(entry.clone()),
    }
}

fn append_missing(holder: &mut Value, key: &str, more: &[Value]) {
    let Some(list) = list_to_extend(holder, key, more) else {
        return;
    };
    for entry in more {
        if !list.contains(entry) {
            list.push(entry.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({"metadata": {"name": "d"}, "spec": {
            "template": {"metadata": {"annotations": {"kept": "own"}}, "spec": {
                "initContainers": [{"name": "i"}],
                "containers": [{
                    "name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "resources": {"limits": {"cpu": "1"}},
                }],
                "tolerations": [{"key": "k"}], "nodeSelector": {"old": "yes"},
                "affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {"y": 2}},
            }},
        }})
    }

    fn applied(config: Value) -> Value {
        let mut deployment = deployment();
        let config = DeploymentConfig::try_from(config).unwrap();
        apply(&config, &mut deployment);
        deployment
    }

    // parity: convert-20
    #[test]
    fn each_field_follows_the_subscriptions_semantics() {
        let own = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
        let env = json!([{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]);
        let proxy = json!({"httpsProxy": "http://p", "noProxy": ".svc"});
        let other = json!({"name": "HTTP_PROXY", "value": "http://q"});
        let resources = json!({"requests": {"memory": "1Gi"}});
        let from = json!([{"configMapRef": {"name": "m"}}]);
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        let mounts = json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w"}]);
        let affinity =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]});
        let annotations = json!({"annotations": {"kept": "new", "more": "new"}});
        assert_each!(|config, pointer, expected| *applied(config.clone()).pointer(pointer).unwrap_or(&Value::Null) => expected;
            json!({"env": env}), "/spec/template/spec/containers/0/env" => json!([own[0], env[0], env[1]]);
            json!({"env": env}), "/spec/template/spec/initContainers" => json!([{"name": "i"}]);
            json!({"tolerations": [{"key": "k"}, {"key": "l"}]}), "/spec/template/spec/tolerations"
                => json!([{"key": "k"}, {"key": "l"}]);
            json!({"envFrom": from}), "/spec/template/spec/containers/0/envFrom" => from;
            json!({"nodeSelector": {"new": "yes"}}), "/spec/template/spec/nodeSelector" => json!({"new": "yes"});
            json!({"nodeSelector": {}}), "/spec/template/spec/nodeSelector" => json!(null);
            json!({"resources": resources}), "/spec/template/spec/containers/0/resources" => resources;
            json!({"volumes": volumes}), "/spec/template/spec/volumes" => volumes;
            json!({"volumeMounts": mounts}), "/spec/template/spec/containers/0/volumeMounts" => mounts;
            // A proxy is set unless the environment has one.
            json!({"proxy": proxy}), "/spec/template/spec/containers/0/env"
                => json!([own[0], own[1], {"name": "HTTPS_PROXY", "value": "http://p"}, {"name": "NO_PROXY", "value": ".svc"}]);
            json!({"proxy": proxy, "env": [other]}), "/spec/template/spec/containers/0/env" => json!([own[0], own[1], other]);
            // Each part of the affinity is kept, replaced or removed.
            json!({}), "/spec/template/spec/affinity" => json!({"nodeAffinity": {"x": 1}, "podAffinity": {"y": 2}});
            json!({"affinity": {}}), "/spec/template/spec/affinity" => json!(null);
            json!({"affinity": {"nodeAffinity": {}}}), "/spec/template/spec/affinity" => json!({"podAffinity": {"y": 2}});
            json!({"affinity": {"podAffinity": affinity}}), "/spec/template/spec/affinity"
                => json!({"nodeAffinity": {"x": 1}, "podAffinity": affinity});
            json!({"affinity": {"nodeAffinity": {}, "podAffinity": {}}}), "/spec/template/spec/affinity" => json!(null);
            // Existing annotations win.
            annotations.clone(), "/metadata/annotations" => json!({"kept": "new", "more": "new"});
            annotations, "/spec/template/metadata/annotations" => json!({"kept": "own", "more": "new"});
        );
    }

    #[test]
    fn invalid_configuration_reports_every_problem() {
        assert_each!(|config, message| DeploymentConfig::try_from(config).unwrap_err() => has message;
            json!([]) => "is a list, not a mapping";
            json!({"envs": []}) => "unknown field envs; did you mean env?";
            json!({"selector": {}}) => "selector has no effect";
            json!({"proxy": {"http": "x"}}) => "unknown field proxy.http";
            json!({"proxy": {"noProxy": 1}}) => "proxy.noProxy must be a string";
            json!({"env": [{"name": "A", "value": 1}]}) => "env[0].value must be";
        );
        let fine = json!({"deploymentConfig": {"nodeSelector": {"a": "b"}}});
        for fine in [fine, Value::Null] {
            assert!(DeploymentConfig::try_from(fine).is_ok());
        }
    }
}
