//! The engine `native`: a package is a BundleInstance, and a version its image.
//!
//! ```text
//! located ─► history (annotations, or what is installed) ─► compose: is the new version the end of a valid line?
//!                                                                │
//! BundleInstance ◄─ one patch: image, history, previous image ◄──┘ ─► waiting ─► done, or diagnosis, or back
//! ```
//!
//! The BundleInstance knows everything: whoever runs the command again, after it was killed or lost its connection, goes on
//! where it stopped.

mod cleaning;
mod line;
mod making;
mod object;
mod upgrading;

use std::time::Duration;

use anyhow::{Context, bail};
use catalog::inject::{self, Bundle, CHANNEL, Form, Index, Place};
use convert::{Class, Options};
use kube::{ResourceExt as _, api::ListParams};
use manifests::{
    api::{instance::BundleInstance, labels},
    version::Version,
};

pub(super) use self::{cleaning::cleanup, making::bundle, upgrading::upgrade};
use super::{Task, demands, diagnosis, pulling::Pulled};
use crate::{
    args::RegistryArgs,
    cluster::Cluster,
    installing::{self, Ended, verdict},
    message::{self, count},
    upgrade::read::each,
};

/// The BundleInstances of a package: those that say so, else those that have it installed.
pub(super) async fn located(
    cluster: &Cluster,
    package: &str,
) -> anyhow::Result<Vec<BundleInstance>> {
    let mut found = Vec::new();
    let params = ListParams::default().limit(500);
    let instances = cluster.instances();
    let listed = each(&instances, params, |it| {
        if object::is_of(&it, package) {
            found.push(it);
        }
    });
    listed
        .await
        .map_err(|error| cluster.trouble("failed to list BundleInstances", error))?;
    found.sort_by_key(kube::ResourceExt::name_any);
    Ok(found)
}

/// The only BundleInstance of a package, if there is one.
async fn locate(cluster: &Cluster, package: &str) -> anyhow::Result<Option<BundleInstance>> {
    let mut found = located(cluster, package).await?;
    if found.len() > 1 {
        let names: Vec<String> = found
            .iter()
            .take(10)
            .map(kube::ResourceExt::name_any)
            .collect();
        bail!(
            "package {package:?} has {}: {}; remove all but one with {}",
            count(found.len(), "BundleInstance"),
            names.join(", "),
            super::command("uninstall NAME")
        );
    }
    Ok(found.pop())
}

/// Says which flags mean nothing here.
fn tell_meaningless(args: &RegistryArgs) {
    let flags = [
        ("--ca-secret-name", args.ca_secret_name.is_some()),
        ("--decompression-image", args.decompression_image.is_some()),
        ("--image-pull-policy", args.image_pull_policy.is_some()),
        ("--mode", args.mode.is_some()),
        ("--registry-image", args.registry_image.is_some()),
        (
            "--security-context-config",
            args.security_context_config.is_some(),
        ),
        ("--service-account", args.service_account.is_some()),
    ];
    let given: Vec<&str> = flags.iter().filter(|it| it.1).map(|it| it.0).collect();
    if !given.is_empty() {
        message::warning(&format!(
            "{} means nothing without OLM, as no pod serves a catalog",
            given.join(", ")
        ));
    }
}

/// Refuses what this cluster cannot run, all at once.
async fn check(cluster: &Cluster, pulled: &Pulled, namespace: Option<&str>) -> anyhow::Result<()> {
    let needed: Vec<&str> = pulled
        .facts
        .required_packages
        .keys()
        .map(String::as_str)
        .collect();
    if !needed.is_empty() {
        message::warning(&format!(
            "the operator needs {}: {}; only OLM installs what others need, so see that they are there",
            count(needed.len(), "package"),
            needed.join(", ")
        ));
    }
    let (here, _) = demands::check(cluster, pulled).await?;
    let options = Options {
        class: Some(Class::Registry),
        install_namespace: namespace.map(str::to_owned),
        kube_version: here.releases.kubernetes,
        ..Options::default()
    };
    let mut report = convert::plain(&pulled.content, &options).report;
    let refusals = report.refusals().count();
    if refusals > 0 {
        report.locate(&pulled.content);
        report.refusals().for_each(message::finding);
        bail!(
            "bundle {:?} cannot be installed, and nothing was changed: {}",
            pulled.bundle.name,
            count(refusals, "problem")
        );
    }
    Ok(())
}

/// Checks that the bundles make a valid catalog, in this order.
fn compose(
    index: Option<Index<'_>>,
    package: &str,
    form: Form,
    bundles: Vec<Bundle>,
) -> anyhow::Result<()> {
    let place = Place {
        package,
        channel: CHANNEL,
    };
    let limits = catalog::Limits::default();
    let composed = inject::compose(index, place, form, bundles, &limits);
    let composed = composed.context("error creating the File-Based Catalog")?;
    for text in &composed.warnings {
        message::warning(text);
    }
    message::note("Generated a valid File-Based Catalog");
    Ok(())
}

/// Waits for what was applied, and tells what keeps it; true if all is well.
async fn wait(
    task: &Task<'_>,
    applied: &BundleInstance,
    doing: &str,
    deadline: super::Deadline,
) -> anyhow::Result<bool> {
    let name = applied.name_any();
    let (what, story) = match installing::wait(task.cluster, applied, deadline.end()).await? {
        Ended::Well(_) => return Ok(true),
        Ended::Badly(text) => (
            format!("BundleInstance {name} is not as it should be:"),
            text,
        ),
        Ended::Late => {
            let now = task.cluster.instance(&name).await?;
            let what = not_ready(&name, deadline.timeout);
            (what, verdict::story(&now))
        }
    };
    message::error(&format!("{doing}: {what}"));
    message::quote(&story);
    if let Ok(now) = task.cluster.instance(&name).await {
        diagnosis::tell(task.cluster, &now).await;
    }
    Ok(false)
}

fn not_ready(name: &str, timeout: Duration) -> String {
    format!("BundleInstance {name} is not ready after {timeout:?}; its installation goes on")
}

/// What a version annotation says, if it can be read.
fn version_of(instance: &BundleInstance) -> Option<Version> {
    let status = instance.status.as_ref();
    let told = status.and_then(|it| it.facts.version.as_deref());
    let told = told.or_else(|| {
        instance
            .annotations()
            .get(labels::VERSION)
            .map(String::as_str)
    });
    told?.parse().ok()
}
