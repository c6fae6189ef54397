//! Pulls bundle and index images with the user's own credentials.

use anyhow::{Context, anyhow, bail};
use catalog::{
    Limits,
    compose::Bundle,
    render::{Level, Render, Rendered},
};
use convert::{Class, Options, bundle_info::BundleInfo};
use manifests::{content::Content, version::Version};
use tokio::task::spawn_blocking;
use unpacker::{Selection, source::Image};

use super::deadline::Deadline;
use crate::{
    args::{AccessArgs, CatalogLimitArgs, RegistryArgs},
    commands::catalog::image::ImageKind,
    fetch::Fetcher,
    output::message,
    source::Source,
};

/// Path at which operator-sdk expects the database of an index image without labels.
const DATABASE: &str = "database/index.db";

/// Client that pulls bundle and index images.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImagePuller {
    verify_tls: bool,
    deadline: Deadline,
}

/// Bundle that was pulled and parsed.
#[derive(Debug)]
pub(super) struct PulledBundle {
    pub(super) bundle: Bundle,
    pub(super) facts: BundleInfo,
    pub(super) version: Version,
    /// Image reference as the user gave it.
    pub(super) requested_reference: String,
    /// Image reference by digest, as the bundle records it, too, because a tag can be pushed again.
    pub(super) pinned: String,
    pub(super) content: Content,
}

/// Catalog that was pulled and rendered.
#[derive(Debug)]
pub(super) struct PulledIndex {
    pub(super) rendered: Rendered,
    pub(super) is_database: bool,
}

impl PulledIndex {
    /// Returns an empty database index.
    pub(super) fn empty() -> Self {
        Self {
            rendered: Render::new(Level::None).finish(),
            is_database: true,
        }
    }
}

impl ImagePuller {
    pub(super) fn new(args: &RegistryArgs, deadline: Deadline) -> Self {
        Self {
            verify_tls: args.verify_tls(),
            deadline,
        }
    }

    /// Pulls and parses a bundle.
    pub(super) async fn bundle(self, image: Image) -> anyhow::Result<PulledBundle> {
        self.work("pulling the bundle", image, read_bundle).await
    }

    /// Pulls and renders an index.
    pub(super) async fn index(self, image: Image) -> anyhow::Result<PulledIndex> {
        self.work("pulling the index", image, read_index).await
    }

    /// Fetches and reads an image on a thread for blocking work.
    async fn work<T: Send + 'static>(
        self,
        doing: &str,
        image: Image,
        read: impl FnOnce(&Fetcher, &Source) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let source = Source {
            name: image.reference.to_string(),
            location: Ok(unpacker::Source::Image(image)),
        };
        let work = spawn_blocking(move || {
            let access = AccessArgs::with_defaults(self.verify_tls, self.deadline.remaining());
            let reach = Fetcher::new(&access, std::slice::from_ref(&source), false)?;
            read(&reach, &source)
        });
        let work = async { work.await.context("the reader stopped unexpectedly")? };
        self.deadline.run_to_end(doing, work).await
    }
}

fn read_bundle(reach: &Fetcher, source: &Source) -> anyhow::Result<PulledBundle> {
    let fetched = reach.fetch(source, &unpacker::Options::default());
    let fetched = fetched.context("pull bundle image")?;
    if let ImageKind::Catalog(_) | ImageKind::Database(_) = ImageKind::from_labels(&fetched.labels)?
    {
        bail!(
            "{} is a catalog, not a bundle; use --index-image for a catalog",
            source.name
        );
    }
    let pinned = match &fetched.resolved {
        unpacker::Source::Image(image) => image.reference.to_string(),
        other => bail!("pull bundle image: {other} is not an image"),
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
            "load bundle: invalid version {:?} of {}: {error}",
            facts.version,
            bundle.name
        )
    })?;
    Ok(PulledBundle {
        bundle,
        facts,
        version,
        requested_reference: source.name.clone(),
        pinned,
        content,
    })
}

fn read_index(reach: &Fetcher, source: &Source) -> anyhow::Result<PulledIndex> {
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
    let mut fetched = fetch(Selection::Default)?;
    let mut labeled = ImageKind::from_labels(&fetched.labels).with_context(failed)?;
    if labeled == ImageKind::Unknown {
        let tree = fetch(Selection::Only(vec![DATABASE.to_owned()]))?.tree;
        if tree.files().next().is_some() {
            labeled = ImageKind::Database(DATABASE.to_owned());
            fetched.tree = tree;
        }
    }
    let is_database = matches!(labeled, ImageKind::Database(_));
    let files = labeled
        .catalog(fetched.tree, &limits)
        .with_context(failed)?;
    let mut render = Render::new(Level::None);
    render
        .catalog(files.source(), &limits)
        .with_context(failed)?;
    let skipped = files.skipped(&limits).with_context(failed)?;
    let warnings = files.warnings().into_iter().chain(render.take_warnings());
    for text in warnings.chain(skipped) {
        message::warning(&format!("{name}: {text}"));
    }
    Ok(PulledIndex {
        rendered: render.finish(),
        is_database,
    })
}
