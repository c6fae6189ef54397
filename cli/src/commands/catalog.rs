//! `rukpak catalog`: subcommands, and reading of catalogs.

mod choose;
mod graph;
pub(crate) mod image;
mod init;
mod list;
pub(crate) mod render;
mod render_template;
mod serve;
mod validate;

use std::ffi::{OsStr, OsString};

use anyhow::Context;
use catalog::{
    Catalog, Limits,
    choose::{CatalogAnswer, Choice, Offer},
};
use manifests::object::truncate;

use self::image::{CatalogFiles, ImageKind};
use crate::{
    ExitStatus,
    args::{self, AccessArgs, CatalogArgs, CatalogCommand, CatalogLimitArgs, CatalogReadArgs},
    fetch::Fetcher,
    output::message::{self, count},
    source::{self, Source},
};

pub(crate) fn run(args: &CatalogArgs) -> anyhow::Result<ExitStatus> {
    match &args.command {
        CatalogCommand::Validate(args) => validate::run(args),
        CatalogCommand::List(args) => list::run(args),
        CatalogCommand::Choose(args) => choose::run(args),
        CatalogCommand::Graph(args) => graph::run(args),
        CatalogCommand::Render(args) => render::run(args),
        CatalogCommand::RenderTemplate(args) => render_template::run(args),
        CatalogCommand::Migrate(args) => render::migrate(args),
        CatalogCommand::Serve(args) => serve::run(args),
        CatalogCommand::Init(args) => init::init(args),
        CatalogCommand::Dockerfile(args) => init::dockerfile(args),
    }
}

/// Reader of catalogs from their sources.
pub(crate) struct CatalogReader {
    pub(crate) sources: Vec<Source>,
    fetcher: Fetcher,
    limits: CatalogLimitArgs,
}

// === impl CatalogReader ===

impl CatalogReader {
    pub(crate) fn new(
        texts: &[OsString],
        access: &AccessArgs,
        limits: CatalogLimitArgs,
    ) -> anyhow::Result<Self> {
        let sources = source::all(texts, access);
        let fetcher = Fetcher::new(access, &sources, false)?;
        Ok(Self {
            sources,
            fetcher,
            limits,
        })
    }

    /// Loads and validates a catalog, and warns about entries that are missing from it.
    pub(crate) fn load(&self, source: &Source) -> anyhow::Result<Catalog> {
        self.read(source, |found, limits| {
            if let Some(text) = found.skipped(limits)? {
                message::warning(&format!("{}: {text}", source.name));
            }
            Ok(())
        })
    }

    /// Loads and validates a catalog, with its missing entries as findings.
    pub(crate) fn check(&self, source: &Source) -> anyhow::Result<Catalog> {
        self.read(source, |_, _| Ok(()))
    }

    /// Loads and validates a catalog. A directory is read in place, other sources are fetched first.
    fn read(
        &self,
        source: &Source,
        report: impl FnOnce(&CatalogFiles, &Limits) -> anyhow::Result<()>,
    ) -> anyhow::Result<Catalog> {
        let limits = Limits::from(self.limits);
        let failed = || format!("failed to read catalog {:?}", source.name);
        if let Some(path) = source.path().filter(|path| path.is_dir()) {
            let source = catalog::Source::Directory(path);
            return catalog::load(source, &limits).with_context(failed);
        }
        let found = self.find(source, &limits).with_context(failed)?;
        for text in found.warnings() {
            message::warning(&format!("{}: {text}", source.name));
        }
        report(&found, &limits).with_context(failed)?;
        catalog::load(found.source(), &limits).with_context(failed)
    }

    fn find(&self, source: &Source, limits: &Limits) -> anyhow::Result<CatalogFiles> {
        if let Some(path) = source.path().filter(|path| image::is_database(path)) {
            return Ok(CatalogFiles::open(path, limits)?);
        }
        let fetched = self.fetcher.fetch(source, &self.limits.into())?;
        let labeled = if image::is_image(source) {
            ImageKind::from_labels(&fetched.labels)?
        } else {
            ImageKind::Catalog(String::new())
        };
        labeled.catalog(fetched.tree, limits)
    }
}

