//! Typed access to a ClusterServiceVersion for the conversion.
//!
//! First, the whole document is compared with OLM's Go type, so that every wrong type is reported. Afterwards, values of a
//! wrong type read as absent.

use std::collections::BTreeSet;

use manifests::content::Content;
use manifests::go_types::{self, Problem, ProblemKind, Suggestion};
use manifests::object::{get_path, text, truncate};
use manifests::openshift::{self, MAX_ANNOTATION};
use manifests::path::{Path, Step};
use manifests::yaml;
use serde_json::{Map, Value};

use crate::{
    bundle::Item,
    finding::{Findings, Location, code::Code},
};

/// Maximum length of a spelling in a finding, in characters.
const MAX_SPELLING: usize = 60;
/// Maximum number of spellings to look up in a manifest.
const MAX_SPELLINGS: usize = 20;
/// Maximum size of a manifest in which spellings are looked up, in bytes.
const MAX_MANIFEST: usize = 2 << 20;
/// Name of the install mode for all namespaces.
pub(crate) const ALL_NAMESPACES: &str = "AllNamespaces";

/// A view of the ClusterServiceVersion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Csv<'a> {
    value: &'a Value,
    place: &'a Location,
}

impl<'a> Csv<'a> {
    pub(crate) fn new(item: &'a Item) -> Self {
        Self {
            value: &item.value,
            place: &item.place,
        }
    }

    pub(crate) fn path_place(&self, path: &Path) -> Location {
        self.place.at(path)
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    pub(crate) fn text(&self, keys: &[&str]) -> &'a str {
        text(self.value, keys).unwrap_or_default()
    }

    pub(crate) fn list(&self, keys: &[&str]) -> &'a [Value] {
        get_path(self.value, keys)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &'a str {
        self.text(&["metadata", "name"])
    }

    pub(crate) fn annotations(&self) -> Option<&'a Map<String, Value>> {
        get_path(self.value, &["metadata", "annotations"])?.as_object()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations()?.get(key)?.as_str()
    }

    pub(crate) fn deployments(&self) -> &'a [Value] {
        self.list(&DEPLOYMENTS)
    }

    pub(crate) fn permissions(&self) -> &'a [Value] {
        self.list(&["spec", "install", "spec", "permissions"])
    }

    pub(crate) fn cluster_permissions(&self) -> &'a [Value] {
        self.list(&["spec", "install", "spec", "clusterPermissions"])
    }

    pub(crate) fn webhooks(&self) -> &'a [Value] {
        self.list(&["spec", "webhookdefinitions"])
    }

    /// Returns the `owned` or `required` CustomResourceDefinitions.
    pub(crate) fn crds(&self, which: &str) -> &'a [Value] {
        self.list(&["spec", "customresourcedefinitions", which])
    }

    /// Returns the `owned` or `required` API services.
    pub(crate) fn api_services(&self, which: &str) -> &'a [Value] {
        self.list(&["spec", "apiservicedefinitions", which])
    }

    /// Returns the supported install modes, each once.
    pub(crate) fn install_modes(&self) -> BTreeSet<&'a str> {
        self.list(&["spec", "installModes"])
            .iter()
            .filter(|mode| mode.get("supported") == Some(&Value::Bool(true)))
            .filter_map(|mode| text(mode, &["type"]))
            .collect()
    }
}

/// Lists of the install strategy, moved out of a CSV so that rendering does not copy them.
#[derive(Debug)]
pub(crate) struct Install {
    pub(crate) deployments: Vec<Value>,
    pub(crate) permissions: Vec<Value>,
    pub(crate) cluster_permissions: Vec<Value>,
}

impl Install {
    pub(crate) fn take_from(csv: &mut Value) -> Self {
        let mut take = |name: &str| {
            let list = csv.pointer_mut(&format!("/spec/install/spec/{name}"));
            match list.map(Value::take) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            }
        };
        Self {
            deployments: take("deployments"),
            permissions: take("permissions"),
            cluster_permissions: take("clusterPermissions"),
        }
    }
}

/// Path of the Deployments of the install strategy.
pub(crate) const DEPLOYMENTS: [&str; 4] = ["spec", "install", "spec", "deployments"];

