//! The rights that a bundle gains over what is installed: its image is fetched and converted before anything is declared.

use std::sync::Arc;

use convert::{Class as Format, Options, rights};
use kube::Api;
use manifests::{
    api::{Class, bundle::Bundle, instance::BundleInstance, platform::NewRights},
    content::Content,
    image::{self, Reference},
    object::Object,
};
use tokio::task::spawn_blocking;
use unpacker::{Progress, Source, source::Image, store};

use super::Shared;
use crate::{bundle, platform::approval};

/// Why they are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("it is no image: {0}")]
    Reference(#[from] image::Error),
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Load(#[from] bundle::LoadError),
    #[error("the bundle cannot be installed: {0}")]
    Refused(String),
    #[error("the provisioner is about to end")]
    Cancelled,
}

/// What a bundle may do that the installed one may not. It is read as what it is to be installed as, whatever else it
/// looks like.
pub(super) async fn gains(
    shared: &Shared,
    instance: &BundleInstance,
    image: &str,
    class: Class,
) -> Result<Option<NewRights>, Error> {
    let ctx = &shared.ctx;
    let status = instance.status.as_ref();
    let options = Options {
        install_namespace: status.and_then(|it| it.install_namespace.clone()),
        kube_version: ctx.versions.kubernetes().await?,
        ..Options::default()
    };
    let mut before = Vec::new();
    if let Some(name) = status.and_then(|it| it.installed_bundle_name.as_ref())
        && let Some(installed) = Api::<Bundle>::all(ctx.client.clone()).get_opt(name).await?
    {
        let content = bundle::load(ctx, &installed).await?;
        let class = Class::parse(&installed.spec.provisioner_class_name);
        // What cannot be converted any more has no rights to build on: all of the next one are new.
        before = match objects(content, class, options.clone()).await {
            Err(Error::Refused(_)) => Vec::new(),
            objects => objects?,
        };
    }
    let reference: Reference = image.parse()?;
    let source = Source::Image(Image {
        reference,
        platform: None,
    });
    let access = ctx.pulling.access(&ctx.settings.access).await;
    let unpack = &ctx.settings.unpack;
    let progress = Progress::default();
    let pinned = unpacker::unpack(&ctx.store, &source, &access, unpack, &progress).await?;
    let (store, limits) = (Arc::clone(&ctx.store), unpack.limits);
    let content = spawn_blocking(move || store.get(&pinned.digest, &limits));
    let content = content.await.map_err(|_| Error::Cancelled)??;
    let after = objects(content, Some(class), options).await?;
    let gained = spawn_blocking(move || rights::gained(&before, &after));
    let gained = gained.await.map_err(|_| Error::Cancelled)?;
    Ok(gained.as_ref().map(approval::listed))
}

/// What a bundle consists of.
async fn objects(
    content: Arc<Content>,
    class: Option<Class>,
    options: Options,
) -> Result<Vec<Object>, Error> {
    let options = Options {
        class: class.map(|class| match class {
            Class::Registry => Format::Registry,
            Class::Plain => Format::Plain,
        }),
        ..options
    };
    let converted = spawn_blocking(move || convert::plain(&content, &options));
    let converted = converted.await.map_err(|_| Error::Cancelled)?;
    let refused = || {
        let first = converted.report.refusals().next();
        Error::Refused(first.map(ToString::to_string).unwrap_or_default())
    };
    converted.objects.ok_or_else(refused)
}
