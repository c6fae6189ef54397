//! The only YAML in the workspace, with Go's semantics: what kubectl, OLM and the API server make of a manifest.
//!
//! Three layers, each a rule of the Go ecosystem: apimachinery's `YAMLReader` cuts the input into documents,
//! go-yaml v2 gives nodes and scalars their meaning (`yes` is a boolean, `0644` is 420, the last of two equal keys
//! wins, `<<` merges), `sigs.k8s.io/yaml` turns the result into JSON (`1.0` is 1, keys are strings).
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

mod chunk;
mod cost;
mod decode;
mod emit;
mod error;
mod fast;
#[cfg(test)]
mod fuzz;
mod go;
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

pub use self::{
    error::Error,
    locate::{Location, Style, Written, locate, locate_all, locate_nearest, written_all},
    repeated::{MAX_REPEATED, Repeated, repeated, repeated_all},
};
use self::{
    error::Fault,
    split::{Chunk, Splitter},
};

/// How much an input may demand. It comes from strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one input.
    pub bytes: usize,
    /// Nested mappings and sequences. The deepest known bundle has 39; Go stops at 10,000.
    pub depth: usize,
    /// Documents in one input.
    pub documents: usize,
    /// Entries of mappings and sequences in one input, aliases resolved.
    pub values: usize,
    /// Bytes of memory that the values of one input take, as [`memory`] estimates them. A value takes up to 300 times
    /// the memory of the bytes it is written in.
    pub memory: usize,
    /// Bytes of text that aliases in one input may repeat. Go shares the text, a [`Value`] cannot.
    pub text: usize,
}

impl Limits {
    /// The bytes of memory for each value of [`Self::with_values`]. Values of real bundles take 300 on average, and the
    /// largest of a hundred real bundles takes 17 MB.
    const VALUE: usize = 100;
    /// The least memory of [`Self::with_values`]: the text of a bundle can take half of it.
    const LEAST_MEMORY: usize = 64 << 20;

    /// The default limits with another number of values, and with memory in proportion to it.
    pub fn with_values(values: usize) -> Self {
        Self {
            bytes: 64 << 20,
            depth: 512,
            documents: 100_000,
            values,
            memory: values.saturating_mul(Self::VALUE).max(Self::LEAST_MEMORY),
            text: 8 << 20,
        }
    }
}

impl Default for Limits {
    /// Far above every bundle known, low enough for a small pod and a default stack.
    fn default() -> Self {
        Self::with_values(1_000_000)
    }
}

/// Reads all documents of a YAML or JSON input under the default [`Limits`].
///
/// Documents end at lines that start with `---`. Lines end in `\n` or `\r\n`. A document of comments alone is
/// `null`, as it is in Go; skip it. An input whose first character is `{` is read as a stream of JSON values first,
/// and as YAML from where that fails.
///
/// An [`Error`] in one document does not keep the next from being read; one about the input as a whole (a limit, a
/// separator with text behind it) is the last item.
pub fn documents(input: &[u8]) -> Documents<'_> {
    documents_with(input, Limits::default())
}

/// [`documents`] under other limits.
pub fn documents_with(input: &[u8], limits: Limits) -> Documents<'_> {
    Documents::new(input, limits)
}

/// An iterator over the documents of one input, made by [`documents`].
#[derive(Debug)]
pub struct Documents<'a> {
    input: &'a [u8],
    limits: Limits,
    /// Documents yielded so far.
    read: usize,
    state: State<'a>,
}

#[derive(Debug)]
enum State<'a> {
    Start,
    /// JSON values up to this byte.
    Json(usize),
    Yaml(Splitter<'a>),
    End,
}

/// A document that was cut from the input.
enum Cut<'a> {
    /// JSON is cut by reading it.
    Json(Value, Range<usize>),
    Yaml(Chunk<'a>),
}

