//! Reader of the directory `manifests`, with one object per file.

use manifests::{content::Content, object::text, yaml};
use serde_json::Value;

use super::super::Error;

/// Objects of a bundle, in the order of their files.
pub(super) struct Objects {
    pub(super) all: Vec<Value>,
    /// Index of the ClusterServiceVersion in `all`.
    pub(super) csv: usize,
}

pub(super) fn read(
    content: &Content,
    limits: &mut yaml::Limits,
    warnings: &mut Vec<String>,
) -> Result<Objects, Error> {
    let mut all = Vec::new();
    let mut csv = None;
    for (name, file) in content.dir("manifests") {
        if name.contains('/') {
            warnings.push(format!(
                "manifests/{name}: skipped, because it is in a subdirectory; OLM rejects such bundles, move the file to \
                 manifests/"
            ));
            continue;
        }
        if name.starts_with('.') {
            continue;
        }
        let object = match first(&file.bytes, limits) {
            Ok((object, more)) => {
                if more {
                    warnings.push(format!(
                        "found more than one document inside manifests/{name}, using only the first one; move the others to \
                         separate files"
                    ));
                }
                object
            }
            Err(problem) => {
                warnings.push(format!(
                    "failed to decode: manifests/{name}: {problem}; the file is skipped"
                ));
                continue;
            }
        };
        let kind = text(&object, &["kind"]).unwrap_or_default();
        if kind.is_empty() {
            warnings.push(format!(
                "failed to decode: manifests/{name}: Object 'Kind' is missing; the file is skipped"
            ));
            continue;
        }
        if kind == "ClusterServiceVersion" {
            if csv.is_some() {
                warnings.push(format!(
                    "manifests/{name}: skipped, because another ClusterServiceVersion already exists; keep one of them"
                ));
                continue;
            }
            csv = Some(all.len());
        }
        all.push(object);
    }
    if all.is_empty() {
        return Err(Error::NoObjects);
    }
    let csv = csv.ok_or(Error::NoCsv)?;
    Ok(Objects { all, csv })
}

/// Reads the first document of a file. Also returns whether the file contains further documents.
pub(super) fn first(bytes: &[u8], limits: &mut yaml::Limits) -> Result<(Value, bool), String> {
    let mut documents = yaml::documents_with(bytes, *limits);
    let first = documents.next();
    *limits = documents.remaining_values();
    match first {
        Some(Ok(value)) => {
            let more = matches!(documents.next(), Some(Ok(Value::Object(_) | Value::Null)));
            Ok((value, more))
        }
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the file is empty".to_owned()),
    }
}
