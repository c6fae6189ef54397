//! Data: what it looks like, and its way to standard output or into a file.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context;
use manifests::{object::Object, yaml};
use serde::Serialize;

use crate::args::{Description, Manifests};

/// Marks a failure to write to standard output.
#[derive(Debug)]
struct Stdout;

impl std::fmt::Display for Stdout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed to write to standard output")
    }
}

/// Writes data to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context(Stdout)
}

/// Writes data with styles, which only a terminal sees.
pub(crate) fn print_styled(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context(Stdout)
}

/// Whether an error only says that nobody reads standard output any more.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error.is::<Stdout>()
        && error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A file that takes the place of an older one only when it is complete; a device or a pipe is written to.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text).with_context(failed);
    }
    let name = path
        .file_name()
        .with_context(|| format!("{} names no file", path.display()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let hidden = path.with_file_name(hidden);
    fs::write(&hidden, text)
        .and_then(|()| fs::rename(&hidden, path))
        .with_context(|| {
            let _ = fs::remove_file(&hidden);
            failed()
        })
}

/// Several objects as one text.
pub(crate) fn manifests(objects: &[Object], format: Manifests) -> anyhow::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        api_version: &'static str,
        items: &'a [Object],
        kind: &'static str,
    }
    match format {
        Manifests::Yaml => {
            let mut text = String::new();
            for object in objects {
                if !text.is_empty() {
                    text.push_str("---\n");
                }
                text.push_str(&manifest(object, format)?);
            }
            Ok(text)
        }
        Manifests::Json => json(&List {
            api_version: "v1",
            items: objects,
            kind: "List",
        }),
    }
}

/// One object as a text.
pub(crate) fn manifest(object: &Object, format: Manifests) -> anyhow::Result<String> {
    match format {
        Manifests::Yaml => yaml::to_string(object)
            .with_context(|| format!("failed to write {} as YAML", object.identity())),
        Manifests::Json => json(object),
    }
}

/// A description in one of the formats for programs; `None` for people's.
pub(crate) fn described(
    value: &impl Serialize,
    format: Description,
) -> anyhow::Result<Option<String>> {
    Ok(match format {
        Description::Text => None,
        Description::Json => Some(json(value)?),
        Description::Yaml => {
            Some(yaml::to_string(value).context("failed to write the description as YAML")?)
        }
    })
}

pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("failed to write JSON")?;
    text.push('\n');
    Ok(text)
}
