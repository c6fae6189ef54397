//! Findings of a conversion, each with a code, a place and a remedy.

pub mod code;

use std::fmt;

use manifests::path::{Path, Step};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{budget::REMEDY, finding::code::Code};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The bundle cannot be converted; for [`validate`](crate::validate), also a declaration without the protection it
    /// promises.
    Error,
    /// The bundle can be converted, but has a problem.
    Warning,
    /// A part of the bundle was changed for current Kubernetes versions.
    Change,
}

/// Location in a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The path of the file, relative to the bundle's root.
    pub file: String,
    /// The number of the document in the file, from 1.
    pub document: usize,
    /// The path of the value in the document.
    pub path: Path,
    /// The line in the file, from 1; `None` until located.
    pub line: Option<usize>,
    /// The column in the line, from 1; `None` until located.
    pub column: Option<usize>,
}

impl Location {
    /// Returns the place of a whole file.
    pub fn file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            document: 1,
            ..Self::default()
        }
    }

    /// Returns the place of a value below this one.
    #[must_use]
    pub fn at(&self, path: &Path) -> Self {
        Self {
            file: self.file.clone(),
            document: self.document,
            path: self.path.clone().join(path),
            line: None,
            column: None,
        }
    }
}

impl Location {
    /// Formats file and document, including the number of the first one, to distinguish documents of one file.
    pub fn describe(&self) -> String {
        let path = if self.path.is_root() {
            String::new()
        } else {
            format!(" ({})", self.path)
        };
        format!("{} document {}{path}", self.file, self.document)
    }
}

impl fmt::Display for Location {
    /// Formats the place, such as `manifests/csv.yaml:12:7 (spec.version)`, as far as known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        } else if self.document > 1 {
            write!(f, " document {}", self.document)?;
        }
        if !self.path.is_root() {
            write!(f, " ({})", self.path)?;
        }
        Ok(())
    }
}

/// A finding about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity of the finding.
    pub level: Level,
    /// The rule that caused the finding.
    pub code: Code,
    /// The location, or `None` for the bundle as a whole.
    pub location: Option<Location>,
    /// The object and its problem or change.
    pub message: String,
    /// The remedy, if any.
    pub remedy: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.location {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Finding", 9)?;
        out.serialize_field("level", &self.level)?;
        out.serialize_field("code", &self.code)?;
        if let Some(place) = &self.location {
            out.serialize_field("file", &place.file)?;
            out.serialize_field("document", &place.document)?;
            if !place.path.is_root() {
                out.serialize_field("path", &place.path.to_string())?;
            }
            if let Some(line) = place.line {
                out.serialize_field("line", &line)?;
            }
            if let Some(column) = place.column {
                out.serialize_field("column", &column)?;
            }
        }
        out.serialize_field("message", &self.message)?;
        if let Some(remedy) = &self.remedy {
            out.serialize_field("remedy", remedy)?;
        }
        out.end()
    }
}

/// Maximum number of findings in a report. More of them indicate a malformed bundle, and each takes memory.
pub const MAX_FINDINGS: usize = 10_000;
/// Maximum memory of all findings together, in bytes. Those of real bundles take a small part of it.
const MAX_MEMORY: usize = 16 << 20;

/// Collector of findings while a bundle is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    refused: bool,
    /// Whether files of the bundle were rejected, so that their contents do not count as missing.
    absences_hidden: bool,
    /// The number of errors, and the memory of those in the list.
    errors: (usize, usize),
    /// The number and memory of all other findings.
    others: (usize, usize),
}

impl Findings {
    pub(crate) fn error(
        &mut self,
        code: Code,
        place: impl Into<Option<Location>>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.add(Level::Error, code, place.into(), message.into(), remedy);
    }

    /// Rejects a bundle whose conversion takes more memory than the limit of values allows.
    pub(crate) fn too_large(&mut self, place: impl Into<Option<Location>>, subject: &str) {
        let message = format!("{subject} exceeds the memory limit for values");
        self.error(Code::TooMany, place, message, REMEDY);
    }

    pub(crate) fn warn(
        &mut self,
        code: Code,
        place: impl Into<Option<Location>>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.add(Level::Warning, code, place.into(), message.into(), remedy);
    }

    pub(crate) fn change(
        &mut self,
        code: Code,
        place: impl Into<Option<Location>>,
        message: impl Into<String>,
    ) {
        self.add(Level::Change, code, place.into(), message.into(), "");
    }

    pub(crate) fn add(
        &mut self,
        level: Level,
        code: Code,
        place: Option<Location>,
        message: String,
        remedy: &str,
    ) {
        // Errors have a separate half, so that no number of warnings hides the reason for a rejection.
        let is_error = level == Level::Error;
        self.refused |= is_error;
        let (count, memory) = if is_error {
            &mut self.errors
        } else {
            &mut self.others
        };
        *count += 1;
        if *count > MAX_FINDINGS / 2 || *memory > MAX_MEMORY / 2 {
            return;
        }
        let finding = Finding {
            level,
            code,
            location: place,
            message: shortened(message),
            remedy: (!remedy.is_empty()).then(|| remedy.to_owned()),
        };
        *memory += memory_of(&finding);
        self.list.push(finding);
    }

    /// Suppresses further findings of missing parts: rejected files of the bundle may contain them.
    pub(crate) fn hide_absences(&mut self) {
        self.absences_hidden = true;
    }

    /// Reports whether findings of missing parts are suppressed because of rejected files.
    pub(crate) fn are_absences_hidden(&self) -> bool {
        self.absences_hidden
    }

    /// Reports whether the bundle cannot be converted.
    pub(crate) fn is_rejected(&self) -> bool {
        self.refused
    }

    /// Returns the findings in the order of the report, which is independent of the order of their discovery.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        let dropped = (self.errors.0 + self.others.0).saturating_sub(self.list.len());
        if dropped > 0 {
            self.list.push(Finding {
                level: if self.refused {
                    Level::Error
                } else {
                    Level::Warning
                },
                code: Code::TooMany,
                location: None,
                message: format!("{dropped} more findings are omitted"),
                remedy: Some("fix the listed findings first".to_owned()),
            });
        }
        self.list.sort_by(|a, b| {
            (a.level, &a.location, a.code, &a.message).cmp(&(
                b.level,
                &b.location,
                b.code,
                &b.message,
            ))
        });
        self.list.dedup();
        self.list
    }
}

/// Estimates the memory of a finding in bytes.
fn memory_of(finding: &Finding) -> usize {
    let of_step = |step: &Step| {
        size_of::<Step>()
            + match step {
                Step::Key(key) => key.len() + 16,
                Step::Index(_) => 0,
            }
    };
    let of_place = |place: &Location| {
        let steps = place.path.steps().iter();
        place.file.len() + steps.map(of_step).sum::<usize>()
    };
    let texts = finding.message.len() + finding.remedy.as_ref().map_or(0, String::len);
    size_of::<Finding>() + texts + finding.location.as_ref().map_or(0, of_place)
}

/// Truncates a message, which may quote untrusted input.
fn shortened(mut message: String) -> String {
    const MAX_MESSAGE_LEN: usize = 4096;
    if message.len() > MAX_MESSAGE_LEN {
        let cut = (0..=MAX_MESSAGE_LEN)
            .rev()
            .find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or_default());
        message.push('…');
    }
    message
}
