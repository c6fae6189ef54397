//! Metas: the documents of a catalog, each of which has a schema and mostly belongs to a package.

mod blob;
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

pub(crate) use self::max_openshift::{Place, Unquoted};
use crate::{
    json::{Node, Tape},
    source::{Entry, Error, Limits, Meter, Source},
    stream::{Format, Stop, Stream},
};

/// What the main thread has, for YAML as deep as any that is read there.
const STACK: usize = 8 << 20;

/// A document of a catalog.
#[derive(Debug, Clone)]
pub struct Meta<'a> {
    /// The file it is from, relative to the catalog.
    pub file: &'a str,
    /// Its first line there, from 1.
    pub line: usize,
    /// Its place in the file, from 0.
    pub index: usize,
    /// What it is; never empty.
    pub schema: Cow<'a, str>,
    /// The package it names; of an `olm.package` this is empty, its name is the package's.
    pub package: Cow<'a, str>,
    /// Its name, which may be empty.
    pub name: Cow<'a, str>,
    /// All of it: an object.
    pub root: Node<'a>,
    /// The max OpenShift versions that are not strings in the file.
    pub(crate) unquoted: Vec<Unquoted>,
    /// The problems of a bundle's key and property that `root` does not show.
    pub(crate) problems: Vec<Problem>,
    /// Whether lines of the file are those of the text of `root`.
    is_json: bool,
    /// The text of a YAML document.
    yaml: Option<&'a [u8]>,
}

/// A document or file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, relative to the catalog.
    pub file: String,
    /// The line from which on it cannot be read, from 1.
    pub line: usize,
    /// The package that the document names, if so much can be read.
    pub package: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    /// An object that is no document by itself.
    ///
    /// # Errors
    /// When it could not be one.
    pub(crate) fn at(file: &'a str, line: usize, root: Node<'a>) -> Result<Self, String> {
        let head = blob::meta(root)?;
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
    /// The package it belongs to, if any.
    pub fn package_name(&self) -> &str {
        if self.schema == "olm.package" {
            &self.name
        } else {
            &self.package
        }
    }

    /// The line in its file where a value begins, as far as that is known: in YAML it is the document's.
    pub fn line_of(&self, node: Node<'_>) -> usize {
        self.lines().of(node)
    }

    /// Returns the line in its file where the value of a path begins, in YAML, too. Reads a YAML document again.
    pub(crate) fn line_at(&self, path: &Path, node: Node<'_>) -> usize {
        let Some(text) = self.yaml else {
            return self.line_of(node);
        };
        let found = yaml::locate_all(text, 0, std::slice::from_ref(path));
        let line = found.first().copied().flatten().map(|(line, _)| line);
        self.line + line.map_or(0, |line| line.saturating_sub(1))
    }

    /// The lines of many values, which are asked for in their order.
    pub fn lines(&self) -> Lines<'a> {
        Lines {
            text: self.is_json.then(|| self.root.raw()),
            begin: self.root.range().start,
            at: 0,
            line: self.line,
        }
    }
}

/// Counts lines of a document, each once.
#[derive(Debug)]
pub struct Lines<'a> {
    /// Nothing where lines are not known.
    text: Option<&'a [u8]>,
    begin: usize,
    at: usize,
    line: usize,
}

// === impl Lines ===

impl Lines<'_> {
    /// The line where a value begins, if it is none that comes before the one that was asked for last.
    pub fn of(&mut self, node: Node<'_>) -> usize {
        let to = node.range().start.saturating_sub(self.begin);
        let passed = self.text.and_then(|text| text.get(self.at..to));
        if let Some(passed) = passed {
            self.line += memchr::memchr_iter(b'\n', passed).count();
            self.at = to;
        }
        self.line
    }
}

