//! Findings in the format SARIF 2.1.0, which code hosts show next to the lines.

use std::{
    fmt::Write,
    path::{Component, Path},
};

use anyhow::Context;
use convert::{Code, Finding, Level};
use serde::Serialize;
use serde_json::{Value, json};
use unpacker::Content;

use super::{BundleReport, Failure};
use crate::{
    commands::version::VERSION,
    output::{self, Elements},
    source::Source,
};

/// Base of the paths of a bundle's files, relative to the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathBase {
    /// Prefix of all paths: empty, or a URI with a trailing slash.
    prefix: String,
    /// URI of the archive, whose files are not in a repository; `None` for a directory.
    archive: Option<String>,
    /// File for findings about the whole bundle: a result without a file is not shown.
    whole: Option<String>,
}

impl PathBase {
    pub(super) fn new(source: &Source, content: &Content) -> Self {
        let uri = match source.path() {
            Some(path) => Some(uri(path, std::env::current_dir().ok().as_deref())),
            None => source.uri(),
        };
        let (prefix, archive) = match uri {
            Some(uri) if source.is_folder() => (
                if uri.is_empty() {
                    uri
                } else {
                    format!("{uri}/")
                },
                None,
            ),
            archive => (String::new(), archive),
        };
        let all = || content.files().map(|(path, _)| path);
        let whole = all()
            .find(|path| path.starts_with("metadata/annotations."))
            .or_else(|| all().next());
        Self {
            prefix,
            archive,
            whole: whole.map(str::to_owned),
        }
    }

    fn locations(&self, finding: &Finding) -> Value {
        let Some(file) = finding
            .location
            .as_ref()
            .map(|place| &place.file)
            .or(self.whole.as_ref())
        else {
            return json!([]);
        };
        if let Some(archive) = &self.archive {
            return json!([{
                "physicalLocation": {"artifactLocation": {"uri": archive}},
                "logicalLocations": [{"fullyQualifiedName": file, "kind": "resource"}],
            }]);
        }
        let mut physical =
            json!({"artifactLocation": {"uri": format!("{}{}", self.prefix, encode(file))}});
        let mut region = serde_json::Map::new();
        if let Some(place) = &finding.location {
            region.extend(place.line.map(|line| ("startLine".to_owned(), line.into())));
            region.extend(
                place
                    .line
                    .and(place.column)
                    .map(|column| ("startColumn".to_owned(), column.into())),
            );
        }
        if let (Some(physical), false) = (physical.as_object_mut(), region.is_empty()) {
            physical.insert("region".into(), region.into());
        }
        json!([{"physicalLocation": physical}])
    }
}

/// Returns the URI of a path: relative to the current directory if possible, or else a `file:` URI.
fn uri(path: &Path, current: Option<&Path>) -> String {
    let path = match current.and_then(|current| path.strip_prefix(current).ok()) {
        Some(below) => below,
        None => path,
    };
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(encode(&name.to_string_lossy())),
        Component::ParentDir => Some("..".to_owned()),
        _ => None,
    });
    let joined = parts.collect::<Vec<_>>().join("/");
    if path.is_absolute() {
        format!("file:///{joined}")
    } else {
        joined
    }
}

fn encode(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}"); // writing to a String cannot fail
        }
    }
    text
}

/// A log whose results are printed one by one.
pub(super) struct Log(Elements);

impl Log {
    pub(super) fn begin() -> anyhow::Result<Self> {
        let (head, _) = frame(&[])?;
        output::print(&head)?;
        Ok(Self(Elements::begin(INDENT)?))
    }

    pub(super) fn print(&mut self, bundle_report: &BundleReport) -> anyhow::Result<()> {
        let findings = bundle_report.findings.iter();
        self.0
            .print(findings.map(|finding| result(finding, &bundle_report.place)))
    }

    pub(super) fn end(self, failures: &[Failure]) -> anyhow::Result<()> {
        self.0.end()?;
        let (_, tail) = frame(failures)?;
        output::print(&tail)
    }
}

/// The indentation of the results.
const INDENT: &str = "      ";

/// Returns the parts of the log before and after the results.
fn frame(failures: &[Failure]) -> anyhow::Result<(String, String)> {
    const RESULTS: &str = "\"results\": []";
    #[derive(Serialize)]
    struct Log<'a> {
        #[serde(rename = "$schema")]
        schema: &'a str,
        version: &'a str,
        runs: [Run<'a>; 1],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Run<'a> {
        tool: Value,
        column_kind: &'a str,
        results: [Value; 0],
        invocations: [Value; 1],
    }
    let rules: Vec<Value> = Code::ALL
        .iter()
        .map(|code| json!({"id": code.as_str(), "shortDescription": {"text": code.summary()}}))
        .collect();
    let notifications = failures.iter().map(|Failure { bundle, error }| {
        json!({"level": "error", "message": {"text": format!("bundle {bundle:?} {error}")}})
    });
    let run = Run {
        tool: json!({"driver": {"name": "rukpak", "version": VERSION, "rules": rules}}),
        column_kind: "unicodeCodePoints",
        results: [],
        invocations: [json!({
            "executionSuccessful": failures.is_empty(),
            "toolExecutionNotifications": notifications.collect::<Vec<_>>(),
        })],
    };
    let log = output::json(&Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [run],
    })?;
    let (head, tail) = log
        .split_once(RESULTS)
        .context("failed to write the SARIF log")?;
    let name = RESULTS.trim_end_matches("[]");
    Ok((format!("{head}{name}"), tail.to_owned()))
}

fn result(finding: &Finding, base: &PathBase) -> Value {
    let text = match &finding.remedy {
        Some(remedy) => format!("{}; {remedy}", finding.message),
        None => finding.message.clone(),
    };
    json!({
        "ruleId": finding.code.as_str(),
        "ruleIndex": Code::ALL.iter().position(|code| *code == finding.code),
        "level": match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Change => "note",
        },
        "message": {"text": text},
        "locations": base.locations(finding),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_where_that_is_possible() {
        let uri = |path: &str| uri(Path::new(path), Some(Path::new("/repo")));
        ::tests::assert_rows! {
            uri("./bundles/a") => "bundles/a";
            uri(".") => "";
            uri("a b/ü") => "a%20b/%C3%BC";
            uri("../x") => "../x";
            uri("/repo/x") => "x";
            uri("/elsewhere/x") => "file:///elsewhere/x";
        }
    }
}
