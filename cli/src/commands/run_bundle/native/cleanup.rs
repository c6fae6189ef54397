//! `rukpak cleanup`: deletes the BundleInstance of a package with all objects that it has installed.

use std::{future::Future, time::Duration};

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use manifests::api::bundle_instance::{BundleInstance, CrdDeletionPolicy};

use super::{
    instance::{install_namespace, is_own},
    locate::{LocatedInstance, describe_namespace, locate_own},
    warn,
};
use crate::{
    ExitStatus,
    args::{Cascade, CleanupArgs, DryRun},
    commands::{
        run_bundle::{RunContext, command, deadline::Deadline},
        uninstall::{
            self, platform_operator,
            retained::{self, CrdUsages},
        },
    },
    output,
    output::message,
};

/// Maximum time to read the CRDs of an instance and to count their custom resources, which are only printed.
const COUNT_TIMEOUT: Duration = Duration::from_secs(15);

pub(in crate::commands::run_bundle) async fn cleanup(
    task: &RunContext<'_>,
    args: &CleanupArgs,
) -> anyhow::Result<ExitStatus> {
    let (cluster, deadline, package) = (task.cluster, task.deadline, &args.package);
    warn_ignored_flags(args);
    let namespace = args.namespace.as_deref();
    let located = locate_own(cluster, package, namespace);
    let located = deadline.read_cluster(located).await?;
    let instance = match located {
        LocatedInstance::InNamespace(found) => *found,
        LocatedInstance::OtherNamespace(found) => {
            let namespace = namespace.unwrap_or_default();
            message::warning(&format!(
                "package {package:?} not found in namespace {namespace}; {}",
                describe_namespace(&found)
            ));
            return Ok(ExitStatus::Done);
        }
        LocatedInstance::None => {
            message::warning(&format!("package {package:?} not found"));
            return Ok(ExitStatus::Done);
        }
    };
    let name = instance.name_any();
    if let (Some(namespace), None) = (namespace, install_namespace(&instance)) {
        bail!(
            "{}, so it may not be in {namespace}; nothing was deleted; run {} for the reason, or remove --namespace to \
             delete it in any namespace",
            describe_namespace(&instance),
            command(&format!("status {name}"))
        );
    }
    if let Some(operator) = platform_operator(&instance) {
        bail!(
            "BundleInstance {name} belongs to PlatformOperator {operator}, which would recreate it; nothing was deleted; \
             run \"kubectl delete platformoperator {operator}\" instead"
        );
    }
    check_origin(&instance, package)?;
    let policy = if args.deletes_crds() {
        CrdDeletionPolicy::Delete
    } else {
        message::note("Skipping CRD deletion");
        CrdDeletionPolicy::Retain
    };
    let crds = crds_with_timeout(deadline, Box::pin(retained::crds(cluster, &instance))).await;
    let namespaces = retained::namespaces(&instance);
    let preview = retained::preview(Cascade::Background, policy, &crds, &namespaces);
    for line in &preview {
        message::note(line);
    }
    let set_note = |note| task.set_interrupt_message(note);
    let (cascade, dry_run) = (Cascade::Background, DryRun::None);
    let deletion = uninstall::start_deletion(cluster, instance, policy, cascade, dry_run, set_note);
    let deletion = deadline.run_to_end("deleting the BundleInstance", Box::pin(deletion));
    let instance = deletion.await?;
    let mut last = String::new();
    let deleted = uninstall::wait_deleted(cluster, &instance, &mut last);
    let Some(deleted) = deadline.within(deleted).await else {
        let progress = if last.is_empty() {
            "the provisioner reports no progress; check that it is running"
        } else {
            &last
        };
        return Err(anyhow!(
            "timed out after {:?}: BundleInstance {name} still exists; deletion continues: {progress}",
            deadline.timeout
        ));
    };
    deleted?;
    message::note(&format!("bundleinstance {name:?} deleted"));
    output::print(&format!("Operator {package:?} uninstalled\n"))?;
    Ok(ExitStatus::Done)
}

/// Rejects an instance of another command.
fn check_origin(instance: &BundleInstance, package: &str) -> anyhow::Result<()> {
    let name = instance.name_any();
    if !is_own(instance) {
        bail!(
            "BundleInstance {name} of package {package:?} was not installed by \"run bundle\"; nothing was deleted; run {} \
             instead",
            command(&format!("uninstall {name}"))
        );
    }
    Ok(())
}

/// Waits for the CRDs of an instance. If the API server does not respond in time, returns the reason instead of CRDs.
async fn crds_with_timeout(deadline: Deadline, crds: impl Future<Output = CrdUsages>) -> CrdUsages {
    let crds = deadline.sooner(COUNT_TIMEOUT).within(crds).await;
    crds.unwrap_or_else(|| CrdUsages {
        crds: Vec::new(),
        inventory_error: Some("the API server did not respond in time".to_owned()),
    })
}

/// Warns about flags that have no effect here.
fn warn_ignored_flags(args: &CleanupArgs) {
    let groups = args.delete_operator_groups == Some(true);
    let account = args.service_account.is_some();
    let flags = [
        ("--delete-operator-groups", groups),
        ("--service-account", account),
    ];
    warn(&flags, "");
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use serde_json::json;

    use super::*;

    // parity: sdk-33
    #[test]
    fn only_annotated_instances_are_deleted() {
        let status = json!({"package": "tide"});
        for (annotations, expected) in ::tests::rows![
            json!({"core.rukpak.io/package": "tide"}) => Ok(());
            json!({"other": "tide"}) => Err("BundleInstance tide of package \"tide\" was not *uninstall tide\" instead");
            json!(null) => Err("*nothing was deleted*");
        ] {
            let instance = json!({"metadata": {"annotations": annotations}, "status": status});
            let instance = crate::testing::instance(&instance);
            ::tests::table::assert_outcome(check_origin(&instance, "tide"), expected, annotations);
        }
    }

    #[tokio::test]
    async fn crds_are_unknown_without_a_response_in_time() {
        let lines = retained::preview(
            Cascade::Background,
            CrdDeletionPolicy::Delete,
            &crds_with_timeout(Deadline::after(Duration::from_millis(10)), pending()).await,
            &[],
        );
        let expected = "there may be more CRDs: failed to read the rest of the inventory: the API server did not respond in \
                        time";
        assert_eq!(lines, [expected]);
        let unlimited = Deadline::after(Duration::ZERO);
        ::tests::assert_rows!(crds_with_timeout(unlimited, ready(CrdUsages::default())).await.inventory_error => None);
    }
}
