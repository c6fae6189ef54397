//! `rukpak unpack`.

mod destination;

use manifests::content;
use serde::Serialize;
use unpacker::{Digest, Fetched, Options, Selection, SkippedEntries, Tree};

use crate::{
    ExitStatus,
    args::{self, DescriptionFormat, UnpackArgs},
    fetch::Fetcher,
    output,
    output::{
        message::{self, count, sanitize},
        progress::size,
    },
    source,
};
pub(crate) use destination::{Destination, is_terminal};

/// Unpacked content, as programs read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UnpackResult {
    /// Source as given on the command line.
    source: String,
    /// Source pinned to a digest or commit.
    resolved: String,
    /// Digest of the content.
    digest: String,
    /// Digest of the transferred data.
    #[serde(skip_serializing_if = "Option::is_none")]
    transferred: Option<String>,
    files: usize,
    size: u64,
    #[serde(skip_serializing_if = "SkippedCounts::is_empty")]
    skipped: SkippedCounts,
}

/// Entries that are not part of the content.
#[derive(Serialize)]
struct SkippedCounts {
    #[serde(flatten)]
    irregular: SkippedEntries,
    unselected: usize,
}

pub(crate) fn run(args: &UnpackArgs) -> anyhow::Result<ExitStatus> {
    let destination = args.output.as_deref().map(Destination::from_flag);
    if destination == Some(Destination::Stdout) {
        if args
            .format
            .is_some_and(|format| format != DescriptionFormat::Text)
        {
            args::usage(
                "standard output cannot have both the archive and the description; write the latter with --report FILE",
            );
        }
        if is_terminal() {
            args::usage(
                "--output - writes an archive, but standard output is a terminal; redirect it to a file or a pipe",
            );
        }
    }
    let source = source::one(&args.source, &args.access);
    let reach = Fetcher::new(&args.access, std::slice::from_ref(&source), args.quiet)?;
    // An invalid destination is rejected before the fetch.
    let draft = destination.map(|to| to.prepare(args.force)).transpose()?;
    let Fetched {
        resolved,
        digest: transferred,
        tree,
        unselected,
        ..
    } = reach.fetch(&source, &options(args))?;
    drop(reach);
    if tree.is_empty() {
        anyhow::bail!(
            "{} has no files, or none of them is selected; check --only, or use --all",
            source.text()
        );
    }
    let unmatched = unmatched(&args.only, &tree);
    if !unmatched.is_empty() {
        anyhow::bail!(
            "{} has no files at {}; correct --only",
            source.text(),
            unmatched.join(", ")
        );
    }
    if !args.quiet {
        warn_of_case(tree.files().map(|(path, _)| path));
    }
    let describe = |digest: Digest| UnpackResult {
        source: source.text(),
        resolved: resolved.to_string(),
        digest: digest.to_string(),
        transferred: transferred.map(|digest| digest.to_string()),
        files: tree.len(),
        size: tree.size(),
        skipped: SkippedCounts {
            irregular: SkippedEntries::count(tree.irregular()),
            unselected,
        },
    };
    let result = describe(tree.write_tar(std::io::sink())?);
    let is_written = draft.is_some();
    if let Some(draft) = draft {
        draft.write(&tree)?;
    }
    if let Some(path) = &args.report {
        output::write(path, &output::json(&result)?)?;
    }
    match output::described(&result, args.format.unwrap_or_default())? {
        Some(text) => output::print(&text)?,
        None if !is_written => output::print(&result.text())?,
        None if !args.quiet => result.text().lines().for_each(message::note),
        None => {}
    }
    Ok(ExitStatus::Done)
}

fn options(args: &UnpackArgs) -> Options {
    Options {
        select: match args.only.as_slice() {
            [] if args.all => Selection::All,
            [] => Selection::Default,
            only => Selection::Only(only.to_vec()),
        },
        ..args.limits.into()
    }
}

/// Returns the selected paths at which the content has no file.
fn unmatched<'a>(only: &'a [String], tree: &Tree) -> Vec<&'a str> {
    let has_file = |selected: &str| {
        let selected = content::normalize(selected).unwrap_or_default();
        tree.files()
            .any(|(path, _)| content::is_at_or_below(path, &selected))
    };
    let only = only.iter().map(String::as_str);
    only.filter(|selected| !has_file(selected)).collect()
}

/// Warns about names that some file systems do not distinguish. Both files are written.
fn warn_of_case<'a>(paths: impl Iterator<Item = &'a str>) {
    for (one, other) in case_collisions(paths) {
        message::warning(&format!(
            "{one:?} and {other:?} differ only in case; some file systems cannot contain both"
        ));
    }
}

fn case_collisions<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    let mut folded: Vec<(String, &str)> = paths.map(|path| (path.to_lowercase(), path)).collect();
    folded.sort_unstable();
    let pairs = folded.iter().zip(folded.iter().skip(1));
    pairs
        .filter(|(one, other)| one.0 == other.0)
        .map(|(one, other)| (one.1, other.1))
        .collect()
}

impl UnpackResult {
    fn text(&self) -> String {
        let mut rows = vec![
            ("Resolved", self.resolved.clone()),
            ("Digest", self.digest.clone()),
        ];
        rows.extend(
            self.transferred
                .clone()
                .map(|digest| ("Transferred", digest)),
        );
        let content = format!("{}, {}", count(self.files, "file"), size(self.size));
        rows.push(("Content", content));
        if !self.skipped.is_empty() {
            rows.push(("Skipped", self.skipped.text()));
        }
        let line = |(title, text): &(&str, String)| format!("{title:<12} {}\n", sanitize(text));
        rows.iter().map(line).collect()
    }
}

impl SkippedCounts {
    fn text(&self) -> String {
        let irregular = (!self.irregular.is_empty()).then(|| self.irregular.to_string());
        let unselected = self.unselected;
        let unselected = (unselected > 0).then(|| format!("{unselected} outside the selection"));
        let parts: Vec<String> = irregular.into_iter().chain(unselected).collect();
        parts.join(", ")
    }

    fn is_empty(&self) -> bool {
        self.irregular.is_empty() && self.unselected == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_collisions_are_found_in_directories_too() {
        ::tests::assert_rows!(case_collisions(["a/B", "A/b", "a/c", "b", "ß/x"].into_iter()) => [("A/b", "a/B")]);
        assert_eq!(case_collisions(["a", "b", "a/b"].into_iter()), []);
    }
}
