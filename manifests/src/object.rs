//! Untyped Kubernetes objects: identity, location and apply order.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Identity of an object. The API version is not part of it: `policy/v1` and `policy/v1beta1` contain the same
/// PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Identity {
    /// API group, or empty for the core group.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace, or empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl fmt::Display for Identity {
    /// Formats the identity for messages: `Deployment monitoring/prometheus`, `ClusterRole admin`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl Identity {
    /// Returns the sort key: prerequisites of other objects come first, workloads last. Equal ranks sort by identity.
    pub fn order(self) -> impl Ord {
        (kind_order(&self.group, &self.kind), self)
    }

    /// Returns the line of a deferred object in `status.waiting` of its BundleInstance, such as `ServiceMonitor
    /// monitoring.coreos.com/v1 operators/etcd`.
    pub fn deferred_line(&self, api_version: &str) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        let (kind, namespace, name) = (&self.kind, &self.namespace, &self.name);
        format!("{kind} {api_version} {namespace}{slash}{name}")
    }
}

/// Splits `apiVersion` into group and version; the core group is empty.
pub fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Joins a group and a version to an `apiVersion`; the core group is empty.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// An object as a tree of values. Only `apiVersion` and `kind` are guaranteed.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(Value);

/// Reason why a value is not an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The value is not a mapping.
    #[error("is {0}, not an object with apiVersion and kind")]
    NotAnObject(&'static str),
    /// A required field is missing or not a string.
    #[error("has no {0}")]
    Missing(&'static str),
}

impl TryFrom<Value> for Object {
    type Error = Error;

    fn try_from(value: Value) -> Result<Self, Error> {
        if !value.is_object() {
            return Err(Error::NotAnObject(type_name(&value)));
        }
        for field in ["apiVersion", "kind"] {
            if text(&value, &[field]).is_none_or(str::is_empty) {
                return Err(Error::Missing(field));
            }
        }
        Ok(Self(value))
    }
}

impl Object {
    /// Returns the `apiVersion`.
    pub fn api_version(&self) -> &str {
        text(&self.0, &["apiVersion"]).unwrap_or_default()
    }

    /// Returns the API group, which is empty for the core group.
    pub fn group(&self) -> &str {
        group_version(self.api_version()).0
    }

    /// Returns the `kind`.
    pub fn kind(&self) -> &str {
        text(&self.0, &["kind"]).unwrap_or_default()
    }

    /// Returns `metadata.name`, or an empty string.
    pub fn name(&self) -> &str {
        text(&self.0, &["metadata", "name"]).unwrap_or_default()
    }

    /// Returns `metadata.namespace`, or an empty string.
    pub fn namespace(&self) -> &str {
        text(&self.0, &["metadata", "namespace"]).unwrap_or_default()
    }

    /// Returns the identity of the object.
    pub fn identity(&self) -> Identity {
        Identity {
            group: self.group().to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// Returns the tree of values.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the mutable tree of values.
    pub fn value_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// Returns the [`Identity::order`] of the object.
    pub fn order(&self) -> impl Ord + use<> {
        self.identity().order()
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Reports whether a value is a list of objects: the core `List`, or a `…List` whose items are all mappings. Another kind
/// whose name ends in `List` is a single object.
pub fn is_list(value: &Value) -> bool {
    let kind = text(value, &["kind"]).unwrap_or_default();
    match value.get("items") {
        None | Some(Value::Null) => kind == "List" && text(value, &["apiVersion"]) == Some("v1"),
        Some(Value::Array(items)) => {
            kind == "List" || kind.ends_with("List") && items.iter().all(Value::is_object)
        }
        Some(_) => false,
    }
}

/// Removes the items from a list. Items of a typed list (`ConfigMapList`) may inherit their kind from the list.
pub fn take_items(list: &mut Value) -> Vec<Value> {
    let inherited = ["apiVersion", "kind"].map(|field| {
        let text = text(list, &[field]).unwrap_or_default();
        (field, text.strip_suffix("List").unwrap_or(text).to_owned())
    });
    // The core list contains objects of any kind, which must declare it themselves.
    let is_typed = inherited.iter().all(|(_, text)| !text.is_empty());
    let Some(Value::Array(mut items)) = list.get_mut("items").map(Value::take) else {
        return Vec::new();
    };
    for item in items
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .filter(|_| is_typed)
    {
        for (field, text) in &inherited {
            item.entry(*field).or_insert_with(|| text.as_str().into());
        }
    }
    items
}

fn kind_order(group: &str, kind: &str) -> u8 {
    match (group, kind) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
        ("scheduling.k8s.io", "PriorityClass")
        | ("node.k8s.io", "RuntimeClass")
        | ("storage.k8s.io", _)
        | ("networking.k8s.io", "IngressClass" | "NetworkPolicy") => 2,
        ("", "ServiceAccount") => 3,
        ("", "Secret") => 4,
        ("", "ConfigMap") => 5,
        ("rbac.authorization.k8s.io", "ClusterRole") => 6,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => 7,
        ("rbac.authorization.k8s.io", "Role") => 8,
        ("rbac.authorization.k8s.io", "RoleBinding") => 9,
        ("", "Service") => 10,
        ("apps" | "batch", _) | ("", "Pod" | "ReplicationController") => 12,
        _ => 11,
    }
}

/// Returns the string at a path of keys.
pub fn text<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    get_path(value, keys)?.as_str()
}

/// Returns the value at a path of keys.
pub fn get_path<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| value.get(key))
}

/// Describes the type of a value: "a string", "a number", and so on.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Returns the value as a mapping. Replaces any other value by an empty mapping.
pub fn mapping(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // The condition above excludes all other values.
        _ => unreachable!(),
    }
}

