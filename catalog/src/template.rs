//! Templates of catalogs: what `opm alpha render-template` takes, and the same catalog of it.
//!
//! ```text
//!  text ─► Template ─► images ─ ─ somebody renders them ─ ─► Bundles ─┐
//!             └───────────────────────────────────────────────────────┴─► Rendered ─► JSON, YAML, Mermaid
//! ```
//!
//! A template is one document. What can be wrong with it by itself is told before anything is fetched, all at once; so is
//! what is wrong with its bundles once they are there.
//!
//! ```
//! use catalog::{Limits, template::{Kind, Template}};
//!
//! let text = "schema: olm.semver\nstable: {bundles: [{image: quay.io/tide/bundle:v1}]}";
//! let template = Template::read("tide.yaml", text.as_bytes(), None, &Limits::default())?;
//! assert_eq!(template.kind(), Kind::Semver);
//! assert_eq!(template.images(), ["quay.io/tide/bundle:v1"]);
//! # Ok::<(), catalog::template::Error>(())
//! ```

mod basic;
mod mermaid;
mod semver;
mod substitutes;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    io::{self, Read},
    ops::ControlFlow,
    str::FromStr,
};

use manifests::version::{self, Version};

pub use self::mermaid::mermaid;
use self::{basic::Basic, semver::Semver, substitutes::Substitutes};
use crate::{
    blob::{self, Seen},
    json::Tape,
    render::{self, Bundle, Rendered},
    shape::{self, Struct},
    source::{self, Files, Limits, Source},
    walk::{self, Fault, Meta},
};

/// What a template makes a catalog of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A catalog whose bundles are named by image alone.
    Basic,
    /// Lists of bundles, of which channels are made by version.
    Semver,
    /// A catalog, and bundles that take the places of others in it.
    Substitutes,
}

/// A template that was read.
#[derive(Debug, Clone)]
pub struct Template {
    body: Body,
    warnings: Vec<String>,
}

#[derive(Debug, Clone)]
enum Body {
    Basic(Basic),
    Semver(Semver),
    Substitutes(Substitutes),
}

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A limit for all of the template.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// There is no document.
    #[error(
        "{file} is empty; write a template with one of the schemas {}",
        Kind::schemas()
    )]
    Empty {
        /// The template.
        file: String,
    },
    /// The document cannot be read.
    #[error("{0}; correct the template")]
    Document(Fault),
    /// It is another kind of template, or none.
    #[error("{file}: unknown template schema {found:?}, should be {expected}")]
    Schema {
        /// The template.
        file: String,
        /// Its schema.
        found: String,
        /// Those that it may have.
        expected: String,
    },
    /// What the template or its bundles say does not go together.
    #[error("{0}")]
    Invalid(Problems),
}

/// Everything that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<String>);

// === impl Kind ===

impl Kind {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Semver, Self::Substitutes];

    /// By which people know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Semver => "semver",
            Self::Substitutes => "substitutes",
        }
    }

    /// By which a template says so.
    pub const fn schema(self) -> &'static str {
        match self {
            Self::Basic => "olm.template.basic",
            Self::Semver => "olm.semver",
            Self::Substitutes => "olm.template.substitutes",
        }
    }

    fn schemas() -> String {
        Self::ALL.map(Self::schema).join(", ")
    }
}

/// There is no such kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such kind of template; there are basic, semver and substitutes")]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.name() == name).ok_or(UnknownKind)
    }
}

// === impl Template ===

impl Template {
    /// Reads a template, of whichever kind its schema says if none is asked for. `file` is what errors call it.
    ///
    /// # Errors
    /// When it is none, another one than was asked for, or contradicts itself.
    pub fn read(
        file: &str,
        text: &[u8],
        kind: Option<Kind>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let input = Input { file, text };
        let (mut read, mut has_more) = (None, false);
        let _ = walk::walk(Source::Files(&input), limits, |meta| match meta {
            Err(fault) if is_nothing(&fault) => ControlFlow::Continue(()),
            _ if read.is_some() => {
                has_more = true;
                ControlFlow::Break(())
            }
            Err(fault) => {
                read = Some(Err(Error::Document(fault)));
                ControlFlow::Break(())
            }
            Ok(meta) => {
                read = Some(Self::of(&meta, text, kind));
                ControlFlow::Continue(())
            }
        })?;
        let mut template = read.unwrap_or_else(|| {
            let file = file.to_owned();
            Err(Error::Empty { file })
        })?;
        if has_more {
            template.warnings.push(format!(
                "{file} has more than one document; only the first one is a template, and all others are left out"
            ));
        }
        Ok(template)
    }

