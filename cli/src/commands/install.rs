//! `rukpak install`.
//!
//! ```text
//! BUNDLE ─ request ─┬─ a reference ───────────────────────────────┐
//!                   └─ content: checked, packed ── upload         ├─ BundleInstance (server-side apply) ─ assess
//!                                           (to the Bundle that   │
//!                                            is created for it) ◄─┘
//! ```

pub(crate) mod assess;
mod request;
mod template_fields;
mod upload;

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
    bundle_instance::{BundleInstance, ready},
};
use serde_json::json;
use tokio::time::{Duration, Instant, timeout_at};

use super::status::rollout::Rollout;
use crate::{
    ExitStatus,
    args::{self, ChangeFormat, DryRunMode, InstallArgs},
    cluster::{
        self, Cluster, FIELD_MANAGER,
        watch::{self, InstanceChange},
    },
    output,
    output::{
        message::{self, count},
        progress,
    },
};
use assess::WaitState;
use request::InstallRequest;

/// Time for which an instance must be unhealthy before the command fails: objects that were just applied may still be
/// progressing.
const UNHEALTHY_GRACE: Duration = Duration::from_secs(10);

/// Progress of the command, for the message after an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstallStage {
    Nothing,
    /// The API server may not have received the instance.
    Requested,
    Applied,
    Uploaded,
}

pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<ExitStatus> {
    let Some(request) = InstallRequest::from_args(args)? else {
        return Ok(ExitStatus::Failed); // the problems were printed
    };
    if args.dry_run == DryRunMode::Client {
        return print_request(args, &request);
    }
    let stage = Cell::new(InstallStage::Nothing);
    let interrupted = || report_interrupted(&args.name, stage.get());
    cluster::run(&args.cluster, interrupted, async |cluster| {
        install(cluster, args, &request, &stage).await
    })
}

/// Prints the BundleInstance that the command would create.
fn print_request(args: &InstallArgs, request: &InstallRequest) -> anyhow::Result<ExitStatus> {
    if request.upload.is_some() {
        message::warning(
            "the manifest contains the digest of the bundle but not its content; if another tool applies the manifest, publish \
             the bundle as an image and install that image",
        );
    }
    let done = output::print_dry_run("created", args.dry_run);
    let object = || request.object(args, None);
    output::print_instance(&args.name, &done, args.output, object)?;
    Ok(ExitStatus::Done)
}

fn report_interrupted(name: &str, stage: InstallStage) {
    let program = args::name();
    message::note(&match stage {
        InstallStage::Nothing => "no changes were made".to_owned(),
        InstallStage::Requested => format!(
            "BundleInstance {name} is kept if the API server has applied it; run the same command again, or run \"{program} \
             uninstall {name}\""
        ),
        InstallStage::Applied => format!(
            "BundleInstance {name} is kept and waits for its content; run the same command again, or run \"{program} \
             uninstall {name}\""
        ),
        InstallStage::Uploaded => format!(
            "BundleInstance {name} is kept, and the installation continues; run \"{program} status {name}\" to follow it, \
             or \"{program} uninstall {name}\" to remove it"
        ),
    });
}

