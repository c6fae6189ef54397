//! `rukpak convert`.

mod batch;

use std::path::Path;

use anyhow::Context;
use convert::{Conversion, Level, Report};

use crate::{
    ExitStatus,
    args::{self, ConvertArgs},
    fetch::Fetcher,
    output,
    output::{
        message::{self, count},
        staged_dir::{self, ExistingPolicy, StagedDir},
    },
    source::{self, Source},
};

/// Maximum number of printed warnings; the others are counted.
const MAX_WARNINGS: usize = 10;

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<ExitStatus> {
    if args.bundles.bundles.len() > 1 && args.output.is_some() && args.output_dir.is_none() {
        args::usage(
            "--output has no effect, because the manifests of several bundles are written only to files; set --output-dir",
        );
    }
    let sources = source::all(&args.bundles.bundles, &args.access);
    let reach = Fetcher::new(&args.access, &sources, args.quiet)?;
    match sources.as_slice() {
        [source] => convert_single(source, &reach, args),
        several => batch::run(several, &reach, args),
    }
}

fn convert_single(
    source: &Source,
    reach: &Fetcher,
    args: &ConvertArgs,
) -> anyhow::Result<ExitStatus> {
    let options = args.conversion.options(args.limits)?;
    let content = reach.content(source, &args.limits.into())?;
    let Conversion {
        objects,
        mut report,
    } = convert::plain(&content, &options);
    // Resolving line numbers takes as long as reading the bundle again.
    let needs_lines =
        args.report.is_some() || !args.quiet && report.with_level(Level::Warning).next().is_some();
    if objects.is_none() || needs_lines {
        report.locate(&content);
    }
    drop(content);
    if let Some(path) = &args.report {
        output::write_json_file(path, &report)?;
    }
    if !args.quiet {
        warn(source, &report);
        message::skipped(&source.name, &report.skipped);
    }
    let Some(objects) = objects else {
        report_rejection(source, &report);
        return Ok(ExitStatus::Failed);
    };
    let format = args.output.unwrap_or_default();
    let Some(path) = &args.output_dir else {
        output::print_manifests(&objects, format)?;
        return Ok(ExitStatus::Done);
    };
    let staged = prepare_output(path, args)?;
    for (position, object) in objects.iter().enumerate() {
        let name = staged_dir::file_name(position, objects.len(), object, format);
        staged.add_with(&name, staged_dir::FILE, |file| {
            output::write_manifest(file, object, format)
        })?;
    }
    let written = staged.publish(staged_dir::is_file_name)?;
    if !args.quiet {
        message::note(&format!(
            "{} written to {}",
            count(written, "object"),
            path.display()
        ));
    }
    Ok(ExitStatus::Done)
}

fn prepare_output(path: &Path, args: &ConvertArgs) -> anyhow::Result<StagedDir> {
    let before = if args.force {
        ExistingPolicy::Anything
    } else {
        ExistingPolicy::Empty
    };
    StagedDir::new(path, before).context("failed to prepare --output-dir")
}

fn report_rejection(source: &Source, report: &Report) {
    report.refusals().for_each(message::finding);
    let problems = count(report.refusals().count(), "problem");
    message::error(&format!(
        "bundle {:?} cannot be converted: {problems}",
        source.name
    ));
}

fn warn(source: &Source, report: &Report) {
    let warnings = || report.with_level(Level::Warning);
    warnings().take(MAX_WARNINGS).for_each(message::finding);
    let more = warnings().count().saturating_sub(MAX_WARNINGS);
    if more > 0 {
        message::note(&format!(
            "{}: {} validate {}",
            count(more, "more warning"),
            args::name(),
            message::shell_word(&source.text()),
        ));
    }
}
