//! What is only worth a warning: everything that `opm alpha bundle validate`, `operator-sdk bundle validate` and
//! OperatorHub.io say about a bundle and that does not keep it from being converted.
//!
//! One rule is one function. All rules read the bundle as it was written, before old APIs are upgraded, so that a
//! finding points at something the author can see. Nothing here is said that the conversion says already.
//!
//! | part | about |
//! | --- | --- |
//! | [`files`] | hidden files, several objects in a file, the bundle's size |
//! | [`annotations`] | `metadata/annotations.yaml`, channels |
//! | [`properties`] | `metadata/properties.yaml`, `metadata/dependencies.yaml` |
//! | [`csv`], [`graph`], [`examples`], [`hub`] | the ClusterServiceVersion |
//! | [`crd`], [`owned`] | CustomResourceDefinitions, and what the CSV says of them |
//! | [`workloads`], [`permissions`], [`accounts`], [`objects`] | what runs, what it may do, what else is shipped |
//! | [`apis`] | APIs that are gone or will go |

mod accounts;
mod annotations;
mod apis;
mod constraint;
mod crd;
mod csv;
mod examples;
mod files;
mod graph;
mod hub;
mod objects;
mod owned;
mod permissions;
mod properties;
mod workloads;

#[cfg(test)]
mod tests;

use manifests::{content::Content, object::text, path::Path};
use serde_json::Value;

use crate::{
    bundle::Item, csv::Csv, facts::Facts, metadata::Metadata, options::Options, report::Findings,
};

/// The bundle, as it was read.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) content: &'a Content,
    pub(crate) metadata: &'a Metadata,
    pub(crate) csv: Option<Csv<'a>>,
    /// The CSV's `spec.version` as it was written: reading completes `1.2` to `1.2.0`.
    pub(crate) version: &'a str,
    pub(crate) others: &'a [Item],
    pub(crate) facts: &'a Facts,
    pub(crate) options: &'a Options,
}

/// Runs every rule.
pub(crate) fn run(input: Input<'_>, findings: &mut Findings) {
    files::run(input, findings);
    annotations::run(input.metadata, findings);
    properties::run(input, findings);
    crd::run(input, findings);
    workloads::run(input, findings);
    permissions::run(input, findings);
    accounts::run(input, findings);
    objects::run(input, findings);
    apis::run(input, findings);
    if let Some(csv) = input.csv {
        csv::run(csv, input, findings);
        graph::run(csv, findings);
        examples::run(csv, findings);
        hub::run(csv, findings);
        owned::run(csv, input.others, findings);
    }
}

/// A text below a value; empty when it is absent or something else.
fn word<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    text(value, keys).unwrap_or_default()
}

/// A list below a value, with positions; empty when it is absent or something else.
fn list<'a>(value: &'a Value, keys: &[&str]) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    manifests::object::at(value, keys)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
}

/// As much of a path as there is: where something that is missing would have to be written.
fn near(value: &Value, keys: &[&str]) -> Path {
    let mut path = Path::root();
    let mut value = value;
    for key in keys {
        let Some(next) = value.get(key) else { break };
        value = next;
        path = path.key(*key);
    }
    path
}
