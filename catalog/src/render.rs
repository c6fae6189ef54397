//! Catalogs and bundles as one stream of blobs, in the bytes of `opm render`.
//!
//! ```text
//!  folder, Content ─► walk ─► blob (known fields, Go's order) ─┐
//!                                                              ├─► migration ─► sorted by package ─► JSON, YAML, folder
//!  bundle's files ──► bundle (properties, images) ─────────────┘
//! ```
//!
//! Blobs are kept as compact JSON, which is the least that has to be in memory before the first can be printed: any of
//! them may belong to the first package. Printing goes through them one at a time.
//!
//! ```
//! use catalog::{Limits, Source, render::{Format, Level, Render}};
//! use manifests::content;
//!
//! let mut files = content::Builder::new(content::Limits::default());
//! files.add("a.yaml", 0o644, &mut "{defaultChannel: stable, name: etcd, schema: olm.package}".as_bytes())?;
//! let mut render = Render::new(Level::None);
//! render.catalog(Source::Content(&files.finish()), &Limits::default())?;
//! let mut out = Vec::new();
//! render.finish().write(Format::Yaml, &mut out)?;
//! assert_eq!(out, b"---\ndefaultChannel: stable\nname: etcd\nschema: olm.package\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod blob;
mod bundle;
mod csv_metadata;
mod json;
mod migration;
mod objects;
mod output;
pub(crate) mod parts;
mod template;
mod writing;

use manifests::{content::Content, object::text};

use self::{
    blob::{Blob, Order, Read},
    parts::Icon,
};
pub use self::{
    bundle::Image,
    migration::{Level, UnknownLevel},
    output::{File, FolderError, Format, Rendered, Unwritable, check_empty},
    template::{Template, TemplateError},
};
use crate::{
    source::{self, Limits, Source},
    walk::{self, Fault, Meta},
};

/// Why something cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog's files cannot be had.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A document of a catalog.
    #[error("{0}; correct the document, or leave its file out with .indexignore")]
    Document(Fault),
    /// `manifests/` is empty, or nothing in it can be read.
    #[error("no bundle objects found; put the bundle's manifests into its folder \"manifests\"")]
    NoObjects,
    /// There is no ClusterServiceVersion.
    #[error(
        "no csv in bundle; put the operator's ClusterServiceVersion into the folder \"manifests\", as the first document \
         of its file"
    )]
    NoCsv,
    /// There is no file that names the package.
    #[error(
        "Could not find annotations file; name the bundle's package and channels in metadata/annotations.yaml, below \
         `annotations:`"
    )]
    NoAnnotations,
    /// The name of a CustomResourceDefinition has no group.
    #[error("couldn't parse plural.group from crd name: {name}; correct the ClusterServiceVersion")]
    CrdName {
        /// The name.
        name: String,
    },
    /// A CustomResourceDefinition is owned, but not there.
    #[error(
        "error checking provided apis in bundle {bundle}: couldn't find {api} in bundle. found: [{found}]; add the \
         CustomResourceDefinition, or remove it from those that the ClusterServiceVersion owns"
    )]
    NotProvided {
        /// The bundle.
        bundle: String,
        /// What is missing: group, version, kind and plural.
        api: String,
        /// What is there.
        found: String,
    },
    /// A manifest is not of the shape it has to have.
    #[error("{path} must be {expected}, not {found}; correct the manifest")]
    Shape {
        /// The place.
        path: String,
        /// What it has to be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A property of a bundle is not what its type says.
    #[error("parse property[{index}] of type {type_:?}: {problem}; correct the property")]
    Property {
        /// Its place among the others.
        index: usize,
        /// Its type.
        type_: String,
        /// What is wrong.
        problem: String,
    },
    /// A migration does not know what to make of a bundle.
    #[error("{0}")]
    Migration(String),
}

/// Gathers what is to be rendered together.
#[derive(Debug)]
pub struct Render {
    level: Level,
    blobs: Vec<Blob>,
    warnings: Vec<String>,
}

// === impl Render ===

impl Render {
    /// Nothing yet; every bundle will be migrated up to this level.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            blobs: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds a catalog as it is; nothing is checked but that it can be read.
    ///
    /// # Errors
    /// When a file cannot be read, exceeds the limits, or a document is not what its schema says.
    pub fn catalog(&mut self, source: Source<'_>, limits: &Limits) -> Result<(), Error> {
        let level = self.level;
        let order = match source {
            Source::Files(files) if files.keeps_order() => Order::Kept,
            _ => Order::Sorted,
        };
        let read = walk::collect(source, limits, |meta| {
            let meta = meta.map_err(Error::Document)?;
            read(&meta, order, level).map_err(|message| {
                Error::Document(Fault {
                    file: meta.file.to_owned(),
                    line: meta.line,
                    package: None,
                    message,
                })
            })
        })?;
        self.blobs.reserve(read.len());
        for blob in read {
            let blob = blob?;
            if let Some(warning) = blob.nameless() {
                self.warnings.push(warning);
                continue;
            }
            self.blobs.push(blob);
        }
        Ok(())
    }

    /// Adds a bundle from its files.
    ///
    /// # Errors
    /// When its ClusterServiceVersion or its annotations are missing or not of their shape.
    pub fn bundle(&mut self, content: &Content, image: Image<'_>) -> Result<(), Error> {
        let bundle = Bundle::read(content, image, self.level, &mut self.warnings)?;
        self.blobs.push(bundle.blob);
        Ok(())
    }

    /// What was noticed since this was asked last: what of the sources is not part of the result, and why.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Puts everything into its order.
    pub fn finish(self) -> Rendered {
        Rendered::of(self.blobs)
    }
}

/// The blob of a bundle without an image, from its files.
pub(crate) fn bundle_blob(content: &Content) -> Result<Vec<u8>, Error> {
    let bundle::Read { mut bundle, .. } = bundle::read(content, Image::Unknown, &mut Vec::new())?;
    bundle.arrange();
    Ok(bundle.into_blob().json.into())
}

/// A bundle by itself, with what a package may take over from it.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub(crate) blob: Blob,
    /// What its ClusterServiceVersion says of the operator; empty if nothing.
    pub(crate) description: String,
    pub(crate) icon: Option<Icon>,
}

// === impl Bundle ===

impl Bundle {
    /// Reads a bundle from its files and migrates it up to this level. Warnings are of what is left out, and why.
    ///
    /// # Errors
    /// When its ClusterServiceVersion or its annotations are missing or not of their shape.
    pub fn read(
        content: &Content,
        image: Image<'_>,
        level: Level,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let bundle::Read { mut bundle, csv } = bundle::read(content, image, warnings)?;
        bundle.arrange();
        level
            .migrate(&mut bundle, Some(&csv))
            .map_err(Error::Migration)?;
        Ok(Self {
            blob: bundle.into_blob(),
            description: text(&csv, &["spec", "description"])
                .unwrap_or_default()
                .to_owned(),
            icon: bundle::icon(&csv),
        })
    }
}

pub(crate) fn read(meta: &Meta<'_>, order: Order, level: Level) -> Result<Blob, String> {
    let mut bundle = match blob::read(meta, order)? {
        Read::Done(blob) => return Ok(blob),
        Read::Bundle(bundle) => bundle,
    };
    let csv = objects::read(&bundle, level > Level::None)?;
    bundle.arrange();
    level.migrate(&mut bundle, csv.as_ref())?;
    Ok(bundle.into_blob())
}
