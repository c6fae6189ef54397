//! What a conversion has to say: findings, each with a code, a place and a remedy.

use std::fmt;

use manifests::{
    content::{Content, SkippedEntries},
    path::{Path, Step},
    yaml,
};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{budget::REMEDY, code::Code, facts::Facts};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The bundle cannot be converted; from [`validate`](crate::validate) also a declaration that protects nothing.
    Error,
    /// It can, but something deserves attention.
    Warning,
    /// Something was changed so that it works today.
    Change,
}

/// Where in a bundle something stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, relative to the bundle's root.
    pub file: String,
    /// The document within the file, from 1.
    pub document: usize,
    /// The value within the document.
    pub path: Path,
    /// The line within the file, from 1, once located.
    pub line: Option<usize>,
    /// The column within the line, from 1, once located.
    pub column: Option<usize>,
}

impl Place {
    /// A whole file.
    pub fn file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            document: 1,
            ..Self::default()
        }
    }

    /// A value below this one.
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

impl Place {
    /// File and document, even where it is the first: tells two documents of one file apart.
    pub fn in_full(&self) -> String {
        let path = if self.path.is_root() {
            String::new()
        } else {
            format!(" ({})", self.path)
        };
        format!("{} document {}{path}", self.file, self.document)
    }
}

impl fmt::Display for Place {
    /// `manifests/csv.yaml:12:7 (spec.version)`, as much of it as is known.
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

/// One thing to know about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it weighs.
    pub level: Level,
    /// Which rule it comes from.
    pub code: Code,
    /// Where, unless it concerns the bundle as a whole.
    pub place: Option<Place>,
    /// What is wrong or was changed: names the object and the problem.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
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
        if let Some(place) = &self.place {
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

/// Everything there is to say about a bundle: what it is, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// What the bundle says of itself, as far as it could be read.
    pub facts: Facts,
    /// Errors first, then warnings, then changes, each ordered by place.
    pub findings: Vec<Finding>,
    /// Entries outside of the manifests and the metadata that are not regular files.
    #[serde(skip_serializing_if = "SkippedEntries::is_empty")]
    pub skipped: SkippedEntries,
}

impl Report {
    /// Why the bundle cannot be converted; empty when it can.
    pub fn refusals(&self) -> impl Iterator<Item = &Finding> {
        self.of(Level::Error)
    }

    /// The findings of one level.
    pub fn of(&self, level: Level) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.level == level)
    }

    /// Looks up line and column of every finding. Each document with findings is read once more, so that the way
    /// without findings costs nothing.
    pub fn locate(&mut self, content: &Content) {
        let mut open: Vec<&mut Place> = self
            .findings
            .iter_mut()
            .filter_map(|f| f.place.as_mut())
            .collect();
        open.retain(|place| place.line.is_none());
        open.sort_by(|a, b| (&a.file, a.document).cmp(&(&b.file, b.document)));
        for places in open.chunk_by_mut(|a, b| (&a.file, a.document) == (&b.file, b.document)) {
            let Some((bytes, document)) = places.first().and_then(|place| {
                Some((content.read(&place.file)?, place.document.checked_sub(1)?))
            }) else {
                continue;
            };
            // What is missing has no place of its own: the nearest value around it stands for it.
            let paths: Vec<Path> = places.iter().map(|place| place.path.clone()).collect();
            let located = yaml::locate_nearest(bytes, document, &paths);
            for (place, located) in places.iter_mut().zip(located) {
                (place.line, place.column) = located.unzip();
            }
        }
    }
}

/// The most findings that a report holds. A bundle with more is no bundle, and each takes memory.
pub const MAX_FINDINGS: usize = 10_000;
/// The memory of all findings together. Those of real bundles take a small part of it.
const MAX_MEMORY: usize = 16 << 20;

/// Collects findings while a bundle is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    refused: bool,
    /// Whether files of the bundle were rejected, so that what they hold is not missing.
    absences_hidden: bool,
    /// The number of errors, and the memory of those in the list.
    errors: (usize, usize),
    /// The same of all other findings.
    others: (usize, usize),
}

impl Findings {
    pub(crate) fn error(
        &mut self,
        code: Code,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.add(Level::Error, code, place.into(), message.into(), remedy);
    }

    /// Refuses a bundle whose conversion takes more memory than the limit of values allows.
    pub(crate) fn too_large(&mut self, place: impl Into<Option<Place>>, subject: &str) {
        let message = format!("{subject} takes more memory than the limit of values allows");
        self.error(Code::TooMany, place, message, REMEDY);
    }

    pub(crate) fn warn(
        &mut self,
        code: Code,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.add(Level::Warning, code, place.into(), message.into(), remedy);
    }

    pub(crate) fn change(
        &mut self,
        code: Code,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
    ) {
        self.add(Level::Change, code, place.into(), message.into(), "");
    }

    pub(crate) fn add(
        &mut self,
        level: Level,
        code: Code,
        place: Option<Place>,
        message: String,
        remedy: &str,
    ) {
        // Errors have a half of their own, so that no number of warnings hides why a bundle is refused.
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
            place,
            message: shortened(message),
            remedy: (!remedy.is_empty()).then(|| remedy.to_owned()),
        };
        *memory += memory_of(&finding);
        self.list.push(finding);
    }

    /// Ends the findings of what is missing: files of the bundle were rejected, and may hold that.
    pub(crate) fn hide_absences(&mut self) {
        self.absences_hidden = true;
    }

    /// Reports whether a finding of something that is missing only follows from rejected files.
    pub(crate) fn are_absences_hidden(&self) -> bool {
        self.absences_hidden
    }

    /// Whether something was found for which the bundle cannot be converted.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    /// The findings in the report's order, which does not depend on the order in which they were found.
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
                place: None,
                message: format!("{dropped} more findings are left out"),
                remedy: Some("correct those that are listed first".to_owned()),
            });
        }
        self.list.sort_by(|a, b| {
            (a.level, &a.place, a.code, &a.message).cmp(&(b.level, &b.place, b.code, &b.message))
        });
        self.list.dedup();
        self.list
    }
}

/// The memory of a finding, estimated in bytes.
fn memory_of(finding: &Finding) -> usize {
    let of_step = |step: &Step| {
        size_of::<Step>()
            + match step {
                Step::Key(key) => key.len() + 16,
                Step::Index(_) => 0,
            }
    };
    let of_place = |place: &Place| {
        let steps = place.path.steps().iter();
        place.file.len() + steps.map(of_step).sum::<usize>()
    };
    let texts = finding.message.len() + finding.remedy.as_ref().map_or(0, String::len);
    size_of::<Finding>() + texts + finding.place.as_ref().map_or(0, of_place)
}

/// Messages quote what strangers wrote; no more of it than a person reads.
fn shortened(mut message: String) -> String {
    const LONGEST: usize = 4096;
    if message.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or_default());
        message.push('…');
    }
    message
}
