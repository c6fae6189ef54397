//! `rukpak run bundle-upgrade` with OLM: replaces the catalog of the CatalogSource that a Subscription names.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow, bail};
use catalog::compose::{
    self, Bundle, CHANNEL, ChannelRef, ComposeMode, ComposedCatalog,
    history::{INJECTED_BUNDLES, InjectedBundle},
};
use manifests::api::{
    catalog_source::CatalogSource,
    olm::{ClusterServiceVersion, InstallPlan, Subscription},
};
use unpacker::source::Image;

use super::{
    api::Olm,
    check,
    history::{self, HistoryEntry, InstallState},
    namespace, objects, owner,
    progress::{PriorFailures, StallCheck},
    registry, replacement, split_catalog,
    unpack_failures::UnpackFailures,
    wait, warn_ignored_flags,
};
use crate::{
    ExitStatus,
    args::RunUpgradeArgs,
    commands::run_bundle::{
        RunContext,
        images::{ImagePuller, PulledBundle},
        index_of,
    },
    output,
    output::message,
};

/// Maximum size of all bundles of a history together, in bytes. A bundle that OLM can unpack has at most a megabyte.
const MAX_HISTORY_BYTES: usize = 1 << 30;

pub(in crate::commands::run_bundle) async fn upgrade(
    task: &RunContext<'_>,
    args: &RunUpgradeArgs,
    puller: &ImagePuller,
    pulled: PulledBundle,
) -> anyhow::Result<ExitStatus> {
    let (olm, deadline, flags) = (Olm(task.cluster), task.deadline, &args.registry);
    if args.rollback_on_failure || args.force {
        bail!(
            "--rollback-on-failure and --force require engine \"native\" because OLM only upgrades to the next version; \
             remove them"
        );
    }
    warn_ignored_flags(flags);
    let namespace = namespace(task.cluster, flags.namespace.as_deref());
    let (package, csv) = (pulled.bundle.package.clone(), pulled.bundle.name.clone());
    let lookup = async {
        let is_openshift = check(task.cluster, &pulled).await?;
        let found = read_state(olm, namespace, (&package, &csv)).await?;
        Ok((is_openshift, found))
    };
    let (is_openshift, found) = Box::pin(deadline.read_cluster(lookup)).await?;
    let mut history = history::history(&found.source)
        .with_context(|| format!("CatalogSource {}", found.source_name))?;
    let injected = std::mem::take(&mut history.injected);
    let members = pull_history(puller, injected, &found.source_name).await?;
    history::check(&members, &package, &found.source_name)?;
    let (has_index, count) = (history.index.is_some(), members.len());
    let has_members = count > 0;
    let is_new = members.last().is_some_and(|entry| entry.csv == csv);
    let members =
        history::predecessors(members, has_index, &found.standing, (&csv, &pulled.pinned))?;
    if members.len() + usize::from(is_new) < count {
        message::note(&format!(
            "Skipping versions after {:?} that OLM failed to install",
            found.standing.installed
        ));
    }
    let mut bundles: Vec<Bundle> = Vec::new();
    for member in members {
        // The history records the digest, even if another client wrote a tag.
        let image_tag = member.pinned;
        history.injected.push(InjectedBundle {
            image_tag,
            ..member.injected
        });
        bundles.push(member.bundle);
    }
    bundles.push(pulled.bundle);
    let index = index_of(puller, &history, flags.mode).await?;
    // OLM uses the default channel as well if the Subscription names none.
    let default = index.as_ref();
    let default = default.and_then(|index| index.default_channel(&package));
    let channel = found.channel.clone().or(default);
    let channel = channel.unwrap_or_else(|| CHANNEL.to_owned());
    let place = ChannelRef {
        package: &package,
        channel: &channel,
    };
    let limits = catalog::Limits::default();
    let composed = compose::compose(index, place, ComposeMode::Upgrade, bundles, &limits);
    let composed = composed.context("error in upgrading FBC")?;
    ensure_reachable(&composed, &found, &package, &csv, has_members)?;
    let parts = split_catalog(&composed)?;
    history.push(&pulled.pinned, flags.mode)?;

    let owner = owner(&found.source)?;
    let request = super::pod_request(
        flags,
        is_openshift,
        &found.source_namespace,
        &owner,
        &pulled.requested_reference,
    );
    task.set_interrupt_message(format!(
        "the running operator was not changed; run the same command again to continue the upgrade to {csv:?}"
    ));
    let served = registry::serve(task, &request, &parts).await?;
    let secret = flags.pull_secret_name.as_deref();
    let space = &found.source_namespace;
    registry::update_source(task, space, &found.source, &served, &history, secret).await?;
    if let Some(text) = &found.image_frozen {
        message::warning(text);
    }
    task.set_interrupt_message(format!(
        "the catalog now contains {csv:?}; run the same command again to wait for OLM and to approve the upgrade"
    ));
    message::note(&format!(
        "Updated catalog source {} with address and annotations",
        owner.name
    ));
    registry::remove_old(task, space, &found.source, &owner, &served).await;
    wait::wait_connected(task, space, &owner.name, &served.address).await?;
    let target = wait::WaitTarget {
        namespace,
        subscription: &found.subscription,
        csv: &csv,
        image: &pulled.pinned,
        source_namespace: space,
        before: &found.before,
    };
    wait::wait_installed(task, target).await?;
    output::print(&format!("Successfully upgraded to {csv:?}\n"))?;
    Ok(ExitStatus::Done)
}

