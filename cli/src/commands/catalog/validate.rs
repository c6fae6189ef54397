//! `rukpak catalog validate`.

use catalog::{Catalog, Finding, Level};
use serde::Serialize;

use super::CatalogReader;
use crate::{
    ExitStatus,
    args::{CatalogReadArgs, CatalogValidateArgs},
    output,
    output::{
        message::{self, count},
        table,
    },
};

/// Result for one catalog: the output of opm, and additional fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationReport<'a> {
    catalog: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Message>,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "is_zero")]
    more_findings: usize,
    packages: PackageCounts<'a>,
    passed: bool,
}

#[derive(Serialize)]
struct Message {
    message: String,
}

#[derive(Serialize)]
struct PackageCounts<'a> {
    sound: usize,
    broken: Vec<&'a str>,
}

pub(crate) fn run(args: &CatalogValidateArgs) -> anyhow::Result<ExitStatus> {
    let CatalogReadArgs { access, limits } = &args.reading;
    let reader = CatalogReader::new(&args.catalogs, access, *limits)?;
    let mut catalogs = Vec::with_capacity(reader.sources.len());
    let mut is_failed = false;
    for source in &reader.sources {
        let (catalog, error) = match reader.check(source) {
            Ok(catalog) => (catalog, None),
            Err(error) => (Catalog::default(), Some(format!("{error:#}"))),
        };
        is_failed |= error.is_some() || !catalog.is_valid();
        catalogs.push((source.name.as_str(), catalog, error));
    }
    let verdicts: Vec<_> = catalogs
        .iter()
        .map(|(name, catalog, error)| ValidationReport::new(name, catalog, error.as_deref()))
        .collect();
    let text = match verdicts.as_slice() {
        [one] => output::described(one, args.output)?,
        several => output::described(&several, args.output)?,
    };
    match text {
        Some(text) => output::print(&text)?,
        None => print_findings(&verdicts)?,
    }
    Ok(if is_failed {
        ExitStatus::Failed
    } else {
        ExitStatus::Done
    })
}

impl<'a> ValidationReport<'a> {
    fn new(name: &'a str, catalog: &'a Catalog, error: Option<&str>) -> Self {
        let message = error.map(str::to_owned).or_else(|| catalog.as_opm());
        Self {
            catalog: name,
            findings: &catalog.findings,
            more_findings: catalog.more_findings,
            packages: PackageCounts {
                sound: catalog.packages.len(),
                broken: catalog.broken.keys().map(String::as_str).collect(),
            },
            passed: message.is_none(),
            error: message.map(|message| Message { message }),
        }
    }
}

impl ValidationReport<'_> {
    /// Reports whether the error is that the catalog could not be read.
    fn is_parse_error(&self) -> bool {
        self.error.is_some() && self.findings.is_empty()
    }
}

fn print_findings(verdicts: &[ValidationReport<'_>]) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let (mut errors, mut warnings, mut packages) = (0, 0, 0);
    for verdict in verdicts {
        packages += verdict.packages.sound;
        errors += verdict.more_findings + usize::from(verdict.is_parse_error());
        for finding in verdict.findings {
            let level = match finding.level {
                Level::Error => {
                    errors += 1;
                    "error"
                }
                Level::Warning => {
                    warnings += 1;
                    "warning"
                }
            };
            let file = finding.file.as_deref().unwrap_or_default();
            let mut location = match finding.line {
                Some(line) => format!("{file}:{line}"),
                None => file.to_owned(),
            };
            if verdicts.len() > 1 {
                location = format!("{}/{location}", verdict.catalog);
            }
            rows.push([
                level.to_owned(),
                location,
                finding.package.clone().unwrap_or_default(),
                finding.message.clone(),
            ]);
        }
    }
    if !rows.is_empty() {
        let header = ["LEVEL", "PLACE", "PACKAGE", "MESSAGE"];
        output::print(&table::render(Some(header), &rows, 0))?;
    }
    for verdict in verdicts {
        if verdict.is_parse_error()
            && let Some(error) = &verdict.error
        {
            message::error(&error.message);
        }
        if verdict.more_findings > 0 {
            message::note(&format!("and {} more errors", verdict.more_findings));
        }
    }
    message::note(&format!(
        "{}, {}, {} without errors",
        count(errors, "error"),
        count(warnings, "warning"),
        count(packages, "package")
    ));
    Ok(())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
