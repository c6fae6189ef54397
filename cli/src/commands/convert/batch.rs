//! Conversion of several bundles: one line per bundle, and one file per bundle in `--output-dir`.

use std::collections::BTreeMap;

use anyhow::Context;
use convert::{Code, Conversion, Level, Options, Report};
use manifests::object::Object;
use serde::Serialize;

use super::prepare_output;
use crate::{
    ExitStatus,
    args::{self, ConvertArgs},
    fetch::Fetcher,
    output,
    output::{
        message::{self, count, sanitize},
        staged_dir::{self, StagedDir},
    },
    parallel,
    source::Source,
};

/// Result for one bundle.
struct BundleOutcome<'a> {
    source: &'a Source,
    result: Result<Converted, unpacker::Error>,
}

struct Converted {
    report: Report,
    is_converted: bool,
}

/// Entry of a bundle in the report file.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Read(Box<Report>),
    Failed { error: String },
}

#[derive(Default)]
struct BatchSummary {
    converted: usize,
    refused: usize,
    failed: usize,
    warnings: usize,
}

pub(super) fn run(
    sources: &[Source],
    reach: &Fetcher,
    args: &ConvertArgs,
) -> anyhow::Result<ExitStatus> {
    let options = args.conversion.options(args.limits)?;
    let dir = args
        .output_dir
        .as_ref()
        .map(|path| prepare_output(path, args))
        .transpose()?;
    let mut summary = BatchSummary::default();
    let mut reports: BTreeMap<String, Entry> = BTreeMap::new();
    let mut is_stdout_open = true;
    let work = |source| convert_one(source, reach, &options, args, dir.as_ref());
    parallel::each(
        sources,
        reach.max_parallel(),
        work,
        |outcome| -> anyhow::Result<()> {
            let outcome = outcome?;
            summary.add(&outcome);
            if is_stdout_open && let Err(error) = output::print(&outcome.line()) {
                // The files are written even if standard output is closed.
                if !output::is_closed(&error) || dir.is_none() && args.report.is_none() {
                    return Err(error);
                }
                is_stdout_open = false;
            }
            if args.report.is_some() {
                reports.insert(outcome.source.name.clone(), outcome.into_entry());
            }
            Ok(())
        },
    )?;
    if let Some(path) = &args.report {
        output::write_json_file(path, &reports)?;
    }
    if let Some(dir) = dir {
        // Names of bundles have no pattern that identifies files of earlier runs.
        dir.publish(|_| false)?;
    }
    if !args.quiet {
        summary.print(sources.len());
    }
    Ok(if summary.converted == sources.len() {
        ExitStatus::Done
    } else {
        ExitStatus::Failed
    })
}

fn convert_one<'a>(
    source: &'a Source,
    reach: &Fetcher,
    options: &Options,
    args: &ConvertArgs,
    dir: Option<&StagedDir>,
) -> anyhow::Result<BundleOutcome<'a>> {
    let content = match reach.content(source, &args.limits.into()) {
        Ok(content) => content,
        Err(error) => {
            return Ok(BundleOutcome {
                source,
                result: Err(error),
            });
        }
    };
    let Conversion {
        objects,
        mut report,
    } = convert::plain(&content, options);
    if args.report.is_some() {
        report.locate(&content);
    }
    if let (Some(dir), Some(objects)) = (dir, &objects) {
        write(dir, source, objects, args).with_context(|| format!("bundle {:?}", source.name))?;
    }
    Ok(BundleOutcome {
        source,
        result: Ok(Converted {
            report,
            is_converted: objects.is_some(),
        }),
    })
}

fn write(
    dir: &StagedDir,
    source: &Source,
    objects: &[Object],
    args: &ConvertArgs,
) -> anyhow::Result<()> {
    let format = args.output.unwrap_or_default();
    let name = format!("{}.{}", source.name, staged_dir::extension(format));
    dir.add_with(&name, staged_dir::FILE, |file| {
        output::write_manifests(file, objects, format)
    })
}

impl BundleOutcome<'_> {
    /// Formats a line: name, ClusterServiceVersion, outcome, reason.
    fn line(&self) -> String {
        let (csv, outcome, reason) = match &self.result {
            Ok(converted) if converted.is_converted => (
                converted.report.facts.name.as_str(),
                "converted",
                String::new(),
            ),
            Ok(converted) => (
                converted.report.facts.name.as_str(),
                "refused",
                reason(&converted.report),
            ),
            Err(error) => (
                "",
                "failed",
                format!("{}: {}", error.reason(), chain(error)),
            ),
        };
        format!(
            "{}\t{}\t{outcome}\t{}\n",
            sanitize(&self.source.name),
            sanitize(csv),
            sanitize(&reason)
        )
    }

    fn into_entry(self) -> Entry {
        match self.result {
            Ok(converted) => Entry::Read(Box::new(converted.report)),
            Err(error) => Entry::Failed {
                error: chain(&error),
            },
        }
    }
}

/// Formats the distinct codes and the first message: `Webhooks,InstallMode: …`.
fn reason(report: &Report) -> String {
    let mut codes: Vec<Code> = report.refusals().map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let codes: Vec<&str> = codes.into_iter().map(Code::as_str).collect();
    let first = report
        .refusals()
        .next()
        .map(|finding| finding.message.as_str());
    format!("{}: {}", codes.join(","), first.unwrap_or_default())
}

fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

impl BatchSummary {
    fn add(&mut self, outcome: &BundleOutcome<'_>) {
        match &outcome.result {
            Ok(converted) => {
                self.warnings += converted.report.with_level(Level::Warning).count();
                if converted.is_converted {
                    self.converted += 1;
                } else {
                    self.refused += 1;
                }
            }
            Err(_) => self.failed += 1,
        }
    }

    fn print(&self, bundles: usize) {
        let Self {
            converted,
            refused,
            failed,
            warnings,
        } = self;
        let failed = if *failed > 0 {
            format!(", {failed} failed")
        } else {
            String::new()
        };
        let hint = if *warnings > 0 {
            format!(
                "; {}: {} validate",
                count(*warnings, "warning"),
                args::name()
            )
        } else {
            String::new()
        };
        let bundles = count(bundles, "bundle");
        message::note(&format!(
            "{bundles}: {converted} converted, {refused} refused{failed}{hint}"
        ));
    }
}
