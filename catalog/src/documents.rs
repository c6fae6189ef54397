//! Metas: the documents of a catalog. Each has a schema, and most belong to a package.

mod head;
mod max_openshift;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    num::NonZero,
    ops::ControlFlow,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use manifests::{openshift::Problem, path::Path, yaml};

pub(crate) use self::max_openshift::{Unquoted, ValuePosition};
use crate::{
    document_stream::{DocumentStream, Format, StreamError},
    json::{Node, Tape},
    source::{Entry, Error, Limits, Meter, Source},
};

/// Stack size of the threads, equal to that of the main thread, for deeply nested YAML.
const STACK_SIZE: usize = 8 << 20;

/// A document of a catalog.
#[derive(Debug, Clone)]
pub struct Meta<'a> {
    /// File of the document, relative to the catalog.
    pub file: &'a str,
    /// First line of the document in the file, starting at 1.
    pub line: usize,
    /// Index of the document in the file, starting at 0.
    pub index: usize,
    /// Schema of the document; never empty.
    pub schema: Cow<'a, str>,
    /// Package that the document declares; empty for an `olm.package`, whose name is the package.
    pub package: Cow<'a, str>,
    /// Name of the blob, which can be empty.
    pub name: Cow<'a, str>,
    /// Content of the document, an object.
    pub root: Node<'a>,
    /// Max OpenShift versions that are not strings in the file.
    pub(crate) unquoted: Vec<Unquoted>,
    /// Problems of a bundle's key and property that are not visible in `root`.
    pub(crate) problems: Vec<Problem>,
    /// True if the text of `root` has the same lines as the file.
    is_json: bool,
    /// Text of a YAML document.
    yaml: Option<&'a [u8]>,
}

/// A document or file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// File, relative to the catalog.
    pub file: String,
    /// First line that cannot be read, starting at 1.
    pub line: usize,
    /// Package that the document declares, if it can be determined.
    pub package: Option<String>,
    /// Description of the problem.
    pub message: String,
    /// True if the rest of the file was not read.
    pub ends_file: bool,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    /// Creates a meta from an object inside a document.
    ///
    /// # Errors
    /// Returns an error if the object would not be a valid document.
    pub(crate) fn at(file: &'a str, line: usize, root: Node<'a>) -> Result<Self, String> {
        let head = head::meta(root)?;
        Ok(Self {
            file,
            line,
            index: 0,
            schema: head.schema,
            package: head.package,
            name: head.name,
            root,
            unquoted: Vec::new(),
            problems: Vec::new(),
            is_json: false,
            yaml: None,
        })
    }
}

impl<'a> Meta<'a> {
    /// Returns the package to which the document belongs, or an empty string.
    pub fn package_name(&self) -> &str {
        if self.schema == "olm.package" {
            &self.name
        } else {
            &self.package
        }
    }

    /// Returns the line of a value in the file. For YAML, returns the line of the document.
    pub fn line_of(&self, node: Node<'_>) -> usize {
        self.lines().line_of(node)
    }

    /// Returns the line of the value at a path, for YAML, too. A YAML document is parsed again.
    pub(crate) fn line_at(&self, path: &Path, node: Node<'_>) -> usize {
        let Some(text) = self.yaml else {
            return self.line_of(node);
        };
        let locations = yaml::locate_all(text, 0, std::slice::from_ref(path));
        let line = locations.first().copied().flatten().map(|(line, _)| line);
        self.line + line.map_or(0, |line| line.saturating_sub(1))
    }

    /// Returns a line counter for several values in their order.
    pub fn lines(&self) -> LineCounter<'a> {
        LineCounter {
            text: self.is_json.then(|| self.root.source()),
            start: self.root.range().start,
            at: 0,
            line: self.line,
        }
    }
}

