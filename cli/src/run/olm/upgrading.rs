//! `rukpak run bundle-upgrade`: another catalog for the CatalogSource that a Subscription names.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow, bail};
use catalog::inject::{
    self, Bundle, CHANNEL, Composed, Form, Place,
    history::{INJECTED_BUNDLES, Injected, REGISTRY_POD},
};
use manifests::object::text;
use serde_json::Value;
use unpacker::source::Image;

use super::{
    api::{Kind, Olm},
    approving, check, cut, installing, namespace, objects, owner,
    past::{self, Member, Standing},
    progress::{self, Earlier, Halt},
    replacing, serving, tell_meaningless,
    unpacking::{self, GivenUp},
};
use crate::{
    Exit,
    args::RunUpgradeArgs,
    message, output,
    run::{
        Task, index_of,
        pulling::{Pulled, Puller},
    },
};

/// How much is kept of the bundles of a history. One is a megabyte where OLM can unpack it.
const MOST_BYTES: usize = 1 << 30;

pub(in crate::run) async fn upgrade(
    task: &Task<'_>,
    args: &RunUpgradeArgs,
    puller: &Puller,
    pulled: Pulled,
) -> anyhow::Result<Exit> {
    let (olm, deadline, flags) = (Olm(task.cluster), task.deadline, &args.registry);
    if args.rollback_on_failure || args.force {
        bail!(
            "--rollback-on-failure and --force need the engine \"native\", for OLM goes to no version but the next; leave them out"
        );
    }
    tell_meaningless(flags);
    let namespace = namespace(task.cluster, flags.namespace.as_deref());
    let (package, csv) = (pulled.bundle.package.clone(), pulled.bundle.name.clone());
    let looking = async {
        let is_openshift = check(task.cluster, &pulled).await?;
        Ok((is_openshift, look(olm, namespace, (&package, &csv)).await?))
    };
    let (is_openshift, found) = deadline.keep("looking at the cluster", looking).await?;
    let mut history = past::history(&found.source)
        .with_context(|| format!("CatalogSource {}", found.source_name))?;
    let injected = std::mem::take(&mut history.injected);
    let members = earlier(puller, injected, &found.source_name).await?;
    past::check(&members, &package, &found.source_name)?;
    let (has_index, count) = (history.index.is_some(), members.len());
    let has_members = count > 0;
    let is_new = members.last().is_some_and(|it| it.csv == csv);
    let members = past::before(members, has_index, &found.standing, (&csv, &pulled.pinned))?;
    if members.len() + usize::from(is_new) < count {
        message::note(&format!(
            "Leaving out what OLM has given up after {:?}",
            found.standing.installed
        ));
    }
    let mut bundles: Vec<Bundle> = Vec::new();
    for member in members {
        // By its digest from now on, whoever has written a tag.
        let image_tag = member.pinned;
        history.injected.push(Injected {
            image_tag,
            ..member.injected
        });
        bundles.push(member.bundle);
    }
    bundles.push(pulled.bundle);
    let index = index_of(puller, &history, flags.mode).await?;
    // OLM takes the default channel as well where none is named.
    let default = index.as_ref().and_then(|it| it.default_channel(&package));
    let channel = found.channel.clone().or(default);
    let channel = channel.unwrap_or_else(|| CHANNEL.to_owned());
    let place = Place {
        package: &package,
        channel: &channel,
    };
    let limits = catalog::Limits::default();
    let composed = inject::compose(index, place, Form::Upgrade, bundles, &limits);
    let composed = composed.context("error in upgrading FBC")?;
    leads(&composed, &found, &package, &csv, has_members)?;
    let parts = cut(&composed)?;
    history.push(&pulled.pinned, flags.mode)?;

    let owner = owner(&found.source)?;
    let wanted = super::wanted(
        flags,
        is_openshift,
        &found.source_namespace,
        &owner,
        &pulled.named,
    );
    task.leaves(format!(
        "the operator that runs was left alone: run the same command again to go on with the upgrade to {csv:?}"
    ));
    let served = serving::serve(task, &wanted, &parts).await?;
    let secret = flags.pull_secret_name.as_deref();
    let space = &found.source_namespace;
    serving::point(task, space, &found.source, &served, &history, secret).await?;
    if let Some(text) = &found.frozen {
        message::warning(text);
    }
    task.leaves(format!(
        "the catalog has {csv:?} now: run the same command again to wait for OLM, and to have it approved"
    ));
    message::note(&format!(
        "Updated catalog source {} with address and annotations",
        owner.name
    ));
    let pod = text(&found.source, &["metadata", "annotations", REGISTRY_POD]);
    serving::forget(task, space, &owner, pod, &served).await;
    installing::connected(task, space, &owner.name, &served.address).await?;
    let wanted = installing::Wanted {
        namespace,
        subscription: &found.subscription,
        csv: &csv,
        image: &pulled.pinned,
        source_namespace: space,
        before: &found.before,
    };
    installing::follow(task, wanted).await?;
    output::print(&format!("Successfully upgraded to {csv:?}\n"))?;
    Ok(Exit::Done)
}

