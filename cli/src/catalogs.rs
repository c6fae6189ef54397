//! `rukpak catalog`: its commands, and the way to catalogs.

mod choosing;
mod drawing;
mod image;
mod listing;
mod rendering;
mod serving;
mod validating;

use std::ffi::OsString;

use anyhow::Context;
use catalog::{Catalog, Limits};

use self::image::{Labelled, Within};
use crate::{
    Exit,
    args::{AccessArgs, CatalogArgs, CatalogCommand, CatalogLimitArgs},
    message::{self, count},
    reach::Reach,
    source::{self, Source},
};

pub(crate) fn run(args: &CatalogArgs) -> anyhow::Result<Exit> {
    match &args.command {
        CatalogCommand::Validate(args) => validating::run(args),
        CatalogCommand::List(args) => listing::run(args),
        CatalogCommand::Choose(args) => choosing::run(args),
        CatalogCommand::Graph(args) => drawing::run(args),
        CatalogCommand::Render(args) => rendering::run(args),
        CatalogCommand::Migrate(args) => rendering::migrate(args),
        CatalogCommand::Serve(args) => serving::run(args),
    }
}

/// What catalogs are read with.
struct Reader {
    sources: Vec<Source>,
    reach: Reach,
    limits: CatalogLimitArgs,
}

// === impl Reader ===

impl Reader {
    fn new(
        texts: &[OsString],
        access: &AccessArgs,
        limits: CatalogLimitArgs,
    ) -> anyhow::Result<Self> {
        let sources = source::all(texts, access);
        let reach = Reach::new(access, &sources, false)?;
        Ok(Self {
            sources,
            reach,
            limits,
        })
    }

    /// Reads and checks a catalog: a folder where it is, anything else after it was fetched.
    fn load(&self, source: &Source) -> anyhow::Result<Catalog> {
        let limits = Limits::from(self.limits);
        let failed = || format!("catalog {:?} cannot be read", source.name);
        if let Some(path) = source.path().filter(|it| it.is_dir()) {
            let source = catalog::Source::Folder(path);
            return catalog::load(source, &limits).with_context(failed);
        }
        let fetched = self.reach.fetch(source, &self.limits.into());
        let fetched = fetched.with_context(failed)?;
        let folder = if image::is_image(source) {
            let labelled = Labelled::of(&fetched.labels);
            labelled.and_then(Labelled::catalog).with_context(failed)?
        } else {
            String::new()
        };
        let within = Within::new(fetched.tree, folder).with_context(failed)?;
        catalog::load(catalog::Source::Files(&within), &limits).with_context(failed)
    }
}

/// The only catalog of a command that takes one.
fn one(text: &OsString, access: &AccessArgs, limits: CatalogLimitArgs) -> anyhow::Result<Catalog> {
    let reader = Reader::new(std::slice::from_ref(text), access, limits)?;
    let source = reader.sources.first().context("no catalog is named")?;
    reader.load(source)
}

/// Says which packages are left out.
fn warn(catalog: &Catalog) {
    let names: Vec<&str> = catalog.broken.keys().take(5).map(String::as_str).collect();
    if !names.is_empty() {
        let packages = count(catalog.broken.len(), "package");
        message::warning(&format!(
            "{packages} with errors: {}; \"rukpak catalog validate\" tells them",
            names.join(", ")
        ));
    } else if !catalog.is_valid() {
        message::warning(
            "the catalog has errors that concern no package; \"rukpak catalog validate\" tells them",
        );
    }
}