/// Line counter that reads each line of a document once.
#[derive(Debug)]
pub struct LineCounter<'a> {
    /// Text of the document; `None` if its lines are unknown.
    text: Option<&'a [u8]>,
    start: usize,
    at: usize,
    line: usize,
}

// === impl LineCounter ===

impl LineCounter<'_> {
    /// Returns the line of a value, which must not precede that of the previous call.
    pub fn line_of(&mut self, node: Node<'_>) -> usize {
        let to = node.range().start.saturating_sub(self.start);
        let passed = self.text.and_then(|text| text.get(self.at..to));
        if let Some(passed) = passed {
            self.line += memchr::memchr_iter(b'\n', passed).count();
            self.at = to;
        }
        self.line
    }
}

/// Passes all metas of a catalog to `visit`, by path and then in the order of the file. Documents that cannot be read
/// are passed as errors. No further meta is read after `visit` breaks.
///
/// # Errors
/// Returns an error if the directory cannot be read, or if the whole catalog exceeds a limit.
pub fn walk<B>(
    source: Source<'_>,
    limits: &Limits,
    mut visit: impl FnMut(Result<Meta<'_>, ReadError>) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, Error> {
    let reader = Reader::new(limits);
    let mut tape = Tape::default();
    for entry in source.entries(limits)? {
        if let ControlFlow::Break(done) = reader.read(&entry, &mut tape, &mut visit)? {
            return Ok(ControlFlow::Break(done));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Converts each meta of a catalog, several files in parallel. Results are ordered by path and then by the order of the
/// file, regardless of the number of threads.
///
/// # Errors
/// Returns the errors of [`walk`].
pub fn collect<T: Send>(
    source: Source<'_>,
    limits: &Limits,
    convert: impl Fn(Result<Meta<'_>, ReadError>) -> T + Sync,
) -> Result<Vec<T>, Error> {
    let entries = source.entries(limits)?;
    let reader = Reader::new(limits);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Vec<T>)>, Error> {
        let mut tape = Tape::default();
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = entries.get(at) else {
                return Ok(done);
            };
            let mut outputs = Vec::new();
            let flow = reader.read(entry, &mut tape, &mut |meta| {
                outputs.push(convert(meta));
                ControlFlow::<()>::Continue(())
            });
            if let Err(error) = flow {
                // The other threads stop after their current file.
                next.store(entries.len(), Ordering::Relaxed);
                return Err(error);
            }
            done.push((at, outputs));
        }
    };
    let threads = match limits.threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    let results: Vec<_> = thread::scope(|scope| {
        // If threads cannot be created, fewer threads do the work.
        let others: Vec<_> = (1..threads.min(entries.len()))
            .filter_map(|_| {
                let builder = thread::Builder::new().stack_size(STACK_SIZE);
                builder.spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        results
    });
    let mut outputs = Vec::with_capacity(entries.len());
    for result in results {
        outputs.append(&mut result?);
    }
    outputs.sort_by_key(|(at, _)| *at);
    let mut all = Vec::with_capacity(outputs.iter().map(|(_, outputs)| outputs.len()).sum());
    all.extend(outputs.into_iter().flat_map(|(_, outputs)| outputs));
    Ok(all)
}

/// State that all files share.
struct Reader<'a> {
    limits: &'a Limits,
    documents: AtomicUsize,
    meter: Meter,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            documents: AtomicUsize::new(0),
            meter: Meter::new(limits),
        }
    }

    /// Counts a document and checks the limit.
    fn count_document(&self) -> Result<(), Error> {
        if self.documents.fetch_add(1, Ordering::Relaxed) < self.limits.documents {
            return Ok(());
        }
        Err(Error::TooLarge {
            limit: self.limits.documents as u64,
            unit: "documents",
        })
    }

    /// Passes the metas of one file to `visit`.
    fn read<B>(
        &self,
        entry: &Entry<'_>,
        tape: &mut Tape,
        visit: &mut impl FnMut(Result<Meta<'_>, ReadError>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let file = entry.path.as_str();
        let fault = |line, message| ReadError {
            file: file.to_owned(),
            line,
            package: None,
            message,
            ends_file: true,
        };
        let opened = match entry.open() {
            Ok(opened) => opened,
            Err(error) => return Ok(visit(Err(fault(1, open_error(&error))))),
        };
        let mut stream = DocumentStream::new(self.meter.exceeded(opened), self.limits.document);
        // Error of a document as JSON, while it is retried as YAML.
        let mut as_json = None;
        let mut index = 0;
        loop {
            let next = stream.next();
            self.meter.check()?;
            let document = match next {
                Ok(Some(document)) => document,
                Ok(None) => return Ok(ControlFlow::Continue(())),
                Err(stop) => return Ok(visit(Err(fault(stream.line(), stop.message())))),
            };
            self.count_document()?;
            let text = stream.text(&document);
            let converted;
            let mut unquoted = Vec::new();
            let (bytes, is_json) = match document.format {
                Format::Json => (text, true),
                Format::Yaml => match head::from_yaml(text, document.line, self.limits) {
                    Ok(normalized) => {
                        unquoted = normalized.unquoted;
                        converted = normalized.bytes;
                        (converted.as_slice(), false)
                    }
                    Err((line, message)) => {
                        let fault = as_json
                            .take()
                            .unwrap_or_else(|| fault(document.line + line, message));
                        return Ok(visit(Err(fault)));
                    }
                },
            };
            let root = match tape.read(bytes, self.limits.values) {
                Ok(root) => root,
                Err(error) => {
                    let before = bytes.get(..error.offset).unwrap_or_default();
                    let line = document.line + memchr::memchr_iter(b'\n', before).count();
                    let fault = fault(line, head::with_marker(&error.message, bytes, error.offset));
                    // As in Go, a file in which at most one document was read can still be YAML.
                    if is_json && index <= 1 {
                        as_json = Some(fault);
                        stream.reread_as_yaml(&document);
                        continue;
                    }
                    return Ok(visit(Err(fault)));
                }
            };
            let edited;
            let mut problems = Vec::new();
            let root = match max_openshift::normalize(root, bytes, document.line) {
                None => root,
                Some(normalized) => {
                    // Numbers of YAML were reported with their spelling before.
                    if is_json {
                        unquoted.extend(normalized.unquoted);
                    }
                    problems = normalized.problems;
                    edited = normalized.bytes;
                    match tape.read(&edited, self.limits.values) {
                        Ok(root) => root,
                        Err(error) => return Ok(visit(Err(fault(document.line, error.message)))),
                    }
                }
            };
            let meta = head::meta(root).map(|head| Meta {
                file,
                line: document.line,
                index,
                schema: head.schema,
                package: head.package,
                name: head.name,
                root,
                unquoted,
                problems,
                is_json,
                yaml: (!is_json).then_some(text),
            });
            let flow = match (meta, as_json.take()) {
                (Ok(meta), _) => visit(Ok(meta)),
                // Text that is not an object was hardly meant as YAML.
                (Err(_), Some(fault)) => return Ok(visit(Err(fault))),
                (Err(message), None) => visit(Err(ReadError {
                    package: head::package(root),
                    ends_file: false,
                    ..fault(document.line, message)
                })),
            };
            if flow.is_break() {
                return Ok(flow);
            }
            index += 1;
        }
    }
}

fn open_error(error: &dyn std::fmt::Display) -> String {
    format!("cannot be opened: {error}; make it readable, or exclude it with .indexignore")
}

impl StreamError {
    fn message(self) -> String {
        match self {
            Self::Read(error) => format!("cannot be read: {error}"),
            Self::TooLarge(limit) => {
                format!("a document is larger than the limit of {limit} bytes; split it")
            }
            Self::Separator(text) => format!("invalid Yaml document separator: {text}"),
        }
    }
}
