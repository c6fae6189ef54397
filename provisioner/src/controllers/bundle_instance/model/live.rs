//! An object of the model, with its fields and their owners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

/// The names of fields, joined.
pub(super) type Path = String;

/// An object. Lists are values as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Live {
    pub(super) fields: BTreeMap<Path, Value>,
    /// The fields that the controller applied last and that no other client has changed since.
    pub(super) ours: BTreeSet<Path>,
    pub(super) is_terminating: bool,
    pub(super) has_finalizer: bool,
    pub(super) health: Health,
}

const SEPARATOR: char = '|';

pub(super) fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    let Value::Object(map) = object else {
        return [(Path::new(), object.clone())].into();
    };
    let fields = map.iter().flat_map(|(key, value)| {
        let below = leaves(value).into_iter();
        below.map(move |(path, value)| match path.as_str() {
            "" => (key.clone(), value),
            path => (format!("{key}{SEPARATOR}{path}"), value),
        })
    });
    fields.collect()
}

fn label(key: &str) -> Path {
    format!("metadata{SEPARATOR}labels{SEPARATOR}{key}")
}

pub(super) fn annotation(key: &str) -> Path {
    format!("metadata{SEPARATOR}annotations{SEPARATOR}{key}")
}

impl Live {
    pub(super) fn new(object: &Value) -> Self {
        with!(Live, fields: leaves(object))
    }

    /// Returns the object as the API server does, with its managed fields.
    pub(super) fn value(&self) -> Value {
        let mut root = Map::new();
        for (path, value) in &self.fields {
            let mut names: Vec<&str> = path.split(SEPARATOR).collect();
            let last = names.pop().unwrap();
            let mut map = &mut root;
            for name in names {
                let child = map.entry(name).or_insert_with(|| json!({}));
                map = child.as_object_mut().unwrap();
            }
            map.insert(last.to_owned(), value.clone());
        }
        let metadata = root.entry("metadata").or_insert_with(|| json!({}));
        if !self.ours.is_empty() {
            let fields = self.ours.iter().map(|path| (path.clone(), json!({})));
            let fields: Map<String, Value> = fields.collect();
            metadata["managedFields"] =
                json!([{"manager": ssa::MANAGER, "operation": "Apply", "fieldsV1": fields}]);
        }
        if self.is_terminating {
            metadata["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        if self.has_finalizer {
            metadata["finalizers"] = json!(["example.com/held"]);
        }
        Value::Object(root)
    }

    pub(super) fn metadata(&self) -> ObjectMeta {
        let metadata = self.value()["metadata"].clone();
        serde_json::from_value(metadata).unwrap()
    }

    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::from_metadata(&self.value()["metadata"], ssa::MANAGER)
    }

    pub(super) fn hash(&self) -> Option<ObjectHash> {
        let hash = self.fields.get(&annotation(labels::OBJECT_HASH))?;
        hash.as_str()?.parse().ok()
    }

    pub(super) fn is_labelled(&self, owner: &InstanceOwner) -> bool {
        let value = |key| self.fields.get(&label(key)).and_then(Value::as_str);
        value(labels::OWNER_KIND) == Some("BundleInstance")
            && value(labels::OWNER_NAME) == Some(owner.name.as_str())
    }

    /// Changes a field as another client.
    pub(super) fn change(&mut self, path: &str, value: Option<Value>) {
        if self.fields.get(path) != value.as_ref() {
            self.ours.remove(path);
        }
        match value {
            Some(value) => self.fields.insert(path.to_owned(), value),
            None => self.fields.remove(path),
        };
    }

    pub(super) fn strip(&mut self) {
        self.change(&label(labels::OWNER_KIND), None);
        self.change(&label(labels::OWNER_NAME), None);
    }
}

/// Reports whether an object has all fields of a step, each as it was applied.
pub(super) fn is_as_applied(live: &Live, step: &ApplyStep) -> bool {
    let mut leaves = leaves(step.object.value()).into_iter();
    leaves.all(|(path, value)| live.ours.contains(&path) && live.fields.get(&path) == Some(&value))
}
