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
mod scalar;
mod split;
mod tagged;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, ops::Range};

use serde::Serialize;
use serde_json::Value;

use self::split::{Chunk, Splitter};
pub use self::{
    error::Error,
    locate::{Location, Style, Written, locate, locate_all, repeated, written_all},
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
    /// Entries of mappings and sequences in one input, aliases resolved. A value takes many times the memory of the
    /// two bytes it can be written in.
    pub values: usize,
    /// Bytes of text that aliases in one input may repeat. Go shares the text, a [`Value`] cannot.
    pub text: usize,
}

impl Default for Limits {
    /// Far above every bundle known, low enough for a small pod and a default stack.
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            depth: 512,
            documents: 100_000,
            values: 1_000_000,
            text: 8 << 20,
        }
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
        let value = self.cut()?.and_then(|cut| match cut {
            Cut::Json(value, _) => Ok(value),
            Cut::Yaml(chunk) => chunk::value(&chunk.text, &mut self.limits)
                .map_err(|fault| chunk::error(&chunk, document, fault)),
        });
        if let Ok(value) = &value {
            match self.limits.values.checked_sub(entries(value)) {
                Some(left) => self.limits.values = left,
                None => return Some(self.stop(None, too_many(&self.limits))),
            }
        }
        Some(value)
    }
}

impl<'a> Documents<'a> {
    /// The limits to go on with in another input: [`Limits::values`] and [`Limits::text`] are what is left of them.
    pub fn left(&self) -> Limits {
        self.limits
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
                    let message = format!("larger than the limit of {} bytes", self.limits.bytes);
                    return Some(self.stop(None, message));
                }
                State::Start => {
                    self.state = if json::may_start(self.input) {
                        if json::has_more_values(self.input, self.limits.values) {
                            return Some(self.stop(None, too_many(&self.limits)));
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

/// The entries of all mappings and sequences of a value.
fn entries(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len() + items.iter().map(entries).sum::<usize>(),
        Value::Object(map) => map.len() + map.values().map(entries).sum::<usize>(),
        _ => 0,
    }
}

/// What to say of an input with more values than allowed.
fn too_many(limits: &Limits) -> String {
    format!(
        "too many values: the limit left {} for this input",
        limits.values
    )
}
