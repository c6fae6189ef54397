//! Helpers for the unit tests and the test program of this crate.

#![allow(dead_code, reason = "each of them uses only a part")]

use std::{collections::BTreeMap, fmt::Display};

use manifests::content::{Builder, Content, Limits};
use serde_json::Value;

pub(crate) const CSV: &str = "manifests/csv.yaml";
pub(crate) const CRD: &str = "manifests/crd.yaml";
pub(crate) const ANNOTATIONS: &str = "metadata/annotations.yaml";

/// A bundle under construction: its files by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bundle(pub(crate) BTreeMap<String, String>);

impl Bundle {
    pub(crate) fn file(mut self, path: &str, text: impl Display) -> Self {
        self.0.insert(path.to_owned(), text.to_string());
        self
    }

    pub(crate) fn without(mut self, path: &str) -> Self {
        self.0.remove(path).unwrap();
        self
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.0[path]).unwrap()
    }

    pub(crate) fn changed(self, path: &str, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = self.json(path);
        change(&mut value);
        self.file(path, value)
    }

    /// Sets a value by its JSON pointer. Missing parent objects are created; the index `-` appends to a list.
    pub(crate) fn set(self, path: &str, pointer: &str, new: Value) -> Self {
        self.changed(path, |value| {
            let mut at = value;
            for key in pointer.split('/').skip(1) {
                at = match at {
                    Value::Array(list) => {
                        let at = if key == "-" {
                            list.len()
                        } else {
                            key.parse().unwrap()
                        };
                        list.resize(list.len().max(at + 1), Value::Null);
                        &mut list[at]
                    }
                    object => &mut object[key.replace("~1", "/")],
                };
            }
            *at = new;
        })
    }

    pub(crate) fn csv(self, pointer: &str, new: Value) -> Self {
        self.set(CSV, pointer, new)
    }

    pub(crate) fn remove(self, path: &str, pointer: &str) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.changed(path, |value| {
            let parent = value.pointer_mut(parent).unwrap();
            parent.as_object_mut().unwrap().remove(key).unwrap();
        })
    }

    pub(crate) fn content(&self) -> Content {
        let files = self.0.iter();
        content(files.map(|(path, text)| (path.as_str(), text.as_str())))
    }
}

pub(crate) fn content<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, text) in files {
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    builder.finish()
}

/// Returns the JSON pointers of a value and of all values in it.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, child)| (key.replace('/', "~1"), child))
            .collect(),
        Value::Array(list) => (0..).map(|at: usize| at.to_string()).zip(list).collect(),
        _ => Vec::new(),
    };
    let below = children.into_iter().flat_map(|(key, child)| {
        let below = pointers(child).into_iter();
        below.map(move |pointer| format!("/{key}{pointer}"))
    });
    below.chain([String::new()]).collect()
}
