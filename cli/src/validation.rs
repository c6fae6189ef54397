//! `rukpak validate`.

mod sarif;

use std::fmt::Write;

use anyhow::Context;
use convert::{Finding, Level, Options, Place, Report};
use manifests::content::SkippedEntries;
use serde::Serialize;

use crate::{
    Exit,
    args::{Findings, ValidateArgs},
    message::{self, count, level, style},
    output::{self, Elements},
    parallel,
    reach::Reach,
    source::{self, Source},
    table,
};

const LEVELS: [Level; 3] = [Level::Error, Level::Warning, Level::Change];

/// What there is to say about one bundle.
#[derive(Serialize)]
struct Verdict {
    bundle: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    csv: String,
    findings: Vec<Finding>,
    /// Entries that are not regular files, outside of the manifests and the metadata.
    #[serde(skip_serializing_if = "SkippedEntries::is_empty")]
    skipped: SkippedEntries,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    place: sarif::Base,
}

pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<Exit> {
    let sources = source::all(&args.bundles.bundles, &args.access);
    let reach = Reach::new(&args.access, &sources, false)?;
    let options = args.conversion.options(args.limits)?;
    let limits = args.limits.into();
    let mut tally = Tally::default();
    let mut printer = Printer::begin(args.output)?;
    parallel::each(
        &sources,
        reach.width(),
        |source| judge(source, &reach, &options, &limits),
        |verdict| -> anyhow::Result<()> {
            tally.add(&verdict);
            printer.print(verdict)
        },
    )?;
    printer.end(&tally.failures)?;
    Ok(tally.conclude(args))
}

/// Prints verdicts as they arrive; a table is printed at the end, because its columns depend on all of them.
enum Printer {
    Table(Vec<Verdict>),
    Json(Elements),
    Sarif(sarif::Log),
}

impl Printer {
    fn begin(format: Findings) -> anyhow::Result<Self> {
        Ok(match format {
            Findings::Table => Self::Table(Vec::new()),
            Findings::Json => Self::Json(Elements::begin("")?),
            Findings::Sarif => Self::Sarif(sarif::Log::begin()?),
        })
    }

    fn print(&mut self, verdict: Verdict) -> anyhow::Result<()> {
        match self {
            Self::Table(verdicts) => {
                verdicts.push(verdict);
                Ok(())
            }
            Self::Json(elements) => elements.print([verdict]),
            Self::Sarif(log) => log.print(&verdict),
        }
    }

    fn end(self, failures: &[Failure]) -> anyhow::Result<()> {
        match self {
            Self::Table(verdicts) => {
                output::print_styled(&tabular(&verdicts)?)?;
                for verdict in &verdicts {
                    message::skipped(&verdict.bundle, &verdict.skipped);
                }
                Ok(())
            }
            Self::Json(elements) => {
                elements.end()?;
                output::print("\n")
            }
            Self::Sarif(log) => log.end(failures),
        }
    }
}

/// A bundle that could not be read.
struct Failure {
    bundle: String,
    error: String,
}

/// The totals of all verdicts.
#[derive(Default)]
struct Tally {
    readable: usize,
    errors: usize,
    warnings: usize,
    changes: usize,
    failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, verdict: &Verdict) {
        self.readable += usize::from(verdict.error.is_none());
        for finding in &verdict.findings {
            *match finding.level {
                Level::Error => &mut self.errors,
                Level::Warning => &mut self.warnings,
                Level::Change => &mut self.changes,
            } += 1;
        }
        self.failures
            .extend(verdict.error.clone().map(|error| Failure {
                bundle: verdict.bundle.clone(),
                error,
            }));
    }

    fn conclude(&self, args: &ValidateArgs) -> Exit {
        for Failure { bundle, error } in &self.failures {
            message::error(&format!("bundle {bundle:?} {error}"));
        }
        if args.output == Findings::Table {
            message::note(&summary(
                [self.errors, self.warnings, self.changes],
                self.readable,
                self.failures.len(),
            ));
        }
        let is_failed =
            self.errors > 0 || args.strict && self.warnings > 0 || !self.failures.is_empty();
        if is_failed { Exit::Failed } else { Exit::Done }
    }
}

fn judge(source: &Source, reach: &Reach, options: &Options, limits: &unpacker::Options) -> Verdict {
    let verdict = |report: Report, error, content: &unpacker::Content| Verdict {
        bundle: source.name.clone(),
        csv: report.facts.name,
        findings: report.findings,
        skipped: report.skipped,
        error,
        place: sarif::Base::new(source, content),
    };
    match reach.content(source, limits).context("cannot be read") {
        Ok(content) => {
            let mut report = convert::validate(&content, options);
            report.locate(&content);
            verdict(report, None, &content)
        }
        Err(error) => verdict(
            Report::default(),
            Some(format!("{error:#}")),
            &unpacker::Content::default(),
        ),
    }
}

fn tabular(verdicts: &[Verdict]) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for verdict in verdicts {
        for finding in &verdict.findings {
            let place = finding.place.as_ref().map(short).unwrap_or_default();
            let remedy = finding
                .remedy
                .as_ref()
                .map(|remedy| format!("; {remedy}"))
                .unwrap_or_default();
            rows.push([
                level(finding.level).to_owned(),
                finding.code.to_string(),
                match verdicts {
                    [_] => place,
                    _ if place.is_empty() => verdict.bundle.clone(),
                    _ => format!("{}/{place}", verdict.bundle),
                },
                format!("{}{remedy}", finding.message),
            ]);
        }
    }
    if rows.is_empty() {
        return Ok(String::new());
    }
    let plain = table::render(Some(["LEVEL", "CODE", "PLACE", "MESSAGE"]), &rows, 0);
    // Color comes last: a table counts what a terminal does not show.
    let mut text = String::with_capacity(plain.len() * 2);
    for line in plain.lines() {
        let colored = LEVELS
            .into_iter()
            .find_map(|l| Some((l, line.strip_prefix(level(l))?)));
        match colored {
            Some((l, rest)) => writeln!(text, "{0}{1}{0:#}{rest}", style(l), level(l)),
            None => writeln!(text, "{line}"),
        }?;
    }
    Ok(text)
}

/// File, line and column, which editors and terminals open; the path only where there is no line.
fn short(place: &Place) -> String {
    match place.line {
        Some(_) => Place {
            path: manifests::path::Path::root(),
            ..place.clone()
        }
        .to_string(),
        None => place.to_string(),
    }
}

/// Returns the last line: numbers of findings, and of bundles where not all of them were validated.
fn summary([errors, warnings, changes]: [usize; 3], readable: usize, unreadable: usize) -> String {
    let findings = format!(
        "{}, {}, {}",
        count(errors, "error"),
        count(warnings, "warning"),
        count(changes, "change")
    );
    match (readable, unreadable) {
        (_, 0) => findings,
        (0, _) => format!(
            "failed to read {}: nothing was validated",
            count(unreadable, "bundle")
        ),
        _ => format!(
            "{findings} in {}; failed to read {}",
            count(readable, "bundle"),
            count(unreadable, "bundle")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_unreadable_bundles() {
        ::tests::assert_rows! {
            summary([0, 0, 0], 1, 0) => "0 errors, 0 warnings, 0 changes";
            summary([1, 2, 1], 3, 0) => "1 error, 2 warnings, 1 change";
            summary([0, 0, 0], 0, 1) => "failed to read 1 bundle: nothing was validated";
            summary([0, 1, 0], 2, 1) => "0 errors, 1 warning, 0 changes in 2 bundles; failed to read 1 bundle";
        }
    }
}
