//! Compares converted objects with those of a reference renderer by their meaning.
//!
//! Ignored: order, nulls and empty values, spellings of quantities, generated names of RBAC objects (paired by
//! rules and subjects), ServiceAccounts that only a Deployment uses, the Namespace, built-in APIs that were upgraded,
//! converted v1beta1 CRDs, which the reference mangles, and `olm.operatorNamespace` on pods that read it, which the
//! reference omits.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

const UPGRADED: [&str; 6] = [
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "policy/v1beta1",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1alpha1",
    "batch/v1beta1",
];

type Key = (String, String, String, String);

fn text<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    let found = keys.iter().try_fold(value, |value, key| value.get(key));
    found.and_then(Value::as_str).unwrap_or_default()
}

fn quantity(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic() && !['e', 'E'].contains(&c));
    let (number, suffix) = text.split_at(split.unwrap_or(text.len()));
    let scale = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return value.clone(),
    };
    let number = number.parse::<f64>();
    number.map_or(value.clone(), |n| format!("{:.9}", n * scale).into())
}

fn clean(value: &Value, under: &str) -> Value {
    match value {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map {
                if key == "creationTimestamp" && value.is_null() {
                    continue;
                }
                let scalar = !value.is_object() && !value.is_array();
                let is_amount = matches!(under, "limits" | "requests") && scalar;
                let cleaned = if is_amount || key == "sizeLimit" {
                    quantity(value)
                } else {
                    clean(value, key)
                };
                let is_empty = [Value::Null, json!({}), json!([])].contains(&cleaned);
                let is_meaningful =
                    ["emptyDir", "podSelector", "namespaceSelector"].contains(&&**key);
                if !is_empty || is_meaningful && cleaned.is_object() {
                    out.insert(key.clone(), cleaned);
                }
            }
            Value::Object(out)
        }
        Value::Array(list) => list.iter().map(|value| clean(value, under)).collect(),
        other => other.clone(),
    }
}

fn current(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("status");
    let api = text(&object, &["apiVersion"]).to_owned();
    if UPGRADED.contains(&api.as_str()) {
        object["apiVersion"] = format!("{}/v1", api.split('/').next().unwrap()).into();
    }
    if object["kind"] == "VerticalPodAutoscaler" {
        let metadata = object["metadata"].as_object_mut();
        metadata.unwrap().remove("namespace");
    }
    clean(&object, "")
}

fn key(object: &Value) -> Key {
    let field = |keys: &[&str]| text(object, keys).to_owned();
    let (api, kind) = (field(&["apiVersion"]), field(&["kind"]));
    let (namespace, name) = (&["metadata", "namespace"], &["metadata", "name"]);
    (api, kind, field(namespace), field(name))
}

/// The identity of an RBAC object, without its API.
fn rbac(object: &Value) -> Option<Key> {
    let (_, kind, namespace, name) = key(object);
    let is_rbac = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"].contains(&&*kind);
    is_rbac.then(|| (String::new(), kind, namespace, name))
}

/// Objects by identity. Rules and subjects replace generated RBAC names.
fn index(objects: &[Value], authored: &BTreeSet<Key>) -> BTreeMap<Key, Value> {
    let mut objects: Vec<Value> = objects.iter().map(current).collect();
    let mut renamed = BTreeMap::new();
    for object in &mut objects {
        if let Some(Value::Array(rules)) = object.get_mut("rules") {
            rules.sort_by_cached_key(Value::to_string);
        }
        let role = rbac(object).filter(|key| key.1.ends_with("Role"));
        let Some(key) = role.filter(|key| !authored.contains(key)) else {
            continue;
        };
        let name = format!("rules {}", object.get("rules").unwrap_or(&Value::Null));
        object["metadata"]["name"] = name.clone().into();
        renamed.insert(key, name);
    }
    for object in &mut objects {
        let Some(key) = rbac(object).filter(|key| key.1.ends_with("Binding")) else {
            continue;
        };
        let of_role = |field| text(object, &["roleRef", field]).to_owned();
        let (kind, name) = (of_role("kind"), of_role("name"));
        let namespace = Some(key.2.clone()).filter(|_| kind == "Role");
        let target = (String::new(), kind, namespace.unwrap_or_default(), name);
        if let Some(name) = renamed.get(&target) {
            object["roleRef"]["name"] = name.clone().into();
        }
        if !authored.contains(&key) {
            object["metadata"]["name"] =
                format!("binds {} {}", object["roleRef"]["name"], object["subjects"]).into();
        }
    }
    let objects = objects.into_iter();
    objects.map(|object| (key(&object), object)).collect()
}

fn diff(expected: &Value, found: &Value, path: &str, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => diff(a, b, &path, out),
                    (Some(a), None) => out.push(format!("{path}: lost: {a}")),
                    (None, Some(_)) if key == "olm.operatorNamespace" => {}
                    (None, b) => out.push(format!("{path}: added: {}", b.unwrap_or(&Value::Null))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                diff(a, b, &format!("{path}[{at}]"), out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: expected {a}, found {b}")),
    }
}

pub(crate) fn differences(expected: &[Value], found: &[Value]) -> Vec<String> {
    let names = |objects: &[Value]| objects.iter().filter_map(rbac).collect::<BTreeSet<_>>();
    let authored = &names(expected) & &names(found);
    let (expected, found) = (index(expected, &authored), index(found, &authored));
    let account = ["spec", "template", "spec", "serviceAccountName"];
    let accounts = expected.values().map(|object| text(object, &account));
    let accounts: BTreeSet<&str> = accounts.collect();
    let mut out = Vec::new();
    for key in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let (api, kind, namespace, name) = key;
        let mut beta = key.clone();
        beta.0 = api.replace("/v1", "/v1beta1");
        let is_beta = api.ends_with("beta1") || expected.contains_key(&beta);
        if kind == "CustomResourceDefinition" && is_beta {
            continue;
        }
        let label = format!("{kind} {namespace}/{name}");
        match (expected.get(key), found.get(key)) {
            (Some(a), Some(b)) => diff(a, b, &label, &mut out),
            (Some(_), None) => out.push(format!("{label}: missing")),
            (None, _) if kind == "Namespace" => {}
            (None, _) if kind == "ServiceAccount" && accounts.contains(&**name) => {}
            (None, _) => out.push(format!("{label}: unexpected")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_value_differs_and_spelling_does_not() {
        let deployment = |cpu: &str, port: u64| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
                "spec": {"resources": {"limits": {"cpu": cpu}}, "port": port, "strategy": {}}})
        };
        let differences = |found: &[Value]| differences(&[deployment("500m", 1)], found);
        assert_eq!(differences(&[deployment("0.5", 1)]), [""; 0]);
        let port = "Deployment n/d.spec.port: expected 1, found 2";
        assert_eq!(differences(&[deployment("0.5", 2)]), [port]);
        assert_eq!(differences(&[]), ["Deployment n/d: missing"]);
    }
}
