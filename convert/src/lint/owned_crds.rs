//! CRD entries of the CSV, compared with the CRDs themselves.

use std::collections::{BTreeMap, BTreeSet};

use manifests::path::Path;
use serde_json::Value;

use super::{crd, string_at};
use crate::{
    bundle::Item,
    csv::Csv,
    finding::{Findings, code::Code},
    rejections::is_crd,
};

pub(super) fn run(csv: Csv<'_>, others: &[Item], findings: &mut Findings) {
    let crds: BTreeMap<&str, &Item> = others
        .iter()
        .filter(|item| is_crd(item))
        .map(|item| (item.name(), item))
        .collect();
    for which in ["owned", "required"] {
        for (at, entry) in csv.crds(which).iter().enumerate() {
            let path = Path::from(["spec", "customresourcedefinitions", which]).index(at);
            entry_fields(csv, entry, &path, findings);
            name_form(csv, entry, &path, findings);
            description(csv, which, entry, &path, findings);
            if let Some(item) = crds
                .get(string_at(entry, &["name"]))
                .filter(|_| which == "owned")
            {
                kind(csv, entry, item, &path, findings);
                served(csv, entry, item, &path, findings);
            }
        }
    }
    unlisted_crds(csv, &crds, findings);
}

fn entry_fields(csv: Csv<'_>, entry: &Value, path: &Path, findings: &mut Findings) {
    for field in ["name", "kind", "version"] {
        if string_at(entry, &[field]).is_empty() {
            let name = string_at(entry, &["name"]);
            let message =
                format!("required field missing: the entry of CRD {name:?} has no {field}");
            findings.warn(
                Code::OwnedCRD,
                csv.path_place(path),
                message,
                "copy it from the CRD",
            );
        }
    }
}

fn name_form(csv: Csv<'_>, entry: &Value, path: &Path, findings: &mut Findings) {
    let name = string_at(entry, &["name"]);
    let fits = name
        .split_once('.')
        .is_some_and(|(plural, group)| !plural.is_empty() && !group.is_empty());
    if !fits && !name.is_empty() {
        findings.warn(
            Code::OwnedCRD,
            csv.path_place(&path.clone().key("name")),
            format!("couldn't parse plural.group from crd name: {name}; operator-sdk rejects this"),
            "use <plural>.<group>",
        );
    }
}

fn description(csv: Csv<'_>, which: &str, entry: &Value, path: &Path, findings: &mut Findings) {
    if string_at(entry, &["description"]).is_empty() {
        let message = format!(
            "{which} CRD {:?} has an empty description",
            string_at(entry, &["name"])
        );
        findings.warn(
            Code::CRDDescription,
            csv.path_place(path),
            message,
            "describe the result of creating such a custom resource",
        );
    }
}

fn kind(csv: Csv<'_>, entry: &Value, item: &Item, path: &Path, findings: &mut Findings) {
    let (owned, (_, defined)) = (string_at(entry, &["kind"]), crd::group_kind(&item.value));
    if owned != defined && !owned.is_empty() && !defined.is_empty() {
        findings.warn(
            Code::OwnedCRD,
            csv.path_place(&path.clone().key("kind")),
            format!(
                "the CSV owns kind {owned:?} of {}, which defines {defined:?}",
                item.label()
            ),
            "copy the kind from the CRD",
        );
    }
}

fn served(csv: Csv<'_>, entry: &Value, item: &Item, path: &Path, findings: &mut Findings) {
    let owned = string_at(entry, &["version"]);
    let versions = crd::versions(&item.value);
    if owned.is_empty()
        || versions
            .iter()
            .any(|version| version.name == owned && version.is_served)
    {
        return;
    }
    let served: Vec<_> = versions
        .iter()
        .filter(|version| version.is_served)
        .map(|version| version.name)
        .collect();
    findings.warn(
        Code::UnservedVersion,
        csv.path_place(&path.clone().key("version")),
        format!(
            "the CSV owns version {owned:?} of {}, which serves: {}",
            item.label(),
            served.join(", ")
        ),
        "list versions that are served",
    );
}

/// Reports CRDs that the CSV does not own, because OLM neither offers nor protects them. Other versions of an owned kind
/// are accepted.
fn unlisted_crds(csv: Csv<'_>, crds: &BTreeMap<&str, &Item>, findings: &mut Findings) {
    let owned: BTreeSet<(&str, &str)> = csv
        .crds("owned")
        .iter()
        .map(|entry| {
            (
                string_at(entry, &["name"])
                    .split_once('.')
                    .unwrap_or_default()
                    .1,
                string_at(entry, &["kind"]),
            )
        })
        .collect();
    let names: BTreeSet<&str> = csv
        .crds("owned")
        .iter()
        .map(|entry| string_at(entry, &["name"]))
        .collect();
    for (name, item) in crds {
        if !names.contains(name) && !owned.contains(&crd::group_kind(&item.value)) {
            findings.warn(
                Code::UnownedCRD,
                item.place.clone(),
                format!("CRD {name:?} is present in the bundle but not defined in CSV; operator-sdk rejects this"),
                "list it in spec.customresourcedefinitions.owned",
            );
        }
    }
}