/// Pulls the bundles of the history.
async fn pull_history(
    puller: &ImagePuller,
    history: Vec<InjectedBundle>,
    source_name: &str,
) -> anyhow::Result<Vec<HistoryEntry<Bundle>>> {
    let (mut members, mut size) = (Vec::new(), 0);
    for injected in history {
        let image = Image::parse(&injected.image_tag).map_err(|error| anyhow!("{error}"))?;
        let pulled = puller.bundle(image).await.with_context(|| {
            format!(
                "failed to fetch {} of the history of CatalogSource {source_name}; restore the image, or correct annotation \
                 {INJECTED_BUNDLES}",
                injected.image_tag
            )
        })?;
        size = add_size(size, pulled.bundle.size())
            .with_context(|| format!("the history of CatalogSource {source_name}"))?;
        members.push(HistoryEntry {
            csv: pulled.bundle.name.clone(),
            package: pulled.bundle.package.clone(),
            pinned: pulled.pinned,
            injected,
            bundle: pulled.bundle,
        });
    }
    Ok(members)
}

/// Returns the size of a history with one more bundle. Each bundle may be small, and all of them together too large for
/// this machine.
fn add_size(size: usize, bundle: usize) -> anyhow::Result<usize> {
    let size = size.saturating_add(bundle);
    if size > MAX_HISTORY_BYTES {
        bail!(
            "its bundles exceed {} MiB in total; correct annotation {INJECTED_BUNDLES}, or add them to a catalog, and run \
             the bundle again with that catalog as --index-image",
            MAX_HISTORY_BYTES >> 20
        );
    }
    Ok(size)
}

/// Installed operator and its catalog.
struct InstalledState {
    subscription: String,
    /// Channel of the Subscription; `None` means the default channel of the package.
    channel: Option<String>,
    source: CatalogSource,
    source_name: String,
    source_namespace: String,
    /// Warning for other users of the CatalogSource.
    image_frozen: Option<String>,
    standing: InstallState,
    before: PriorFailures,
}

/// Rejects a catalog by which OLM would never reach a version.
fn ensure_reachable(
    composed: &ComposedCatalog,
    found: &InstalledState,
    package: &str,
    csv: &str,
    has_members: bool,
) -> anyhow::Result<()> {
    let installed = &found.standing.installed;
    let channels = composed.catalog.packages.get(package);
    let channels = channels
        .into_iter()
        .flat_map(|package| package.channels.values());
    let is_selected = |name: &str| {
        found
            .channel
            .as_deref()
            .is_none_or(|channel| channel == name)
    };
    let entries = channels
        .filter(|channel| is_selected(&channel.name))
        .flat_map(|channel| &channel.entries);
    if installed.is_empty() || history::is_reachable(entries, installed, csv) {
        return Ok(());
    }
    let remedy = if has_members {
        format!(
            "set annotation {INJECTED_BUNDLES} of CatalogSource {} to the images of the bundles that were run, oldest \
             first, including that of {installed:?}",
            found.source_name
        )
    } else {
        format!(
            "set the channel of Subscription {} to one that contains {installed:?}",
            found.subscription
        )
    };
    bail!(
        "OLM has installed {installed:?}, which has no upgrade path to {csv:?} in the channel of Subscription {}; {remedy}; \
         no changes were made",
        found.subscription
    )
}