/// Returns the mapping under a key. Creates it, and its parent, if it is missing or not a mapping.
pub fn child_mut<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    let child = mapping(value).entry(key).or_insert(Value::Null);
    mapping(child);
    child
}

/// Adds entries to a mapping, and keeps existing ones.
pub fn add_missing(target: &mut Value, more: &Map<String, Value>) {
    let target = mapping(target);
    for (key, value) in more {
        target.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

/// Truncates text to a number of characters for a message, with an ellipsis.
pub fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Reports whether a character could change the display of the rest of a line: terminal control characters, line breaks,
/// and bidirectional controls.
pub fn is_unprintable(character: char) -> bool {
    character.is_control() || is_mark(character)
}

/// Reports whether a character is a bidirectional control, or a line break that only Unicode defines.
pub(crate) fn is_mark(character: char) -> bool {
    matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    #[test]
    fn an_object_needs_api_version_and_kind() {
        assert_each!(|value, message| Object::try_from(value).unwrap_err().to_string() => message;
            json!("x") => "is a string, not an object with apiVersion and kind";
            json!(null) => "is empty, not an object with apiVersion and kind";
            json!({"kind": "Pod"}) => "has no apiVersion";
            json!({"apiVersion": "v1", "kind": ""}) => "has no kind";
            json!({"apiVersion": "v1", "kind": 1}) => "has no kind";
        );
    }

    #[test]
    fn identity_ignores_the_api_version() {
        for api in ["policy/v1", "policy/v1beta1"] {
            let metadata = json!({"name": "a", "namespace": "n"});
            let budget =
                json!({"apiVersion": api, "kind": "PodDisruptionBudget", "metadata": metadata});
            let identity = object(budget).identity();
            assert_rows!((&*identity.group, &*identity.to_string()) => ("policy", "PodDisruptionBudget n/a"));
        }
    }

    #[test]
    fn lists_differ_from_kinds_that_end_in_list() {
        assert_each!(|value, list| is_list(&value) => list;
            json!({"apiVersion": "v1", "kind": "List", "items": [7]}) => true;
            json!({"apiVersion": "v1", "kind": "List", "items": null}) => true;
            json!({"apiVersion": "v1", "kind": "List"}) => true;
            json!({"kind": "ConfigMapList", "items": [{}]}) => true;
            json!({"kind": "AllowList", "items": ["a"]}) => false;
            json!({"kind": "AllowList", "spec": {}}) => false;
            json!({"kind": "ConfigMap", "items": []}) => false;
        );
    }

    #[test]
    fn items_of_a_typed_list_inherit_its_kind() {
        assert_each!(|list, expected| json!(take_items(&mut list.clone())) => expected;
            json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"a": 1}, {"kind": "Own"}]})
                => json!([{"apiVersion": "v1", "kind": "ConfigMap", "a": 1}, {"apiVersion": "v1", "kind": "Own"}]);
            json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, 7]}) => json!([{"kind": "A"}, 7]);
            json!({"apiVersion": "v1", "kind": "List", "items": null}) => json!([]);
            json!({"apiVersion": "v1", "kind": "List"}) => json!([]);
        );
    }

    #[test]
    fn dependencies_are_applied_first() {
        let ordered = ::tests::rows![
            "v1" => "Namespace";
            "apiextensions.k8s.io/v1" => "CustomResourceDefinition";
            "v1" => "ServiceAccount";
            "rbac.authorization.k8s.io/v1" => "ClusterRoleBinding";
            "monitoring.coreos.com/v1" => "ServiceMonitor";
            "apps/v1" => "Deployment";
        ];
        let mut objects =
            ordered.map(|(api, kind)| object(json!({"apiVersion": api, "kind": kind})));
        objects.reverse();
        objects.sort_by_cached_key(Object::order);
        assert_rows!(objects.map(|object| object.kind().to_owned()) => ordered.map(|(_, kind)| kind));
    }
}
