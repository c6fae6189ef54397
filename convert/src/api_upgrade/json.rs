//! JSON access with the semantics of Kubernetes: a null field is absent.

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Returns a string field.
pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// Returns a non-empty string field.
pub(super) fn non_empty<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    text(object, key).filter(|text| !text.is_empty())
}

/// Reports whether a field is `true`.
pub(super) fn flag(object: &Object, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// Reports whether a field exists and is not null.
pub(super) fn has(object: &Object, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

/// Removes a field, and returns it unless it was null.
pub(super) fn take(object: &mut Object, key: &str) -> Option<Value> {
    object.remove(key).filter(|value| !value.is_null())
}

/// Sets a field unless it exists, and reports whether it was set.
pub(super) fn default(object: &mut Object, key: &str, value: impl Into<Value>) -> bool {
    let missing = !has(object, key);
    if missing {
        object.insert(key.into(), value.into());
    }
    missing
}

/// Renames a field. An existing field of the new name takes precedence.
pub(super) fn rename(object: &mut Object, old: &str, new: &str) {
    if let Some(value) = take(object, old) {
        default(object, new, value);
    }
}

/// Returns a field that is an object.
pub(super) fn object<'a>(parent: &'a Object, key: &str) -> Option<&'a Object> {
    parent.get(key).and_then(Value::as_object)
}

/// Returns the object at a path of keys.
pub(super) fn object_at<'a>(root: &'a mut Object, keys: &[&str]) -> Option<&'a mut Object> {
    keys.iter()
        .try_fold(root, |object, key| object.get_mut(*key)?.as_object_mut())
}

/// Returns a field that is an object. Creates it if it is absent; returns `None` if it has another type.
pub(super) fn object_or_new<'a>(parent: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    default(parent, key, Object::new());
    object_at(parent, &[key])
}

/// Returns the objects in a list field, with their positions; other elements are skipped.
pub(super) fn objects_in<'a>(
    parent: &'a mut Object,
    key: &str,
) -> impl Iterator<Item = (usize, &'a mut Object)> {
    parent
        .get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(at, value)| Some((at, value.as_object_mut()?)))
}
