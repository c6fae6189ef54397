//! Rendering of catalogs and bundles as one stream of blobs, with the bytes of `opm render`.
//!
//! ```text
//! directory, Content ─► documents ─► blob (known fields, Go's order) ─┐
//!                                                                     ├─► migration ─► sorted blobs ─► output
//! bundle files ──► bundle (properties, images) ───────────────────────┘
//! ```
//!
//! Blobs are retained as compact JSON. All of them must be in memory before the first one is printed, because any blob
//! can belong to the first package. They are printed one at a time.
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
pub(crate) mod builders;
mod bundle;
mod csv_metadata;
mod image_ref_template;
mod json;
mod migration;
mod objects;
mod output;
mod parallel;

use manifests::{content::Content, object::text};

use self::{
    blob::{Blob, KeyOrder, ReadBlob},
    builders::Icon,
};
pub use self::{
    bundle::BundleImageRef,
    image_ref_template::{Template, TemplateError},
    migration::{Level, UnknownLevel},
    output::{FolderError, Format, OutputFile, Rendered, WriteError, ensure_empty},
};
use crate::{
    documents::{self, Meta, ReadError},
    source::{self, Limits, Source},
};

/// Reasons why content cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The files of the catalog cannot be read.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A document of the catalog is invalid.
    #[error("{0}; correct the document, or exclude its file with .indexignore")]
    Document(ReadError),
    /// `manifests/` contains no readable object.
    #[error("no bundle objects found; put the bundle's manifests into the directory \"manifests\"")]
    NoObjects,
    /// The bundle contains no ClusterServiceVersion.
    #[error(
        "no csv in bundle; put the operator's ClusterServiceVersion into the directory \"manifests\", as the first document \
         of its file"
    )]
    NoCsv,
    /// The files of the bundle do not declare its package.
    #[error(
        "Could not find annotations file; set the bundle's package and channels in metadata/annotations.yaml, under \
         `annotations:`"
    )]
    NoAnnotations,
    /// The name of a CustomResourceDefinition has no group.
    #[error("couldn't parse plural.group from crd name: {name}; correct the ClusterServiceVersion")]
    CrdName {
        /// Name of the CustomResourceDefinition.
        name: String,
    },
    /// The ClusterServiceVersion owns a CustomResourceDefinition that the bundle does not contain.
    #[error(
        "error checking provided apis in bundle {bundle}: couldn't find {api} in bundle. found: [{found}]; add the CRD, or \
         remove it from the owned CRDs of the ClusterServiceVersion"
    )]
    NotProvided {
        /// Name of the bundle.
        bundle: String,
        /// Missing API: group, version, kind and plural.
        api: String,
        /// APIs that the bundle contains.
        found: String,
    },
    /// A manifest has a value of the wrong type.
    #[error("{path} must be {expected}, not {found}; correct the manifest")]
    Shape {
        /// Path of the value.
        path: String,
        /// Type that the value must have.
        expected: String,
        /// Type that the value has.
        found: String,
    },
    /// The value of a bundle property does not match its type.
    #[error("parse property[{index}] of type {type_:?}: {problem}; correct the property")]
    Property {
        /// Index of the property.
        index: usize,
        /// Type of the property.
        type_: String,
        /// Description of the mismatch.
        problem: String,
    },
    /// A bundle cannot be migrated.
    #[error("{0}")]
    Migration(String),
}

/// Collects the content that is rendered together.
#[derive(Debug)]
pub struct Render {
    level: Level,
    blobs: Vec<Blob>,
    warnings: Vec<String>,
}

// === impl Render ===

impl Render {
    /// Creates an empty collection. Bundles are migrated up to `level`.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            blobs: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds a catalog without validation; its documents must only be readable.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or exceeds the limits, or if a document does not match its schema.
    pub fn catalog(&mut self, source: Source<'_>, limits: &Limits) -> Result<(), Error> {
        let level = self.level;
        let order = match source {
            Source::Files(files) if files.is_ordered() => KeyOrder::Original,
            _ => KeyOrder::Sorted,
        };
        let read = documents::collect(source, limits, |meta| {
            let meta = meta.map_err(Error::Document)?;
            read(&meta, order, level).map_err(|message| {
                Error::Document(ReadError {
                    file: meta.file.to_owned(),
                    line: meta.line,
                    package: None,
                    message,
                    ends_file: false,
                })
            })
        })?;
        self.blobs.reserve(read.len());
        for blob in read {
            let blob = blob?;
            if let Some(warning) = blob.missing_package() {
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
    /// Returns an error if the ClusterServiceVersion or the annotations are missing or malformed.
    pub fn bundle(&mut self, content: &Content, image: BundleImageRef<'_>) -> Result<(), Error> {
        let bundle = Bundle::read(content, image, self.level, &mut self.warnings)?;
        self.blobs.push(bundle.blob);
        Ok(())
    }

    /// Returns the warnings since the last call: parts of the sources that are not rendered, with the reason.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Sorts all blobs.
    pub fn finish(self) -> Rendered {
        Rendered::from_blobs(self.blobs)
    }
}

/// Renders the blob of a bundle without an image from its files.
pub(crate) fn bundle_blob(content: &Content) -> Result<Vec<u8>, Error> {
    let bundle::RenderedBundle { mut bundle, .. } =
        bundle::read(content, BundleImageRef::Unknown, &mut Vec::new())?;
    bundle.sort_properties();
    Ok(bundle.into_blob().json.into())
}

/// A single bundle, with the data that its package can take from it.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub(crate) blob: Blob,
    /// Description from the ClusterServiceVersion; empty without one.
    pub(crate) description: String,
    pub(crate) icon: Option<Icon>,
}

// === impl Bundle ===

impl Bundle {
    /// Reads a bundle from its files and migrates it up to `level`. `warnings` receives each skipped part with the
    /// reason.
    ///
    /// # Errors
    /// Returns an error if the ClusterServiceVersion or the annotations are missing or malformed.
    pub fn read(
        content: &Content,
        image: BundleImageRef<'_>,
        level: Level,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let bundle::RenderedBundle { mut bundle, csv } = bundle::read(content, image, warnings)?;
        bundle.sort_properties();
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

pub(crate) fn read(meta: &Meta<'_>, order: KeyOrder, level: Level) -> Result<Blob, String> {
    let mut bundle = match blob::read(meta, order)? {
        ReadBlob::Done(blob) => return Ok(blob),
        ReadBlob::Bundle(bundle) => bundle,
    };
    let csv = objects::read(&bundle, level > Level::None)?;
    bundle.sort_properties();
    level.migrate(&mut bundle, csv.as_ref())?;
    Ok(bundle.into_blob())
}
