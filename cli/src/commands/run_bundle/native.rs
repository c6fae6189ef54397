//! The engine `native`: a package is a BundleInstance, and a version its image.
//!
//! ```text
//! locate ─► history (annotations, or installed bundle) ─► compose: rejects a version that extends no valid channel
//!                                                                │
//! BundleInstance ◄─ one patch: image, history, previous image ◄──┘ ─► wait ─► success, diagnostics, or rollback
//! ```
//!
//! The BundleInstance contains the whole state, so that the same command resumes after it was killed or lost its
//! connection.

mod cleanup;
mod instance;
mod locate;
mod pull_access;
mod run;
mod upgrade;
mod version_order;

use std::time::Duration;

use anyhow::{Context, bail};
use catalog::compose::{self, Bundle, CHANNEL, ChannelRef, ComposeMode, Index};
use convert::{Class, Options};
use kube::ResourceExt as _;
use manifests::{
    api::{bundle_instance::BundleInstance, labels},
    version::Version,
};

pub(super) use self::{cleanup::cleanup, locate::is_installed, run::bundle, upgrade::upgrade};
use super::{RunContext, constraints, diagnostics, images::PulledBundle};
use crate::{
    args::RegistryArgs,
    cluster::Cluster,
    commands::install::{self, WaitResult, assess},
    output::message::{self, count},
};

/// Warns about flags that have no effect here.
fn warn_ignored_flags(args: &RegistryArgs) {
    let flags = [
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
    warn(&flags, " because no pod serves a catalog");
}

/// Prints a warning with the flags that are set.
fn warn(flags: &[(&str, bool)], reason: &str) {
    let given: Vec<&str> = flags
        .iter()
        .filter(|flag| flag.1)
        .map(|flag| flag.0)
        .collect();
    if !given.is_empty() {
        let given = given.join(", ");
        message::warning(&format!("{given} ignored without OLM{reason}"));
    }
}

/// Rejects a bundle that this cluster cannot run, with all problems at once.
async fn check(
    cluster: &Cluster,
    pulled: &PulledBundle,
    namespace: Option<&str>,
) -> anyhow::Result<()> {
    let needed: Vec<&str> = pulled
        .facts
        .required_packages
        .keys()
        .map(String::as_str)
        .collect();
    if !needed.is_empty() {
        message::warning(&format!(
            "the operator requires {}: {}; only OLM installs dependencies; make sure that they are installed",
            count(needed.len(), "package"),
            needed.join(", ")
        ));
    }
    let (state, _) = constraints::check(cluster, pulled).await?;
    let options = Options {
        class: Some(Class::Registry),
        install_namespace: namespace.map(str::to_owned),
        kube_version: state.releases.kubernetes,
        ..Options::default()
    };
    let mut report = convert::plain(&pulled.content, &options).report;
    let refusals = report.refusals().count();
    if refusals > 0 {
        report.locate(&pulled.content);
        report.refusals().for_each(message::finding);
        bail!(
            "bundle {:?} cannot be installed: {}; no changes were made",
            pulled.bundle.name,
            count(refusals, "problem")
        );
    }
    Ok(())
}

/// Checks that the bundles form a valid catalog in this order.
fn compose(
    index: Option<Index<'_>>,
    package: &str,
    form: ComposeMode,
    bundles: Vec<Bundle>,
) -> anyhow::Result<()> {
    let place = ChannelRef {
        package,
        channel: CHANNEL,
    };
    let limits = catalog::Limits::default();
    let composed = compose::compose(index, place, form, bundles, &limits);
    let composed = composed.context("error creating the File-Based Catalog")?;
    for text in &composed.warnings {
        message::warning(text);
    }
    message::note("Generated a valid File-Based Catalog");
    Ok(())
}

/// Waits until the applied instance is ready. Returns false after printing the problems if it does not become ready.
async fn wait(
    task: &RunContext<'_>,
    applied: &BundleInstance,
    doing: &str,
    deadline: super::Deadline,
) -> anyhow::Result<bool> {
    let name = applied.name_any();
    let (problem, story) = match install::wait(task.cluster, applied, deadline.end()).await? {
        WaitResult::Ready(_) => return Ok(true),
        WaitResult::Failed(text) => (format!("BundleInstance {name} is not ready:"), text),
        WaitResult::TimedOut => {
            let current = task.cluster.instance(&name).await?;
            let problem = not_ready(&name, deadline.timeout);
            (problem, assess::explain_failure(&current))
        }
    };
    message::error(&format!("{doing}: {problem}"));
    message::quote(&story);
    if let Ok(current) = task.cluster.instance(&name).await {
        diagnostics::print(task.cluster, &current).await;
    }
    Ok(false)
}

fn not_ready(name: &str, timeout: Duration) -> String {
    format!(
        "timed out after {timeout:?}: BundleInstance {name} is not ready; the installation continues"
    )
}

/// Returns the installed version. The status takes precedence over the annotation. An invalid version is ignored.
fn version_of(instance: &BundleInstance) -> Option<Version> {
    let status = instance.status.as_ref();
    let version = status.and_then(|status| status.facts.version.as_deref());
    let version = version.or_else(|| {
        instance
            .annotations()
            .get(labels::VERSION)
            .map(String::as_str)
    });
    version?.parse().ok()
}
