//! `rukpak run bundle` with OLM: creates a catalog with the bundle, and a Subscription to it.

use anyhow::{Context, bail};
use catalog::compose::{self, CHANNEL, ChannelRef, ComposeMode, Index, history::History};
use kube::ResourceExt as _;
use manifests::api::{
    catalog_source::CatalogSource,
    olm::{OperatorGroup, Subscription},
};

use super::{
    api::Olm,
    check,
    config_map_parts::Parts,
    namespace, objects,
    operator_group::{self, GroupDecision},
    owner,
    progress::PriorFailures,
    registry, split_catalog, wait, warn_ignored_flags,
};
use crate::{
    ExitStatus,
    args::{
        RunBundleArgs, SecurityContext,
        install_mode::{self, InstallMode},
    },
    commands::run_bundle::{RunContext, command, images::PulledBundle},
    output,
    output::message,
};

pub(in crate::commands::run_bundle) async fn bundle(
    task: &RunContext<'_>,
    args: &RunBundleArgs,
    pulled: PulledBundle,
    index: Option<Index<'_>>,
) -> anyhow::Result<ExitStatus> {
    let (olm, deadline, flags) = (Olm(task.cluster), task.deadline, &args.registry);
    warn_ignored_flags(flags);
    let namespace = namespace(task.cluster, flags.namespace.as_deref());
    let (package, name) = (pulled.bundle.package.clone(), pulled.bundle.name.clone());
    let image = pulled.requested_reference.clone();
    let modes = pulled.facts.install_modes.clone();
    let pinned = pulled.pinned.clone();
    let mut history = History {
        index: index.as_ref().map(|index| index.name.to_owned()),
        injected: Vec::new(),
    };
    history.push(&pulled.pinned, flags.mode)?;
    let request = RunRequest {
        package: &package,
        csv: &name,
        history: &history,
    };
    let lookup = async {
        let is_openshift = check(task.cluster, &pulled).await?;
        let existing = read_state(olm, namespace, request, args).await?;
        Ok((is_openshift, existing))
    };
    let (is_openshift, existing) = deadline.read_cluster(lookup).await?;
    let group_request = operator_group::GroupRequest {
        csv: &name,
        namespace,
        supported: &modes,
        mode: args.install_mode.as_ref(),
    };
    let decision = decide(olm, group_request);
    let decision = deadline.read_cluster(decision).await?;
    if let Some(text) = mode_warning(args.install_mode.as_ref()) {
        message::warning(text);
    }

    message::note(&format!(
        "Creating a File-Based Catalog of the bundle {image:?}"
    ));
    let parts = compose(index, &package, pulled.bundle)?;
    let security = flags
        .security_context_config
        .unwrap_or(SecurityContext::Legacy);
    let secret = flags.pull_secret_name.as_deref();
    task.set_interrupt_message(format!(
        "the objects created for package {package:?} are kept; run the same command again to continue, or remove them with \
         {}",
        command(&format!("cleanup {package} --namespace {namespace}"))
    ));
    let source = if let Some(source) = existing.source {
        source
    } else {
        let source = objects::source(namespace, &package, secret, security);
        let created = olm.create::<CatalogSource>(source);
        let created = deadline.run_to_end("creating the CatalogSource", created);
        created.await.context("create catalog")?
    };
    let owner = owner(&source)?;
    let request = super::pod_request(flags, is_openshift, namespace, &owner, &image);
    let served = registry::serve(task, &request, &parts)
        .await
        .context("create catalog")?;
    registry::update_source(task, namespace, &source, &served, &history, secret).await?;
    message::note(&format!("Created CatalogSource: {}", owner.name));
    registry::remove_old(task, namespace, &source, &owner, &served).await;
    wait::wait_connected(task, namespace, &owner.name, &served.address).await?;

    if let GroupDecision::Create(targets) = decision {
        let object = objects::operator_group(namespace, &targets);
        let created = olm.create::<OperatorGroup>(object);
        let created = deadline.run_to_end("creating the OperatorGroup", created);
        created.await?;
        message::note(&format!("OperatorGroup {:?} created", operator_group::NAME));
    }
    let subscription = if let Some(name) = existing.subscription {
        name
    } else {
        let subscribed = subscribe(olm, namespace, &package, &name);
        let subscribed = deadline.run_to_end("creating the Subscription", subscribed);
        subscribed.await?
    };
    let target = wait::WaitTarget {
        namespace,
        subscription: &subscription,
        csv: &name,
        image: &pinned,
        source_namespace: namespace,
        before: &PriorFailures::default(),
    };
    wait::wait_installed(task, target).await?;
    output::print(&format!("OLM has successfully installed {name:?}\n"))?;
    Ok(ExitStatus::Done)
}

