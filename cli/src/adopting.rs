//! `rukpak adopt`.
//!
//! The provisioner takes over what is annotated with the instance's name, and nothing else. What it applies then are the
//! fields of the bundle; what the former owner has set besides would stay for ever, as nobody's. So its entries in
//! managedFields become the provisioner's before that, and with the next apply these fields go.

mod fields;
mod find;

use anyhow::{Context, bail};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::{
    api::{condition, condition::reason, instance::BundleInstance, labels},
    names,
    object::shortened,
};
use serde_json::json;

use crate::{
    Exit,
    args::{self, AdoptArgs, DryRun},
    cluster::{self, Cluster, MANAGER},
    confirm,
    live::Live,
    message::{self, count},
    output,
};
use find::{Candidate, Found};

pub(crate) fn run(args: &AdoptArgs) -> anyhow::Result<Exit> {
    let interrupted = || message::note("what was handed over stays so; run the same command again");
    cluster::run(&args.cluster, interrupted, async |cluster| {
        adopt(cluster, args).await
    })
}

async fn adopt(cluster: &Cluster, args: &AdoptArgs) -> anyhow::Result<Exit> {
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

/// What is blocked is tried again at long intervals, and when it is paused and resumed at once.
async fn wake(cluster: &Cluster, instance: &BundleInstance) -> anyhow::Result<()> {
    let conditions = instance.status.iter().flat_map(|it| &it.conditions);
    let is_blocked = conditions
        .filter(|it| it.type_ == condition::PROGRESSING)
        .any(|it| it.reason == reason::BLOCKED);
    if !is_blocked || instance.spec.paused {
        return Ok(());
    }
    let name = instance.name_any();
    for paused in [true, false] {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = json!({"metadata": {"uid": instance.uid()}, "spec": {"paused": paused}});
        let done = cluster
            .instances()
            .patch(&name, &params, &Patch::Merge(patch))
            .await;
        done.map_err(|error| cluster.trouble("failed to wake the provisioner", error))
            .with_context(|| {
                let program = args::name();
                shortened(
                    &format!("{program} resume {name} tries it again at once"),
                    200,
                )
            })?;
    }
    Ok(())
}