/// Pulls what was run before.
async fn earlier(
    puller: &Puller,
    history: Vec<Injected>,
    source_name: &str,
) -> anyhow::Result<Vec<Member<Bundle>>> {
    let (mut members, mut kept) = (Vec::new(), 0);
    for injected in history {
        let image = Image::parse(&injected.image_tag).map_err(|error| anyhow!("{error}"))?;
        let pulled = puller.bundle(image).await.with_context(|| {
            format!(
                "{} of the history of CatalogSource {source_name} cannot be had; put it where it was, or correct the annotation \
                 {INJECTED_BUNDLES}",
                injected.image_tag
            )
        })?;
        kept = with(kept, pulled.bundle.size())
            .with_context(|| format!("the history of CatalogSource {source_name}"))?;
        members.push(Member {
            csv: pulled.bundle.name.clone(),
            package: pulled.bundle.package.clone(),
            pinned: pulled.pinned,
            injected,
            bundle: pulled.bundle,
        });
    }
    Ok(members)
}

/// How much is kept of a history with one bundle more: each may be small, and all of them too large for this machine.
fn with(kept: usize, bundle: usize) -> anyhow::Result<usize> {
    let kept = kept.saturating_add(bundle);
    if kept > MOST_BYTES {
        bail!(
            "its bundles have more than {} MiB together; correct the annotation {INJECTED_BUNDLES}, or put them into a catalog, \
             and name that with --index-image when the bundle is run anew",
            MOST_BYTES >> 20
        );
    }
    Ok(kept)
}

/// What is installed, and from where.
struct Installed {
    subscription: String,
    /// Nothing where the package's default is meant.
    channel: Option<String>,
    source: Value,
    source_name: String,
    source_namespace: String,
    /// What others have to know of the CatalogSource.
    frozen: Option<String>,
    standing: Standing,
    before: Earlier,
}

/// Refuses a catalog by which OLM would never get to a version.
fn leads(
    composed: &Composed,
    found: &Installed,
    package: &str,
    csv: &str,
    has_members: bool,
) -> anyhow::Result<()> {
    let installed = &found.standing.installed;
    let channels = composed.catalog.packages.get(package);
    let channels = channels.into_iter().flat_map(|it| it.channels.values());
    let is_meant = |name: &str| found.channel.as_deref().is_none_or(|it| it == name);
    let entries = channels
        .filter(|it| is_meant(&it.name))
        .flat_map(|it| &it.entries);
    if installed.is_empty() || past::leads(entries, installed, csv) {
        return Ok(());
    }
    let remedy = if has_members {
        format!(
            "correct the annotation {INJECTED_BUNDLES} of CatalogSource {}: it has the images of the bundles that were run, \
             oldest first, and that of {installed:?} among them",
            found.source_name
        )
    } else {
        format!(
            "have Subscription {} name a channel in which {installed:?} is",
            found.subscription
        )
    };
    bail!(
        "OLM has installed {installed:?}, and would never get from there to {csv:?} in the channel of Subscription {}; {remedy}; \
         nothing was changed",
        found.subscription
    )
}

