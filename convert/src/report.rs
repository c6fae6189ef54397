//! What a conversion has to say: findings, each with a code, a place and a remedy.

use std::fmt;

use manifests::path::Path;
use serde::Serialize;

use crate::code::Code;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The bundle cannot be converted.
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

    /// A value within the same document.
    #[must_use]
    pub fn at(&self, path: Path) -> Self {
        Self {
            path,
            line: None,
            column: None,
            ..self.clone()
        }
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