async fn read_state(
    olm: Olm<'_>,
    namespace: &str,
    (package, csv): (&str, &str),
) -> anyhow::Result<InstalledState> {
    let subscriptions: Vec<Subscription> = olm.list(namespace).await?;
    if subscriptions.is_empty() {
        bail!(
            "no existing operator found in the cluster to upgrade: no Subscription in namespace {namespace}; set \
             --namespace to the namespace of the operator"
        );
    }
    let of_package = |subscription: &&Subscription| subscription.spec.name == package;
    let Some(subscription) = subscriptions.iter().find(of_package) else {
        bail!("subscription for package {package:?} not found in namespace {namespace}");
    };
    let (name, spec) = (subscription.name().to_owned(), subscription.spec.clone());
    message::note(&format!(
        "Found existing subscription with name {name} and namespace {namespace}"
    ));
    let source_name = spec.source;
    let source_namespace = match spec.source_namespace.as_str() {
        "" => namespace.to_owned(),
        _ => spec.source_namespace,
    };
    let source: Option<CatalogSource> = olm.find(&source_namespace, &source_name).await?;
    let Some(source) = source else {
        bail!(
            "error getting catalog source matching the existing subscription: CatalogSource {source_name} not found in \
             namespace {source_namespace}"
        );
    };
    let image_frozen = if objects::image(&source).is_some() {
        let all = olm.list_all_namespaces::<Subscription>().await?;
        let all = all.as_ref().unwrap_or(&subscriptions);
        objects::warn_image_frozen(&source, namespace, subscription, all)
    } else {
        None
    };
    let plans: Vec<InstallPlan> = olm.list(namespace).await?;
    let named = subscription.install_plan();
    let plan = plans.iter().find(|plan| Some(plan.name()) == named);
    let stall_check = StallCheck::read(olm, namespace, csv, subscription, plan).await?;
    if let Some(reason) = stall_check.stall_reason() {
        bail!("OLM does not continue with Subscription {name}: {reason}; no changes were made");
    }
    let target: Option<ClusterServiceVersion> = olm.find(namespace, csv).await?;
    let replaced_csv =
        replacement::replaced_csv(olm, namespace, (csv, target.as_ref()), subscription).await?;
    if let Some(reason) = replaced_csv.and_then(|csv| csv.stall_reason(subscription)) {
        bail!("{reason}; no changes were made");
    }
    let failed = plans.iter().filter(|plan| plan.has_failed());
    let failed: BTreeSet<String> = failed
        .flat_map(InstallPlan::csvs)
        .map(str::to_owned)
        .collect();
    let status = &subscription.status;
    Ok(InstalledState {
        subscription: name,
        channel: Some(spec.channel).filter(|channel| !channel.is_empty()),
        standing: InstallState {
            installed: status.installed_csv.clone(),
            current: status.current_csv.clone(),
            has_failed_for_good: stall_check.failure().is_some(),
            not_unpacked: UnpackFailures::read(olm, namespace, &source_namespace, subscription)
                .await?,
            failed,
        },
        before: PriorFailures::new(subscription, plan),
        source,
        source_name,
        source_namespace,
        image_frozen,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_history_is_rejected() {
        ::tests::assert_rows! {
            add_size(0, 1 << 20).ok() => Some(1 << 20);
            add_size(MAX_HISTORY_BYTES - 1, 1).ok() => Some(MAX_HISTORY_BYTES);
            add_size(MAX_HISTORY_BYTES, 1).ok() => None;
            add_size(1, usize::MAX).ok() => None;
        }
    }
}
