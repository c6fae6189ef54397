//! Whether each package can be installed in the new cluster.

use std::collections::BTreeSet;

use catalog::{
    choose::{self, Choice, Decision, Request, Verdict},
    model::{PLAIN_V0, REGISTRY_V1},
};

use super::near;
use crate::{
    args::{self, PlatformRenderArgs, Wanted},
    catalogs::{Catalogs, uncompared},
};

/// How many bundles are told that cannot be installed.
const FEW: usize = 5;

/// What came of it.
#[derive(Default)]
pub(super) struct Chosen<'a> {
    /// What each package would begin with.
    pub(super) found: Vec<(&'a Wanted, Choice)>,
    pub(super) warnings: Vec<String>,
    /// Of packages that cannot be installed.
    pub(super) problems: Vec<String>,
}

/// Looks for all packages as the provisioner would.
pub(super) fn all<'a>(args: &'a PlatformRenderArgs, catalogs: &Catalogs) -> Chosen<'a> {
    let mut chosen = Chosen::default();
    let mut seen = BTreeSet::new();
    let kubernetes = args::kubernetes(args.kubernetes_version.as_ref(), args.openshift_version);
    for wanted in &args.packages {
        let name = &wanted.package;
        if !seen.insert(name) {
            let problem =
                format!("package {name} is named twice, and one PlatformOperator only can have it");
            chosen.problems.push(problem);
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
        let warnings = decision.warnings.iter().map(|it| format!("{name}: {it}"));
        chosen.warnings.extend(warnings);
        match decision.verdict.choice() {
            Some(choice) => {
                if kubernetes.is_none() {
                    chosen.warnings.extend(uncompared(choice, name, &offers));
                }
                chosen.found.push((wanted, choice.clone()));
            }
            None => chosen.problems.push(problem(name, &decision, catalogs)),
        }
    }
    chosen
}

/// Why a package cannot be installed, and what may have been meant.
fn problem(name: &str, decision: &Decision, catalogs: &Catalogs) -> String {
    let is_there = catalogs
        .iter()
        .any(|(_, it)| it.packages.contains_key(name));
    let is_broken = catalogs.iter().find_map(|(catalog, it)| {
        let why = it.why_broken(name)?;
        Some(format!(
            "package {name} of catalog {catalog} cannot be used: {why}"
        ))
    });
    if let Some(broken) = is_broken.filter(|_| decision.candidates.is_empty()) {
        return broken;
    }
    if !is_there {
        let names = catalogs.iter().flat_map(|(_, it)| it.packages.keys());
        let near = near::to(name, names.map(String::as_str));
        let hint = match near.as_slice() {
            [] => "\"rukpak catalog list packages\" tells which there are".to_owned(),
            some => format!("is it {}?", some.join(", or ")),
        };
        return format!("no catalog has a package {name}; {hint}");
    }
    let text = match &decision.verdict {
        Verdict::Nothing(why) | Verdict::Stay(why) => why.clone(),
        Verdict::Install(_) | Verdict::Upgrade(_) => format!("package {name}"),
    };
    // Those of other channels say nothing more than that.
    let is_here = |reason: &String| !reason.starts_with("is not in channel");
    let candidates = decision.candidates.iter();
    let mut told: Vec<String> = candidates
        .filter(|it| it.reasons.iter().all(is_here))
        .map(|it| format!("{} {}", it.name, it.reasons.join(", and ")))
        .collect();
    let more = told.len().saturating_sub(FEW);
    told.truncate(FEW);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    if told.is_empty() {
        return text;
    }
    format!("{text}: {}", told.join("; "))
}
