//! Check of each package: whether it can be installed in the new cluster.

use std::collections::BTreeSet;

use catalog::{
    choose::{self, Choice, Decision, Outcome, Request},
    model::{PLAIN_V0, REGISTRY_V1},
};

use crate::{
    args::{self, PackageSpec, PlatformRenderArgs},
    commands::catalog::{Catalogs, warn_unchecked_constraints},
    output::suggest,
};

/// Maximum number of reported ineligible bundles.
const MAX_REASONS: usize = 5;

/// Result of the check.
#[derive(Default)]
pub(super) struct PackageCheck<'a> {
    /// First bundle of each package.
    pub(super) chosen: Vec<(&'a PackageSpec, Choice)>,
    pub(super) warnings: Vec<String>,
    /// Messages about packages that cannot be installed.
    pub(super) problems: Vec<String>,
}

/// Chooses a bundle for each package, like the provisioner.
pub(super) fn all<'a>(args: &'a PlatformRenderArgs, catalogs: &Catalogs) -> PackageCheck<'a> {
    let mut check = PackageCheck::default();
    let mut names = BTreeSet::new();
    let kubernetes = args::kubernetes(args.kubernetes_version.as_ref(), args.openshift_version);
    for wanted in &args.packages {
        let name = &wanted.package;
        if !names.insert(name) {
            let problem = format!(
                "package {name} is listed twice; a package can have only one PlatformOperator"
            );
            check.problems.push(problem);
            continue;
        }
        let package = catalogs.package(name);
        let offers = package.offers();
        let decision = choose::choose(
            &Request {
                package: name,
                channel: wanted.channel.as_deref(),
                range: wanted.range.as_ref().map(|(_, range)| range),
                minor: None,
                newest: None,
                installed: None,
                openshift: args.openshift_version,
                kubernetes: kubernetes.as_ref(),
                media_types: &[REGISTRY_V1, PLAIN_V0],
                overrides: &[],
            },
            &offers,
        );
        let warnings = decision
            .warnings
            .iter()
            .map(|warning| format!("{name}: {warning}"));
        check.warnings.extend(warnings);
        match decision.verdict.choice() {
            Some(choice) => {
                if kubernetes.is_none() {
                    check
                        .warnings
                        .extend(warn_unchecked_constraints(choice, name, &offers));
                }
                check.chosen.push((wanted, choice.clone()));
            }
            None => check.problems.push(problem(name, &decision, catalogs)),
        }
    }
    check
}

/// Describes why a package cannot be installed, with similar names.
fn problem(name: &str, decision: &Decision, catalogs: &Catalogs) -> String {
    let exists = catalogs
        .iter()
        .any(|(_, catalog)| catalog.packages.contains_key(name));
    let is_broken = catalogs.iter().find_map(|(catalog, content)| {
        let reason = content.why_broken(name)?;
        Some(format!(
            "package {name} of catalog {catalog} cannot be used: {reason}"
        ))
    });
    if let Some(broken) = is_broken.filter(|_| decision.candidates.is_empty()) {
        return broken;
    }
    if !exists {
        let names = catalogs
            .iter()
            .flat_map(|(_, catalog)| catalog.packages.keys());
        let similar = suggest::similar_names(name, names.map(String::as_str));
        let hint = match similar.as_slice() {
            [] => format!(
                "run \"{} catalog list packages\" to see all packages",
                args::name()
            ),
            some => format!("similar packages: {}", some.join(", ")),
        };
        return format!("package {name} not found in any catalog; {hint}");
    }
    let text = match &decision.verdict {
        Outcome::NoCandidate(reason) | Outcome::NoUpgrade(reason) => reason.clone(),
        Outcome::Install(_) | Outcome::Upgrade(_) => format!("package {name}"),
    };
    // Bundles of other channels have only that reason.
    let is_in_channel = |reason: &String| !reason.starts_with("is not in channel");
    let candidates = decision.candidates.iter();
    let mut reasons: Vec<String> = candidates
        .filter(|candidate| candidate.reasons.iter().all(is_in_channel))
        .map(|candidate| format!("{} {}", candidate.name, candidate.reasons.join(", and ")))
        .collect();
    let more = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    if reasons.is_empty() {
        return text;
    }
    format!("{text}: {}", reasons.join("; "))
}