async fn install(
    cluster: &Cluster,
    args: &InstallArgs,
    request: &InstallRequest,
    stage: &Cell<InstallStage>,
) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let end = (!args.wait.timeout.is_zero()).then(|| Instant::now() + args.wait.timeout);
    let before = cluster.get_instance_opt(name).await?;
    if let Some(before) = &before {
        reject_terminating(before)?;
    }
    if args.dry_run == DryRunMode::None {
        stage.set(InstallStage::Requested);
    }
    let before = match before {
        Some(before) if args.dry_run == DryRunMode::None => {
            Some(Box::pin(transfer_template_fields(cluster, args, before)).await?)
        }
        before => before,
    };
    let instance = apply(cluster, args, request, before.as_ref()).await?;
    let done = match &before {
        None => "created",
        Some(before) if before.metadata.generation == instance.metadata.generation => "unchanged",
        Some(_) => "configured",
    };
    if args.dry_run == DryRunMode::Server {
        output::print_changed(
            &instance,
            &output::print_dry_run(done, args.dry_run),
            args.output,
        )?;
        return Ok(ExitStatus::Done);
    }
    stage.set(InstallStage::Applied);
    if let Some(number) = instance.spec.rollback_to {
        message::warning(&format!(
            "BundleInstance {name} is pinned to revision {number}, and changes of the spec have no effect; run \"{} rollback \
             {name} --undo\"",
            args::name()
        ));
    }
    if args.wait.wait && args.output == ChangeFormat::Text {
        message::note(&format!("bundleinstance.{GROUP}/{name} {done}"));
    }
    if let Some(content) = &request.upload {
        let mut rejection = String::new();
        let uploading = upload::run(cluster, args, &instance, content, &mut rejection);
        match timeout_at(end.unwrap_or_else(distant_deadline), uploading).await {
            Ok(result) => result?,
            Err(_) if !rejection.is_empty() => {
                bail!("{rejection}; retried for {:?}", args.wait.timeout)
            }
            Err(_) => {
                let state = "its content was not uploaded; run the same command again";
                return timed_out(cluster, args, state).await;
            }
        }
    }
    stage.set(InstallStage::Uploaded);
    if !args.wait.wait {
        output::print_changed(&instance, done, args.output)?;
        return Ok(ExitStatus::Done);
    }
    match wait(cluster, &instance, end).await? {
        WaitResult::Ready(instance) => {
            output::print_changed(&instance, &installed(&instance), args.output)?;
            Ok(ExitStatus::Done)
        }
        WaitResult::Failed(text) => {
            message::error(&format!("BundleInstance {name} is not ready:"));
            message::quote(&text);
            Ok(ExitStatus::Failed)
        }
        WaitResult::TimedOut => timed_out(cluster, args, "the installation continues").await,
    }
}

/// Returns an error if an instance is terminating: its deletion would undo the changes of the command.
pub(crate) fn reject_terminating(instance: &BundleInstance) -> anyhow::Result<()> {
    if instance.metadata.deletion_timestamp.is_some() {
        let name = instance.name_any();
        bail!("BundleInstance {name} is terminating; install the bundle again after the deletion");
    }
    Ok(())
}

/// Reports the state of an instance that is not ready after the timeout.
async fn timed_out(
    cluster: &Cluster,
    args: &InstallArgs,
    state: &str,
) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let instance = cluster.instance(name).await?;
    message::error(&format!(
        "timed out after {:?}: BundleInstance {name} is not ready; {state}",
        args.wait.timeout
    ));
    message::quote(&assess::explain_failure(&instance));
    Ok(ExitStatus::Failed)
}

/// Returns a deadline that is never reached in practice.
fn distant_deadline() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}

/// Formats the result: `installed: version 1.4.0, 12 objects, healthy`.
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
    let objects = status.inventory.map_or(0, |inventory| inventory.count);
    let objects = count(usize::try_from(objects).unwrap_or_default(), "object");
    let waiting = Some(status.waiting.len()).filter(|number| *number > 0);
    let waiting = waiting.map(|number| format!("{number} more deferred"));
    let parts: Vec<String> = [version, Some(objects), waiting, Some("healthy".to_owned())]
        .into_iter()
        .flatten()
        .collect();
    message::sanitize(&parts.join(", "))
}

/// Transfers the fields of the template's spec to the field manager of the apply: those that other commands of this program
/// set, and with --force-conflicts those of all clients. Returns the current instance.
async fn transfer_template_fields(
    cluster: &Cluster,
    args: &InstallArgs,
    instance: BundleInstance,
) -> anyhow::Result<BundleInstance> {
    let doing = "failed to take ownership of fields of BundleInstance";
    let patch = |instance: &BundleInstance| {
        let transferred =
            template_fields::transfer(instance.managed_fields(), args.force_conflicts);
        let patch = transferred.map(|entries| {
            json!({"metadata": {
                "uid": instance.uid(), "resourceVersion": instance.resource_version(), "managedFields": entries,
            }})
        });
        Ok(patch)
    };
    cluster.patch_instance(instance, doing, patch).await
}