async fn look(
    olm: Olm<'_>,
    namespace: &str,
    (package, csv): (&str, &str),
) -> anyhow::Result<Installed> {
    let subscriptions = olm.list(Kind::Subscription, namespace).await?;
    if subscriptions.is_empty() {
        bail!(
            "no existing operator found in the cluster to upgrade: there is no Subscription in namespace {namespace}; name the \
             operator's own with --namespace"
        );
    }
    let mut of_package = subscriptions
        .iter()
        .filter(|it| text(it, &["spec", "name"]) == Some(package));
    let Some(subscription) = of_package.next() else {
        bail!("subscription for package {package:?} not found in namespace {namespace}");
    };
    let spec = |key| text(subscription, &["spec", key]).filter(|it| !it.is_empty());
    let name = text(subscription, &["metadata", "name"])
        .unwrap_or_default()
        .to_owned();
    message::note(&format!(
        "Found existing subscription with name {name} and namespace {namespace}"
    ));
    let source_name = spec("source").unwrap_or_default().to_owned();
    let source_namespace = spec("sourceNamespace").unwrap_or(namespace).to_owned();
    let source = olm
        .find(Kind::CatalogSource, &source_namespace, &source_name)
        .await?;
    let Some(source) = source else {
        bail!(
            "error getting catalog source matching the existing subscription: there is no CatalogSource {source_name} in \
             namespace {source_namespace}"
        );
    };
    let frozen = if text(&source, &["spec", "image"]).is_some_and(|it| !it.is_empty()) {
        let all = olm.everywhere(Kind::Subscription, |it| it).await?;
        let all = all.as_ref().unwrap_or(&subscriptions);
        objects::frozen(&source, namespace, subscription, all)
    } else {
        None
    };
    let plans = olm.list(Kind::InstallPlan, namespace).await?;
    let named = progress::plan_of(subscription);
    let plan = plans
        .iter()
        .find(|it| text(it, &["metadata", "name"]) == named && named.is_some());
    let status = |key| text(subscription, &["status", key]).unwrap_or_default();
    let groups = olm.list(Kind::OperatorGroup, namespace).await?;
    let halt = Halt {
        target: csv,
        subscription,
        plan,
        has_current: installing::has_current(olm, namespace, subscription).await?,
        all: &subscriptions,
        groups: &groups,
    };
    if let Some(why) = halt.stuck() {
        bail!("OLM does not go on with Subscription {name}: {why}; nothing was changed");
    }
    let target = olm
        .find(Kind::ClusterServiceVersion, namespace, csv)
        .await?;
    let former = replacing::former(olm, namespace, (csv, target.as_ref()), subscription).await?;
    if let Some(why) = former.and_then(|it| it.stuck(subscription)) {
        bail!("{why}; nothing was changed");
    }
    let before = progress::before(subscription, plan);
    let not_unpacked = if before.unpacking.is_some() {
        let failed = unpacking::failed(olm.0, &source_namespace).await?;
        progress::given_up(subscription, &groups, failed)
    } else {
        GivenUp::Nothing
    };
    let failed = plans
        .iter()
        .filter(|it| text(it, &["status", "phase"]) == Some("Failed"));
    let failed: BTreeSet<String> = failed
        .flat_map(approving::csvs)
        .map(str::to_owned)
        .collect();
    Ok(Installed {
        subscription: name,
        channel: spec("channel").map(str::to_owned),
        standing: Standing {
            installed: status("installedCSV").to_owned(),
            current: status("currentCSV").to_owned(),
            has_given_up: halt.has_given_up(),
            not_unpacked,
            failed,
        },
        before,
        source,
        source_name,
        source_namespace,
        frozen,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_takes_too_much_is_refused() {
        ::tests::assert_rows! {
            with(0, 1 << 20).ok() => Some(1 << 20);
            with(MOST_BYTES - 1, 1).ok() => Some(MOST_BYTES);
            with(MOST_BYTES, 1).ok() => None;
            with(1, usize::MAX).ok() => None;
        }
    }
}
