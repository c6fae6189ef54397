//! New permissions of a bundle compared with the installed one. The image is fetched and converted before it is declared.

mod cache;

use std::{sync::Arc, time::Instant};

use apply::api_error;
use convert::{Class as Format, Conversion, Options, permissions};
use kube::{Api, ResourceExt};
use manifests::{
    api::{
        Class, bundle::Bundle, bundle_instance::BundleInstance, platform_operator::PlatformOperator,
    },
    content::Content,
    image::{self, Reference},
    yaml,
};
use tokio::task::spawn_blocking;
use unpacker::{Progress, Source, source::Image, store};

use self::cache::PermissionQuery;
pub(crate) use self::cache::{PermissionCache, PermissionResult, QueryFailure};
use super::{approval, controller::Shared};
use crate::controllers::{bundle, context::Context};

/// Reason why the permissions are not known.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("invalid image reference: {0}")]
    Reference(#[from] image::Error),
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Load(#[from] bundle::LoadError),
    #[error("the bundle cannot be installed: {0}")]
    Refused(String),
    #[error("the provisioner is shutting down")]
    Cancelled,
}

/// Returns the permissions of a bundle that the installed one does not have, and the image by digest that they were found
/// in. The content is converted with the class that it is to be installed with.
pub(super) async fn compute(
    shared: &Shared,
    operator: &PlatformOperator,
    instance: &BundleInstance,
    image: &str,
    class: Class,
) -> Result<PermissionResult, QueryFailure> {
    let ctx = &shared.ctx;
    let unknown = |error: kube::Error| QueryFailure {
        why: api_error::chain(&error),
        wait: None,
    };
    let status = instance.status.as_ref();
    let installed = match status.and_then(|status| status.installed.as_ref()) {
        Some(installed) => {
            let bundles = Api::<Bundle>::all(ctx.client.clone());
            let found = bundles.get_opt(&installed.name).await.map_err(unknown)?;
            // Permissions of a Bundle that another client created must not count as those of the installed one.
            found.filter(|bundle| installed.is(bundle))
        }
        None if status.is_some_and(|status| status.installed_bundle_name.is_some()) => {
            return Err(QueryFailure {
                why: "the status of the BundleInstance does not record the uid of the installed Bundle yet".to_owned(),
                wait: None,
            });
        }
        None => None,
    };
    let question = PermissionQuery {
        image: image.to_owned(),
        class,
        installed: installed.as_ref().and_then(ResourceExt::uid),
        namespace: status.and_then(|status| status.install_namespace.clone()),
        requested_namespace: (operator.spec.bundle.as_ref())
            .and_then(|bundle| bundle.install_namespace.clone())
            .or_else(|| instance.spec.install_namespace.clone()),
        kubernetes: ctx.versions.kubernetes().await.map_err(unknown)?,
    };
    let uid = operator.uid().unwrap_or_default();
    let of = (uid.as_str(), operator.metadata.generation);
    if let Some(cached) = shared.answers.get(of, &question, Instant::now()) {
        return cached;
    }
    // A download is a large future, and is rarely needed.
    let answer = Box::pin(render_and_compare(ctx, &question, installed.as_ref())).await;
    let answer = answer.map_err(|error| api_error::chain(&error));
    shared.answers.insert(of, question, answer, Instant::now())
}

async fn render_and_compare(
    ctx: &Context,
    question: &PermissionQuery,
    installed: Option<&Bundle>,
) -> Result<PermissionResult, Error> {
    let options = Options {
        install_namespace: question.namespace.clone(),
        kube_version: question.kubernetes,
        ..Options::default()
    };
    let mut before = Vec::new();
    if let Some(installed) = installed {
        let class = Class::parse(&installed.spec.provisioner_class_name);
        let converted = bundle::convert(ctx, installed, converter(class, options.clone())).await;
        // If the installed bundle cannot be converted any longer, all permissions of the next one count as new.
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
    let access = ctx.pull_config.merged_access(&ctx.settings.access).await;
    let unpack = &ctx.settings.unpack;
    let progress = Progress::default();
    let pinned = unpacker::unpack(&ctx.store, &source, &access, unpack, &progress).await?;
    let (store, limits) = (Arc::clone(&ctx.store), unpack.limits);
    let load = move || store.get(&pinned.digest, &limits);
    // Without a requested namespace, the next bundle determines its namespace, as in a rollout.
    let options = Options {
        install_namespace: question.requested_namespace.clone(),
        ..options
    };
    let converter = converter(Some(question.class), options);
    let converted = ctx.conversions.run(load, converter).await;
    let converted = converted.map_err(|_| Error::Cancelled)??;
    let refused = || {
        let first = converted.report.refusals().next();
        Error::Refused(first.map(ToString::to_string).unwrap_or_default())
    };
    let after = converted.objects.ok_or_else(refused)?;
    let gained = spawn_blocking(move || permissions::gained(&before, &after));
    let gained = gained.await.map_err(|_| Error::Cancelled)?;
    let checked_at = match pinned.resolved {
        Source::Image(found) => found.reference.to_string(),
        _ => question.image.clone(),
    };
    Ok(PermissionResult {
        permissions: gained.as_ref().map(approval::listed),
        image: checked_at,
    })
}

/// Returns a function that converts a bundle to its RBAC objects.
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
        // Other objects would only use memory while the other bundle is converted.
        if let Some(objects) = &mut converted.objects {
            objects.retain(permissions::is_rbac);
        }
        converted
    }
}
