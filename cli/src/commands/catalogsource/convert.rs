//! `rukpak catalogsource convert`.

use anyhow::Context;
use manifests::{
    api::catalog_source::convert::{self, Rewritten, rewrite},
    yaml,
};
use serde_json::{Value, json};

use super::{is_catalog_source, name, objects::items_mut, read};
use crate::{
    ExitStatus,
    args::{CatalogSourceConvertArgs, Form, ManifestFormat},
    output,
    output::message,
};

/// Counts of the processed objects.
#[derive(Default)]
struct ConvertSummary {
    /// Number of CatalogSources.
    sources: usize,
    /// Number of CatalogSources that the other form cannot express.
    failed: usize,
}

pub(super) fn run(args: &CatalogSourceConvertArgs) -> anyhow::Result<ExitStatus> {
    let form = match args.to {
        Form::New => convert::Form::New,
        Form::Legacy => convert::Form::Legacy,
    };
    let (mut all, mut summary) = (Vec::new(), ConvertSummary::default());
    for path in args.files.iter() {
        let failed = || format!("failed to read {}", path.display());
        let text = read(path).with_context(failed)?;
        for document in yaml::documents(&text) {
            let document = document.with_context(failed)?;
            // The document has only comments.
            if !document.is_null() {
                all.push(document_in(form, document, &mut summary));
            }
        }
    }
    output::print(&format_documents(&all, args.output)?)?;
    if summary.sources == 0 {
        message::warning("no CatalogSource found; all documents are written unchanged");
    }
    Ok(match summary.failed {
        0 => ExitStatus::Done,
        _ => ExitStatus::Failed,
    })
}

/// Rewrites a CatalogSource, or the CatalogSources of a List, into another form. Other objects are unchanged.
fn document_in(form: convert::Form, mut document: Value, summary: &mut ConvertSummary) -> Value {
    if let Some(items) = items_mut(&mut document) {
        for item in items {
            *item = document_in(form, item.take(), summary);
        }
        return document;
    }
    convert_object(form, document, summary)
}

fn convert_object(form: convert::Form, object: Value, summary: &mut ConvertSummary) -> Value {
    if !is_catalog_source(&object) {
        return object;
    }
    summary.sources += 1;
    let name = name(&object);
    match rewrite(object.clone(), form) {
        Ok(Rewritten { object, dropped }) => {
            for dropped in dropped {
                message::warning(&format!("CatalogSource {name}: {dropped}"));
            }
            object
        }
        Err(error) => {
            message::error(&format!("CatalogSource {name}: {error}; written unchanged"));
            summary.failed += 1;
            object
        }
    }
}

/// Formats the documents. In JSON, a single document is printed alone, and any other number becomes a List.
fn format_documents(all: &[Value], format: ManifestFormat) -> anyhow::Result<String> {
    match format {
        ManifestFormat::Yaml => {
            let mut text = String::new();
            for document in all {
                if !text.is_empty() {
                    text.push_str("---\n");
                }
                yaml::write(&mut text, document);
            }
            Ok(text)
        }
        ManifestFormat::Json => match all {
            [only] => output::json(only),
            all => output::json(&json!({"apiVersion": "v1", "kind": "List", "items": all})),
        },
    }
}
