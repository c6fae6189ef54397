//! Bundles and indexes from their images, with the user's own credentials.

use anyhow::{Context, anyhow, bail};
use catalog::{
    Limits,
    inject::Bundle,
    render::{Level, Render, Rendered},
};
use convert::{Class, Options, facts::Facts};
use manifests::{content::Content, version::Version};
use tokio::task::spawn_blocking;
use unpacker::{Selection, source::Image};

use super::deadline::Deadline;
use crate::{
    args::{AccessArgs, CatalogLimitArgs, RegistryArgs},
    catalogs::image::Labeled,
    message,
    reach::Reach,
    source::Source,
};

/// Where operator-sdk looks for the database of an index without labels.
const DATABASE: &str = "database/index.db";

/// Fetches images.
#[derive(Debug, Clone, Copy)]
pub(super) struct Puller {
    verifies: bool,
    deadline: Deadline,
}

/// A bundle that was pulled and read.
#[derive(Debug)]
pub(super) struct Pulled {
    pub(super) bundle: Bundle,
    pub(super) facts: Facts,
    pub(super) version: Version,
    /// Its image, as it was named.
    pub(super) named: String,
    /// The same by its digest, as the bundle has it, too: a tag may be pushed again.
    pub(super) pinned: String,
    pub(super) content: Content,
}

/// A catalog that was pulled and read.
#[derive(Debug)]
pub(super) struct PulledIndex {
    pub(super) rendered: Rendered,
    pub(super) is_database: bool,
}

impl PulledIndex {
    /// A database that nothing was added to.
    pub(super) fn empty() -> Self {
        Self {
            rendered: Render::new(Level::None).finish(),
            is_database: true,
        }
    }
}

impl Puller {
    pub(super) fn new(args: &RegistryArgs, deadline: Deadline) -> Self {
        Self {
            verifies: args.verifies(),
            deadline,
        }
    }

    /// Pulls and reads a bundle.
    pub(super) async fn bundle(self, image: Image) -> anyhow::Result<Pulled> {
        self.work("pulling the bundle", image, read_bundle).await
    }

    /// Pulls and reads an index.
    pub(super) async fn index(self, image: Image) -> anyhow::Result<PulledIndex> {
        self.work("pulling the index", image, read_index).await
    }

    /// Does blocking work on a thread for such.
    async fn work<T: Send + 'static>(
        self,
        doing: &str,
        image: Image,
        read: impl FnOnce(&Reach, &Source) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let source = Source {
            name: image.reference.to_string(),
            place: Ok(unpacker::Source::Image(image)),
        };
        let work = spawn_blocking(move || {
            let access = AccessArgs::usual(self.verifies, self.deadline.left());
            let reach = Reach::new(&access, std::slice::from_ref(&source), false)?;
            read(&reach, &source)
        });
        let work = async {
            work.await
                .context("the reading has ended before its time")?
        };
        self.deadline.keep(doing, work).await
    }
}

fn read_bundle(reach: &Reach, source: &Source) -> anyhow::Result<Pulled> {
    let fetched = reach.fetch(source, &unpacker::Options::default());
    let fetched = fetched.context("pull bundle image")?;
    if let Labeled::Catalog(_) | Labeled::Database(_) = Labeled::of(&fetched.labels)? {
        bail!(
            "{} is a catalog and no bundle; a catalog is named by --index-image",
            source.name
        );
    }
    let pinned = match &fetched.resolved {
        unpacker::Source::Image(image) => image.reference.to_string(),
        other => bail!("pull bundle image: {other} is no image"),
    };
    fetched.tree.ensure_regular().context("load bundle")?;
    let content = fetched.tree.into_content().context("load bundle")?;
    let warn = |text: String| message::warning(&format!("{}: {text}", source.name));
    let bundle = Bundle::read(&content, &pinned, Level::None, warn).context("load bundle")?;
    let options = Options {
        class: Some(Class::Registry),
        ..Options::default()
    };
    let facts = convert::plain(&content, &options).report.facts;
    let version: Version = facts.version.parse().map_err(|error| {
        anyhow!(
            "load bundle: version {:?} of {} is none: {error}",
            facts.version,
            bundle.name
        )
    })?;
    Ok(Pulled {
        bundle,
        facts,
        version,
        named: source.name.clone(),
        pinned,
        content,
    })
}

fn read_index(reach: &Reach, source: &Source) -> anyhow::Result<PulledIndex> {
    let name = &source.name;
    let failed = || format!("error rendering index {name:?}");
    let arguments = CatalogLimitArgs::default();
    let limits = Limits::from(arguments);
    let fetch = |select| {
        let options = unpacker::Options {
            select,
            ..arguments.into()
        };
        reach.fetch(source, &options).with_context(failed)
    };
    let mut fetched = fetch(Selection::Natural)?;
    let mut labeled = Labeled::of(&fetched.labels).with_context(failed)?;
    if labeled == Labeled::Neither {
        let tree = fetch(Selection::Only(vec![DATABASE.to_owned()]))?.tree;
        if tree.files().next().is_some() {
            labeled = Labeled::Database(DATABASE.to_owned());
            fetched.tree = tree;
        }
    }
    let is_database = matches!(labeled, Labeled::Database(_));
    let found = labeled
        .catalog(fetched.tree, &limits)
        .with_context(failed)?;
    let mut render = Render::new(Level::None);
    render
        .catalog(found.source(), &limits)
        .with_context(failed)?;
    let skipped = found.skipped(&limits).with_context(failed)?;
    let warnings = found.warnings().into_iter().chain(render.take_warnings());
    for text in warnings.chain(skipped) {
        message::warning(&format!("{name}: {text}"));
    }
    Ok(PulledIndex {
        rendered: render.finish(),
        is_database,
    })
}
