//! Directories that a bundle is made of. Pure; no I/O.

use serde_json::Value;

use super::{Paths, normalise};
use crate::yaml;

/// Annotations that name a directory, and the directory that is used without them.
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

/// Returns the limits of a file in `metadata/`, far above any real one. The converter and the assessment of entries that are
/// not regular files share them: both have to read the same directories from the annotations.
pub fn metadata_limits() -> yaml::Limits {
    yaml::Limits {
        bytes: 1 << 20,
        memory: 16 << 20,
        ..yaml::Limits::default()
    }
}

/// Finds the file of a directory whose first document has a non-empty `key`: the file named after the key, else, as in
/// `opm`, the first one that decodes. File names in `metadata/` are a convention, not a rule.
///
/// `names` are the files of the directory; `read` returns the bytes of a path.
///
/// # Errors
/// Returns path and problem of a file that is named after the key and cannot be decoded. Other files may hold anything.
pub fn find_document<'a, B: AsRef<[u8]>>(
    directory: &str,
    key: &str,
    names: impl Iterator<Item = &'a str>,
    limits: yaml::Limits,
    mut read: impl FnMut(&str) -> Option<B>,
) -> Result<Option<(String, Value)>, (String, yaml::Error)> {
    let is_usual = |name: &str| {
        let ending = name.strip_prefix(key);
        matches!(ending, Some(".yaml" | ".yml" | ".json"))
    };
    let mut names: Vec<&str> = names.filter(|name| !name.contains('/')).collect();
    names.sort_by_key(|name| (!is_usual(name), *name));
    for name in names {
        let path = format!("{directory}/{name}");
        let Some(bytes) = read(&path) else {
            continue;
        };
        match yaml::documents_with(bytes.as_ref(), limits).next() {
            Some(Ok(Value::Object(mut map))) => {
                if let Some(value) = map.remove(key)
                    && !is_empty(&value)
                {
                    return Ok(Some((path, value)));
                }
            }
            Some(Err(error)) if is_usual(name) => return Err((path, error)),
            _ => {}
        }
    }
    Ok(None)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Returns the directories that a bundle is made of: `manifests` and `metadata`, or those that its annotations name.
pub(super) fn directories<T, B: AsRef<[u8]>>(
    paths: &Paths<T>,
    mut read: impl FnMut(&str, &T) -> Option<B>,
) -> Vec<String> {
    let names = paths.folder(METADATA).map(|(name, _)| name);
    let found = find_document(METADATA, "annotations", names, metadata_limits(), |path| {
        read(path, paths.get(path)?)
    });
    let annotations = match found {
        Ok(Some((_, annotations))) => annotations,
        // Conversion reports the file that cannot be read.
        Ok(None) | Err(_) => Value::Null,
    };
    // Annotations are read from here, also if they name another directory.
    let mut directories = vec![METADATA.to_owned()];
    for (annotation, usual) in DIRECTORY_ANNOTATIONS {
        let named = annotations.get(annotation).and_then(Value::as_str);
        let named = named.and_then(|named| normalise(named.trim().trim_start_matches('/')).ok());
        // A directory without files is not used, and a link may be the reason for that.
        if !named
            .as_deref()
            .is_some_and(|named| paths.has_folder(named))
        {
            directories.push(usual.to_owned());
        }
        directories.extend(named);
    }
    directories
}

/// Reports whether a path is a directory or lies below it.
pub(super) fn is_at_or_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|remaining| remaining.is_empty() || remaining.starts_with('/'))
}
