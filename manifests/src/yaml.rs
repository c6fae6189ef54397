//! The YAML codec of the workspace, with Go's semantics: kubectl, OLM and the API server read a manifest in the same way.
//!
//! Three layers implement the rules of the Go ecosystem. apimachinery's `YAMLReader` splits the input into documents.
//! go-yaml v2 resolves nodes and scalars (`yes` is a boolean, `0644` is 420, the last of two equal keys wins, `<<` merges).
//! `sigs.k8s.io/yaml` converts the result to JSON (`1.0` is 1, keys are strings).
//!
//! ```
//! use manifests::yaml;
//!
//! let input = b"kind: Service\n---\nenabled: yes\nmode: 0644\n";
//! let documents: Vec<_> = yaml::documents(input).collect::<Result<_, _>>()?;
//! assert_eq!(documents[1], serde_json::json!({"enabled": true, "mode": 420}));
//! assert_eq!(yaml::to_string(&documents[0])?, "kind: Service\n");
//! # Ok::<(), yaml::Error>(())
//! ```

mod cost;
mod decode;
mod document;
mod emit;
mod emit_go;
mod error;
mod fast;
#[cfg(test)]
mod fuzz;
mod json;
mod locate;
mod node;
mod repeated;
mod scalar;
mod split;
mod tagged;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, io, ops::Range};

use serde::Serialize;
use serde_json::Value;

use self::{
    error::DocumentError,
    split::{DocumentText, Splitter},
};
pub use self::{
    error::Error,
    locate::{Location, SourceScalar, Style, locate, locate_all, locate_nearest, written_all},
    repeated::{MAX_REPEATED, Repeated, repeated, repeated_all},
};

/// Limits for one input, which is untrusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the input in bytes.
    pub bytes: usize,
    /// Maximum nesting of mappings and sequences. The deepest known bundle has 39; Go stops at 10,000.
    pub depth: usize,
    /// Maximum number of documents.
    pub documents: usize,
    /// Maximum number of entries of mappings and sequences, including those of aliases.
    pub values: usize,
    /// Maximum memory of the values in bytes, as [`memory`] estimates it. A value takes up to 300 times the memory of its
    /// text.
    pub memory: usize,
    /// Maximum text that aliases may repeat, in bytes. Go shares this text, but a [`Value`] cannot.
    pub text: usize,
}

impl Limits {
    /// Bytes of memory for each value in [`Self::with_values`]. Values of real bundles take 300 on average, and the largest
    /// of a hundred real bundles takes 17 MB.
    const VALUE: usize = 100;
    /// Minimum memory in [`Self::with_values`]: the text of a bundle can take half of it.
    const MIN_MEMORY: usize = 64 << 20;

    /// Returns the default limits with another number of values, and memory in proportion.
    pub fn with_values(values: usize) -> Self {
        Self {
            bytes: 64 << 20,
            depth: 512,
            documents: 100_000,
            values,
            memory: values.saturating_mul(Self::VALUE).max(Self::MIN_MEMORY),
            text: 8 << 20,
        }
    }
}

impl Default for Limits {
    /// Limits far above every known bundle, but low enough for a small pod and a default stack.
    fn default() -> Self {
        Self::with_values(1_000_000)
    }
}

/// Reads all documents of a YAML or JSON input under the default [`Limits`].
///
/// Documents end at lines that start with `---`. Lines end with `\n` or `\r\n`. As in Go, a document that contains only
/// comments is `null`; skip it. An input whose first character is `{` is parsed as a stream of JSON values, and as YAML
/// from the first failure on.
///
/// An [`Error`] in one document does not prevent reading the next one. An error of the whole input (a limit, or a separator
/// with trailing text) is the last item.
pub fn documents(input: &[u8]) -> Documents<'_> {
    documents_with(input, Limits::default())
}

/// Like [`documents`], with other limits.
pub fn documents_with(input: &[u8], limits: Limits) -> Documents<'_> {
    Documents::new(input, limits)
}

/// Iterator over the documents of one input, created by [`documents`].
#[derive(Debug)]
pub struct Documents<'a> {
    input: &'a [u8],
    limits: Limits,
    /// Number of documents yielded so far.
    read: usize,
    state: State<'a>,
}

#[derive(Debug)]
enum State<'a> {
    Start,
    /// JSON values, up to this byte offset.
    Json(usize),
    Yaml(Splitter<'a>),
    End,
}

/// A document of the input before its validation.
enum RawDocument<'a> {
    /// JSON is parsed to find its end.
    Json(Value, Range<usize>),
    Yaml(DocumentText<'a>),
}

impl Iterator for Documents<'_> {
    type Item = Result<Value, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let document = self.read;
        let value = match self.cut()? {
            Ok(RawDocument::Json(value, _)) => Ok(value),
            Ok(RawDocument::Yaml(chunk)) => document::value(&chunk.text, &mut self.limits)
                .map_err(|fault| document::error(&chunk, document, fault)),
            Err(error) => Err(error),
        };
        match &value {
            Ok(value) => {
                if let Some(fault) = self.limits.spend(cost::weigh(value)) {
                    return Some(self.exceeded(fault));
                }
            }
            Err(error) if error.is_limit() => self.state = State::End,
            Err(_) => {}
        }
        Some(value)
    }
}

impl<'a> Documents<'a> {
    /// Returns the limits for a further input: the remaining [`Limits::values`], [`Limits::memory`] and [`Limits::text`].
    pub fn remaining_values(&self) -> Limits {
        self.limits
    }

    /// Deducts memory that the caller requires for the values from the limits, and reports whether it fits.
    #[must_use]
    pub fn reserve(&mut self, bytes: usize) -> bool {
        let remaining = self.limits.memory.checked_sub(bytes);
        self.limits.memory = remaining.unwrap_or_default();
        remaining.is_some()
    }

