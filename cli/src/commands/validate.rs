//! `rukpak validate`.

mod sarif;

use std::fmt::Write;

use anyhow::Context;
use convert::{Finding, Level, Location, Options, Report};
use manifests::{content::SkippedEntries, yaml};
use serde::Serialize;

use crate::{
    ExitStatus,
    args::{FindingsFormat, ValidateArgs},
    fetch::Fetcher,
    output::{
        self, Elements,
        message::{self, count, level, style},
        table,
    },
    parallel,
    source::{self, Source},
};

const LEVELS: [Level; 3] = [Level::Error, Level::Warning, Level::Change];

/// Validation report of one bundle.
#[derive(Serialize)]
struct BundleReport {
    bundle: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    csv: String,
    findings: Vec<Finding>,
    /// Entries that are not regular files, outside of the manifests and the metadata.
    #[serde(skip_serializing_if = "SkippedEntries::is_empty")]
    skipped: SkippedEntries,
    /// Reason why the bundle could not be read; `None` if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    place: sarif::PathBase,
}

pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<ExitStatus> {
    let sources = source::all(&args.bundles.bundles, &args.access);
    let reach = Fetcher::new(&args.access, &sources, false)?;
    let options = args.conversion.options(args.limits)?;
    let limits = args.limits.into();
    let mut tally = Tally::default();
    let mut printer = Printer::begin(args.output)?;
    parallel::each(
        &sources,
        reach.max_parallel(),
        |source| validate(source, &reach, &options, &limits),
        |bundle_report| -> anyhow::Result<()> {
            tally.add(&bundle_report);
            printer.print(bundle_report)
        },
    )?;
    printer.end(&tally.failures)?;
    Ok(tally.exit_status(args))
}

/// Prints reports as they arrive. A table is printed at the end, because its columns depend on all reports.
enum Printer {
    Table(Vec<BundleReport>),
    Json(Elements),
    Yaml,
    Sarif(sarif::Log),
}

impl Printer {
    fn begin(format: FindingsFormat) -> anyhow::Result<Self> {
        Ok(match format {
            FindingsFormat::Table => Self::Table(Vec::new()),
            FindingsFormat::Json => Self::Json(Elements::begin("")?),
            FindingsFormat::Yaml => Self::Yaml,
            FindingsFormat::Sarif => Self::Sarif(sarif::Log::begin()?),
        })
    }

    fn print(&mut self, bundle_report: BundleReport) -> anyhow::Result<()> {
        match self {
            Self::Table(reports) => {
                reports.push(bundle_report);
                Ok(())
            }
            Self::Json(elements) => elements.print([bundle_report]),
            // Consecutive YAML lists with one element each form one list.
            Self::Yaml => output::print(&yaml::to_string(&[bundle_report])?),
            Self::Sarif(log) => log.print(&bundle_report),
        }
    }

    fn end(self, failures: &[Failure]) -> anyhow::Result<()> {
        match self {
            Self::Table(reports) => {
                output::print_styled(&tabular(&reports)?)?;
                for bundle_report in &reports {
                    message::skipped(&bundle_report.bundle, &bundle_report.skipped);
                }
                Ok(())
            }
            Self::Json(elements) => {
                elements.end()?;
                output::print("\n")
            }
            Self::Yaml => Ok(()),
            Self::Sarif(log) => log.end(failures),
        }
    }
}

/// A bundle that could not be read.
struct Failure {
    bundle: String,
    error: String,
}

/// Totals of all reports.
#[derive(Default)]
struct Tally {
    readable: usize,
    errors: usize,
    warnings: usize,
    changes: usize,
    failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, bundle_report: &BundleReport) {
        self.readable += usize::from(bundle_report.error.is_none());
        for finding in &bundle_report.findings {
            *match finding.level {
                Level::Error => &mut self.errors,
                Level::Warning => &mut self.warnings,
                Level::Change => &mut self.changes,
            } += 1;
        }
        self.failures
            .extend(bundle_report.error.clone().map(|error| Failure {
                bundle: bundle_report.bundle.clone(),
                error,
            }));
    }

    fn exit_status(&self, args: &ValidateArgs) -> ExitStatus {
        for Failure { bundle, error } in &self.failures {
            message::error(&format!("bundle {bundle:?} {error}"));
        }
        if args.output == FindingsFormat::Table {
            message::note(&summary(
                [self.errors, self.warnings, self.changes],
                self.readable,
                self.failures.len(),
            ));
        }
        let is_failed =
            self.errors > 0 || args.strict && self.warnings > 0 || !self.failures.is_empty();
        if is_failed {
            ExitStatus::Failed
        } else {
            ExitStatus::Done
        }
    }
}

fn validate(
    source: &Source,
    reach: &Fetcher,
    options: &Options,
    limits: &unpacker::Options,
) -> BundleReport {
    let bundle_report = |report: Report, error, content: &unpacker::Content| BundleReport {
        bundle: source.name.clone(),
        csv: report.facts.name,
        findings: report.findings,
        skipped: report.skipped,
        error,
        place: sarif::PathBase::new(source, content),
    };
    match reach.content(source, limits).context("cannot be read") {
        Ok(content) => {
            let mut report = convert::validate(&content, options);
            report.locate(&content);
            bundle_report(report, None, &content)
        }
        Err(error) => bundle_report(
            Report::default(),
            Some(format!("{error:#}")),
            &unpacker::Content::default(),
        ),
    }
}

fn tabular(reports: &[BundleReport]) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for bundle_report in reports {
        for finding in &bundle_report.findings {
            let place = finding
                .location
                .as_ref()
                .map(short_location)
                .unwrap_or_default();
            let remedy = finding
                .remedy
                .as_ref()
                .map(|remedy| format!("; {remedy}"))
                .unwrap_or_default();
            rows.push([
                level(finding.level).to_owned(),
                finding.code.to_string(),
                match reports {
                    [_] => place,
                    _ if place.is_empty() => bundle_report.bundle.clone(),
                    _ => format!("{}/{place}", bundle_report.bundle),
                },
                format!("{}{remedy}", finding.message),
            ]);
        }
    }
    if rows.is_empty() {
        return Ok(String::new());
    }
    let plain = table::render(Some(["LEVEL", "CODE", "PLACE", "MESSAGE"]), &rows, 0);
    // Colors are added last, because the table counts control characters as well.
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

/// Formats a location as file, line and column, which editors and terminals open. The path within the file is printed only
/// if the line is unknown.
fn short_location(place: &Location) -> String {
    match place.line {
        Some(_) => Location {
            path: manifests::path::Path::root(),
            ..place.clone()
        }
        .to_string(),
        None => place.to_string(),
    }
}

/// Returns the last line: the number of findings, and the number of bundles if not all of them were validated.
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
