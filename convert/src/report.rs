//! Report of a conversion: the bundle info and all findings.

use manifests::{
    content::{Content, SkippedEntries},
    path::Path,
    yaml,
};
use serde::Serialize;

use crate::{
    bundle_info::BundleInfo,
    finding::{Finding, Level, Location},
};

/// Bundle info and all findings of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The bundle info, as far as it could be read.
    pub facts: BundleInfo,
    /// Findings by severity: errors, warnings, changes, each ordered by place.
    pub findings: Vec<Finding>,
    /// Entries outside of the manifests and the metadata that are not regular files.
    #[serde(skip_serializing_if = "SkippedEntries::is_empty")]
    pub skipped: SkippedEntries,
}

impl Report {
    /// Returns the errors, which are the reasons why the bundle cannot be converted.
    pub fn refusals(&self) -> impl Iterator<Item = &Finding> {
        self.with_level(Level::Error)
    }

    /// Returns the findings of one level.
    pub fn with_level(&self, level: Level) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.level == level)
    }

    /// Determines line and column of every finding. Documents with findings are parsed again, so that bundles without
    /// findings have no extra cost.
    pub fn locate(&mut self, content: &Content) {
        let mut open: Vec<&mut Location> = self
            .findings
            .iter_mut()
            .filter_map(|f| f.location.as_mut())
            .collect();
        open.retain(|place| place.line.is_none());
        open.sort_by(|a, b| (&a.file, a.document).cmp(&(&b.file, b.document)));
        for places in open.chunk_by_mut(|a, b| (&a.file, a.document) == (&b.file, b.document)) {
            let Some((bytes, document)) = places.first().and_then(|place| {
                Some((content.read(&place.file)?, place.document.checked_sub(1)?))
            }) else {
                continue;
            };
            // A missing value has no position: the nearest enclosing value represents it.
            let paths: Vec<Path> = places.iter().map(|place| place.path.clone()).collect();
            let located = yaml::locate_nearest(bytes, document, &paths);
            for (place, located) in places.iter_mut().zip(located) {
                (place.line, place.column) = located.unzip();
            }
        }
    }
}
