//! What a reference on the command line stands for: a catalog or a bundle.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, bail, ensure};
use catalog::render::{Bundle, Image, Level, Render, Template};
use unpacker::{Content, Fetched, Limits, Tree};

use crate::{
    args::CatalogLimitArgs,
    catalogs::image::{CONFIGS, Found, Labeled, PACKAGE, has_folder, is_database, is_image},
    message,
    reach::Reach,
    source::Source,
};

/// What may be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    All,
    Catalogs,
}

/// Reads references.
pub(crate) struct Reader<'a> {
    pub(crate) reach: &'a Reach,
    pub(crate) limits: CatalogLimitArgs,
    /// The image of bundles that have none.
    pub(crate) template: Option<&'a Template>,
    pub(crate) kinds: Kinds,
    pub(crate) is_quiet: bool,
}

impl Reader<'_> {
    /// Adds what a reference stands for; `text` is how it was written.
    pub(crate) fn add(
        &self,
        source: &Source,
        text: &str,
        render: &mut Render,
    ) -> anyhow::Result<()> {
        match self.look(source, text)? {
            Referred::Folder(path) => {
                render.catalog(catalog::Source::Folder(path), &self.limits.into())?;
            }
            Referred::Catalog(found) => return self.catalog(&found, text, render),
            Referred::Bundle { tree, is_image } => {
                let kind = if is_image { "image" } else { "directory" };
                ensure!(
                    self.kinds == Kinds::All,
                    "cannot render bundle {kind} {text:?}: not allowed; name a catalog"
                );
                render.bundle(&content(tree)?, self.image(source, text))?;
            }
        }
        self.tell(text, render);
        Ok(())
    }

    /// The bundle that a reference stands for, migrated up to this level.
    pub(in crate::catalogs) fn bundle(
        &self,
        source: &Source,
        text: &str,
        level: Level,
    ) -> anyhow::Result<Bundle> {
        let Referred::Bundle { tree, .. } = self.look(source, text)? else {
            bail!("it is a catalog, and only bundles have a place in templates; name a bundle");
        };
        let mut warnings = Vec::new();
        let image = self.image(source, text);
        let bundle = Bundle::read(&content(tree)?, image, level, &mut warnings)?;
        self.warn(text, warnings);
        Ok(bundle)
    }

    /// Fetches what is not in the file system, and says what it is.
    fn look<'a>(&self, source: &'a Source, text: &str) -> anyhow::Result<Referred<'a>> {
        let limits = self.limits.into();
        match source.path() {
            Some(path) if path.is_dir() && !is_bundle(path) => return Ok(Referred::Folder(path)),
            Some(path) if is_database(path) => {
                let found = Found::open(path, &limits);
                let found = found.with_context(|| format!("render {text:?}"))?;
                return Ok(Referred::Catalog(found));
            }
            _ => {}
        }
        let Fetched { tree, labels, .. } = self.reach.fetch(source, &self.limits.into())?;
        let is_image = is_image(source);
        let labeled = if is_image {
            Labeled::of(&labels).with_context(|| format!("render {text:?}"))?
        } else if ["manifests", "metadata"].map(|name| has_directory(&tree, name)) == [true, true] {
            Labeled::Bundle
        } else {
            Labeled::Catalog(String::new())
        };
        match labeled {
            Labeled::Catalog(_) | Labeled::Database(_) => {
                let found = labeled.catalog(tree, &limits);
                let found = found.with_context(|| format!("render {text:?}"))?;
                Ok(Referred::Catalog(found))
            }
            Labeled::Neither => bail!("render {text:?}: {}", undetermined(&labels)),
            Labeled::Bundle => {
                let ensured = tree.ensure_regular();
                ensured.with_context(|| format!("render {text:?}"))?;
                Ok(Referred::Bundle { tree, is_image })
            }
        }
    }

    /// What a bundle is known by.
    fn image<'a>(&'a self, source: &Source, text: &'a str) -> Image<'a> {
        match &source.place {
            // As it was written, for so it stands in the catalog.
            Ok(unpacker::Source::Image(_)) => {
                Image::Reference(text.strip_prefix("docker://").unwrap_or(text))
            }
            _ => self.template.map_or(Image::Unknown, Image::Template),
        }
    }

    fn catalog(&self, found: &Found, text: &str, render: &mut Render) -> anyhow::Result<()> {
        let limits = self.limits.into();
        render.catalog(found.source(), &limits)?;
        self.warn(text, found.warnings());
        self.warn(text, found.skipped(&limits)?.into_iter().collect());
        self.tell(text, render);
        Ok(())
    }

    fn tell(&self, text: &str, render: &mut Render) {
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

/// What a reference stands for.
enum Referred<'a> {
    /// A folder with a catalog, which is read where it is.
    Folder(&'a Path),
    Catalog(Found),
    Bundle {
        tree: Tree,
        is_image: bool,
    },
}

/// All files of a bundle.
fn content(tree: Tree) -> anyhow::Result<Content> {
    let usual = Limits::default();
    ensure!(
        tree.size() <= usual.total,
        "the bundle is larger than the limit of {} bytes; is it one?",
        usual.total
    );
    Ok(tree.into_content()?)
}

/// Reports whether a local directory looks like a bundle. Unlike in opm, a link in the place of a directory counts, so that
/// the bundle is rejected instead of being read as a catalog.
fn is_bundle(folder: &Path) -> bool {
    let is_directory = |name| {
        fs::symlink_metadata(folder.join(name)).is_ok_and(|it| it.is_dir() || it.is_symlink())
    };
    is_directory("manifests") && is_directory("metadata")
}

/// Reports whether there is a file below a directory, or an entry in its place that is not a regular file.
fn has_directory(tree: &Tree, name: &str) -> bool {
    has_folder(tree, name) || tree.irregular().any(|(path, _)| path == name)
}

/// What is said of an image that is neither, in opm's words.
fn undetermined(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return format!(
            "image type could not be determined: image has no labels; give a catalog's image the label {CONFIGS}, a \
             bundle's {PACKAGE}"
        );
    }
    // One line each, as many as anybody reads.
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
