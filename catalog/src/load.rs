//! A catalog in memory.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    blob,
    check::Check,
    finding::{self, Finding, Level, Scope},
    model::{self, Package},
    source::{Error, Limits, Source, describe_skipped},
    walk,
};

/// The packages that can be used, and what is wrong with the others.
#[derive(Debug, Default)]
pub struct Catalog {
    /// By name; each is sound.
    pub packages: BTreeMap<String, Package>,
    /// Packages that are there and must not be used, with the number of errors in each.
    pub broken: BTreeMap<String, usize>,
    /// Where the first of them stands in the findings, if it was kept.
    pub first: BTreeMap<String, usize>,
    /// What is wrong, in the order in which opm looks.
    pub findings: Vec<Finding>,
    /// Findings beyond those that are kept.
    pub more_findings: usize,
    /// The number of documents.
    pub documents: usize,
}

// === impl Catalog ===

impl Catalog {
    /// Whether `opm validate` would take it.
    pub fn is_valid(&self) -> bool {
        !self.findings.iter().any(|it| it.level == Level::Error)
    }

    /// What `opm validate` would say.
    pub fn as_opm(&self) -> Option<String> {
        finding::as_opm(&self.findings)
    }

    /// Why a package of this name cannot be used, if it is there.
    pub fn why_broken(&self, package: &str) -> Option<String> {
        let count = *self.broken.get(package)?;
        let first = self.first.get(package);
        let first = first.and_then(|at| self.findings.get(*at));
        let first = first.map_or_else(
            || "it has errors beyond those that are told; correct these first".to_owned(),
            ToString::to_string,
        );
        Some(match count {
            0 | 1 => first,
            more => format!("{first} (and {} more)", more - 1),
        })
    }

    /// Gives up packages that are larger than allowed.
    fn bound(&mut self, limits: &Limits) {
        let packages = std::mem::take(&mut self.packages);
        for (name, package) in packages {
            let problem = if package.bundles.len() > limits.package_bundles {
                model::too_many(limits.package_bundles)
            } else if package.size() > limits.package_size {
                model::too_large(limits.package_size)
            } else {
                self.packages.insert(name, package);
                continue;
            };
            self.first.insert(name.clone(), self.findings.len());
            self.findings.push(Finding {
                level: Level::Error,
                file: None,
                line: None,
                package: Some(name.clone()),
                message: problem,
                scope: Scope::First,
            });
            self.broken.insert(name, 1);
        }
    }
}

/// Reads and checks a catalog.
///
/// # Errors
/// When the folder cannot be read, or the catalog exceeds a limit for all of it. Whatever is wrong with documents or
/// packages is a finding.
pub fn load(source: Source<'_>, limits: &Limits) -> Result<Catalog, Error> {
    let seen = walk::collect(source, limits, blob::look)?;
    let skipped = source.skipped(limits)?;
    let mut catalog = Check::default().run(seen);
    catalog.bound(limits);
    catalog
        .findings
        .extend(describe_skipped(&skipped).map(|message| Finding {
            level: Level::Warning,
            file: None,
            line: None,
            package: None,
            message,
            scope: Scope::First,
        }));
    Ok(catalog)
}