    fn new(input: &'a [u8], limits: Limits) -> Self {
        Self {
            input,
            limits,
            read: 0,
            state: State::Start,
        }
    }

    fn cut(&mut self) -> Option<Result<RawDocument<'a>, Error>> {
        let cut = self.cut_next()?;
        if self.read == self.limits.documents && cut.is_ok() {
            return Some(self.stop(
                None,
                format!("more documents than the limit of {}", self.read),
            ));
        }
        self.read += 1;
        Some(cut)
    }

    fn cut_next(&mut self) -> Option<Result<RawDocument<'a>, Error>> {
        loop {
            match &mut self.state {
                State::Start if self.input.len() > self.limits.bytes => {
                    return Some(self.exceeded(DocumentError::too_long(&self.limits)));
                }
                State::Start => {
                    self.state = if json::may_start(self.input) {
                        let weight = cost::weigh_json(self.input);
                        let mut limits = self.limits;
                        if let Some(fault) = limits.spend(weight) {
                            return Some(self.exceeded(fault));
                        }
                        State::Json(0)
                    } else {
                        State::Yaml(Splitter::new(self.input, 0))
                    };
                }
                State::Json(from) => match json::next(self.input, *from)? {
                    Ok((value, end)) => {
                        let range = *from..end;
                        *from = end;
                        return Some(Ok(RawDocument::Json(value, range)));
                    }
                    // As in Go, the input may be YAML if at most one value was read.
                    Err(_) if self.read <= 1 => {
                        let from = json::yaml_start(self.input, *from);
                        let (before, rest) = self.input.split_at_checked(from)?;
                        self.state = State::Yaml(Splitter::new(rest, split::lines(before)));
                    }
                    Err((place, message)) => return Some(self.stop(Some(place), message)),
                },
                State::Yaml(splitter) => {
                    return match splitter.next()? {
                        Ok(chunk) => Some(Ok(RawDocument::Yaml(chunk))),
                        Err(trailing) => {
                            let message = "only a comment may follow the document separator \"---\" on its line";
                            Some(self.stop(Some((trailing.line + 1, 4)), message))
                        }
                    };
                }
                State::End => return None,
            }
        }
    }

    /// Returns the text of the next document.
    fn next_text(&mut self) -> Option<Result<DocumentText<'a>, Error>> {
        Some(self.cut()?.map(|cut| match cut {
            RawDocument::Json(_, range) => json::chunk(self.input, range),
            RawDocument::Yaml(chunk) => chunk,
        }))
    }

    /// Stops the iteration with an error for an exceeded limit.
    fn exceeded<T>(&mut self, fault: DocumentError) -> Result<T, Error> {
        self.state = State::End;
        Err(Error::from_fault(self.read, None, fault))
    }

    /// Stops the iteration with an error for the whole input.
    fn stop<T>(
        &mut self,
        place: Option<(usize, usize)>,
        message: impl Into<Cow<'static, str>>,
    ) -> Result<T, Error> {
        self.state = State::End;
        Err(Error::new(self.read, place, message))
    }
}

/// Serializes a value as one YAML document that Go parses to the same value, with sorted keys.
///
/// For a [`Value`], [`write`] avoids a copy.
///
/// # Errors
/// Returns an error if JSON cannot represent the value, such as a mapping with keys other than strings.
pub fn to_string(value: &impl Serialize) -> Result<String, Error> {
    let value =
        serde_json::to_value(value).map_err(|error| Error::new(0, None, error.to_string()))?;
    let mut text = String::new();
    write(&mut text, &value);
    Ok(text)
}

/// Appends a value as one YAML document, in the format of [`to_string`] and without a separator.
pub fn write(out: &mut String, value: &Value) {
    emit::document(out, value);
}

/// Writes a value as one YAML document, in the format of [`to_string`] and without a separator. The whole document is never
/// in memory.
///
/// # Errors
/// Returns an error if the writer fails.
pub fn write_to(writer: &mut dyn io::Write, value: &Value) -> io::Result<()> {
    let mut stream = emit::Stream::new(writer);
    emit::document(&mut stream, value);
    stream.finish()
}

/// Appends a value as one YAML document with exactly the bytes that Go's `sigs.k8s.io/yaml` prints, without a separator.
///
/// Intended for output that is compared with that of Go programs. For users, the format of [`write`] is more readable.
///
/// ```
/// let mut text = String::new();
/// manifests::yaml::write_as_go(&mut text, &serde_json::json!({"b": "it's: so", "a10": 1e6, "a9": "yes"}));
/// assert_eq!(text, "a9: \"yes\"\na10: 1e+06\nb: 'it''s: so'\n");
/// ```
pub fn write_as_go(out: &mut String, value: &Value) {
    emit_go::document(out, value);
}

/// Estimates the memory of a value in bytes.
pub fn memory(value: &Value) -> usize {
    cost::weigh(value).memory
}

/// Estimates the maximum memory for parsing an input, besides its bytes, without parsing it. Returns `usize::MAX` for
/// inputs with anchors, whose aliases repeat values.
pub fn estimate(input: &[u8]) -> usize {
    cost::estimate(input)
}

impl Limits {
    /// Deducts a weight from the limits, or returns an error if it exceeds them.
    fn spend(&mut self, weight: cost::Weight) -> Option<DocumentError> {
        match (
            self.values.checked_sub(weight.values),
            self.memory.checked_sub(weight.memory),
        ) {
            (None, _) => Some(DocumentError::too_many(None, self)),
            (_, None) => Some(DocumentError::too_large(None, self)),
            (Some(values), Some(memory)) => {
                (self.values, self.memory) = (values, memory);
                None
            }
        }
    }
}
