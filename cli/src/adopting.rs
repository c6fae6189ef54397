//! `rukpak adopt`.
//!
//! The provisioner takes over what is annotated with the instance's name, and nothing else. What it applies then are the
//! fields of the bundle; what the former owner has set besides would stay for ever, as nobody's. So its entries in
//! managedFields become the provisioner's before that, and with the next apply these fields go.

mod fields;
mod find;

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
    api::{condition, condition::reason, instance::BundleInstance, labels},
    names,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    Exit,
    args::{self, AdoptArgs, DryRun},
    cluster::{self, Cluster, MANAGER},
    confirm,
    live::Live,
    message::{self, count},
    output,
    watch::{self, Change},
};
use find::{Candidate, Found};

/// How long a provisioner that was woken is waited for.
const NOTICED: Duration = Duration::from_secs(10);
/// When a provisioner that was not woken looks by itself.
const LATER: &str = "what was handed over stays so, and is taken over when it is tried again, within a quarter of an hour";

pub(crate) fn run(args: &AdoptArgs) -> anyhow::Result<Exit> {
    let has_begun = Cell::new(false);
    let interrupted = || {
        if has_begun.get() {
            message::note(&format!("{LATER}; run the same command again for the rest"));
        } else {
            message::note("nothing was changed");
        }
    };
    cluster::run(&args.cluster, interrupted, async |cluster| {
        adopt(cluster, args, &has_begun).await
    })
}

async fn adopt(
    cluster: &Cluster,
    args: &AdoptArgs,
    has_begun: &Cell<bool>,
) -> anyhow::Result<Exit> {
    let name = &args.name;
    let instance = cluster.instance(name).await?;
    if instance.metadata.deletion_timestamp.is_some() {
        bail!("BundleInstance {name} is being deleted");
    }
    let Some(Found {
        candidates,
        refused,
    }) = find::all(cluster, args, &instance).await?
    else {
        return Ok(Exit::Failed); // it was said why
    };
    output::print_styled(&find::text(&candidates))?;
    for refusal in &refused {
        message::error(refusal);
    }
    let is_dry = args.dry_run == DryRun::Server;
    if candidates.is_empty() {
        if refused.is_empty() {
            message::note(&format!(
                "there is nothing for BundleInstance {name} to adopt"
            ));
            return Ok(Exit::Done);
        }
        return Ok(Exit::Failed);
    }
    let objects = count(candidates.len(), "object");
    if !is_dry
        && !args.yes
        && !confirm::ask(&format!("hand {objects} over to BundleInstance {name}?")).await?
    {
        message::note("nothing was changed");
        return Ok(Exit::Failed);
    }
    let live = Live::new(cluster, &[]);
    has_begun.set(!is_dry);
    let mut failed = 0;
    for candidate in &candidates {
        if let Err(error) = hand_over(cluster, &live, candidate, name, is_dry).await {
            message::error(&format!("{error:#}"));
            failed += 1;
        }
    }
    let done = candidates.len() - failed;
    if done > 0 {
        let told = output::tried("handed over", args.dry_run);
        output::print(&format!("{}: {told}\n", count(done, "object")))?;
    }
    if done > 0 && !is_dry {
        wake(cluster, &instance).await?;
        message::note(&format!(
            "{} status {name} tells what becomes of it",
            args::name()
        ));
    }
    Ok(if failed == 0 && refused.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// Annotates an object, and makes the fields of its former owners the provisioner's. Only while it is as it was shown.
async fn hand_over(
    cluster: &Cluster,
    live: &Live<'_>,
    candidate: &Candidate,
    instance: &str,
    is_dry: bool,
) -> anyhow::Result<()> {
    let Candidate {
        identity,
        kind,
        metadata,
        taken,
        ..
    } = candidate;
    let mut patch = json!({"metadata": {
        "resourceVersion": metadata.resource_version,
        "uid": metadata.uid,
        "annotations": {labels::ADOPT: instance},
    }});
    if let Some(entries) = taken
        && let Some(metadata) = patch.get_mut("metadata").and_then(|it| it.as_object_mut())
    {
        metadata.insert("managedFields".to_owned(), json!(entries));
    }
    let params = PatchParams {
        dry_run: is_dry,
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let api = live.api(kind, &identity.namespace);
    let done = api
        .patch(
            &names::encoded(&identity.name),
            &params,
            &Patch::Merge(patch),
        )
        .await;
    done.map(drop)
        .map_err(|error| cluster.trouble(format!("failed to hand {identity} over"), error))
}

/// What is blocked is tried again at long intervals, and at once when an annotation changes. Nobody has to take that back,
/// and whoever pauses the instance meanwhile is not overruled.
async fn wake(cluster: &Cluster, instance: &BundleInstance) -> anyhow::Result<()> {
    let is_blocked = said(instance).is_some_and(|(reason, _)| reason == reason::BLOCKED);
    if !is_blocked || instance.spec.paused {
        return Ok(());
    }
    let name = instance.name_any();
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    // Any other value will do.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_millis().to_string();
    let patch = json!({"metadata": {"uid": instance.uid(), "annotations": {labels::RETRY: now}}});
    let done = cluster
        .instances()
        .patch(&name, &params, &Patch::Merge(patch))
        .await;
    done.map_err(|error| cluster.trouble("failed to wake the provisioner", error))
        .context(LATER)?;
    // Whoever looks next should not find what was true before. A provisioner that is busy, or away, comes to it later.
    let _ = timeout(NOTICED, noticed(cluster, instance)).await;
    Ok(())
}

/// Waits until the provisioner says something else.
async fn noticed(cluster: &Cluster, before: &BundleInstance) {
    let name = before.name_any();
    let changes = watch::changes(cluster, Some(&name));
    let mut changes = std::pin::pin!(changes);
    while let Some(Ok(Change::Now(now))) = changes.next().await {
        if said(&now) != said(before) {
            return;
        }
    }
}

fn said(instance: &BundleInstance) -> Option<(&str, &str)> {
    let mut conditions = instance.status.iter().flat_map(|it| &it.conditions);
    let said = conditions.find(|it| it.type_ == condition::PROGRESSING)?;
    Some((&said.reason, &said.message))
}
