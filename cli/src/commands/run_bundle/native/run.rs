//! `rukpak run bundle`: creates a BundleInstance, or continues with one that an interrupted run created.

use anyhow::{anyhow, bail};
use catalog::compose::{ComposeMode, Index, history::History};
use kube::{ResourceExt as _, api::PostParams};
use manifests::api::{GROUP, bundle_instance::BundleInstance};

use super::{
    check, compose, instance,
    locate::{LocatedInstance, describe_namespace, locate},
    pull_access::PullAccess,
    upgrade::update_pull_access,
    wait, warn_ignored_flags,
};
use crate::{
    ExitStatus,
    args::{
        RunBundleArgs,
        install_mode::{InstallMode, Kind},
    },
    cluster::FIELD_MANAGER,
    commands::{
        run_bundle::{RunContext, command, images::PulledBundle},
        uninstall::platform_operator,
    },
    output,
    output::message,
};

pub(in crate::commands::run_bundle) async fn bundle(
    task: &RunContext<'_>,
    args: &RunBundleArgs,
    pulled: PulledBundle,
    index: Option<Index<'_>>,
) -> anyhow::Result<ExitStatus> {
    let registry = &args.registry;
    warn_ignored_flags(registry);
    watches_all(args.install_mode.as_ref())?;
    let package = pulled.bundle.package.clone();
    let name = pulled.bundle.name.clone();
    message::note(&format!(
        "Creating a File-Based Catalog of the bundle {:?}",
        args.image
    ));
    let mut history = History {
        index: index.as_ref().map(|index| index.name.to_owned()),
        ..History::default()
    };
    history.push(&pulled.pinned, registry.mode)?;
    compose(
        index,
        &package,
        ComposeMode::Run,
        vec![pulled.bundle.clone()],
    )?;
    let checked = check(task.cluster, &pulled, registry.namespace.as_deref());
    let deadline = task.deadline;
    deadline.read_cluster(checked).await?;
    let created = Box::pin(create(task, args, &pulled, &history));
    let instance = deadline
        .run_to_end("creating the BundleInstance", created)
        .await?;
    task.set_interrupt_message(format!(
        "BundleInstance {} is kept, and the installation continues; run the same command again to wait for it, or \
         remove it with {}",
        instance.name_any(),
        command(&format!("cleanup {package}"))
    ));
    if !wait(task, &instance, "Failed to run bundle", deadline).await? {
        return Ok(ExitStatus::Failed);
    }
    output::print(&format!("Successfully installed {name:?}\n"))?;
    Ok(ExitStatus::Done)
}

/// Rejects install modes other than `AllNamespaces`: an operator that is installed without OLM watches all namespaces.
fn watches_all(mode: Option<&InstallMode>) -> anyhow::Result<()> {
    match mode {
        Some(mode) if mode.kind != Kind::All => bail!(
            "install mode {:?} requires OLM; without OLM, operators watch all namespaces; remove --install-mode",
            mode.kind.name()
        ),
        _ => Ok(()),
    }
}

/// Creates the BundleInstance, unless an identical one exists.
async fn create(
    task: &RunContext<'_>,
    args: &RunBundleArgs,
    pulled: &PulledBundle,
    history: &History,
) -> anyhow::Result<BundleInstance> {
    let cluster = task.cluster;
    let package = &pulled.bundle.package;
    let namespace = args.registry.namespace.as_deref();
    let found = match locate(cluster, package, namespace).await? {
        LocatedInstance::InNamespace(found) | LocatedInstance::OtherNamespace(found) => {
            Some(*found)
        }
        LocatedInstance::None => cluster.get_instance_opt(package).await?,
    };
    let access = PullAccess::read(cluster, &args.registry).await?;
    if let Some(found) = found {
        if is_same_bundle(&found, pulled, history, namespace) {
            let name = found.name_any();
            message::note(&format!(
                "bundleinstance.{GROUP}/{name} already exists with this bundle"
            ));
            return update_pull_access(task, &access, found).await;
        }
        return Err(already_exists(&found, package, namespace, &args.image));
    }
    let object = instance::new(&access, namespace, pulled, history);
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let object: BundleInstance = serde_json::from_value(object)?;
    task.set_interrupt_message(format!(
        "BundleInstance {package} may have been created; run the same command again"
    ));
    let created = cluster.instances().create(&params, &object).await;
    let created = created.map_err(|error| {
        cluster.explain(format!("failed to create BundleInstance {package}"), error)
    })?;
    message::note(&format!("bundleinstance.{GROUP}/{package} created"));
    Ok(created)
}

/// Reports whether an earlier run created this instance from the same bundle and index, and for the requested namespace, if
/// any.
fn is_same_bundle(
    found: &BundleInstance,
    pulled: &PulledBundle,
    history: &History,
    namespace: Option<&str>,
) -> bool {
    let is_requested =
        instance::requested_image(found).is_ok_and(|image| image.reference == pulled.pinned);
    let annotations = History::read(found.annotations());
    let install_namespace =
        instance::install_namespace(found).unwrap_or(&pulled.facts.install_namespace);
    is_requested
        && annotations.is_ok_and(|recorded| recorded == *history)
        && namespace.is_none_or(|requested| requested == install_namespace)
        && found.metadata.deletion_timestamp.is_none()
}

fn already_exists(
    found: &BundleInstance,
    package: &str,
    namespace: Option<&str>,
    image: &str,
) -> anyhow::Error {
    let name = found.name_any();
    if found.metadata.deletion_timestamp.is_some() {
        return anyhow!("BundleInstance {name} is terminating; retry after it is deleted");
    }
    if let Some(operator) = platform_operator(found) {
        return anyhow!(
            "BundleInstance {name} of package {package:?} belongs to PlatformOperator {operator}, which controls its \
             version; change the PlatformOperator, or delete it with \"kubectl delete platformoperator {operator}\""
        );
    }
    if !instance::is_of(found, package) {
        return anyhow!(
            "BundleInstance {name} already exists and does not belong to package {package:?}; if it is unused, remove it \
             with {}",
            command(&format!("uninstall {name}"))
        );
    }
    if let Some((namespace, install_namespace)) = namespace.zip(instance::install_namespace(found))
        && namespace != install_namespace
    {
        return anyhow!(
            "{} and watches all namespaces, so it cannot be installed in {namespace} as well; remove --namespace, or first \
             remove it with {}",
            describe_namespace(found),
            command(&format!(
                "cleanup {package} --namespace {install_namespace}"
            ))
        );
    }
    anyhow!(
        "BundleInstance {name} of package {package:?} already exists; upgrade it with {}, or remove it with {}",
        command(&format!("run bundle-upgrade {image}")),
        command(&format!("cleanup {package}"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-3
    #[test]
    fn without_olm_operators_watch_all_namespaces() {
        let check = |mode: &str| watches_all(Some(&mode.parse().unwrap()));
        assert!(watches_all(None).is_ok() && check("AllNamespaces").is_ok());
        for mode in ["OwnNamespace", "SingleNamespace=a", "MultiNamespace=a,b"] {
            ::tests::assert_has(check(mode).unwrap_err(), "requires OLM");
        }
    }
}
