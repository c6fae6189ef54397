//! `rukpak cleanup`: the BundleInstance of a package goes, with all that it has installed.

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use manifests::api::instance::CrdDeletionPolicy;

use super::{
    object::is_in,
    place::{Located, locate, tells},
    warn,
};
use crate::{
    Exit,
    args::{Cascade, CleanupArgs, DryRun},
    message, output,
    run::{Task, command},
    uninstalling::{self, maker, stays},
};

pub(in crate::run) async fn cleanup(task: &Task<'_>, args: &CleanupArgs) -> anyhow::Result<Exit> {
    let (cluster, deadline, package) = (task.cluster, task.deadline, &args.package);
    tell_meaningless(args);
    let namespace = args.namespace.as_deref();
    let located = locate(cluster, package, namespace);
    let located = deadline.keep("looking at the cluster", located).await?;
    let instance = match located {
        Located::Here(found) => *found,
        Located::Elsewhere(found) => {
            let namespace = namespace.unwrap_or_default();
            message::warning(&format!(
                "package {package:?} not found in namespace {namespace}; {}",
                tells(&found)
            ));
            return Ok(Exit::Done);
        }
        Located::Nothing => {
            message::warning(&format!("package {package:?} not found"));
            return Ok(Exit::Done);
        }
    };
    let name = instance.name_any();
    if let (Some(namespace), None) = (namespace, is_in(&instance)) {
        bail!(
            "{}, which may not be {namespace}; nothing was deleted: {} tells why, and without --namespace it is removed wherever \
             it goes",
            tells(&instance),
            command(&format!("status {name}"))
        );
    }
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
        command(&format!("status {name}"))
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

/// Says which flags mean nothing here.
fn tell_meaningless(args: &CleanupArgs) {
    let groups = args.delete_operator_groups;
    let account = args.service_account.is_some();
    let flags = [
        ("--delete-operator-groups", groups),
        ("--service-account", account),
    ];
    warn(&flags, "");
}
