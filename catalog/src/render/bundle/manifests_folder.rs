//! `manifests/`: one object a file.

use manifests::{content::Content, object::text, yaml};
use serde_json::Value;

use super::super::Error;

/// The objects of a bundle, in the order of their files.
pub(super) struct Objects {
    pub(super) all: Vec<Value>,
    /// Which of them is the ClusterServiceVersion.
    pub(super) csv: usize,
}

pub(super) fn read(
    content: &Content,
    limits: &mut yaml::Limits,
    warnings: &mut Vec<String>,
) -> Result<Objects, Error> {
    let mut all = Vec::new();
    let mut csv = None;
    for (name, file) in content.folder("manifests") {
        if name.contains('/') {
            warnings.push(format!(
                "manifests/{name}: is left out, as it is in a subdirectory; OLM refuses such bundles, move it up"
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
                        "found more than one document inside manifests/{name}, using only the first one; write the others \
                         to files of their own"
                    ));
                }
                object
            }
            Err(problem) => {
                warnings.push(format!(
                    "failed to decode: manifests/{name}: {problem}; the file is left out"
                ));
                continue;
            }
        };
        let kind = text(&object, &["kind"]).unwrap_or_default();
        if kind.is_empty() {
            warnings.push(format!(
                "failed to decode: manifests/{name}: Object 'Kind' is missing; the file is left out"
            ));
            continue;
        }
        if kind == "ClusterServiceVersion" {
            if csv.is_some() {
                warnings.push(format!(
                    "manifests/{name}: is left out, as there is another ClusterServiceVersion already; keep one of them"
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

/// The first document of a file, and whether there are others.
pub(super) fn first(bytes: &[u8], limits: &mut yaml::Limits) -> Result<(Value, bool), String> {
    let mut documents = yaml::documents_with(bytes, *limits);
    let first = documents.next();
    *limits = documents.left();
    match first {
        Some(Ok(value)) => {
            let more = matches!(documents.next(), Some(Ok(Value::Object(_) | Value::Null)));
            Ok((value, more))
        }
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the file is empty".to_owned()),
    }
}
