//! Conversion of bundle content to plain Kubernetes objects, with a report of changed, dropped and rejected parts.
//!
//! The input is a bundle as validated [`Content`]. The output is an ordered list of objects for `kubectl apply`, or all
//! reasons why the bundle cannot be converted. The conversion performs no I/O and is deterministic: the same content and
//! options yield the same bytes on every machine.
//!
//! ```text
//! Content ─ bundle ─┬─ api_upgrade (old APIs) ─┬─ rejections ─┬─ render ─ objects
//!                   └─ csv (the one CSV)  ─────┘              └─ report ─ findings, bundle_info
//! ```
//!
//! ```
//! use convert::{Options, plain};
//! use manifests::content::{Builder, Limits};
//!
//! let mut files = Builder::new(Limits::default());
//! files.add("manifests/map.yaml", 0o644, &mut "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}".as_bytes())?;
//! let conversion = plain(&files.finish(), &Options::default());
//! assert_eq!(conversion.objects.unwrap()[0].name(), "a");
//! # Ok::<(), manifests::content::Error>(())
//! ```
//!
//! Each rule has one location: rejections in `rejections`, output in `render`, upgrades of old APIs in [`api_upgrade`],
//! changes by an admin in [`deployment_config`], warnings in `lint`.

#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

pub mod api_upgrade;
mod budget;
mod bundle;
pub mod bundle_info;
mod csv;
pub mod deployment_config;
pub mod finding;
mod lint;
mod max_openshift;
pub mod olm;
mod options;
pub mod permissions;
mod plain;
mod property;
mod rejections;
pub mod removed_apis;
mod render;
mod report;
mod scope;
#[cfg(test)]
mod testing;

use std::collections::BTreeSet;

use manifests::{
    content::Content,
    object::{Object, text},
    path::Path,
    version::KubeVersion,
    yaml,
};
use serde_json::Value;

use crate::{
    budget::Budget,
    bundle::{Item, metadata::Metadata},
    csv::{Csv, Install},
    finding::Findings,
};
pub use crate::{
    finding::{Finding, Level, Location, code::Code},
    options::{Class, NamespaceObject, Options},
    property::Property,
    render::namespace::KEEP,
    report::Report,
};

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// The objects in an order in which they can be applied; `None` if the bundle is rejected.
    pub objects: Option<Vec<Object>>,
    /// Bundle info and all findings. It has an error if, and only if, `objects` is `None`.
    pub report: Report,
}

/// Converts a bundle of either class to plain objects.
///
/// Rejections are findings of the report instead of errors of this function, so that all of them are reported together.
pub fn plain(content: &Content, options: &Options) -> Conversion {
    convert(content, options, Mode::Conversion)
}

/// Validates a bundle: reports the findings of [`plain`], and problems for other tools, catalogs and consoles. The latter
/// do not prevent an installation here, so they are warnings. The only error beyond those of [`plain`] is a max OpenShift
/// version that cannot be determined ([`Code::MaxOpenShiftVersion`]): its author relies on a protection that does not
/// exist.
pub fn validate(content: &Content, options: &Options) -> Report {
    convert(content, options, Mode::Validate).report
}

/// Scope of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Checks that are required for a conversion.
    Conversion,
    /// Checks that are required for a conversion, and advice.
    Validate,
}

fn convert(content: &Content, options: &Options, mode: Mode) -> Conversion {
    let mut findings = Findings::default();
    let skipped = rejections::entries(content, &mut findings);
    let (objects, facts) = match options.class.unwrap_or_else(|| class(content)) {
        Class::Plain => (
            plain::objects(content, options, &mut findings),
            bundle_info::BundleInfo::default(),
        ),
        Class::Registry => registry(content, options, mode, &mut findings),
    };
    let objects = (!findings.is_rejected()).then_some(objects);
    Conversion {
        objects,
        report: Report {
            facts,
            findings: findings.finish(),
            skipped,
        },
    }
}

/// Detects the class of the content: a bundle with `metadata/`, or with a ClusterServiceVersion, is registry+v1.
pub fn class(content: &Content) -> Class {
    const KIND: &str = "ClusterServiceVersion";
    let is_csv = |value: &Value| text(value, &["kind"]) == Some(KIND);
    let has_csv = |bytes: &[u8]| {
        // Many files mention the kind in roles or descriptions, but few of them must be parsed.
        let mentioned = bytes
            .windows(KIND.len())
            .any(|window| window == KIND.as_bytes());
        mentioned
            && yaml::documents(bytes).flatten().any(|value| {
                let listed = value.get("items").and_then(Value::as_array);
                is_csv(&value) || listed.is_some_and(|items| items.iter().any(is_csv))
            })
    };
    let registry = content.has_folder("metadata")
        || content
            .dir("manifests")
            .any(|(_, file)| has_csv(&file.bytes));
    if registry {
        Class::Registry
    } else {
        Class::Plain
    }
}

