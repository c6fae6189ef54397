//! `rukpak rollback`.
//!
//! The command sets `spec.rollbackTo`, and the provisioner rolls the revision out: it creates a new revision from the
//! recorded objects. The pin remains until it is removed, also if the template changes.

mod choose;
mod wait;

use std::cell::RefCell;

use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{GROUP, bundle_instance::BundleInstance};
use serde_json::json;
use tokio::time::Instant;

use super::{
    diff,
    install::{self, WaitResult, assess},
};
use crate::{
    ExitStatus,
    args::{self, ChangeFormat, DryRunMode, RollbackArgs},
    cluster::{self, Cluster, FIELD_MANAGER, desired, revisions},
    output,
    output::message,
};

pub(crate) fn run(args: &RollbackArgs) -> anyhow::Result<ExitStatus> {
    let interrupt_note = RefCell::new("no changes were made".to_owned());
    let interrupted = || message::note(&interrupt_note.borrow());
    cluster::run(&args.cluster, interrupted, async |cluster| {
        rollback(cluster, args, &interrupt_note).await
    })
}

async fn rollback(
    cluster: &Cluster,
    args: &RollbackArgs,
    interrupt_note: &RefCell<String>,
) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let end = (!args.wait.timeout.is_zero()).then(|| Instant::now() + args.wait.timeout);
    let before = cluster.instance(name).await?;
    install::reject_terminating(&before)?;
    let pin = before.spec.rollback_to;
    let target = if args.undo {
        None
    } else {
        Some(choose::target(name, revisions::all(&before), pin, args.to)?)
    };
    let done = describe_change(pin, target);
    if let (Some(number), DryRunMode::Server, ChangeFormat::Text) =
        (target, args.dry_run, args.output)
    {
        let revision = revisions::read(cluster, &before, number).await?;
        let desired = desired::from_revision(cluster, &before, revision).await?;
        let origin = diff::report::Origin::Revision(number);
        if diff::compare(cluster, desired, origin).await? == ExitStatus::Code(diff::EXIT_FAILED) {
            return Ok(ExitStatus::Failed); // the errors were printed
        }
    }
    let set_note = |state: String| {
        let program = args::name();
        *interrupt_note.borrow_mut() =
            format!("{state}; run \"{program} status {name}\" to follow the change");
    };
    if args.dry_run == DryRunMode::None && pin != target {
        set_note(format!(
            "spec.rollbackTo of BundleInstance {name} may have changed"
        ));
    }
    let after = match args.dry_run {
        DryRunMode::Client => {
            let mut after = before;
            after.spec.rollback_to = target;
            after
        }
        _ if pin == target => before,
        _ => set_pin(cluster, &before, target, args.dry_run).await?,
    };
    if args.dry_run != DryRunMode::None {
        let done = output::print_dry_run(&done, args.dry_run);
        output::print_changed(&after, &done, args.output)?;
        return Ok(ExitStatus::Done);
    }
    set_note(format!(
        "the provisioner continues with BundleInstance {name}"
    ));
    // Without a pin, and without a change, nothing is awaited.
    if !args.wait.wait || (pin, target) == (None, None) {
        output::print_changed(&after, &done, args.output)?;
        return Ok(ExitStatus::Done);
    }
    if args.output == ChangeFormat::Text {
        message::note(&format!("bundleinstance.{GROUP}/{name} {done}"));
    }
    let generation = after.metadata.generation;
    let ended = install::wait_until(cluster, &after, end, |instance| match target {
        Some(number) => wait::evaluate(instance, generation, number),
        None => assess::evaluate(instance, generation),
    });
    conclude(cluster, args, target, ended.await?).await
}

/// Describes a change of the pin.
fn describe_change(pin: Option<i64>, target: Option<i64>) -> String {
    match (pin, target) {
        (None, None) => "not pinned".to_owned(),
        (Some(number), None) => format!("pin to revision {number} removed"),
        (Some(pin), Some(number)) if pin == number => {
            format!("already pinned to revision {number}")
        }
        (_, Some(number)) => format!("pinned to revision {number}"),
    }
}

