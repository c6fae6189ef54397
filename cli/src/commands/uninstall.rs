//! `rukpak uninstall`.

pub(crate) mod retained;

use std::cell::RefCell;

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
    let interrupt_note = RefCell::new(None::<String>);
    let interrupted = || {
        let note = interrupt_note.borrow();
        message::note(note.as_deref().unwrap_or("nothing was deleted"));
    };
    cluster::run(&args.cluster, interrupted, async |cluster| {
        uninstall(cluster, args, &interrupt_note).await
    })
}

async fn uninstall(
    cluster: &Cluster,
    args: &UninstallArgs,
    interrupt_note: &RefCell<Option<String>>,
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
    let (cascade, dry_run) = (args.cascade, args.dry_run);
    let set_note = |note| *interrupt_note.borrow_mut() = Some(note);
    let instance = start_deletion(cluster, instance, policy, cascade, dry_run, set_note).await?;
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

/// Sets the deletion policy in the spec, and starts the deletion. The provisioner reads the policy from there, also after a
/// restart. `set_note` receives the note about the state that an interruption leaves from then on.
pub(crate) async fn start_deletion(
    cluster: &Cluster,
    mut instance: BundleInstance,
    policy: CrdDeletionPolicy,
    cascade: Cascade,
    dry_run: DryRun,
    set_note: impl Fn(String),
) -> anyhow::Result<BundleInstance> {
    let (name, before) = (instance.name_any(), instance.spec.crd_deletion_policy);
    let is_dry = dry_run == DryRun::Server;
    let note = |text| {
        if !is_dry {
            set_note(text);
        }
    };
    let mut change = None;
    if policy != before {
        // The dry run comes first, so that a rejected deletion does not change the policy.
        delete(cluster, cascade, DryRun::Server, &instance).await?;
        note(format!(
            "nothing was deleted; spec.crdDeletionPolicy of BundleInstance {name} may have changed from {before:?} to \
             {policy:?}; run the same command again, or restore the field"
        ));
        instance = set_policy(cluster, policy, dry_run, &instance).await?;
        change = (!is_dry)
            .then(|| format!("spec.crdDeletionPolicy has changed from {before:?} to {policy:?}"));
    }
    let follow = format!(
        "run \"{} status {name}\" to follow the deletion",
        args::name()
    );
    let suffix = change.as_ref().map(|change| format!(", and {change}"));
    note(format!(
        "deletion of BundleInstance {name} may have started{}; {follow}",
        suffix.unwrap_or_default()
    ));
    let deleted = delete(cluster, cascade, dry_run, &instance).await;
    match change {
        Some(change) => deleted.context(change)?,
        None => deleted?,
    }
    note(format!(
        "deletion of BundleInstance {name} continues in the cluster; {follow}"
    ));
    Ok(instance)
}

async fn set_policy(
    cluster: &Cluster,
    policy: CrdDeletionPolicy,
    dry_run: DryRun,
    instance: &BundleInstance,
) -> anyhow::Result<BundleInstance> {
    let name = &instance.name_any();
    let params = PatchParams {
        dry_run: dry_run == DryRun::Server,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    let patch = json!({"metadata": {"uid": instance.uid()}, "spec": {"crdDeletionPolicy": policy}});
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
async fn delete(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn interrupted_deletion_reports_a_changed_policy() {
        use CrdDeletionPolicy::{Delete, DeleteIfUnused};

        for (policy, dry_run, answered, expected) in ::tests::rows![
            Delete, DryRun::None, 0 => "nothing";
            Delete, DryRun::None, 1
                => "nothing was deleted; spec.crdDeletionPolicy of BundleInstance tide may have changed from DeleteIfUnused \
                    to Delete; *";
            Delete, DryRun::None, 2
                => "deletion of BundleInstance tide may have started, and spec.crdDeletionPolicy has changed from \
                    DeleteIfUnused to Delete; *";
            Delete, DryRun::None, 3 => "deletion of BundleInstance tide continues in the cluster; *";
            Delete, DryRun::Server, 3 => "nothing";
            DeleteIfUnused, DryRun::None, 0 => "deletion of BundleInstance tide may have started; *";
            DeleteIfUnused, DryRun::None, 1 => "deletion of BundleInstance tide continues in the cluster; *";
        ] {
            let last = RefCell::new("nothing".to_owned());
            let cluster = crate::testing::cluster(answered, &json!({}));
            let instance = crate::testing::instance(&json!({}));
            let set_note = |note| *last.borrow_mut() = note;
            let cascade = Cascade::Background;
            let started =
                start_deletion(&cluster, instance, policy, cascade, dry_run, set_note).await;
            let note = last.borrow();
            assert!(
                ::tests::table::matches(expected, &note),
                "{answered}: {note}"
            );
            let names_change =
                started.is_err_and(|error| error.to_string().contains("has changed"));
            assert_eq!(names_change, note.contains("has changed"), "{answered}");
        }
    }
}