    fn of(meta: &Meta<'_>, text: &[u8], kind: Option<Kind>) -> Result<Self, Error> {
        let mut all = Kind::ALL.into_iter();
        let found = all.find(|it| it.schema() == meta.schema);
        let found = found.filter(|it| kind.is_none_or(|kind| kind == *it));
        let Some(found) = found else {
            return Err(Error::Schema {
                file: meta.file.to_owned(),
                found: meta.schema.chars().take(100).collect(),
                expected: kind.map_or_else(Kind::schemas, |kind| kind.schema().to_owned()),
            });
        };
        let mut warnings = Vec::new();
        let body = match found {
            Kind::Basic => Body::Basic(Basic::read(meta, &mut warnings)?),
            Kind::Semver => Body::Semver(Semver::read(meta, text)?),
            Kind::Substitutes => Body::Substitutes(Substitutes::read(meta)?),
        };
        Ok(Self { body, warnings })
    }

    /// What it makes a catalog of.
    pub fn kind(&self) -> Kind {
        match self.body {
            Body::Basic(_) => Kind::Basic,
            Body::Semver(_) => Kind::Semver,
            Body::Substitutes(_) => Kind::Substitutes,
        }
    }

    /// The bundles that have to be rendered, as they are named, each once.
    pub fn images(&self) -> Vec<&str> {
        let all: Vec<&str> = match &self.body {
            Body::Basic(it) => it.images().collect(),
            Body::Semver(it) => it.images().collect(),
            Body::Substitutes(it) => it.images().collect(),
        };
        let mut seen = HashSet::new();
        all.into_iter().filter(|it| seen.insert(*it)).collect()
    }

    /// What was noticed since this was asked last.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Makes the catalog. `bundles` has each of the images, under the name it has in the template; warnings are of what
    /// may not be meant.
    ///
    /// # Errors
    /// Everything that keeps the bundles from being a catalog.
    pub fn render(
        self,
        bundles: BTreeMap<String, Bundle>,
        warnings: &mut Vec<String>,
    ) -> Result<Rendered, Error> {
        let missing = self.images().into_iter();
        let missing = missing.filter(|it| !bundles.contains_key(*it));
        let missing = missing.map(|it| format!("bundle {it:?} is not rendered"));
        check(missing.collect())?;
        match self.body {
            Body::Basic(it) => Ok(it.render(bundles)),
            Body::Semver(it) => it.render(bundles, warnings),
            Body::Substitutes(it) => it.render(bundles),
        }
    }
}

/// Fails when something is wrong.
fn check(problems: Vec<String>) -> Result<(), Error> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::Invalid(Problems(problems)))
}

/// A document that says nothing, such as one of comments before the first `---`.
fn is_nothing(fault: &Fault) -> bool {
    fault.message.starts_with("object '' is missing")
}

/// Fails when the template is not of its shape.
fn shaped(meta: &Meta<'_>, of: &'static Struct) -> Result<(), Error> {
    shape::check(meta.root, of).map_err(|problem| {
        Error::Document(Fault {
            file: meta.file.to_owned(),
            line: meta.line,
            package: None,
            message: format!("unmarshalling template: {problem}"),
        })
    })
}

/// The blobs within a template, and what is wrong with those that are none.
fn entries<'a>(meta: &Meta<'a>) -> impl Iterator<Item = Result<Meta<'a>, String>> {
    let (file, mut lines) = (meta.file, meta.lines());
    shape::list(meta.root, "entries")
        .enumerate()
        .map(move |(at, node)| {
            let line = lines.of(node);
            Meta::at(file, line, node)
                .map_err(|problem| format!("{file}:{line}: entries[{at}]: {problem}"))
        })
}

/// A rendered blob, as checks look at it.
fn look(blob: &render::blob::Blob, file: &str) -> Result<Seen, String> {
    let mut tape = Tape::default();
    let root = tape
        .read(&blob.json, Limits::default().values)
        .map_err(|error| error.to_string())?;
    Ok(blob::look(Ok(Meta::at(file, 1, root)?)))
}

/// The version that a bundle's one `olm.package` names.
fn version_of(bundle: &blob::Bundle) -> Result<(&crate::facts::Identity, Version), String> {
    let name = &bundle.name;
    let facts = bundle.facts.as_ref();
    let facts = facts.map_err(|it| format!("parse properties for bundle {name:?}: {it}"))?;
    let [identity] = facts.packages.as_slice() else {
        return Err(format!(
            "bundle {name:?} has {} \"olm.package\" properties, expected exactly 1",
            facts.packages.len()
        ));
    };
    let version = version::strict(&identity.version)
        .map_err(|error| format!("bundle {name:?} has an invalid version: {error}"))?;
    Ok((identity, version))
}

/// The only file of a catalog that is a template.
#[derive(Debug)]
struct Input<'a> {
    file: &'a str,
    text: &'a [u8],
}

impl Files for Input<'_> {
    fn paths(&self) -> Vec<String> {
        vec![self.file.to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + 'a>> {
        Ok(Box::new(self.text))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 100;
        if let [one] = self.0.as_slice() {
            return f.write_str(one);
        }
        write!(f, "{} problems", self.0.len())?;
        for problem in self.0.iter().take(SHOWN) {
            write!(f, "\n  {problem}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, "\n  and {more} more"),
            _ => Ok(()),
        }
    }
}