/// Catalogs by name, all of which were loaded.
pub(crate) struct Catalogs(Vec<(String, Catalog)>);

/// Offers of the catalogs for one package.
pub(crate) struct PackageOffers<'a> {
    name: &'a str,
    catalogs: &'a [(String, Catalog)],
    broken: Vec<Option<String>>,
}

// === impl Catalogs ===

impl Catalogs {
    /// Loads the catalogs.
    pub(crate) fn read(
        texts: &[OsString],
        access: &AccessArgs,
        limits: CatalogLimitArgs,
    ) -> anyhow::Result<Self> {
        let reader = CatalogReader::new(texts, access, limits)?;
        let read = reader
            .sources
            .iter()
            .map(|source| Ok((source.name.clone(), reader.load(source)?)));
        read.collect::<anyhow::Result<_>>().map(Self)
    }

    /// Iterates over the catalogs in the order of the command line.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Catalog)> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn package<'a>(&'a self, name: &'a str) -> PackageOffers<'a> {
        PackageOffers {
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

impl PackageOffers<'_> {
    /// Returns the offers to choose from. Earlier catalogs have precedence.
    pub(crate) fn offers(&self) -> Vec<Offer<'_>> {
        let catalogs = self.catalogs.iter().zip(&self.broken);
        catalogs
            .zip((0..).map(|at: i64| -at))
            .map(|(((catalog, read), broken), priority)| Offer {
                catalog,
                priority,
                answer: match (broken, read.packages.get(self.name)) {
                    (Some(reason), _) => CatalogAnswer::Unavailable(reason),
                    (None, Some(package)) => CatalogAnswer::Package(package),
                    (None, None) => CatalogAnswer::NotFound,
                },
            })
            .collect()
    }
}

/// Returns the warning about a choice whose minimum Kubernetes version was not checked, because the cluster's version is
/// unknown.
pub(crate) fn warn_unchecked_constraints(
    choice: &Choice,
    package: &str,
    offers: &[Offer<'_>],
) -> Option<String> {
    let offer = offers
        .iter()
        .find(|offer| offer.catalog == choice.catalog)?;
    let CatalogAnswer::Package(found) = offer.answer else {
        return None;
    };
    let min_kube = found.bundle(&choice.name)?.min_kube.as_deref()?;
    let (name, min_kube) = (&choice.name, truncate(min_kube, 60));
    Some(format!(
        "{package}: bundle {name} requires Kubernetes >= {min_kube}, which was not checked; set the version of the cluster \
         with --kubernetes-version"
    ))
}

/// Loads the catalog of a command that takes only one.
fn one(text: &OsString, reading: &CatalogReadArgs) -> anyhow::Result<Catalog> {
    let reader = CatalogReader::new(std::slice::from_ref(text), &reading.access, reading.limits)?;
    let source = reader.sources.first().context("no catalog specified")?;
    reader.load(source)
}

/// Warns about packages of a catalog that are skipped. `text` is the catalog on the command line.
fn warn(catalog: &Catalog, text: &OsStr) {
    let name = message::shell_word(&text.to_string_lossy());
    let remedy = format!(
        "run \"{} catalog validate {name}\" for details",
        args::name()
    );
    let names: Vec<&str> = catalog.broken.keys().take(5).map(String::as_str).collect();
    if !names.is_empty() {
        let packages = count(catalog.broken.len(), "package");
        message::warning(&format!(
            "{packages} with errors: {}; {remedy}",
            names.join(", ")
        ));
    } else if !catalog.is_valid() {
        message::warning(&format!(
            "the catalog has errors outside of packages; {remedy}"
        ));
    }
}
