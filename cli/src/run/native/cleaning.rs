//! `rukpak cleanup`: the BundleInstance of a package goes, with all that it has installed.

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use manifests::api::instance::CrdDeletionPolicy;

use super::locate;
use crate::{
    Exit,
    args::{Cascade, CleanupArgs, DryRun},
    message, output,
    run::Task,
    uninstalling::{self, maker, stays},
};

pub(in crate::run) async fn cleanup(task: &Task<'_>, args: &CleanupArgs) -> anyhow::Result<Exit> {
    let (cluster, deadline, package) = (task.cluster, task.deadline, &args.package);
    let located = locate(cluster, package);
    let located = deadline.keep("looking at the cluster", located).await?;
    let Some(instance) = located else {
        message::warning(&format!("package {package:?} not found"));
        return Ok(Exit::Done);
    };
    let name = instance.name_any();
    if let Some(operator) = maker(&instance) {
        bail!(
            "BundleInstance {name} belongs to PlatformOperator {operator}, which would make it anew; nothing was deleted: \
             remove it with \"kubectl delete platformoperator {operator}\""
        );
    }
    let policy = if args.deletes_definitions() {
        CrdDeletionPolicy::Delete
    } else {
        message::note("Skipping CRD deletion");
        CrdDeletionPolicy::Retain
    };
    let definitions = stays::definitions(cluster, &instance).await;
    let namespaces = stays::namespaces(&instance);
    let foretold = stays::foretold(Cascade::Background, policy, &definitions, &namespaces);
    for line in &foretold {
        message::note(line);
    }
    let set = uninstalling::set_policy(cluster, Some(policy), DryRun::None, instance);
    let set = deadline.keep("setting spec.crdDeletionPolicy", Box::pin(set));
    let instance = set.await?;
    task.leaves(format!(
        "what was begun goes on without this command; {} tells how far it is",
        crate::run::command(&format!("status {name}"))
    ));
    let deleted = uninstalling::delete(cluster, Cascade::Background, DryRun::None, &instance);
    deadline
        .keep("deleting the BundleInstance", deleted)
        .await?;
    let mut last = String::new();
    let gone = uninstalling::gone(cluster, &instance, &mut last);
    let Some(gone) = deadline.within(gone).await else {
        let told = if last.is_empty() {
            "the provisioner has not said why; is it running?"
        } else {
            &last
        };
        return Err(anyhow!(
            "BundleInstance {name} is still there after {:?}, and what was begun goes on: {told}",
            deadline.timeout
        ));
    };
    gone?;
    message::note(&format!("bundleinstance {name:?} deleted"));
    output::print(&format!("Operator {package:?} uninstalled\n"))?;
    Ok(Exit::Done)
}