/// Applies the instance and returns it as the API server stored it.
async fn apply(
    cluster: &Cluster,
    args: &InstallArgs,
    request: &InstallRequest,
    before: Option<&BundleInstance>,
) -> anyhow::Result<BundleInstance> {
    let params = PatchParams {
        dry_run: args.dry_run == DryRunMode::Server,
        force: args.force_conflicts,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    let object = request.object(args, before);
    let applied = cluster
        .instances()
        .patch(&args.name, &params, &Patch::Apply(object))
        .await;
    applied.map_err(|error| {
        cluster.explain(
            format!("failed to apply BundleInstance {}", args.name),
            error,
        )
    })
}

/// Formats the progress line: `tide: Reconciling: 2 of 3 objects are ready; 9m12s until the progress deadline`.
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

/// Result of waiting for an instance.
pub(crate) enum WaitResult {
    Ready(Box<BundleInstance>),
    Failed(String),
    TimedOut,
}

/// Waits until the instance is installed and healthy, or until it has failed.
pub(crate) async fn wait(
    cluster: &Cluster,
    applied: &BundleInstance,
    end: Option<Instant>,
) -> anyhow::Result<WaitResult> {
    let generation = applied.metadata.generation;
    wait_until(cluster, applied, end, |instance| {
        assess::evaluate(instance, generation)
    })
    .await
}

/// Waits until `evaluate` returns success or a permanent failure.
pub(crate) async fn wait_until(
    cluster: &Cluster,
    applied: &BundleInstance,
    end: Option<Instant>,
    evaluate: impl Fn(&BundleInstance) -> WaitState,
) -> anyhow::Result<WaitResult> {
    let name = applied.name_any();
    let changes = watch::changes(cluster, Some(&name));
    let mut changes = std::pin::pin!(changes);
    let end = end.unwrap_or_else(distant_deadline);
    let mut lost: Option<(Instant, String)> = None;
    loop {
        let until = lost
            .as_ref()
            .map_or(end, |(since, _)| end.min(*since + UNHEALTHY_GRACE));
        let change = match timeout_at(until, changes.next()).await {
            Ok(change) => change.context("the watch of the BundleInstance ended")??,
            Err(_) => {
                return Ok(match lost {
                    Some((since, text)) if since + UNHEALTHY_GRACE <= end => {
                        WaitResult::Failed(text)
                    }
                    _ => WaitResult::TimedOut,
                });
            }
        };
        let instance = match change {
            InstanceChange::Updated(instance) if instance.uid() == applied.uid() => instance,
            _ => {
                return Ok(WaitResult::Failed(
                    "BundleInstance was deleted while waiting".to_owned(),
                ));
            }
        };
        match evaluate(&instance) {
            WaitState::Done => return Ok(WaitResult::Ready(instance)),
            WaitState::Failed(text) => return Ok(WaitResult::Failed(text)),
            WaitState::Unhealthy(text) => {
                progress::display(&line(&instance, &text));
                let since = lost.map_or_else(Instant::now, |(since, _)| since);
                lost = Some((since, text));
            }
            WaitState::Wait(text) => {
                lost = None;
                progress::display(&line(&instance, &text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn interrupted_installation_reports_a_sent_request() {
        use InstallStage::{Nothing, Requested, Uploaded};

        let existing = json!({});
        let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let rejection =
            "BundleInstance tide is terminating; install the bundle again after the deletion";
        for (instance, dry_run, answered, expected) in ::tests::rows![
            &existing, "none", 0 => (Nothing, Err("failed to read BundleInstance tide: *"));
            &existing, "none", 1 => (Requested, Err("failed to apply BundleInstance tide: *"));
            &existing, "server", 1 => (Nothing, Err("failed to apply BundleInstance tide: *"));
            &existing, "none", 2 => (Uploaded, Ok(ExitStatus::Done));
            &terminating, "none", 9 => (Nothing, Err(rejection));
        ] {
            let cluster = crate::testing::cluster(answered, instance);
            let stage = Cell::new(Nothing);
            let flags = ["tide", "a.io/b:1", "--wait=false", "--dry-run", dry_run];
            let args: InstallArgs = crate::testing::parse(&flags).unwrap();
            let request = InstallRequest::from_args(&args).unwrap().unwrap();
            let installed = install(&cluster, &args, &request, &stage).await;
            ::tests::table::assert_outcome(installed, expected.1, (dry_run, answered));
            assert_eq!(stage.get(), expected.0, "{dry_run} {answered}");
        }
    }
}
