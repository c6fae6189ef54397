//! The folder of real bundles that the tests are given.

use std::{fs, path::PathBuf};

/// The folder of real bundles, when one is given: `bundles/NAME/`, `outcomes.tsv`, `expected/NAME.json`.
///
/// Says on standard error that there is none, so that a run without it never looks like one with it.
///
/// # Panics
/// When the variable is set and the folder has no `outcomes.tsv`.
pub fn corpus() -> Option<Corpus> {
    let Some(root) = std::env::var_os("RUKPAK_CORPUS")
        .filter(|root| !root.is_empty())
        .map(PathBuf::from)
    else {
        eprintln!("RUKPAK_CORPUS is not set: nothing was tested against real bundles");
        return None;
    };
    match fs::read_to_string(root.join("outcomes.tsv")) {
        Ok(outcomes) => Some(Corpus { root, outcomes }),
        Err(error) => panic!(
            "RUKPAK_CORPUS is set to {}, which has no outcomes.tsv: {error}",
            root.display()
        ),
    }
}

/// A folder of real bundles with what must become of each.
#[derive(Debug)]
pub struct Corpus {
    /// Where it is.
    pub root: PathBuf,
    outcomes: String,
}

/// What must become of one bundle.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Folder name.
    pub bundle: &'a str,
    /// Name of its ClusterServiceVersion.
    pub csv: &'a str,
    /// `converted` or `rejected: …`.
    pub outcome: &'a str,
}

impl Corpus {
    /// All bundles.
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

    /// The folder of a bundle.
    pub fn bundle(&self, case: Case<'_>) -> PathBuf {
        self.root.join("bundles").join(case.bundle)
    }

    /// The reference renderer's objects.
    pub fn expected(&self, case: Case<'_>) -> PathBuf {
        self.root
            .join("expected")
            .join(format!("{}.json", case.bundle))
    }
}