/// Reports every location in which the CSV differs from OLM's type. Wrong types are errors in fields that the conversion
/// reads. In other fields, and for unknown fields, which OLM ignores, they are warnings.
///
/// Afterwards, the CSV has neither unknown fields nor values that Go does not print. Returns the spelling of the annotation
/// [`MAX_ANNOTATION`] if it is not a string.
pub(crate) fn check(item: &mut Item, content: &Content, findings: &mut Findings) -> Option<String> {
    let group = manifests::object::group_version(item.api_version());
    if group != ("operators.coreos.com", "v1alpha1") {
        // OLM checks only the kind; an empty apiVersion is the only one that prevents decoding.
        let message = match item.api_version() {
            "" => "the ClusterServiceVersion has no apiVersion; OLM rejects the bundle".to_owned(),
            other => format!(
                "the ClusterServiceVersion has apiVersion {other:?}; OLM treats it as operators.coreos.com/v1alpha1"
            ),
        };
        findings.warn(
            Code::WrongShape,
            item.place.at(&Path::from(["apiVersion"])),
            message,
            "set operators.coreos.com/v1alpha1",
        );
    }
    let mut problems = go_types::conform(&mut item.value, go_types::csv());
    spell(&mut problems, item, content);
    let annotation = Path::from(["metadata", "annotations", MAX_ANNOTATION]);
    let mut spelling = None;
    for problem in problems {
        match problem.kind {
            ProblemKind::Mismatch { value, .. } if problem.path == annotation => {
                let problem = openshift::Problem::not_a_string(&value);
                findings.error(
                    Code::WrongShape,
                    item.place.at(&annotation),
                    problem.explained(),
                    &problem.remedy(),
                );
                spelling = Some(value);
            }
            _ => report(
                &problem,
                is_used_field,
                &item.place,
                "the ClusterServiceVersion",
                findings,
            ),
        }
    }
    spelling
}

/// Replaces numbers and booleans of a wrong type by their spelling in the file, because YAML converts `4.10` to 4.1. Looks
/// up only a few, in a manifest that fits into etcd, because aliases can repeat a long spelling.
fn spell(problems: &mut [Problem], item: &Item, content: &Content) {
    let bytes = content.read(&item.place.file).map(AsRef::as_ref);
    let Some(bytes) = bytes.filter(|bytes: &&[u8]| bytes.len() <= MAX_MANIFEST) else {
        return;
    };
    let values = problems
        .iter_mut()
        .filter_map(|problem| match &mut problem.kind {
            ProblemKind::Mismatch { value, .. } if !value.starts_with(['"', '{', '[']) => {
                Some((item.place.at(&problem.path).path, value))
            }
            _ => None,
        });
    let (paths, values): (Vec<_>, Vec<_>) = values.take(MAX_SPELLINGS).unzip();
    let document = item.place.document.saturating_sub(1);
    let scalars = yaml::written_all(bytes, document, &paths);
    for (value, scalar) in values.into_iter().zip(scalars) {
        if let Some(scalar) = scalar {
            *value = truncate(&scalar.text, MAX_SPELLING);
        }
    }
}

/// Reports a schema problem as a finding. `matters` decides by path if a wrong type is an error.
pub(crate) fn report(
    problem: &Problem,
    matters: fn(&Path) -> bool,
    place: &Location,
    object: &str,
    findings: &mut Findings,
) {
    let at = place.at(&problem.path);
    match &problem.kind {
        ProblemKind::Unknown { hint } => findings.warn(
            Code::UnknownField,
            at,
            format!("{object} has no field {}; it is ignored", problem.path),
            &did_you_mean(hint.as_ref()),
        ),
        ProblemKind::Mismatch {
            expected,
            found,
            value,
        } => {
            let message = format!("{} must be {expected}, not {found} ({value})", problem.path);
            if matters(&problem.path) {
                findings.error(Code::WrongShape, at, message, &remedy(expected, found));
            } else {
                findings.warn(Code::WrongShape, at, message, &remedy(expected, found));
            }
        }
    }
}

/// Returns the suggestion for an unknown field as a remedy.
pub(crate) fn did_you_mean(hint: Option<&Suggestion>) -> String {
    match hint {
        Some(Suggestion::Spelling(name)) => format!("did you mean {name}?"),
        Some(Suggestion::Parent(path)) => format!("did you mean {path}?"),
        None => "remove it".to_owned(),
    }
}

fn remedy(expected: &str, found: &str) -> String {
    let is_scalar = ["boolean", "number", "integer"]
        .iter()
        .any(|kind| found.contains(kind));
    if is_scalar
        && ["string", "version", "release"]
            .iter()
            .any(|kind| expected.contains(kind))
    {
        "put the value in quotes".into()
    } else {
        format!("use {expected}")
    }
}

/// Reports whether the conversion reads a field of the CSV. All other fields are documentation.
fn is_used_field(path: &Path) -> bool {
    let keys: Vec<&str> = path
        .steps()
        .iter()
        .filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
        .collect();
    match keys.as_slice() {
        [
            "spec",
            "customresourcedefinitions" | "apiservicedefinitions",
            _,
            field,
            ..,
        ] => !matches!(
            *field,
            "actionDescriptors"
                | "description"
                | "displayName"
                | "resources"
                | "specDescriptors"
                | "statusDescriptors"
        ),
        ["spec", field, ..] => !matches!(
            *field,
            "cleanup"
                | "description"
                | "displayName"
                | "icon"
                | "keywords"
                | "labels"
                | "links"
                | "maintainers"
                | "maturity"
                | "nativeAPIs"
                | "provider"
                | "selector"
        ),
        ["status", ..] => false,
        _ => true,
    }
}