/// Builds the catalog with the bundle, in parts that fit into ConfigMaps.
fn compose(
    index: Option<Index<'_>>,
    package: &str,
    bundle: compose::Bundle,
) -> anyhow::Result<Parts> {
    let place = ChannelRef {
        package,
        channel: CHANNEL,
    };
    let limits = catalog::Limits::default();
    let composed = compose::compose(index, place, ComposeMode::Run, vec![bundle], &limits);
    split_catalog(&composed.context("error creating the File-Based Catalog")?)
}

/// Returns the warning about an install mode, with operator-sdk's message.
fn mode_warning(mode: Option<&InstallMode>) -> Option<&'static str> {
    mode.is_some_and(|mode| mode.kind == install_mode::Kind::Multi).then_some(
        "The selected install mode MultiNamespace may cause tenancy issues and is not recommended",
    )
}

/// Creates the Subscription, and returns its name.
async fn subscribe(
    olm: Olm<'_>,
    namespace: &str,
    package: &str,
    csv: &str,
) -> anyhow::Result<String> {
    let object = objects::subscription(namespace, package, CHANNEL, csv);
    let created = olm.create::<Subscription>(object).await;
    created.context("error creating subscription")?;
    let name = objects::subscription_name(csv);
    message::note(&format!("Created Subscription: {name}"));
    Ok(name)
}

/// Decides about the OperatorGroup, given the existing ones of the namespace.
async fn decide(
    olm: Olm<'_>,
    request: operator_group::GroupRequest<'_>,
) -> anyhow::Result<GroupDecision> {
    let groups: Vec<OperatorGroup> = olm.list(request.namespace).await?;
    Ok(operator_group::decide(request, &groups)?)
}

/// Bundle to be installed.
#[derive(Debug, Clone, Copy)]
struct RunRequest<'a> {
    package: &'a str,
    csv: &'a str,
    history: &'a History,
}

/// Objects that an earlier run of the same command created.
struct ExistingObjects {
    source: Option<CatalogSource>,
    subscription: Option<String>,
}

/// Reads the existing objects, and rejects those that conflict with the request.
async fn read_state(
    olm: Olm<'_>,
    namespace: &str,
    request: RunRequest<'_>,
    args: &RunBundleArgs,
) -> anyhow::Result<ExistingObjects> {
    let package = request.package;
    let subscriptions: Vec<Subscription> = olm.list(namespace).await?;
    let is_own = |subscription: &Subscription| subscription.spec.name == package;
    let subscription = subscriptions.into_iter().find(is_own);
    let name = objects::source_name(package);
    let source: Option<CatalogSource> = olm.find(namespace, &name).await?;
    if let Some(source) = &source {
        if !objects::is_made_for(source, package) {
            bail!(
                "CatalogSource {name} already exists in namespace {namespace} and was not created by \"run bundle\"; use \
                 another --namespace"
            );
        }
        if source.metadata.deletion_timestamp.is_some() {
            bail!("CatalogSource {name} is terminating; retry after it is deleted");
        }
    }
    if let Some(conflict) = conflicting_object(request, subscription.as_ref(), source.as_ref())? {
        bail!(
            "package {package:?} already has {conflict} in namespace {namespace}; upgrade it with {}, or remove it with {}",
            command(&format!(
                "run bundle-upgrade {} --namespace {namespace}",
                args.image
            )),
            command(&format!("cleanup {package} --namespace {namespace}"))
        );
    }
    let subscription = subscription.map(|subscription| subscription.name_any());
    if let Some(name) = &subscription {
        message::note(&format!(
            "Subscription {name} already exists with this bundle"
        ));
    }
    if source.is_some() {
        message::note(&format!(
            "CatalogSource {name} already exists and is reused"
        ));
    }
    Ok(ExistingObjects {
        source,
        subscription,
    })
}

