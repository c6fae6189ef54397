//! What a bundle says of its place in the upgrade graph.

use manifests::{names, path::Path, range::Range, version};

use crate::{code::Code, csv::Csv, report::Findings};

pub(super) fn run(csv: Csv<'_>, findings: &mut Findings) {
    replaces(csv, findings);
    skips(csv, findings);
    skip_range(csv, findings);
}

fn replaces(csv: Csv<'_>, findings: &mut Findings) {
    let replaces = csv.text(&["spec", "replaces"]);
    let Some(problem) = predecessor(csv, replaces).filter(|_| !replaces.is_empty()) else {
        return;
    };
    findings.warn(
        Code::UpgradeGraph,
        csv.at(&Path::from(["spec", "replaces"])),
        format!("spec.replaces {replaces:?} {problem}"),
        "name the ClusterServiceVersion of the version before, or remove the field",
    );
}

fn skips(csv: Csv<'_>, findings: &mut Findings) {
    for (at, name) in csv.list(&["spec", "skips"]).iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let problem = if name.is_empty() {
            Some("is empty".to_owned())
        } else {
            predecessor(csv, name)
        };
        if let Some(problem) = problem {
            findings.warn(
                Code::UpgradeGraph,
                csv.at(&Path::from(["spec", "skips"]).index(at)),
                format!("spec.skips[{at}] {name:?} {problem}"),
                "name a ClusterServiceVersion, or remove the entry",
            );
        }
    }
}

/// Why a name cannot be that of an earlier version.
fn predecessor(csv: Csv<'_>, name: &str) -> Option<String> {
    if name == csv.name() {
        return Some("is the bundle itself".into());
    }
    if version::strict(name.strip_prefix('v').unwrap_or(name)).is_ok() {
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
            csv.at(&Path::from(["metadata", "annotations", "olm.skipRange"])),
            format!("invalid skipRange: {error}; opm refuses catalogs with it"),
            "write comparisons such as \">=1.0.0 <1.2.0\"",
        );
    }
}
