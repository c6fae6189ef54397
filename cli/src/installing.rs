//! `rukpak install`.
//!
//! ```text
//! BUNDLE ─ wanted ─┬─ a reference ──────────────────────────────┐
//!                  └─ content: checked, packed ── upload         ├─ BundleInstance (server-side apply) ─ progress
//!                                          (to the Bundle that   │
//!                                           is made of it) ◄─────┘
//! ```

mod upload;
pub(crate) mod verdict;
mod wanted;

use std::cell::Cell;

use anyhow::{Context, bail};
use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{
    GROUP,
    instance::{BundleInstance, ready},
};
use tokio::time::{Duration, Instant, timeout_at};

use crate::{
    Exit,
    args::{self, Changed, DryRun, InstallArgs},
    cluster::{self, Cluster, MANAGER},
    message::{self, count},
    output, progress,
    status::rollout::Rollout,
    watch::{self, Change},
};
use verdict::Verdict;
use wanted::Wanted;

/// How long something has to look lost to be given up: what was applied a moment ago may still be on its way.
const GRACE: Duration = Duration::from_secs(10);

/// How far it is, when it is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Nothing,
    Applied,
    Sent,
}

pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<Exit> {
    let Some(wanted) = Wanted::of(args)? else {
        return Ok(Exit::Failed); // it was said why
    };
    let stage = Cell::new(Stage::Nothing);
    let interrupted = || tell_interrupted(&args.name, stage.get());
    cluster::run(&args.cluster, interrupted, async |cluster| {
        install(cluster, args, &wanted, &stage).await
    })
}

fn tell_interrupted(name: &str, stage: Stage) {
    let program = args::name();
    message::note(&match stage {
        Stage::Nothing => "nothing was changed".to_owned(),
        Stage::Applied => format!(
            "BundleInstance {name} stays, and waits for its content: run the same command again, or {program} uninstall {name}"
        ),
        Stage::Sent => format!(
            "BundleInstance {name} stays, and its installation goes on: {program} status {name} tells how far it is, {program} \
             uninstall {name} removes it"
        ),
    });
}

async fn install(
    cluster: &Cluster,
    args: &InstallArgs,
    wanted: &Wanted,
    stage: &Cell<Stage>,
) -> anyhow::Result<Exit> {
    let name = &args.name;
    let end = (!args.wait.timeout.is_zero()).then(|| Instant::now() + args.wait.timeout);
    let before = cluster.find_instance(name).await?;
    let instance = apply(cluster, args, wanted, before.as_ref()).await?;
    let done = match &before {
        None => "created",
        Some(before) if before.metadata.generation == instance.metadata.generation => "unchanged",
        Some(_) => "configured",
    };
    if args.dry_run == DryRun::Server {
        output::changed(&instance, &output::tried(done, args.dry_run), args.output)?;
        return Ok(Exit::Done);
    }
    stage.set(Stage::Applied);
    if let Some(number) = instance.spec.rollback_to {
        message::warning(&format!(
            "BundleInstance {name} is pinned to revision {number}, and changes of the spec have no effect; run \"{} rollback \
             {name} --undo\"",
            args::name()
        ));
    }
    if args.wait.wait && args.output == Changed::Text {
        message::note(&format!("bundleinstance.{GROUP}/{name} {done}"));
    }
    if let Some(content) = &wanted.upload {
        let mut refused = String::new();
        let uploading = upload::run(cluster, args, &instance, content, &mut refused);
        match timeout_at(end.unwrap_or_else(far), uploading).await {
            Ok(result) => result?,
            Err(_) if !refused.is_empty() => {
                bail!("{refused}; it was tried for {:?}", args.wait.timeout)
            }
            Err(_) => return timed_out(cluster, args).await,
        }
    }
    stage.set(Stage::Sent);
    if !args.wait.wait {
        output::changed(&instance, done, args.output)?;
        return Ok(Exit::Done);
    }
    match wait(cluster, &instance, end).await? {
        Ended::Well(instance) => {
            output::changed(&instance, &installed(&instance), args.output)?;
            Ok(Exit::Done)
        }
        Ended::Badly(text) => {
            message::error(&format!("BundleInstance {name} is not as it should be:"));
            message::quote(&text);
            Ok(Exit::Failed)
        }
        Ended::Late => timed_out(cluster, args).await,
    }
}

/// Says what it was waiting for.
async fn timed_out(cluster: &Cluster, args: &InstallArgs) -> anyhow::Result<Exit> {
    let name = &args.name;
    let instance = cluster.instance(name).await?;
    message::error(&format!(
        "BundleInstance {name} is not ready after {:?}; its installation goes on",
        args.wait.timeout
    ));
    message::quote(&verdict::story(&instance));
    Ok(Exit::Failed)
}

