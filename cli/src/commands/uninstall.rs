//! `rukpak uninstall`.

pub(crate) mod retained;

use std::cell::Cell;

use anyhow::{Context, bail};
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PropagationPolicy},
};
use manifests::api::{
    GROUP,
    bundle_instance::{BundleInstance, CrdDeletionPolicy},
    condition,
    platform_operator::PlatformOperator,
};
use serde_json::json;

use crate::{
    ExitStatus,
    args::{self, Cascade, DefinitionPolicy, DryRun, UninstallArgs},
    cluster::{
        self, Cluster, FIELD_MANAGER,
        watch::{self, InstanceChange},
    },
    output,
    output::{confirm, message, progress},
};

pub(crate) fn run(args: &UninstallArgs) -> anyhow::Result<ExitStatus> {
    let state = Cell::new(None);
    let interrupted = || match state.get() {
        Some(state) => message::note(&interrupt_note(state, &args.name)),
        None => message::note("nothing was deleted"),
    };
    cluster::run(&args.cluster, interrupted, async |cluster| {
        uninstall(cluster, args, &state).await
    })
}

/// State of a deletion when a command is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionState {
    /// The API server may not have received the request.
    Requested,
    Started,
}

/// Returns the note of a command that is interrupted during a deletion.
pub(crate) fn interrupt_note(state: DeletionState, name: &str) -> String {
    let state = match state {
        DeletionState::Requested => "may have started",
        DeletionState::Started => "continues in the cluster",
    };
    let program = args::name();
    format!(
        "deletion of BundleInstance {name} {state}; run \"{program} status {name}\" to follow the deletion"
    )
}

async fn uninstall(
    cluster: &Cluster,
    args: &UninstallArgs,
    state: &Cell<Option<DeletionState>>,
) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let Some(instance) = cluster.get_instance_opt(name).await? else {
        if args.ignore_not_found {
            return Ok(ExitStatus::Done);
        }
        bail!("bundleinstances.{GROUP} {name:?} not found");
    };
    if let Some(operator) = platform_operator(&instance) {
        bail!(
            "BundleInstance {name} belongs to PlatformOperator {operator}, which would recreate it; nothing was deleted; \
             run \"kubectl delete platformoperator {operator}\" instead"
        );
    }
    let policy = args
        .crd_deletion_policy
        .map_or(instance.spec.crd_deletion_policy, policy);
    let crds = retained::crds(cluster, &instance).await;
    let namespaces = retained::namespaces(&instance);
    for line in retained::preview(args.cascade, policy, &crds, &namespaces) {
        message::note(&line);
    }
    let is_dry = args.dry_run == DryRun::Server;
    if let Some(resources_at_risk) = crds.deleted_resources(args.cascade, policy)
        && !is_dry
        && !args.yes
    {
        let question = format!(
            "Delete BundleInstance {name} and all custom resources of {resources_at_risk}?"
        );
        if !confirm::confirm(&question).await? {
            message::note("nothing was deleted");
            return Ok(ExitStatus::Failed);
        }
    }
    let set_state = |new| state.set((!is_dry).then_some(new));
    let new_policy = args.crd_deletion_policy.map(self::policy);
    if new_policy.is_some() {
        // The dry run comes first, so that a rejected deletion does not change the policy.
        delete(cluster, args.cascade, DryRun::Server, &instance).await?;
    }
    let instance = set_policy(cluster, new_policy, args.dry_run, instance).await?;
    set_state(DeletionState::Requested);
    delete(cluster, args.cascade, args.dry_run, &instance).await?;
    set_state(DeletionState::Started);
    let done = format!("bundleinstance.{GROUP}/{name}");
    if is_dry {
        output::print(&format!("{done} deleted (server dry run)\n"))?;
        return Ok(ExitStatus::Done);
    }
    if !args.wait.wait {
        output::print(&format!("{done} deletion started\n"))?;
        return Ok(ExitStatus::Done);
    }
    let mut last = String::new();
    let waited = cluster::with_timeout(
        args.wait.timeout,
        wait_deleted(cluster, &instance, &mut last),
    )
    .await;
    let Some(result) = waited else {
        message::error(&format!(
            "timed out after {:?}: BundleInstance {name} still exists; deletion continues",
            args.wait.timeout
        ));
        message::quote(&last);
        return Ok(ExitStatus::Failed);
    };
    result?;
    output::print(&format!("{done} deleted\n"))?;
    if args.cascade != Cascade::Orphan {
        for line in retained::remaining_lines(cluster, &crds, &namespaces).await {
            message::note(&line);
        }
    }
    Ok(ExitStatus::Done)
}

