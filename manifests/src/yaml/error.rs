use std::{borrow::Cow, fmt};

use super::Limits;

/// Why a document cannot be read or written, and where in the file the reader stood.
///
/// The text is `line 14, column 3: …`, led by `document 2, ` when it is not the first; the caller adds the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: Cow<'static, str>,
    document: usize,
    place: Option<(usize, usize)>,
    is_limit: bool,
}

impl Error {
    /// `document` counts from 0.
    pub(super) fn new(
        document: usize,
        place: Option<(usize, usize)>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            message: message.into(),
            document,
            place,
            is_limit: false,
        }
    }

    pub(super) fn from_fault(document: usize, place: Option<(usize, usize)>, fault: Fault) -> Self {
        Self {
            is_limit: fault.is_limit,
            ..Self::new(document, place, fault.message)
        }
    }

    /// Whether the input is not malformed, but exceeds [`Limits::bytes`], [`Limits::values`] or [`Limits::memory`]. No
    /// document is read after that.
    pub fn is_limit(&self) -> bool {
        self.is_limit
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The position of the document in its input, from 0, as [`super::documents`] yields them.
    pub fn document(&self) -> usize {
        self.document
    }

    /// The line in the input, from 1, where known.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }

    /// The character in that line, from 1, where known.
    pub fn column(&self) -> Option<usize> {
        self.place.map(|(_, column)| column)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.document > 0 {
            write!(f, "document {}, ", self.document + 1)?;
        }
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A problem inside one document, before it is known which one; `at` counts bytes from its start.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) message: Cow<'static, str>,
    pub(super) at: Option<usize>,
    pub(super) is_limit: bool,
}

impl Fault {
    pub(super) fn new(at: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            message: message.into(),
            at: Some(at),
            is_limit: false,
        }
    }

    /// More bytes than the limit.
    pub(super) fn too_long(limits: &Limits) -> Self {
        let message = format!("larger than the limit of {} bytes", limits.bytes);
        Self {
            message: message.into(),
            at: None,
            is_limit: true,
        }
    }

    /// More entries of mappings and sequences than the limit leaves.
    pub(super) fn too_many(at: Option<usize>, limits: &Limits) -> Self {
        let message = format!(
            "too many values: the limit leaves {} for this input",
            limits.values
        );
        Self {
            message: message.into(),
            at,
            is_limit: true,
        }
    }

    /// Values that take more memory than the limit leaves.
    pub(super) fn too_large(at: Option<usize>, limits: &Limits) -> Self {
        let message = format!(
            "too many values: the limit leaves {} bytes of memory for those of this input",
            limits.memory
        );
        Self {
            message: message.into(),
            at,
            is_limit: true,
        }
    }
}
