//! Directories of a bundle. Pure; no I/O.

use serde_json::{Map, Value};

use super::{PathMap, normalize};
use crate::yaml;

/// Annotations that name a directory, and its default.
const DIRECTORY_ANNOTATIONS: [(&str, &str); 2] = [
    (
        "operators.operatorframework.io.bundle.manifests.v1",
        MANIFESTS,
    ),
    (
        "operators.operatorframework.io.bundle.metadata.v1",
        METADATA,
    ),
];
const MANIFESTS: &str = "manifests";
const METADATA: &str = "metadata";

/// Returns the limits of a file in `metadata/`, far above any real one. The converter and the assessment of irregular
/// entries share them, because both must read the same directories from the annotations.
pub fn metadata_limits() -> yaml::Limits {
    yaml::Limits {
        bytes: 1 << 20,
        memory: 16 << 20,
        ..yaml::Limits::default()
    }
}

/// A document of `metadata/` with the requested value.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataMatch {
    /// Path of the file.
    pub file: String,
    /// The spelling of the key.
    pub key: String,
    /// The value of the key.
    pub value: Value,
}

/// Finds the file in a directory whose first document has a non-empty `key`: the file named after the key, or, as in `opm`,
/// the first one that decodes. File names in `metadata/` are a convention, not a rule. As in Go, keys are case-insensitive,
/// and the last one in sorted order is used.
///
/// `names` are the files of the directory; `read` returns the bytes of a path.
///
/// # Errors
/// Returns path and problem of a file that is named after the key and cannot be decoded. Other files may have any content.
pub fn find_document<'a, B: AsRef<[u8]>>(
    directory: &str,
    key: &str,
    names: impl Iterator<Item = &'a str>,
    limits: yaml::Limits,
    mut read: impl FnMut(&str) -> Option<B>,
) -> Result<Option<MetadataMatch>, (String, yaml::Error)> {
    let names: Vec<&str> = names.filter(|name| !name.contains('/')).collect();
    let preferred = names.iter().filter(|name| is_named_after(name, key));
    for name in preferred {
        let path = format!("{directory}/{name}");
        let Some(bytes) = read(&path) else {
            continue;
        };
        match decode(path, key, bytes.as_ref(), limits) {
            Ok(None) => {}
            found => return found,
        }
    }
    let others = names.iter().filter(|name| !is_named_after(name, key));
    Ok(first_document(
        directory,
        key,
        others.copied(),
        limits,
        read,
    ))
}

/// Finds the first file in a directory whose first document has a non-empty `key`, as `opm` does when it renders a bundle.
pub fn first_document<'a, B: AsRef<[u8]>>(
    directory: &str,
    key: &str,
    names: impl Iterator<Item = &'a str>,
    limits: yaml::Limits,
    mut read: impl FnMut(&str) -> Option<B>,
) -> Option<MetadataMatch> {
    let mut names = names.filter(|name| !name.contains('/'));
    names.find_map(|name| {
        let path = format!("{directory}/{name}");
        let bytes = read(&path)?;
        decode(path, key, bytes.as_ref(), limits).ok().flatten()
    })
}

fn decode(
    file: String,
    key: &str,
    bytes: &[u8],
    limits: yaml::Limits,
) -> Result<Option<MetadataMatch>, (String, yaml::Error)> {
    let mut map = match yaml::documents_with(bytes, limits).next() {
        Some(Ok(Value::Object(map))) => map,
        Some(Err(error)) => return Err((file, error)),
        _ => return Ok(None),
    };
    let Some(key) = field_name(&map, key).map(str::to_owned) else {
        return Ok(None);
    };
    let value = map.remove(&key).filter(|value| !is_empty(value));
    Ok(value.map(|value| MetadataMatch { file, key, value }))
}

/// Reports whether a file is named after a key, such as `properties.yaml`.
pub fn is_named_after(name: &str, key: &str) -> bool {
    let ending = name.strip_prefix(key);
    matches!(ending, Some(".yaml" | ".yml" | ".json"))
}

/// Returns the spelling of a field that Go decodes: names are case-insensitive, and the last one in sorted order is used.
///
/// ```
/// use manifests::content::field_name;
/// let map = serde_json::json!({"Properties": 1, "propertie\u{17f}": 2});
/// let name = field_name(map.as_object().unwrap(), "properties");
/// assert_eq!(name, Some("propertie\u{17f}"));
/// ```
pub fn field_name<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let mut names = map
        .keys()
        .filter(|key| key.chars().map(fold).eq(name.chars().map(fold)));
    names.next_back().map(String::as_str)
}

/// Folds the case like `encoding/json` of Go, where two letters beyond ASCII equal `s` and `k`.
fn fold(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Returns the directories of a bundle: `manifests` and `metadata`, or those in its annotations.
pub(super) fn directories<T, B: AsRef<[u8]>>(
    paths: &PathMap<T>,
    mut read: impl FnMut(&str, &T) -> Option<B>,
) -> Vec<String> {
    let names = paths.dir(METADATA).map(|(name, _)| name);
    let found = find_document(METADATA, "annotations", names, metadata_limits(), |path| {
        read(path, paths.get(path)?)
    });
    let annotations = match found {
        Ok(Some(found)) => found.value,
        // The conversion reports the malformed file.
        Ok(None) | Err(_) => Value::Null,
    };
    // Annotations are read from this directory, even if they name another one.
    let mut directories = vec![METADATA.to_owned()];
    for (annotation, default) in DIRECTORY_ANNOTATIONS {
        let named = annotations.get(annotation).and_then(Value::as_str);
        let named = named.and_then(|named| normalize(named.trim().trim_start_matches('/')).ok());
        // A directory without files is not used, possibly because of a link.
        if !named
            .as_deref()
            .is_some_and(|named| paths.has_folder(named))
        {
            directories.push(default.to_owned());
        }
        directories.extend(named);
    }
    directories
}
