//! References on the command line: each is a catalog or a bundle.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, bail, ensure};
use catalog::render::{Bundle, BundleImageRef, Level, Render, Template};
use unpacker::{Content, Fetched, Limits, Tree};

use crate::{
    args::CatalogLimitArgs,
    commands::catalog::image::{
        CONFIGS, CatalogFiles, ImageKind, PACKAGE, contains_directory, is_database, is_image,
    },
    fetch::Fetcher,
    output::message,
    source::Source,
};

/// Kinds of references that may be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedKinds {
    All,
    Catalogs,
}

/// Reader of references.
pub(crate) struct ReferenceReader<'a> {
    pub(crate) fetcher: &'a Fetcher,
    pub(crate) limits: CatalogLimitArgs,
    /// Template for the image of bundles without an image.
    pub(crate) template: Option<&'a Template>,
    pub(crate) kinds: AllowedKinds,
    pub(crate) is_quiet: bool,
}

impl ReferenceReader<'_> {
    /// Adds the content of a reference to `render`; `text` is the reference as given.
    pub(crate) fn add(
        &self,
        source: &Source,
        text: &str,
        render: &mut Render,
    ) -> anyhow::Result<()> {
        match self.classify(source, text)? {
            ReferenceKind::Directory(path) => {
                render.catalog(catalog::Source::Directory(path), &self.limits.into())?;
            }
            ReferenceKind::Catalog(found) => return self.catalog(&found, text, render),
            ReferenceKind::Bundle { tree, is_image } => {
                let kind = if is_image { "image" } else { "directory" };
                ensure!(
                    self.kinds == AllowedKinds::All,
                    "cannot render bundle {kind} {text:?}: not allowed; use a catalog"
                );
                render.bundle(&content(tree)?, self.image(source, text))?;
            }
        }
        self.report_skipped(text, render);
        Ok(())
    }

    /// Returns the bundle of a reference, migrated up to this level.
    pub(in crate::commands::catalog) fn bundle(
        &self,
        source: &Source,
        text: &str,
        level: Level,
    ) -> anyhow::Result<Bundle> {
        let ReferenceKind::Bundle { tree, .. } = self.classify(source, text)? else {
            bail!(
                "the reference is a catalog, but templates can contain only bundles; use a bundle"
            );
        };
        let mut warnings = Vec::new();
        let image = self.image(source, text);
        let bundle = Bundle::read(&content(tree)?, image, level, &mut warnings)?;
        self.warn(text, warnings);
        Ok(bundle)
    }

    /// Fetches a reference that is not in the file system, and returns its kind.
    fn classify<'a>(&self, source: &'a Source, text: &str) -> anyhow::Result<ReferenceKind<'a>> {
        let limits = self.limits.into();
        match source.path() {
            Some(path) if path.is_dir() && !is_bundle(path) => {
                return Ok(ReferenceKind::Directory(path));
            }
            Some(path) if is_database(path) => {
                let found = CatalogFiles::open(path, &limits);
                let found = found.with_context(|| format!("render {text:?}"))?;
                return Ok(ReferenceKind::Catalog(found));
            }
            _ => {}
        }
        let Fetched { tree, labels, .. } = self.fetcher.fetch(source, &self.limits.into())?;
        let is_image = is_image(source);
        let labeled = if is_image {
            ImageKind::from_labels(&labels).with_context(|| format!("render {text:?}"))?
        } else if ["manifests", "metadata"].map(|name| has_directory(&tree, name)) == [true, true] {
            ImageKind::Bundle
        } else {
            ImageKind::Catalog(String::new())
        };
        match labeled {
            ImageKind::Catalog(_) | ImageKind::Database(_) => {
                let found = labeled.catalog(tree, &limits);
                let found = found.with_context(|| format!("render {text:?}"))?;
                Ok(ReferenceKind::Catalog(found))
            }
            ImageKind::Unknown => bail!("render {text:?}: {}", unknown_image_type(&labels)),
            ImageKind::Bundle => {
                let ensured = tree.ensure_regular();
                ensured.with_context(|| format!("render {text:?}"))?;
                Ok(ReferenceKind::Bundle { tree, is_image })
            }
        }
    }

    /// Returns the image of a bundle for the catalog.
    fn image<'a>(&'a self, source: &Source, text: &'a str) -> BundleImageRef<'a> {
        match &source.location {
            // The catalog contains the reference as given.
            Ok(unpacker::Source::Image(_)) => {
                BundleImageRef::Reference(text.strip_prefix("docker://").unwrap_or(text))
            }
            _ => self
                .template
                .map_or(BundleImageRef::Unknown, BundleImageRef::Template),
        }
    }

    fn catalog(&self, found: &CatalogFiles, text: &str, render: &mut Render) -> anyhow::Result<()> {
        let limits = self.limits.into();
        render.catalog(found.source(), &limits)?;
        self.warn(text, found.warnings());
        self.warn(text, found.skipped(&limits)?.into_iter().collect());
        self.report_skipped(text, render);
        Ok(())
    }

    fn report_skipped(&self, text: &str, render: &mut Render) {
        self.warn(text, render.take_warnings());
    }

    fn warn(&self, text: &str, warnings: Vec<String>) {
        for warning in warnings {
            if !self.is_quiet {
                message::warning(&format!("{text}: {warning}"));
            }
        }
    }
}

/// Content of a reference.
enum ReferenceKind<'a> {
    /// Directory with a catalog, which is read in place.
    Directory(&'a Path),
    Catalog(CatalogFiles),
    Bundle {
        tree: Tree,
        is_image: bool,
    },
}

/// Returns all files of a bundle.
fn content(tree: Tree) -> anyhow::Result<Content> {
    let default = Limits::default();
    ensure!(
        tree.size() <= default.total,
        "the bundle exceeds the limit of {} bytes; check that it is a bundle",
        default.total
    );
    Ok(tree.into_content()?)
}

/// Reports whether a local directory looks like a bundle. Unlike in opm, a link in the place of a directory counts, so that
/// the bundle is rejected instead of being read as a catalog.
fn is_bundle(directory: &Path) -> bool {
    let is_directory = |name| {
        fs::symlink_metadata(directory.join(name))
            .is_ok_and(|metadata| metadata.is_dir() || metadata.is_symlink())
    };
    is_directory("manifests") && is_directory("metadata")
}

/// Reports whether a file exists below a directory, or an entry in its place that is not a regular file.
fn has_directory(tree: &Tree, name: &str) -> bool {
    contains_directory(tree, name) || tree.irregular().any(|(path, _)| path == name)
}

/// Returns opm's message about an image that is neither.
fn unknown_image_type(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return format!(
            "image type could not be determined: image has no labels; set label {CONFIGS} on a catalog, or {PACKAGE} on a \
             bundle"
        );
    }
    // One line each, up to the number that a person would read.
    let found: Vec<String> = labels
        .iter()
        .take(50)
        .map(|(key, value)| format!("  {key}={value}"))
        .collect();
    format!(
        "image type could not be determined, found labels\n{}",
        found.join("\n")
    )
}
