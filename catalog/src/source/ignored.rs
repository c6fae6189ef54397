//! `.indexignore`: the grammar of `.gitignore`, with two differences that catalogs rely on. Only files are asked about,
//! so that nothing keeps `!` from bringing back a file below an ignored folder; and of all lines that match, those of
//! folders above included, the last one counts.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Each line is tried for each file.
const LINES: usize = 10_000;

/// The lines of all such files, in the order in which they are overruled by later ones.
#[derive(Debug, Default)]
pub(super) struct Ignored(Vec<Line>);

#[derive(Debug)]
struct Line {
    /// The folder that it is about, with a slash at its end; empty for the root.
    folder: String,
    pattern: Gitignore,
}

// === impl Ignored ===

impl Ignored {
    /// Adds the lines of one file.
    pub(super) fn add(&mut self, path: &str, text: &str) -> Result<(), String> {
        let folder = path
            .rsplit_once('/')
            .map(|(folder, _)| format!("{folder}/"));
        let folder = folder.unwrap_or_default();
        for line in text.lines() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if self.0.len() == LINES {
                return Err(format!("more than {LINES} lines in all such files"));
            }
            let mut builder = GitignoreBuilder::new("");
            let pattern = builder
                // Braces are letters to git.
                .add_line(None, &line.replace('{', "[{]").replace('}', "[}]"))
                .and_then(|builder| builder.build())
                .map_err(|error| format!("the line {line:?} is no pattern: {error}"))?;
            self.0.push(Line {
                folder: folder.clone(),
                pattern,
            });
        }
        // Those of folders below overrule those above. Stable: the lines of one file keep their order.
        self.0
            .sort_by_key(|line| line.folder.bytes().filter(|b| *b == b'/').count());
        Ok(())
    }

    /// Whether a file is no part of the catalog.
    pub(super) fn covers(&self, path: &str) -> bool {
        self.0
            .iter()
            .rev()
            .find_map(|line| {
                let below = path.strip_prefix(&line.folder)?;
                let verdict = line.pattern.matched_path_or_any_parents(below, false);
                (!verdict.is_none()).then(|| verdict.is_ignore())
            })
            .unwrap_or_default()
    }
}
