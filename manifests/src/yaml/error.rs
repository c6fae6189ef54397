//! Errors of documents, with their positions.

use std::{borrow::Cow, fmt};

use super::Limits;

/// Error of a document that cannot be parsed or serialized, with its position in the file.
///
/// Formatted as `line 14, column 3: …`, with the prefix `document 2, ` for all documents but the first. The caller adds the
/// file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: Cow<'static, str>,
    document: usize,
    place: Option<(usize, usize)>,
    is_limit: bool,
}

impl Error {
    /// Creates an error; `document` is the index from 0.
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

    pub(super) fn from_fault(
        document: usize,
        place: Option<(usize, usize)>,
        fault: DocumentError,
    ) -> Self {
        Self {
            is_limit: fault.is_limit,
            ..Self::new(document, place, fault.message)
        }
    }

    /// Reports whether the input is not malformed, but exceeds [`Limits::bytes`], [`Limits::values`] or [`Limits::memory`].
    /// No further document is read after that.
    pub fn is_limit(&self) -> bool {
        self.is_limit
    }

    /// Returns the message without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the index of the document in its input, from 0, as yielded by [`super::documents`].
    pub fn document(&self) -> usize {
        self.document
    }

    /// Returns the line in the input, from 1, if known.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }

    /// Returns the column in characters, from 1, if known.
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

/// A problem in a document whose index is not known yet; `at` is a byte offset in the document.
#[derive(Debug)]
pub(super) struct DocumentError {
    pub(super) message: Cow<'static, str>,
    pub(super) at: Option<usize>,
    pub(super) is_limit: bool,
}

impl DocumentError {
    pub(super) fn new(at: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            message: message.into(),
            at: Some(at),
            is_limit: false,
        }
    }

    /// Returns the error of an input with more bytes than the limit.
    pub(super) fn too_long(limits: &Limits) -> Self {
        let message = format!("larger than the limit of {} bytes", limits.bytes);
        Self {
            message: message.into(),
            at: None,
            is_limit: true,
        }
    }

    /// Returns the error of an input with more entries of mappings and sequences than remain in the limit.
    pub(super) fn too_many(at: Option<usize>, limits: &Limits) -> Self {
        let message = format!(
            "too many values: at most {} are allowed in this input",
            limits.values
        );
        Self {
            message: message.into(),
            at,
            is_limit: true,
        }
    }

    /// Returns the error of values that take more memory than remains in the limit.
    pub(super) fn too_large(at: Option<usize>, limits: &Limits) -> Self {
        let message = format!(
            "too many values: at most {} bytes of memory are allowed for the values of this input",
            limits.memory
        );
        Self {
            message: message.into(),
            at,
            is_limit: true,
        }
    }
}
