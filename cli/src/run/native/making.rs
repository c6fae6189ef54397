//! `rukpak run bundle`: a BundleInstance that is new, or one that an interrupted run has made.

use anyhow::{anyhow, bail};
use catalog::inject::{Form, Index, history::History};
use kube::{ResourceExt as _, api::PostParams};
use manifests::api::{GROUP, instance::BundleInstance};

use super::{
    access::Access,
    check, compose, object,
    place::{Located, locate, tells},
    tell_meaningless,
    upgrading::correct,
    wait,
};
use crate::{
    Exit,
    args::RunBundleArgs,
    cluster::MANAGER,
    message, output,
    run::{
        Task, command,
        install_mode::{InstallMode, Kind},
        pulling::Pulled,
    },
    uninstalling::maker,
};

pub(in crate::run) async fn bundle(
    task: &Task<'_>,
    args: &RunBundleArgs,
    pulled: Pulled,
    index: Option<Index<'_>>,
) -> anyhow::Result<Exit> {
    let registry = &args.registry;
    tell_meaningless(registry);
    watches_all(args.install_mode.as_ref())?;
    let package = pulled.bundle.package.clone();
    let name = pulled.bundle.name.clone();
    message::note(&format!(
        "Creating a File-Based Catalog of the bundle {:?}",
        args.image
    ));
    let mut history = History {
        index: index.as_ref().map(|it| it.name.to_owned()),
        ..History::default()
    };
    history.push(&pulled.pinned, registry.mode)?;
    compose(index, &package, Form::Run, vec![pulled.bundle.clone()])?;
    let checked = check(task.cluster, &pulled, registry.namespace.as_deref());
    let deadline = task.deadline;
    deadline.keep("looking at the cluster", checked).await?;
    let created = Box::pin(create(task, args, &pulled, &history));
    let instance = deadline
        .keep("creating the BundleInstance", created)
        .await?;
    task.leaves(format!(
        "BundleInstance {package} stays, and its installation goes on: run the same command again to wait for it, or {}",
        command(&format!("cleanup {package}"))
    ));
    if !wait(task, &instance, "Failed to run bundle", deadline).await? {
        return Ok(Exit::Failed);
    }
    output::print(&format!("Successfully installed {name:?}\n"))?;
    Ok(Exit::Done)
}

/// What is installed without OLM watches everything.
fn watches_all(mode: Option<&InstallMode>) -> anyhow::Result<()> {
    match mode {
        Some(mode) if mode.kind != Kind::All => bail!(
            "install mode {:?} needs OLM; without it operators watch all namespaces: leave out --install-mode",
            mode.kind.name()
        ),
        _ => Ok(()),
    }
}

/// Makes the BundleInstance, unless it is there just so.
async fn create(
    task: &Task<'_>,
    args: &RunBundleArgs,
    pulled: &Pulled,
    history: &History,
) -> anyhow::Result<BundleInstance> {
    let cluster = task.cluster;
    let package = &pulled.bundle.package;
    let namespace = args.registry.namespace.as_deref();
    let found = match locate(cluster, package, namespace).await? {
        Located::Here(found) | Located::Elsewhere(found) => Some(*found),
        Located::Nothing => cluster.find_instance(package).await?,
    };
    let access = Access::read(cluster, &args.registry).await?;
    if let Some(found) = found {
        if is_same(&found, pulled, history, namespace) {
            let name = found.name_any();
            message::note(&format!(
                "bundleinstance.{GROUP}/{name} is there already, of this bundle"
            ));
            return correct(cluster, &access, found).await;
        }
        return Err(in_the_way(&found, package, namespace, &args.image));
    }
    let object = object::new(&access, namespace, pulled, history);
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let object: BundleInstance = serde_json::from_value(object)?;
    task.leaves(format!(
        "BundleInstance {package} may have been made: run the same command again"
    ));
    let created = cluster.instances().create(&params, &object).await;
    let created = created.map_err(|error| {
        cluster.trouble(format!("failed to create BundleInstance {package}"), error)
    })?;
    message::note(&format!("bundleinstance.{GROUP}/{package} created"));
    Ok(created)
}

/// Whether this is what an earlier run has made of the same bundle and index, for the same namespace if one was asked for.
fn is_same(
    found: &BundleInstance,
    pulled: &Pulled,
    history: &History,
    namespace: Option<&str>,
) -> bool {
    let is_wanted = object::wanted(found).is_ok_and(|it| it.reference == pulled.pinned);
    let annotations = History::read(found.annotations());
    let is_in = object::is_in(found).unwrap_or(&pulled.facts.install_namespace);
    is_wanted
        && annotations.is_ok_and(|it| it == *history)
        && namespace.is_none_or(|it| it == is_in)
        && found.metadata.deletion_timestamp.is_none()
}

fn in_the_way(
    found: &BundleInstance,
    package: &str,
    namespace: Option<&str>,
    image: &str,
) -> anyhow::Error {
    let name = found.name_any();
    if found.metadata.deletion_timestamp.is_some() {
        return anyhow!("BundleInstance {name} is being deleted; try again when it is gone");
    }
    if let Some(operator) = maker(found) {
        return anyhow!(
            "BundleInstance {name} of package {package:?} belongs to PlatformOperator {operator}, which decides about its \
             version; change that, or remove it with \"kubectl delete platformoperator {operator}\""
        );
    }
    if !object::is_of(found, package) {
        return anyhow!(
            "BundleInstance {name} exists already, and is not of package {package:?}; remove it with {} if nobody needs it",
            command(&format!("uninstall {name}"))
        );
    }
    if let Some((namespace, is_in)) = namespace.zip(object::is_in(found))
        && namespace != is_in
    {
        return anyhow!(
            "{}, and watches all namespaces, so that it cannot be in {namespace} as well; leave out --namespace, or remove it with \
             {} first",
            tells(found),
            command(&format!("cleanup {package} --namespace {is_in}"))
        );
    }
    anyhow!(
        "BundleInstance {name} of package {package:?} exists already; upgrade it with {}, or remove it with {}",
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
        assert!(watches_all(None).is_ok());
        assert!(check("AllNamespaces").is_ok());
        for mode in ["OwnNamespace", "SingleNamespace=a", "MultiNamespace=a,b"] {
            let told = check(mode).unwrap_err().to_string();
            assert!(told.contains("needs OLM"), "{told}");
        }
    }
}