impl Iterator for Documents<'_> {
    type Item = Result<Value, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let document = self.read;
        let value = match self.cut()? {
            Ok(Cut::Json(value, _)) => Ok(value),
            Ok(Cut::Yaml(chunk)) => chunk::value(&chunk.text, &mut self.limits)
                .map_err(|fault| chunk::error(&chunk, document, fault)),
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
    /// The limits for a further input: [`Limits::values`], [`Limits::memory`] and [`Limits::text`] are what this input
    /// left of them.
    pub fn left(&self) -> Limits {
        self.limits
    }

    /// Takes memory that the caller needs for the values off the limits, and reports whether they leave it.
    #[must_use]
    pub fn reserve(&mut self, bytes: usize) -> bool {
        let left = self.limits.memory.checked_sub(bytes);
        self.limits.memory = left.unwrap_or_default();
        left.is_some()
    }

    fn new(input: &'a [u8], limits: Limits) -> Self {
        Self {
            input,
            limits,
            read: 0,
            state: State::Start,
        }
    }

    fn cut(&mut self) -> Option<Result<Cut<'a>, Error>> {
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

    fn cut_next(&mut self) -> Option<Result<Cut<'a>, Error>> {
        loop {
            match &mut self.state {
                State::Start if self.input.len() > self.limits.bytes => {
                    return Some(self.exceeded(Fault::too_long(&self.limits)));
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
                        return Some(Ok(Cut::Json(value, range)));
                    }
                    // Go: with at most one value read, it may still be YAML.
                    Err(_) if self.read <= 1 => {
                        let from = json::yaml_start(self.input, *from);
                        let (before, rest) = self.input.split_at_checked(from)?;
                        self.state = State::Yaml(Splitter::new(rest, split::lines(before)));
                    }
                    Err((place, message)) => return Some(self.stop(Some(place), message)),
                },
                State::Yaml(splitter) => {
                    return match splitter.next()? {
                        Ok(chunk) => Some(Ok(Cut::Yaml(chunk))),
                        Err(junk) => {
                            let message = "only a comment may follow the document separator \"---\" on its line";
                            Some(self.stop(Some((junk.line + 1, 4)), message))
                        }
                    };
                }
                State::End => return None,
            }
        }
    }

    /// The text of the next document.
    fn next_text(&mut self) -> Option<Result<Chunk<'a>, Error>> {
        Some(self.cut()?.map(|cut| match cut {
            Cut::Json(_, range) => json::chunk(self.input, range),
            Cut::Yaml(chunk) => chunk,
        }))
    }

    /// Ends the iteration with an error about the limits.
    fn exceeded<T>(&mut self, fault: Fault) -> Result<T, Error> {
        self.state = State::End;
        Err(Error::from_fault(self.read, None, fault))
    }

    /// Ends the iteration with an error about the whole input.
    fn stop<T>(
        &mut self,
        place: Option<(usize, usize)>,
        message: impl Into<Cow<'static, str>>,
    ) -> Result<T, Error> {
        self.state = State::End;
        Err(Error::new(self.read, place, message))
    }
}

/// Writes a value as one YAML document that Go reads back as the same value; keys are sorted.
///
/// For a [`Value`] there is [`write`], which need not copy it.
///
/// # Errors
/// When the value cannot be represented in JSON, such as a mapping whose keys are no strings.
pub fn to_string(value: &impl Serialize) -> Result<String, Error> {
    let value =
        serde_json::to_value(value).map_err(|error| Error::new(0, None, error.to_string()))?;
    let mut text = String::new();
    write(&mut text, &value);
    Ok(text)
}

/// Appends a value as one YAML document, in the form of [`to_string`] and without a separator.
pub fn write(out: &mut String, value: &Value) {
    emit::document(out, value);
}

/// Writes a value as one YAML document, in the form of [`to_string`] and without a separator. The document is never in
/// memory as a whole.
///
/// # Errors
/// Returns an error if the writer does.
pub fn write_to(writer: &mut dyn io::Write, value: &Value) -> io::Result<()> {
    let mut stream = emit::Stream::new(writer);
    emit::document(&mut stream, value);
    stream.finish()
}

/// Appends a value as one YAML document in the very bytes that Go's `sigs.k8s.io/yaml` prints, without a separator.
///
/// For output that is compared with that of Go programs. What people read is easier on them in the form of [`write`].
///
/// ```
/// let mut text = String::new();
/// manifests::yaml::write_as_go(&mut text, &serde_json::json!({"b": "it's: so", "a10": 1e6, "a9": "yes"}));
/// assert_eq!(text, "a9: \"yes\"\na10: 1e+06\nb: 'it''s: so'\n");
/// ```
pub fn write_as_go(out: &mut String, value: &Value) {
    go::document(out, value);
}

/// The memory that a value takes, estimated in bytes.
pub fn memory(value: &Value) -> usize {
    cost::weigh(value).memory
}

/// The most memory that reading an input takes besides its bytes, estimated without reading it; `usize::MAX` for inputs
/// with anchors, whose aliases repeat values.
pub fn estimate(input: &[u8]) -> usize {
    cost::estimate(input)
}

impl Limits {
    /// Takes a weight off the limits; the fault if that is more than they leave.
    fn spend(&mut self, weight: cost::Weight) -> Option<Fault> {
        match (
            self.values.checked_sub(weight.values),
            self.memory.checked_sub(weight.memory),
        ) {
            (None, _) => Some(Fault::too_many(None, self)),
            (_, None) => Some(Fault::too_large(None, self)),
            (Some(values), Some(memory)) => {
                (self.values, self.memory) = (values, memory);
                None
            }
        }
    }
}
