//! The rights that a bundle gains over what is installed: its image is fetched and converted before anything is declared.

mod answers;

use std::{sync::Arc, time::Instant};

use convert::{Class as Format, Conversion, Options, rights};
use kube::{Api, ResourceExt};
use manifests::{
    api::{Class, bundle::Bundle, instance::BundleInstance, platform::PlatformOperator},
    content::Content,
    image::{self, Reference},
    yaml,
};
use tokio::task::spawn_blocking;
use unpacker::{Progress, Source, job::chain, source::Image, store};

use self::answers::Question;
pub(super) use self::answers::{Answers, Looked, Unknown};
use super::Shared;
use crate::{bundle, context::Context, platform::approval};

/// Why they are not known.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("it is no image: {0}")]
    Reference(#[from] image::Error),
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Load(#[from] bundle::LoadError),
    #[error("the bundle cannot be installed: {0}")]
    Refused(String),
    #[error("the provisioner is about to end")]
    Cancelled,
}

/// What a bundle may do that the installed one may not, and the image by its digest that this was found in. It is read as
/// what it is to be installed as, whatever else it looks like.
pub(super) async fn gains(
    shared: &Shared,
    operator: &PlatformOperator,
    instance: &BundleInstance,
    image: &str,
    class: Class,
) -> Result<Looked, Unknown> {
    let ctx = &shared.ctx;
    let unknown = |error: kube::Error| Unknown {
        why: chain(&error),
        wait: None,
    };
    let status = instance.status.as_ref();
    let installed = match status.and_then(|status| status.installed.as_ref()) {
        Some(installed) => {
            let bundles = Api::<Bundle>::all(ctx.client.clone());
            let found = bundles.get_opt(&installed.name).await.map_err(unknown)?;
            // The permissions of a Bundle that another client created must not count as those of the installed one.
            found.filter(|bundle| installed.is(bundle))
        }
        None if status.is_some_and(|status| status.installed_bundle_name.is_some()) => {
            return Err(Unknown {
                why: "the status of the BundleInstance does not name the installed Bundle by its uid yet".to_owned(),
                wait: None,
            });
        }
        None => None,
    };
    let question = Question {
        image: image.to_owned(),
        class,
        installed: installed.as_ref().and_then(ResourceExt::uid),
        namespace: status.and_then(|it| it.install_namespace.clone()),
        kubernetes: ctx.versions.kubernetes().await.map_err(unknown)?,
    };
    let uid = operator.uid().unwrap_or_default();
    let of = (uid.as_str(), operator.metadata.generation);
    if let Some(known) = shared.answers.recall(of, &question, Instant::now()) {
        return known;
    }
    // A download is a large future, and mostly there is none.
    let answer = Box::pin(look(ctx, &question, installed.as_ref())).await;
    let answer = answer.map_err(|error| chain(&error));
    shared.answers.keep(of, question, answer, Instant::now())
}

async fn look(
    ctx: &Context,
    question: &Question,
    installed: Option<&Bundle>,
) -> Result<Looked, Error> {
    let options = Options {
        install_namespace: question.namespace.clone(),
        kube_version: question.kubernetes,
        ..Options::default()
    };
    let mut before = Vec::new();
    if let Some(installed) = installed {
        let class = Class::parse(&installed.spec.provisioner_class_name);
        let converted = bundle::convert(ctx, installed, converter(class, options.clone())).await;
        // What cannot be converted any more has no rights to build on: all of the next one are new.
        before = converted
            .map_err(|_| Error::Cancelled)??
            .objects
            .unwrap_or_default();
    }
    let reference: Reference = question.image.parse()?;
    let source = Source::Image(Image {
        reference,
        platform: None,
    });
    let access = ctx.pulling.access(&ctx.settings.access).await;
    let unpack = &ctx.settings.unpack;
    let progress = Progress::default();
    let pinned = unpacker::unpack(&ctx.store, &source, &access, unpack, &progress).await?;
    let (store, limits) = (Arc::clone(&ctx.store), unpack.limits);
    let load = move || store.get(&pinned.digest, &limits);
    let converter = converter(Some(question.class), options);
    let converted = ctx.conversions.run(load, converter).await;
    let converted = converted.map_err(|_| Error::Cancelled)??;
    let refused = || {
        let first = converted.report.refusals().next();
        Error::Refused(first.map(ToString::to_string).unwrap_or_default())
    };
    let after = converted.objects.ok_or_else(refused)?;
    let gained = spawn_blocking(move || rights::gained(&before, &after));
    let gained = gained.await.map_err(|_| Error::Cancelled)?;
    let looked_at = match pinned.resolved {
        Source::Image(found) => found.reference.to_string(),
        _ => question.image.clone(),
    };
    Ok(Looked {
        rights: gained.as_ref().map(approval::listed),
        image: looked_at,
    })
}

/// Converts a bundle to its RBAC objects.
fn converter(
    class: Option<Class>,
    options: Options,
) -> impl FnOnce(&Content, yaml::Limits) -> Conversion + Clone + Send + 'static {
    let options = Options {
        class: class.map(|class| match class {
            Class::Registry => Format::Registry,
            Class::Plain => Format::Plain,
        }),
        ..options
    };
    move |content, limits| {
        let mut converted = convert::plain(content, &Options { limits, ..options });
        // The rest would only take memory while the other bundle is converted.
        if let Some(objects) = &mut converted.objects {
            objects.retain(rights::is_rbac);
        }
        converted
    }
}