/// Never, for all practical purposes.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}

/// `installed: version 1.4.0, 12 objects, healthy`.
fn installed(instance: &BundleInstance) -> String {
    format!("installed: {}", summary(instance))
}

/// Summarizes a healthy instance: `version 1.4.0, 12 objects, healthy`.
pub(crate) fn summary(instance: &BundleInstance) -> String {
    let status = instance.status.clone().unwrap_or_default();
    let version = status
        .facts
        .version
        .map(|version| format!("version {version}"));
    let objects = status.inventory.map_or(0, |it| it.count);
    let objects = count(usize::try_from(objects).unwrap_or_default(), "object");
    let waiting = Some(status.waiting.len()).filter(|number| *number > 0);
    let waiting = waiting.map(|number| format!("{number} more wait for APIs"));
    let parts: Vec<String> = [version, Some(objects), waiting, Some("healthy".to_owned())]
        .into_iter()
        .flatten()
        .collect();
    message::clean(&parts.join(", "))
}

/// Sends the instance to the server, which answers with what became of it.
async fn apply(
    cluster: &Cluster,
    args: &InstallArgs,
    wanted: &Wanted,
    before: Option<&BundleInstance>,
) -> anyhow::Result<BundleInstance> {
    let params = PatchParams {
        dry_run: args.dry_run == DryRun::Server,
        force: args.force_conflicts,
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let object = wanted.object(args, before);
    let applied = cluster
        .instances()
        .patch(&args.name, &params, &Patch::Apply(object))
        .await;
    applied.map_err(|error| {
        cluster.trouble(
            format!("failed to apply BundleInstance {}", args.name),
            error,
        )
    })
}

/// `tide: Reconciling: 2 of 3 objects are ready; 9m12s until the progress deadline`.
fn line(instance: &BundleInstance, text: &str) -> String {
    let now = Timestamp::now();
    let rollout = Rollout::new(instance, now);
    let deadline = rollout.and_then(|rollout| rollout.deadline());
    let deadline = deadline.map(|deadline| format!("; {deadline}"));
    format!(
        "{}: {}: {}{}",
        instance.name_any(),
        ready::phase(instance, now),
        text.replace('\n', " "),
        deadline.unwrap_or_default()
    )
}

/// How the waiting ended.
pub(crate) enum Ended {
    Well(Box<BundleInstance>),
    Badly(String),
    Late,
}

/// Waits until everything is well, or will not be.
pub(crate) async fn wait(
    cluster: &Cluster,
    applied: &BundleInstance,
    end: Option<Instant>,
) -> anyhow::Result<Ended> {
    let generation = applied.metadata.generation;
    wait_until(cluster, applied, end, |instance| {
        verdict::of(instance, generation)
    })
    .await
}

/// Waits until `evaluate` finds everything well, or failed for good.
pub(crate) async fn wait_until(
    cluster: &Cluster,
    applied: &BundleInstance,
    end: Option<Instant>,
    evaluate: impl Fn(&BundleInstance) -> Verdict,
) -> anyhow::Result<Ended> {
    let name = applied.name_any();
    let changes = watch::changes(cluster, Some(&name));
    let mut changes = std::pin::pin!(changes);
    let end = end.unwrap_or_else(far);
    let mut lost: Option<(Instant, String)> = None;
    loop {
        let until = lost
            .as_ref()
            .map_or(end, |(since, _)| end.min(*since + GRACE));
        let change = match timeout_at(until, changes.next()).await {
            Ok(change) => {
                change.context("the server does not tell any more what becomes of it")??
            }
            Err(_) => {
                return Ok(match lost {
                    Some((since, text)) if since + GRACE <= end => Ended::Badly(text),
                    _ => Ended::Late,
                });
            }
        };
        let instance = match change {
            Change::Now(instance) if instance.uid() == applied.uid() => instance,
            _ => {
                return Ok(Ended::Badly(
                    "somebody has deleted it in the meantime".to_owned(),
                ));
            }
        };
        match evaluate(&instance) {
            Verdict::Done => return Ok(Ended::Well(instance)),
            Verdict::Failed(text) => return Ok(Ended::Badly(text)),
            Verdict::Lost(text) => {
                progress::show(&line(&instance, &text));
                let since = lost.map_or_else(Instant::now, |(since, _)| since);
                lost = Some((since, text));
            }
            Verdict::Wait(text) => {
                lost = None;
                progress::show(&line(&instance, &text));
            }
        }
    }
}
