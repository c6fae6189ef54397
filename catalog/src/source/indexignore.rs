//! `.indexignore`: the grammar of `.gitignore`, with three differences that catalogs rely on. Only files are matched,
//! so `!` can include a file below an ignored directory again. Of all matching lines, including those of parent
//! directories, the last one applies. Leading white space of a line is ignored.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Maximum number of lines, because every line is matched against every file.
const MAX_LINES: usize = 10_000;

/// Rules of all `.indexignore` files; later rules take precedence.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules(Vec<Line>);

#[derive(Debug)]
struct Line {
    /// Directory that contains the rule, with a trailing slash; empty for the root.
    directory: String,
    pattern: Gitignore,
}

// === impl IgnoreRules ===

impl IgnoreRules {
    /// Adds the lines of one file.
    pub(super) fn add(&mut self, path: &str, text: &str) -> Result<(), String> {
        let directory = path
            .rsplit_once('/')
            .map(|(directory, _)| format!("{directory}/"));
        let directory = directory.unwrap_or_default();
        for line in text.lines() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if self.0.len() == MAX_LINES {
                return Err(format!("more than {MAX_LINES} lines in all such files"));
            }
            let mut builder = GitignoreBuilder::new("");
            let pattern = builder
                // Braces are literal characters in git.
                .add_line(None, &line.replace('{', "[{]").replace('}', "[}]"))
                .and_then(|builder| builder.build())
                .map_err(|error| format!("the line {line:?} is not a valid pattern: {error}"))?;
            self.0.push(Line {
                directory: directory.clone(),
                pattern,
            });
        }
        // Rules of subdirectories take precedence. The sort is stable, so the lines of one file keep their order.
        self.0
            .sort_by_key(|line| line.directory.bytes().filter(|b| *b == b'/').count());
        Ok(())
    }

    /// Reports whether a file is excluded from the catalog.
    pub(super) fn is_ignored(&self, path: &str) -> bool {
        self.0
            .iter()
            .rev()
            .find_map(|line| {
                let below = path.strip_prefix(&line.directory)?;
                let verdict = line.pattern.matched_path_or_any_parents(below, false);
                (!verdict.is_none()).then(|| verdict.is_ignore())
            })
            .unwrap_or_default()
    }
}
