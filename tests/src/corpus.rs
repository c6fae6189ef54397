//! An optional directory of real bundles with their expected results.

use std::{fs, path::PathBuf};

/// Returns the corpus of real bundles, if the variable names one: `bundles/NAME/`, `outcomes.tsv`, `expected/NAME.json`.
///
/// Reports a missing corpus on standard error, which the test harness shows only with `--nocapture`.
pub fn corpus() -> Option<Corpus> {
    let root = std::env::var_os("RUKPAK_CORPUS").filter(|root| !root.is_empty());
    let Some(root) = root.map(PathBuf::from) else {
        eprintln!("RUKPAK_CORPUS is not set: nothing was tested against real bundles");
        return None;
    };
    let outcomes = root.join("outcomes.tsv");
    let outcomes = fs::read_to_string(&outcomes)
        .unwrap_or_else(|error| panic!("RUKPAK_CORPUS: {}: {error}", outcomes.display()));
    Some(Corpus { root, outcomes })
}

/// A directory of real bundles with the expected outcome of each.
#[derive(Debug)]
pub struct Corpus {
    root: PathBuf,
    outcomes: String,
}

/// The expected outcome of one bundle.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The name of the bundle's directory.
    pub bundle: &'a str,
    /// The name of the bundle's ClusterServiceVersion.
    pub csv: &'a str,
    /// `converted`, or `rejected: …` with the cause.
    pub outcome: &'a str,
}

impl Corpus {
    /// Returns the outcomes of all bundles.
    pub fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        self.outcomes.lines().skip(1).filter_map(|line| {
            let mut fields = line.split('\t');
            Some(Case {
                bundle: fields.next()?,
                csv: fields.next()?,
                outcome: fields.next()?,
            })
        })
    }

    /// Returns the directory of a bundle.
    pub fn bundle(&self, case: Case<'_>) -> PathBuf {
        self.root.join("bundles").join(case.bundle)
    }

    /// Returns the file with the objects of the reference renderer.
    pub fn expected(&self, case: Case<'_>) -> PathBuf {
        let name = format!("{}.json", case.bundle);
        self.root.join("expected").join(name)
    }
}
