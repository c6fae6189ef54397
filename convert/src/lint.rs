//! Warnings: all problems that `opm alpha bundle validate`, `operator-sdk bundle validate` and OperatorHub.io report for a
//! bundle, and that do not prevent its conversion.
//!
//! Each rule is one function. All rules read the original bundle, before old APIs are upgraded, so that a finding refers to
//! the author's own text. Findings of the conversion are not repeated.
//!
//! | module | checks |
//! | --- | --- |
//! | [`files`] | hidden files, several objects in a file, the bundle's size |
//! | [`annotations`] | `metadata/annotations.yaml`, channels |
//! | [`properties`] | `metadata/properties.yaml`, `metadata/dependencies.yaml` |
//! | [`csv`], [`upgrade_edges`], [`examples`], [`operatorhub`] | the ClusterServiceVersion |
//! | [`crd`], [`owned_crds`] | CustomResourceDefinitions, and their entries in the CSV |
//! | [`workloads`], [`permissions`], [`service_accounts`], [`objects`] | workloads, their permissions, other objects of the bundle |
//! | [`removed_apis`] | APIs that are or will be removed |

mod annotations;
mod constraint;
mod crd;
mod csv;
mod examples;
mod files;
mod objects;
mod operatorhub;
mod owned_crds;
mod permissions;
mod properties;
mod removed_apis;
mod service_accounts;
mod upgrade_edges;
mod workloads;

#[cfg(test)]
mod tests;

use manifests::{content::Content, object::text, path::Path};
use serde_json::Value;

use crate::{
    bundle::{Item, metadata::Metadata},
    bundle_info::BundleInfo,
    csv::Csv,
    finding::Findings,
    options::Options,
};

/// The original bundle.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) content: &'a Content,
    pub(crate) metadata: &'a Metadata,
    pub(crate) csv: Option<Csv<'a>>,
    /// The original `spec.version` of the CSV, because decoding completes `1.2` to `1.2.0`.
    pub(crate) version: &'a str,
    pub(crate) others: &'a [Item],
    pub(crate) facts: &'a BundleInfo,
    pub(crate) options: &'a Options,
}

/// Runs all rules.
pub(crate) fn run(input: Input<'_>, findings: &mut Findings) {
    files::run(input, findings);
    annotations::run(input.metadata, findings);
    properties::run(input, findings);
    crd::run(input, findings);
    workloads::run(input, findings);
    permissions::run(input, findings);
    service_accounts::run(input, findings);
    objects::run(input, findings);
    removed_apis::run(input, findings);
    if let Some(csv) = input.csv {
        csv::run(csv, input, findings);
        upgrade_edges::run(csv, findings);
        examples::run(csv, findings);
        operatorhub::run(csv, findings);
        owned_crds::run(csv, input.others, findings);
    }
}

/// Returns the string at a path of keys; empty if it is missing or has another type.
fn string_at<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    text(value, keys).unwrap_or_default()
}

/// Returns the list at a path of keys, with positions; empty if it is missing or has another type.
fn list<'a>(value: &'a Value, keys: &[&str]) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    manifests::object::get_path(value, keys)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
}

/// Returns the existing prefix of a path, which is the location for a missing value.
fn suggestion(value: &Value, keys: &[&str]) -> Path {
    let mut path = Path::root();
    let mut value = value;
    for key in keys {
        let Some(next) = value.get(key) else { break };
        value = next;
        path = path.key(*key);
    }
    path
}
