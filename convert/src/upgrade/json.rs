//! Reads JSON as Kubernetes does: an explicit null is an absent field.

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// A text field.
pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// A field that is a non-empty text.
pub(super) fn filled<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    text(object, key).filter(|text| !text.is_empty())
}

/// Whether a field is `true`.
pub(super) fn flag(object: &Object, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// Whether a field is there and not null.
pub(super) fn has(object: &Object, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

/// Removes a field and returns it unless it was null.
pub(super) fn take(object: &mut Object, key: &str) -> Option<Value> {
    object.remove(key).filter(|value| !value.is_null())
}

/// Sets a field unless it is there; whether it was set.
pub(super) fn default(object: &mut Object, key: &str, value: impl Into<Value>) -> bool {
    let missing = !has(object, key);
    if missing {
        object.insert(key.into(), value.into());
    }
    missing
}

/// Moves a field to a new name, which wins when it is already there.
pub(super) fn rename(object: &mut Object, old: &str, new: &str) {
    if let Some(value) = take(object, old) {
        default(object, new, value);
    }
}

/// A field that is an object.
pub(super) fn object<'a>(parent: &'a Object, key: &str) -> Option<&'a Object> {
    parent.get(key).and_then(Value::as_object)
}

/// An object some fields down.
pub(super) fn object_at<'a>(root: &'a mut Object, keys: &[&str]) -> Option<&'a mut Object> {
    keys.iter()
        .try_fold(root, |object, key| object.get_mut(*key)?.as_object_mut())
}

/// A field that is an object, created empty when it is absent; nothing when it is something else.
pub(super) fn object_or_new<'a>(parent: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    default(parent, key, Object::new());
    object_at(parent, &[key])
}

/// The objects in a list field, with their positions; other elements are skipped.
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
