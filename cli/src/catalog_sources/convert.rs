//! `rukpak catalogsource convert`.

use anyhow::Context;
use manifests::{
    api::catalog_source::convert::{self, Rewritten, rewrite},
    yaml,
};
use serde_json::{Value, json};

use super::{is_catalog_source, name, objects::items_mut, read};
use crate::{
    Exit,
    args::{CatalogSourceConvertArgs, Form, Manifests},
    message, output,
};

/// What has been come across.
#[derive(Default)]
struct Seen {
    /// CatalogSources.
    sources: usize,
    /// Of them, those that cannot be said otherwise.
    failed: usize,
}

pub(super) fn run(args: &CatalogSourceConvertArgs) -> anyhow::Result<Exit> {
    let form = match args.to {
        Form::New => convert::Form::New,
        Form::Legacy => convert::Form::Legacy,
    };
    let (mut all, mut seen) = (Vec::new(), Seen::default());
    for path in &args.files {
        let failed = || format!("failed to read {}", path.display());
        let text = read(path).with_context(failed)?;
        for document in yaml::documents(&text) {
            let document = document.with_context(failed)?;
            // Of comments alone.
            if !document.is_null() {
                all.push(document_in(form, document, &mut seen));
            }
        }
    }
    output::print(&written(all, args.output)?)?;
    if seen.sources == 0 {
        message::warning("there is no CatalogSource; everything is written as it was");
    }
    Ok(match seen.failed {
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

/// A CatalogSource, or a List with some, in another form; anything else as it is.
fn document_in(form: convert::Form, mut document: Value, seen: &mut Seen) -> Value {
    if let Some(items) = items_mut(&mut document) {
        for item in items {
            *item = document_in(form, item.take(), seen);
        }
        return document;
    }
    one(form, document, seen)
}

fn one(form: convert::Form, object: Value, seen: &mut Seen) -> Value {
    if !is_catalog_source(&object) {
        return object;
    }
    seen.sources += 1;
    let name = name(&object);
    match rewrite(object.clone(), form) {
        Ok(Rewritten { object, dropped }) => {
            for dropped in dropped {
                message::warning(&format!("CatalogSource {name}: {dropped}"));
            }
            object
        }
        Err(error) => {
            message::error(&format!(
                "CatalogSource {name}: {error}; it is written as it was"
            ));
            seen.failed += 1;
            object
        }
    }
}

/// As many documents as there were; several of JSON are a List.
fn written(mut all: Vec<Value>, format: Manifests) -> anyhow::Result<String> {
    match format {
        Manifests::Yaml => {
            let mut text = String::new();
            for document in &all {
                if !text.is_empty() {
                    text.push_str("---\n");
                }
                yaml::write(&mut text, document);
            }
            Ok(text)
        }
        Manifests::Json => match (all.pop(), all.is_empty()) {
            (None, _) => Ok(String::new()),
            (Some(only), true) => output::json(&only),
            (Some(last), false) => {
                all.push(last);
                output::json(&json!({"apiVersion": "v1", "kind": "List", "items": all}))
            }
        },
    }
}
