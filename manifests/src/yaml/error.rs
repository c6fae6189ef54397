use std::{borrow::Cow, fmt};

/// Why a document cannot be read or written, and where in the file the reader stood.
///
/// The text is `line 14, column 3: …`, led by `document 2, ` when it is not the first; the caller adds the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: Cow<'static, str>,
    document: usize,
    place: Option<(usize, usize)>,
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
        }
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
}

impl Fault {
    pub(super) fn new(at: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            message: message.into(),
            at: Some(at),
        }
    }
}