/// Shows all metas of a catalog to `visit`, by path and then in the order of the file, one at a time; documents that
/// cannot be read are shown, too. It ends when `visit` breaks.
///
/// # Errors
/// When the folder cannot be read, or the catalog exceeds a limit for all of it.
pub fn walk<B>(
    source: Source<'_>,
    limits: &Limits,
    mut visit: impl FnMut(Result<Meta<'_>, Fault>) -> ControlFlow<B>,
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

/// Makes something of each meta of a catalog, several files at once; what is made comes by path and then in the order of
/// the file, however many threads there are.
///
/// # Errors
/// As [`walk`].
pub fn collect<T: Send>(
    source: Source<'_>,
    limits: &Limits,
    make: impl Fn(Result<Meta<'_>, Fault>) -> T + Sync,
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
            let mut made = Vec::new();
            let flow = reader.read(entry, &mut tape, &mut |meta| {
                made.push(make(meta));
                ControlFlow::<()>::Continue(())
            });
            if let Err(error) = flow {
                // The others need not go on.
                next.store(entries.len(), Ordering::Relaxed);
                return Err(error);
            }
            done.push((at, made));
        }
    };
    let threads = match limits.threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    let results: Vec<_> = thread::scope(|scope| {
        // Where no more threads can be had, fewer do the work.
        let others: Vec<_> = (1..threads.min(entries.len()))
            .filter_map(|_| {
                let builder = thread::Builder::new().stack_size(STACK);
                builder.spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|it| match it.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        results
    });
    let mut made = Vec::with_capacity(entries.len());
    for result in results {
        made.append(&mut result?);
    }
    made.sort_by_key(|(at, _)| *at);
    let mut all = Vec::with_capacity(made.iter().map(|(_, made)| made.len()).sum());
    all.extend(made.into_iter().flat_map(|(_, made)| made));
    Ok(all)
}

/// What is the same for all files.
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

    /// Counts one more document.
    fn count_document(&self) -> Result<(), Error> {
        if self.documents.fetch_add(1, Ordering::Relaxed) < self.limits.documents {
            return Ok(());
        }
        Err(Error::TooLarge {
            limit: self.limits.documents as u64,
            unit: "documents",
        })
    }

    /// Shows the metas of one file.
    fn read<B>(
        &self,
        entry: &Entry<'_>,
        tape: &mut Tape,
        visit: &mut impl FnMut(Result<Meta<'_>, Fault>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let file = entry.path.as_str();
        let fault = |line, message| Fault {
            file: file.to_owned(),
            line,
            package: None,
            message,
        };
        let opened = match entry.open() {
            Ok(opened) => opened,
            Err(error) => return Ok(visit(Err(fault(1, unopened(&error))))),
        };
        let mut stream = Stream::new(self.meter.over(opened), self.limits.document);
        // What JSON made of a document that is now tried as YAML.
        let mut as_json = None;
        let mut index = 0;
        loop {
            let next = stream.next();
            self.meter.check()?;
            let cut = match next {
                Ok(Some(cut)) => cut,
                Ok(None) => return Ok(ControlFlow::Continue(())),
                Err(stop) => return Ok(visit(Err(fault(stream.line(), stop.message())))),
            };
            self.count_document()?;
            let text = stream.text(&cut);
            let converted;
            let mut unquoted = Vec::new();
            let (bytes, is_json) = match cut.format {
                Format::Json => (text, true),
                Format::Yaml => match blob::from_yaml(text, cut.line, self.limits) {
                    Ok(found) => {
                        unquoted = found.unquoted;
                        converted = found.bytes;
                        (converted.as_slice(), false)
                    }
                    Err((line, message)) => {
                        let fault = as_json
                            .take()
                            .unwrap_or_else(|| fault(cut.line + line, message));
                        return Ok(visit(Err(fault)));
                    }
                },
            };
            let root = match tape.read(bytes, self.limits.values) {
                Ok(root) => root,
                Err(error) => {
                    let before = bytes.get(..error.offset).unwrap_or_default();
                    let line = cut.line + memchr::memchr_iter(b'\n', before).count();
                    let fault = fault(line, blob::marked(&error.message, bytes, error.offset));
                    // Go: with at most one document read, it may still be YAML.
                    if is_json && index <= 1 {
                        as_json = Some(fault);
                        stream.reread_as_yaml(&cut);
                        continue;
                    }
                    return Ok(visit(Err(fault)));
                }
            };
            let edited;
            let mut problems = Vec::new();
            let root = match max_openshift::normalize(root, bytes, cut.line) {
                None => root,
                Some(found) => {
                    // Numbers of YAML are reported with their spelling already.
                    if is_json {
                        unquoted.extend(found.unquoted);
                    }
                    problems = found.problems;
                    edited = found.bytes;
                    match tape.read(&edited, self.limits.values) {
                        Ok(root) => root,
                        Err(error) => return Ok(visit(Err(fault(cut.line, error.message)))),
                    }
                }
            };
            let meta = blob::meta(root).map(|head| Meta {
                file,
                line: cut.line,
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
                // Text that is no object is hardly what was meant.
                (Err(_), Some(fault)) => return Ok(visit(Err(fault))),
                (Err(message), None) => visit(Err(Fault {
                    package: blob::package(root),
                    ..fault(cut.line, message)
                })),
            };
            if flow.is_break() {
                return Ok(flow);
            }
            index += 1;
        }
    }
}

fn unopened(error: &dyn std::fmt::Display) -> String {
    format!("cannot be opened: {error}; make it readable or leave it out with .indexignore")
}

impl Stop {
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