/// Returns the name of the PlatformOperator that owns an instance, and would recreate it.
pub(crate) fn platform_operator(instance: &BundleInstance) -> Option<&str> {
    let owners = instance.metadata.owner_references.as_deref();
    let is_maker = |owner: &&OwnerReference| {
        owner.kind == PlatformOperator::kind(&())
            && owner.api_version == PlatformOperator::api_version(&())
    };
    // A terminating instance is not recreated before its deletion completes, so that the command may wait for that.
    let is_kept = instance.metadata.deletion_timestamp.is_none();
    let maker = owners.unwrap_or_default().iter().find(is_maker);
    maker.filter(|_| is_kept).map(|owner| owner.name.as_str())
}

fn policy(policy: DefinitionPolicy) -> CrdDeletionPolicy {
    match policy {
        DefinitionPolicy::Retain => CrdDeletionPolicy::Retain,
        DefinitionPolicy::DeleteIfUnused => CrdDeletionPolicy::DeleteIfUnused,
        DefinitionPolicy::Delete => CrdDeletionPolicy::Delete,
    }
}

/// Sets the deletion policy in the spec. The provisioner reads it from there, also after a restart.
pub(crate) async fn set_policy(
    cluster: &Cluster,
    new_policy: Option<CrdDeletionPolicy>,
    dry_run: DryRun,
    instance: BundleInstance,
) -> anyhow::Result<BundleInstance> {
    let name = &instance.name_any();
    let Some(new_policy) = new_policy else {
        return Ok(instance);
    };
    if new_policy == instance.spec.crd_deletion_policy {
        return Ok(instance);
    }
    let params = PatchParams {
        dry_run: dry_run == DryRun::Server,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    let patch =
        json!({"metadata": {"uid": instance.uid()}, "spec": {"crdDeletionPolicy": new_policy}});
    let changed = cluster
        .instances()
        .patch(name, &params, &Patch::Merge(patch))
        .await;
    changed.map_err(|error| {
        let problem = format!("failed to set spec.crdDeletionPolicy of BundleInstance {name}");
        cluster.explain(problem, error)
    })
}

/// Starts the deletion of an instance; succeeds if it does not exist.
pub(crate) async fn delete(
    cluster: &Cluster,
    cascade: Cascade,
    dry_run: DryRun,
    instance: &BundleInstance,
) -> anyhow::Result<()> {
    let name = &instance.name_any();
    let propagation = match cascade {
        Cascade::Background => PropagationPolicy::Background,
        Cascade::Foreground => PropagationPolicy::Foreground,
        Cascade::Orphan => PropagationPolicy::Orphan,
    };
    let params = DeleteParams {
        dry_run: dry_run == DryRun::Server,
        propagation_policy: Some(propagation),
        // The deletion is restricted to the instance that was reported.
        ..apply::delete_params::for_uid(instance.uid())
    };
    match cluster.instances().delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(error) if Cluster::is_absent(&error) => Ok(()),
        Err(error) => {
            Err(cluster.explain(format!("failed to delete BundleInstance {name}"), error))
        }
    }
}

/// Waits until the instance no longer exists. Another instance of the same name is ignored.
pub(crate) async fn wait_deleted(
    cluster: &Cluster,
    instance: &BundleInstance,
    last: &mut String,
) -> anyhow::Result<()> {
    let name = instance.name_any();
    let changes = watch::changes(cluster, Some(&name));
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        let InstanceChange::Updated(now) = change? else {
            return Ok(());
        };
        if now.uid() != instance.uid() {
            return Ok(());
        }
        let conditions = now.status.iter().flat_map(|status| &status.conditions);
        let progressing = conditions
            .filter(|condition| condition.type_ == condition::PROGRESSING)
            .find(|condition| condition.observed_generation == now.metadata.generation);
        if let Some(condition) = progressing {
            last.clone_from(&condition.message);
        }
        progress::display(&format!("removing {name}: {}", last.replace('\n', " ")));
    }
    None.context("the watch of the BundleInstance ended")
}
