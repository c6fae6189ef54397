//! `rukpak catalog`: its commands, and the way to catalogs.

mod choosing;
mod drafting;
mod drawing;
pub(crate) mod image;
mod listing;
pub(crate) mod rendering;
mod serving;
mod templating;
mod validating;

use std::ffi::OsString;

use anyhow::Context;
use catalog::{
    Catalog, Limits,
    choose::{Answer, Choice, Offer},
};
use manifests::object::shortened;

use self::image::{Found, Labeled};
use crate::{
    Exit,
    args::{AccessArgs, CatalogArgs, CatalogCommand, CatalogLimitArgs, CatalogReadArgs},
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
        CatalogCommand::RenderTemplate(args) => templating::run(args),
        CatalogCommand::Migrate(args) => rendering::migrate(args),
        CatalogCommand::Serve(args) => serving::run(args),
        CatalogCommand::Init(args) => drafting::init(args),
        CatalogCommand::Dockerfile(args) => drafting::dockerfile(args),
    }
}

/// What catalogs are read with.
pub(crate) struct Reader {
    pub(crate) sources: Vec<Source>,
    reach: Reach,
    limits: CatalogLimitArgs,
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(
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

    /// Reads and checks a catalog, and warns about entries that are missing from it.
    pub(crate) fn load(&self, source: &Source) -> anyhow::Result<Catalog> {
        self.read(source, |found, limits| {
            if let Some(text) = found.skipped(limits)? {
                message::warning(&format!("{}: {text}", source.name));
            }
            Ok(())
        })
    }

    /// Reads and checks a catalog, whose missing entries are findings.
    pub(crate) fn check(&self, source: &Source) -> anyhow::Result<Catalog> {
        self.read(source, |_, _| Ok(()))
    }

    /// Reads and checks a catalog: a folder where it is, anything else after it was fetched.
    fn read(
        &self,
        source: &Source,
        report: impl FnOnce(&Found, &Limits) -> anyhow::Result<()>,
    ) -> anyhow::Result<Catalog> {
        let limits = Limits::from(self.limits);
        let failed = || format!("catalog {:?} cannot be read", source.name);
        if let Some(path) = source.path().filter(|it| it.is_dir()) {
            let source = catalog::Source::Folder(path);
            return catalog::load(source, &limits).with_context(failed);
        }
        let found = self.find(source, &limits).with_context(failed)?;
        for text in found.warnings() {
            message::warning(&format!("{}: {text}", source.name));
        }
        report(&found, &limits).with_context(failed)?;
        catalog::load(found.source(), &limits).with_context(failed)
    }

    fn find(&self, source: &Source, limits: &Limits) -> anyhow::Result<Found> {
        if let Some(path) = source.path().filter(|it| image::is_database(it)) {
            return Ok(Found::open(path, limits)?);
        }
        let fetched = self.reach.fetch(source, &self.limits.into())?;
        let labeled = if image::is_image(source) {
            Labeled::of(&fetched.labels)?
        } else {
            Labeled::Catalog(String::new())
        };
        labeled.catalog(fetched.tree, limits)
    }
}

/// Catalogs by name, all of which could be read.
pub(crate) struct Catalogs(Vec<(String, Catalog)>);

/// What they have of a package.
pub(crate) struct Package<'a> {
    name: &'a str,
    catalogs: &'a [(String, Catalog)],
    broken: Vec<Option<String>>,
}

// === impl Catalogs ===

impl Catalogs {
    /// Reads them.
    pub(crate) fn read(
        texts: &[OsString],
        access: &AccessArgs,
        limits: CatalogLimitArgs,
    ) -> anyhow::Result<Self> {
        let reader = Reader::new(texts, access, limits)?;
        let read = reader
            .sources
            .iter()
            .map(|source| Ok((source.name.clone(), reader.load(source)?)));
        read.collect::<anyhow::Result<_>>().map(Self)
    }

    /// In the order in which they were named.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Catalog)> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn package<'a>(&'a self, name: &'a str) -> Package<'a> {
        Package {
            name,
            catalogs: &self.0,
            broken: self
                .0
                .iter()
                .map(|(_, catalog)| catalog.why_broken(name))
                .collect(),
        }
    }
}

impl Package<'_> {
    /// To choose from. The first catalog comes first.
    pub(crate) fn offers(&self) -> Vec<Offer<'_>> {
        let catalogs = self.catalogs.iter().zip(&self.broken);
        catalogs
            .zip((0..).map(|at: i64| -at))
            .map(|(((catalog, read), broken), priority)| Offer {
                catalog,
                priority,
                answer: match (broken, read.packages.get(self.name)) {
                    (Some(why), _) => Answer::Unknown(why),
                    (None, Some(package)) => Answer::Package(package),
                    (None, None) => Answer::Absent,
                },
            })
            .collect()
    }
}

/// What is to be said of a choice where nobody has told which Kubernetes there is.
pub(crate) fn uncompared(choice: &Choice, package: &str, offers: &[Offer<'_>]) -> Option<String> {
    let offer = offers.iter().find(|it| it.catalog == choice.catalog)?;
    let Answer::Package(found) = offer.answer else {
        return None;
    };
    let least = found.bundle(&choice.name)?.min_kube.as_deref()?;
    let (name, least) = (&choice.name, shortened(least, 60));
    Some(format!(
        "{package}: bundle {name} requires Kubernetes >= {least}, which was compared with nothing: name the cluster's with \
         --kubernetes-version"
    ))
}

/// The only catalog of a command that takes one.
fn one(text: &OsString, reading: &CatalogReadArgs) -> anyhow::Result<Catalog> {
    let reader = Reader::new(std::slice::from_ref(text), &reading.access, reading.limits)?;
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
