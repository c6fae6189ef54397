//! `rukpak catalogsource`.

mod convert;
mod migrate;
mod objects;
mod resolve;
mod validate;

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::ensure;
use manifests::api::catalog_source;
use serde_json::Value;

use self::objects::text;
use crate::{
    ExitStatus,
    args::{CatalogSourceArgs, CatalogSourceCommand},
};

/// Maximum size of a file: the API server accepts far smaller objects.
const MAX_FILE_SIZE: u64 = 16 << 20;

pub(crate) fn run(args: &CatalogSourceArgs) -> anyhow::Result<ExitStatus> {
    match &args.command {
        CatalogSourceCommand::Resolve(args) => resolve::run(args),
        CatalogSourceCommand::Validate(args) => validate::run(args),
        CatalogSourceCommand::Convert(args) => convert::run(args),
        CatalogSourceCommand::Migrate(args) => migrate::run(args),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path)?)
    };
    input
        .by_ref()
        .take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut text)?;
    ensure!(
        text.len() as u64 <= MAX_FILE_SIZE,
        "the file exceeds the limit of {MAX_FILE_SIZE} bytes; use a file with only the CatalogSources"
    );
    Ok(text)
}

fn is_catalog_source(object: &Value) -> bool {
    let group = text(object, "apiVersion").split_once('/');
    text(object, "kind") == "CatalogSource"
        && group.is_some_and(|(group, _)| group == catalog_source::GROUP)
}

/// Returns the name of an object, with its namespace, if any.
fn name(object: &Value) -> String {
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    match (text("/metadata/namespace"), text("/metadata/name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