/// Returns the object that conflicts with the request because no earlier run of the same command created it: a Subscription
/// to another version, or to one that was upgraded since, or a CatalogSource with other bundles.
fn conflicting_object(
    request: RunRequest<'_>,
    subscription: Option<&Subscription>,
    source: Option<&CatalogSource>,
) -> anyhow::Result<Option<String>> {
    let RunRequest { package, csv, .. } = request;
    if let Some(subscription) = subscription {
        let (name, spec) = (subscription.name(), &subscription.spec);
        let is_same = name == objects::subscription_name(csv)
            && spec.starting_csv == csv
            && spec.source == objects::source_name(package);
        if !is_same {
            return Ok(Some(format!("Subscription {name}")));
        }
        let installed = &subscription.status.installed_csv;
        if !installed.is_empty() && installed != csv {
            return Ok(Some(format!(
                "Subscription {name} (installed: {installed})"
            )));
        }
    }
    if let Some(source) = source {
        let recorded = History::read(source.annotations())?;
        if recorded != History::default() && recorded != *request.history {
            let name = objects::source_name(package);
            return Ok(Some(format!("CatalogSource {name} with other bundles")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-4
    #[test]
    fn multi_namespace_mode_causes_a_warning() {
        let warns = |mode: &str| mode_warning(Some(&mode.parse().unwrap())).is_some();
        ::tests::assert_rows! {
            mode_warning(None).is_some() => false;
            warns("AllNamespaces") => false;
            warns("SingleNamespace=a") => false;
            warns("MultiNamespace=a,b") => true;
        }
    }

    // parity: sdk-30
    #[test]
    fn only_objects_of_the_same_command_are_reused() {
        let push = |mut history: History, image: &str| {
            history.push(image, None).unwrap();
            history
        };
        let first = push(History::default(), "a.io/tide:1");
        let both = push(first.clone(), "a.io/tide:2");
        let request = RunRequest {
            package: "tide",
            csv: "tide.v1",
            history: &first,
        };
        let subscription = |csv: &str, installed: &str| -> Option<Subscription> {
            object!({
                "metadata": {"name": objects::subscription_name(csv)},
                "spec": {"name": "tide", "startingCSV": csv, "source": "tide-catalog"},
                "status": {"installedCSV": installed},
            })
        };
        let source = |history: &History| -> Option<CatalogSource> {
            object!({"metadata": {"annotations": history.to_annotations()}, "spec": {}})
        };
        let bare: Option<CatalogSource> =
            object!({"metadata": {"name": "tide-catalog"}, "spec": {}});
        let index = ::tests::with!(first.clone() => index: Some("a.io/index:1".to_owned()));
        for (subscription, source, expected) in ::tests::rows![
            None, None => None;
            None, bare.clone() => None;
            None, source(&first) => None;
            subscription("tide.v1", ""), source(&first) => None;
            subscription("tide.v1", "tide.v1"), source(&first) => None;
            // The CatalogSource was deleted by another client.
            subscription("tide.v1", "tide.v1"), None => None;
            subscription("tide.v1", "tide.v1"), bare.clone() => None;
            subscription("tide.v2", ""), None => Some("Subscription tide-v2-sub");
            // The operator was upgraded or is being upgraded.
            subscription("tide.v1", "tide.v2"), source(&both) => Some("Subscription tide-v1-sub (installed: tide.v2)");
            subscription("tide.v1", "tide.v2"), None => Some("Subscription tide-v1-sub (installed: tide.v2)");
            subscription("tide.v1", "tide.v1"), source(&both) => Some("CatalogSource tide-catalog with other bundles");
            None, source(&index) => Some("CatalogSource tide-catalog with other bundles");
        ] {
            let found = conflicting_object(request, subscription.as_ref(), source.as_ref());
            ::tests::assert_rows!(found.unwrap().as_deref() => expected, "{subscription:?} {source:?}");
        }
        let annotations = serde_json::json!({compose::history::INJECTED_BUNDLES: "[{"});
        let damaged = object!({"metadata": {"annotations": annotations}, "spec": {}});
        assert!(conflicting_object(request, None, Some(&damaged)).is_err());
    }
}
