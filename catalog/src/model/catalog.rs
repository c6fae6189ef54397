//! A loaded catalog: the packages that passed validation, and the findings.

use std::collections::BTreeMap;

use super::Package;
use crate::{
    finding::{self, Finding, Level, OpmScope},
    source::Limits,
};

/// A loaded catalog: its usable packages, and the findings.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Valid packages by name.
    pub packages: BTreeMap<String, Package>,
    /// Packages that exist but must not be used, with their number of errors.
    pub broken: BTreeMap<String, usize>,
    /// Position of each package's first error in `findings`, if it was retained.
    pub first: BTreeMap<String, usize>,
    /// Findings in the order of opm's checks.
    pub findings: Vec<Finding>,
    /// Number of findings beyond the limit.
    pub more_findings: usize,
    /// First error that ends a file whose rest may contain further packages.
    pub unread_rest: Option<String>,
    /// Number of documents.
    pub documents: usize,
}

// === impl Catalog ===

impl Catalog {
    /// Reports whether `opm validate` would accept the catalog.
    pub fn is_valid(&self) -> bool {
        !self
            .findings
            .iter()
            .any(|finding| finding.level == Level::Error)
    }

    /// Formats the errors like `opm validate`; `None` if the catalog is valid.
    pub fn as_opm(&self) -> Option<String> {
        finding::as_opm(&self.findings)
    }

    /// Returns the reason why a package is unusable, or `None` if it is usable or does not exist. If the rest of a file
    /// was not read, the packages that were not found are unusable, because the rest may contain them.
    pub fn why_broken(&self, package: &str) -> Option<String> {
        if self.packages.contains_key(package) {
            return None;
        }
        let Some(&count) = self.broken.get(package) else {
            let error = self.unread_rest.as_ref()?;
            return Some(format!(
                "{error}; the rest of the file was not read and may contain the package; correct the file"
            ));
        };
        let first = self.first.get(package);
        let first = first.and_then(|at| self.findings.get(*at));
        let first = first.map_or_else(
            || "it has further errors; correct the reported ones first".to_owned(),
            ToString::to_string,
        );
        Some(match count {
            0 | 1 => first,
            more => format!("{first} (and {} more)", more - 1),
        })
    }

    /// Marks packages that exceed the limits as broken.
    pub(crate) fn enforce_limits(&mut self, limits: &Limits) {
        let packages = std::mem::take(&mut self.packages);
        for (name, package) in packages {
            let problem = if package.bundles.len() > limits.package_bundles {
                super::exceeds_bundle_limit(limits.package_bundles)
            } else if package.size() > limits.package_size {
                super::exceeds_size_limit(limits.package_size)
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
                scope: OpmScope::FirstOnly,
            });
            self.broken.insert(name, 1);
        }
    }
}