async fn set_pin(
    cluster: &Cluster,
    before: &BundleInstance,
    target: Option<i64>,
    dry_run: DryRunMode,
) -> anyhow::Result<BundleInstance> {
    let name = before.name_any();
    let params = PatchParams {
        dry_run: dry_run == DryRunMode::Server,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    // The revisions belong to this object. Another object of the same name has other revisions.
    let patch = json!({"metadata": {"uid": before.metadata.uid}, "spec": {"rollbackTo": target}});
    let patched = cluster
        .instances()
        .patch(&name, &params, &Patch::Merge(patch))
        .await;
    patched.map_err(|error| {
        cluster.explain(
            format!("failed to set spec.rollbackTo of BundleInstance {name}"),
            error,
        )
    })
}

/// Reports how the rollback ended.
async fn conclude(
    cluster: &Cluster,
    args: &RollbackArgs,
    target: Option<i64>,
    ended: WaitResult,
) -> anyhow::Result<ExitStatus> {
    let (name, program) = (&args.name, args::name());
    let goal = match target {
        Some(number) => format!("rolled back to revision {number}"),
        None => "installed".to_owned(),
    };
    match ended {
        WaitResult::Ready(instance) => {
            let summary = install::summary(&instance);
            output::print_changed(&instance, &format!("{goal}: {summary}"), args.output)?;
            if target.is_some() && args.output == ChangeFormat::Text {
                message::note(&format!(
                    "changes of the spec have no effect while the pin is set; run \"{program} rollback {name} --undo\" to \
                     remove the pin"
                ));
            }
            return Ok(ExitStatus::Done);
        }
        WaitResult::Failed(problem) => {
            message::error(&format!("BundleInstance {name} is not {goal}:"));
            message::quote(&problem);
        }
        WaitResult::TimedOut => {
            let instance = cluster.instance(name).await?;
            message::error(&format!(
                "BundleInstance {name} is not {goal} after {:?}; the provisioner continues",
                args.wait.timeout
            ));
            message::quote(&assess::explain_failure(&instance));
        }
    }
    message::note(&format!(
        "run \"{program} status {name}\" to see what is wrong"
    ));
    Ok(ExitStatus::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::revisions::tests::revision;

    #[tokio::test]
    async fn interrupted_rollback_reports_a_sent_request() {
        let unchanged = "no changes were made";
        let revisions = [revision(1, "Archived", "a"), revision(2, "Active", "b")];
        let instance = |deleted: Option<&str>| {
            let status = json!({"revisions": revisions});
            json!({"metadata": {"deletionTimestamp": deleted}, "status": status})
        };
        let rejection = "BundleInstance tide is terminating; install the bundle again *";
        for (instance, dry_run, answered, expected) in ::tests::rows![
            instance(None), "none", 0 => (unchanged, Err("failed to read *"));
            instance(None), "none", 1
                => ("spec.rollbackTo of BundleInstance tide may have changed; *", Err("failed to set spec.rollbackTo *"));
            instance(None), "client", 1 => (unchanged, Ok(ExitStatus::Done));
            instance(None), "none", 2 => ("the provisioner continues with BundleInstance tide; *", Ok(ExitStatus::Done));
            instance(Some("2026-01-01T00:00:00Z")), "none", 9 => (unchanged, Err(rejection));
        ] {
            let cluster = crate::testing::cluster(answered, &instance);
            let flags = ["tide", "--to", "1", "--wait=false", "--dry-run", dry_run];
            let args: RollbackArgs = crate::testing::parse(&flags).unwrap();
            let note = RefCell::new(unchanged.to_owned());
            let done = rollback(&cluster, &args, &note).await;
            ::tests::table::assert_outcome(done, expected.1, (dry_run, answered));
            let note = note.into_inner();
            assert!(
                ::tests::table::matches(expected.0, &note),
                "{dry_run} {answered}: {note}"
            );
        }
    }
}
