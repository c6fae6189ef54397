//! `rukpak validate`.

mod sarif;

use std::fmt::Write;

use anyhow::Context;
use convert::{Finding, Level, Options, Place, Report};
use serde::Serialize;

use crate::{
    Exit,
    args::{Findings, ValidateArgs},
    message::{self, count, level, style},
    output, parallel,
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
    let mut verdicts = Vec::with_capacity(sources.len());
    parallel::each(
        &sources,
        reach.width(),
        |source| judge(source, &reach, &options, &limits),
        |verdict| -> anyhow::Result<()> {
            verdicts.push(verdict);
            Ok(())
        },
    )?;
    let text = match args.output {
        Findings::Table => tabular(&verdicts)?,
        Findings::Json => output::json(&verdicts)?,
        Findings::Sarif => output::json(&sarif::log(&verdicts))?,
    };
    output::print_styled(&text)?;
    Ok(conclude(&verdicts, args))
}

fn judge(source: &Source, reach: &Reach, options: &Options, limits: &unpacker::Options) -> Verdict {
    let verdict = |report: Report, error, content: &unpacker::Content| Verdict {
        bundle: source.name.clone(),
        csv: report.facts.name,
        findings: report.findings,
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
    // Colour comes last: a table counts what a terminal does not show.
    let mut text = String::with_capacity(plain.len() * 2);
    for line in plain.lines() {
        let coloured = LEVELS
            .into_iter()
            .find_map(|l| Some((l, line.strip_prefix(level(l))?)));
        match coloured {
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

fn conclude(verdicts: &[Verdict], args: &ValidateArgs) -> Exit {
    for verdict in verdicts {
        if let Some(error) = &verdict.error {
            message::error(&format!("bundle {:?} {error}", verdict.bundle));
        }
    }
    let number = |level| {
        verdicts
            .iter()
            .flat_map(|v| &v.findings)
            .filter(|f| f.level == level)
            .count()
    };
    let [errors, warnings, changes] = LEVELS.map(number);
    if args.output == Findings::Table {
        let (errors, warnings) = (count(errors, "error"), count(warnings, "warning"));
        message::note(&format!(
            "{errors}, {warnings}, {}",
            count(changes, "change")
        ));
    }
    let is_failed =
        errors > 0 || args.strict && warnings > 0 || verdicts.iter().any(|v| v.error.is_some());
    if is_failed { Exit::Failed } else { Exit::Done }
}