fn registry(
    content: &Content,
    options: &Options,
    mode: Mode,
    findings: &mut Findings,
) -> (Vec<Object>, bundle_info::BundleInfo) {
    let bundle::Bundle {
        metadata,
        mut csv,
        objects: mut others,
        mut budget,
    } = bundle::read(content, options.limits, findings);
    let mut version = String::new();
    let mut spelling = None;
    if let Some(csv) = &mut csv {
        version.push_str(text(&csv.value, &["spec", "version"]).unwrap_or_default());
        spelling = csv::check(csv, content, findings);
    }
    let view = csv.as_ref().map(Csv::new);
    let properties = BundleProperties::new(&metadata, view, findings);
    let mut facts = bundle_info::collect(&metadata, view, &others, properties.all);
    let level = match mode {
        Mode::Conversion => Level::Warning,
        Mode::Validate => Level::Error,
    };
    facts.max_open_shift_version = max_openshift::resolve(
        &facts.properties,
        &metadata,
        view,
        spelling.as_deref(),
        level,
        findings,
    );
    facts.install_namespace = render::namespace::choose(options, view, &metadata, findings);

    rejections::objects(&others, findings);
    if mode == Mode::Validate {
        let input = lint::Input {
            content,
            metadata: &metadata,
            csv: view,
            version: &version,
            others: &others,
            facts: &facts,
            options,
        };
        lint::run(input, findings);
    }
    upgrade_items(&mut others, options.kube_version, &mut budget, findings);
    rejections::duplicates(&others, rejections::NamespaceRule::Single, findings);
    let Some(view) = view else {
        return (Vec::new(), facts);
    };
    rejections::csv(view, &metadata, &others, findings);
    let Some(mut csv) = csv else {
        return (Vec::new(), facts);
    };
    let install = Install::take_from(&mut csv.value);
    let input = render::Input {
        csv: Csv::new(&csv),
        properties: properties.annotation.as_deref(),
        namespace: &facts.install_namespace,
        options,
    };
    // Rendering has its own findings (names of ServiceAccounts, namespaces of objects), so it runs even for a rejected
    // bundle.
    let objects = render::objects(&input, install, others, &mut budget, findings);
    (objects, facts)
}

/// Properties of a bundle for its bundle info, and for the annotation of its pods.
struct BundleProperties {
    /// All properties: first `metadata/properties.yaml`, then the CSV's annotation, without exact repetitions (opm parity).
    all: Vec<Property>,
    /// Properties in the CSV's annotation, followed by those of the file; `None` if the file does not exist and the
    /// annotation is unchanged (operator-controller parity).
    annotation: Option<Vec<Property>>,
}

impl BundleProperties {
    fn new(metadata: &Metadata, csv: Option<Csv<'_>>, findings: &mut Findings) -> Self {
        let mut own = Vec::new();
        if let Some((csv, json)) =
            csv.and_then(|csv| Some((csv, csv.annotation(render::deployments::PROPERTIES)?)))
        {
            let place = csv.path_place(&Path::from([
                "metadata",
                "annotations",
                render::deployments::PROPERTIES,
            ]));
            match property::parse_list(json) {
                _ if matches!(json.trim(), "" | "null") => {}
                Ok(list) => own = list,
                Err(error) => {
                    // Other tools read the annotation only to append the file to it.
                    let level = if metadata.properties.is_some() {
                        Level::Error
                    } else {
                        Level::Warning
                    };
                    findings.add(
                        level,
                        Code::Property,
                        Some(place),
                        format!("failed to unmarshal csv.metadata.annotations['olm.properties']: {error}; its properties, \
                                 including maxOpenShiftVersion, are unknown"),
                        "set it to a JSON list of objects with `type` and `value`, or use metadata/properties.yaml",
                    );
                }
            }
        }
        let file = metadata.properties.as_deref();
        let mut unique = BTreeSet::new();
        let properties = file
            .unwrap_or_default()
            .iter()
            .chain(&own)
            .filter(|property| unique.insert((property.type_.as_str(), property.value.get())));
        Self {
            all: properties.cloned().collect(),
            annotation: file.map(|file| render::deployments::merge_properties(&own, file)),
        }
    }
}

/// Upgrades objects to APIs that the target serves. Drops objects without a successor API.
pub(crate) fn upgrade_items(
    items: &mut Vec<Item>,
    target: KubeVersion,
    budget: &mut Budget,
    findings: &mut Findings,
) {
    let mut changes = Vec::new();
    items.retain_mut(|item| {
        let label = item.label();
        let is_upgraded = api_upgrade::is_upgraded(&item.value, target);
        if is_upgraded && !budget.covers(api_upgrade::growth(&item.value)) {
            let subject = format!("the upgrade of {label}");
            findings.too_large(item.place.clone(), &subject);
            return false;
        }
        let before = is_upgraded.then(|| yaml::memory(&item.value));
        let fate = api_upgrade::upgrade(&mut item.value, target, &mut changes);
        if let Some(before) = before {
            let growth = yaml::memory(&item.value).saturating_sub(before);
            if !budget.take(growth) {
                findings.too_large(item.place.clone(), &label);
            }
        }
        for change in changes.drain(..) {
            findings.add(
                change.level,
                change.code,
                Some(item.place.at(&change.path)),
                format!("{label}: {}", change.message),
                change.remedy.as_deref().unwrap_or_default(),
            );
        }
        fate == api_upgrade::Disposition::Keep
    });
}
