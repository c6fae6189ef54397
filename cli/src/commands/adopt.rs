//! `rukpak adopt`.
//!
//! The provisioner adopts only objects that are annotated with the name of the instance. It then applies only the fields of
//! the bundle. Without this command, the other fields of the former owner would remain forever without an owner. Therefore
//! the command first transfers the owner's entries in `managedFields` to the provisioner. The next apply then removes these
//! fields.

mod candidates;
pub(super) mod managed_fields;

use std::{
    cell::Cell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use futures::StreamExt as _;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::{
    api::{bundle_instance::BundleInstance, condition, condition::reason, labels},
    names,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    ExitStatus,
    args::{self, AdoptArgs, DryRun},
    cluster::{
        self, Cluster, FIELD_MANAGER,
        live::LiveObjects,
        watch::{self, InstanceChange},
    },
    output,
    output::{
        confirm,
        message::{self, count},
    },
};
use candidates::{AdoptionPlan, Candidate};

/// Time to wait for the provisioner to observe the retry annotation.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Hint for a provisioner that was not triggered, and retries by itself.
const RESUME_HINT: &str = "annotated objects are adopted at the next retry, within 15 minutes";

pub(crate) fn run(args: &AdoptArgs) -> anyhow::Result<ExitStatus> {
    let is_started = Cell::new(false);
    let interrupted = || {
        if is_started.get() {
            message::note(&format!(
                "{RESUME_HINT}; run the same command again for the rest"
            ));
        } else {
            message::note("no changes were made");
        }
    };
    cluster::run(&args.cluster, interrupted, async |cluster| {
        adopt(cluster, args, &is_started).await
    })
}

async fn adopt(
    cluster: &Cluster,
    args: &AdoptArgs,
    is_started: &Cell<bool>,
) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let instance = cluster.instance(name).await?;
    if instance.metadata.deletion_timestamp.is_some() {
        bail!("BundleInstance {name} is being deleted");
    }
    let Some(AdoptionPlan {
        candidates,
        rejected,
    }) = candidates::all(cluster, args, &instance).await?
    else {
        return Ok(ExitStatus::Failed); // the problems were printed
    };
    let preview = output::print_styled(&candidates::text(&candidates));
    if args.yes {
        // With `--yes`, the adoption continues even if no reader receives the preview.
        output::unless_closed(preview)?;
    } else {
        preview?;
    }
    for rejection in &rejected {
        message::error(rejection);
    }
    let is_dry = args.dry_run == DryRun::Server;
    if candidates.is_empty() {
        if rejected.is_empty() {
            message::note(&format!("no objects to adopt for BundleInstance {name}"));
            return Ok(ExitStatus::Done);
        }
        return Ok(ExitStatus::Failed);
    }
    let objects = count(candidates.len(), "object");
    if !is_dry
        && !args.yes
        && !confirm::confirm(&format!("Adopt {objects} into BundleInstance {name}?")).await?
    {
        message::note("no changes were made");
        return Ok(ExitStatus::Failed);
    }
    let live = LiveObjects::new(cluster, &[]);
    is_started.set(!is_dry);
    let mut failed = 0;
    for candidate in &candidates {
        if let Err(error) = annotate(cluster, &live, candidate, name, is_dry).await {
            message::error(&format!("{error:#}"));
            failed += 1;
        }
    }
    let done = candidates.len() - failed;
    if done > 0 {
        let outcome = output::print_dry_run("annotated for adoption", args.dry_run);
        let line = format!("{}: {outcome}\n", count(done, "object"));
        output::unless_closed(output::print(&line))?;
    }
    if done > 0 && !is_dry {
        trigger_reconcile(cluster, &instance).await?;
        message::note(&format!(
            "run \"{} status {name}\" to follow the adoption",
            args::name()
        ));
    }
    Ok(if failed == 0 && rejected.is_empty() {
        ExitStatus::Done
    } else {
        ExitStatus::Failed
    })
}

/// Annotates an object, and transfers the fields of its former owners to the provisioner. The request fails if the object
/// has changed since it was printed.
async fn annotate(
    cluster: &Cluster,
    live: &LiveObjects<'_>,
    candidate: &Candidate,
    instance: &str,
    is_dry: bool,
) -> anyhow::Result<()> {
    let Candidate {
        identity,
        kind,
        metadata,
        transferred,
        ..
    } = candidate;
    let mut patch = json!({"metadata": {
        "resourceVersion": metadata.resource_version,
        "uid": metadata.uid,
        "annotations": {labels::ADOPT: instance},
    }});
    if let Some(entries) = transferred
        && let Some(metadata) = patch
            .get_mut("metadata")
            .and_then(|value| value.as_object_mut())
    {
        metadata.insert("managedFields".to_owned(), json!(entries));
    }
    let params = PatchParams {
        dry_run: is_dry,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    let api = live.api(kind, &identity.namespace);
    let done = api
        .patch(
            &names::percent_encoded(&identity.name),
            &params,
            &Patch::Merge(patch),
        )
        .await;
    done.map(drop)
        .map_err(|error| cluster.explain(format!("failed to annotate {identity}"), error))
}

/// Changes the retry annotation of a blocked instance, which is otherwise retried only at long intervals. The annotation
/// need not be removed. A concurrent change of `spec.paused` remains in effect.
async fn trigger_reconcile(cluster: &Cluster, instance: &BundleInstance) -> anyhow::Result<()> {
    let is_blocked =
        progressing_summary(instance).is_some_and(|(reason, _)| reason == reason::BLOCKED);
    if !is_blocked || instance.spec.paused {
        return Ok(());
    }
    let name = instance.name_any();
    let params = PatchParams::apply(FIELD_MANAGER);
    // Any new value of the annotation triggers a retry.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_millis().to_string();
    let patch = json!({"metadata": {"uid": instance.uid(), "annotations": {labels::RETRY: now}}});
    let done = cluster
        .instances()
        .patch(&name, &params, &Patch::Merge(patch))
        .await;
    done.map_err(|error| cluster.explain("failed to trigger a retry", error))
        .context(RESUME_HINT)?;
    // The next `rukpak status` should not show the outdated condition. A provisioner that is busy or unavailable updates
    // the condition later.
    let _ = timeout(OBSERVE_TIMEOUT, wait_observed(cluster, instance)).await;
    Ok(())
}

/// Waits until the condition Progressing changes.
async fn wait_observed(cluster: &Cluster, before: &BundleInstance) {
    let name = before.name_any();
    let changes = watch::changes(cluster, Some(&name));
    let mut changes = std::pin::pin!(changes);
    while let Some(Ok(InstanceChange::Updated(now))) = changes.next().await {
        if progressing_summary(&now) != progressing_summary(before) {
            return;
        }
    }
}

fn progressing_summary(instance: &BundleInstance) -> Option<(&str, &str)> {
    let mut conditions = instance.status.iter().flat_map(|status| &status.conditions);
    let progressing = conditions.find(|condition| condition.type_ == condition::PROGRESSING)?;
    Some((&progressing.reason, &progressing.message))
}
