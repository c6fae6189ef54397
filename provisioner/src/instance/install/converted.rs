//! From a Bundle's stored content to objects for this cluster.

use convert::{Class as Format, Options, facts::Facts, overlay::DeploymentConfig};
use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        bundle::Bundle,
        instance::{BundleInstance, BundleInstanceSpec},
    },
    object::Object,
};

use super::super::{
    memory::Shared,
    outcome::{Failure, Retry},
};
use crate::bundle;

/// Where objects of plain bundles go that do not say it themselves: where kubectl would put them.
const PLAIN_NAMESPACE: &str = "default";

/// The objects of a bundle.
pub(in crate::instance) struct Converted {
    pub(in crate::instance) objects: Vec<Object>,
    pub(in crate::instance) facts: Facts,
    pub(in crate::instance) namespace: String,
}

/// Reads and converts, as a spec of the instance wants it: the present one, or the one that is applied.
///
/// # Errors
/// When the content cannot be read, or not be converted in the way the instance wants it.
pub(in crate::instance) async fn convert(
    instance: &BundleInstance,
    spec: &BundleInstanceSpec,
    shared: &Shared,
    bundle: &Bundle,
) -> Result<Converted, Failure> {
    let ctx = &shared.ctx;
    let fail = |message: String, retry| Failure {
        bundle: bundle.name_any(),
        message,
        touched: false,
        retry,
    };
    let kube_version = ctx.versions.kubernetes().await.map_err(|error| {
        fail(
            format!("the apiserver does not tell its version: {error}"),
            Retry::Soon,
        )
    })?;
    let deployment_config = spec
        .config
        .as_ref()
        .and_then(|config| config.deployment_config.clone())
        .map(DeploymentConfig::try_from)
        .transpose()
        .map_err(|error| {
            let message = format!(
                "spec.config of BundleInstance {}: {error}",
                instance.name_any()
            );
            fail(message, Retry::Slowly)
        })?;
    let class = Class::parse(&bundle.spec.provisioner_class_name);
    let options = Options {
        class: Some(match class {
            Some(Class::Registry) => Format::Registry,
            _ => Format::Plain,
        }),
        install_namespace: spec.install_namespace.clone(),
        kube_version,
        deployment_config,
        operator_condition: shared.has_conditions(),
        ..Options::default()
    };
    let work = move |content: &_, limits| convert::plain(content, &Options { limits, ..options });
    let converted = bundle::convert(ctx, bundle, work).await.map_err(|error| {
        // A panic in there is ours to mend, and ends neither the process nor the old installation.
        fail(
            format!(
                "the conversion of Bundle {} broke off: {error}; please report it",
                bundle.name_any()
            ),
            Retry::Slowly,
        )
    })?;
    let conversion = converted.map_err(|error| fail(error.to_string(), Retry::Soon))?;
    let Some(objects) = conversion.objects else {
        return Err(fail(
            bundle::refusal(class.unwrap_or(Class::Plain), &conversion.report),
            Retry::Slowly,
        ));
    };
    let facts = conversion.report.facts;
    let namespace = [
        spec.install_namespace.as_deref().unwrap_or_default(),
        &facts.install_namespace,
        PLAIN_NAMESPACE,
    ]
    .into_iter()
    .find(|name| !name.is_empty())
    .unwrap_or(PLAIN_NAMESPACE)
    .to_owned();
    Ok(Converted {
        objects,
        facts,
        namespace,
    })
}
