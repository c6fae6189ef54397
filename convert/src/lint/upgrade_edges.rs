//! Upgrade edges of a bundle.

use manifests::path::Path;
use manifests::version_range::Range;
use manifests::{names, version};

use crate::{
    csv::Csv,
    finding::{Findings, code::Code},
};

pub(super) fn run(csv: Csv<'_>, findings: &mut Findings) {
    replaces(csv, findings);
    skips(csv, findings);
    skip_range(csv, findings);
}

fn replaces(csv: Csv<'_>, findings: &mut Findings) {
    let replaces = csv.text(&["spec", "replaces"]);
    let Some(problem) = check_reference(csv, replaces).filter(|_| !replaces.is_empty()) else {
        return;
    };
    findings.warn(
        Code::UpgradeGraph,
        csv.path_place(&Path::from(["spec", "replaces"])),
        format!("spec.replaces {replaces:?} {problem}"),
        "set it to the ClusterServiceVersion of the previous version, or remove the field",
    );
}

fn skips(csv: Csv<'_>, findings: &mut Findings) {
    for (at, name) in csv.list(&["spec", "skips"]).iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let problem = if name.is_empty() {
            Some("is empty".to_owned())
        } else {
            check_reference(csv, name)
        };
        if let Some(problem) = problem {
            findings.warn(
                Code::UpgradeGraph,
                csv.path_place(&Path::from(["spec", "skips"]).index(at)),
                format!("spec.skips[{at}] {name:?} {problem}"),
                "set it to the name of a ClusterServiceVersion, or remove the entry",
            );
        }
    }
}

/// Returns the reason why a name is not that of an earlier version, if any.
fn check_reference(csv: Csv<'_>, name: &str) -> Option<String> {
    if name == csv.name() {
        return Some("is the bundle itself".into());
    }
    if version::parse_strict(name.strip_prefix('v').unwrap_or(name)).is_ok() {
        return Some("is a version, not the name of a ClusterServiceVersion".into());
    }
    let problem = names::dns_subdomain(name)
        .and_then(|()| names::label_value(name))
        .err()?;
    Some(format!("is invalid: {problem}"))
}

fn skip_range(csv: Csv<'_>, findings: &mut Findings) {
    let Some(text) = csv.annotation("olm.skipRange") else {
        return;
    };
    if let Err(error) = Range::parse(text) {
        findings.warn(
            Code::UpgradeGraph,
            csv.path_place(&Path::from(["metadata", "annotations", "olm.skipRange"])),
            format!("invalid skipRange: {error}; opm rejects catalogs with it"),
            "use comparisons such as \">=1.0.0 <1.2.0\"",
        );
    }
}
