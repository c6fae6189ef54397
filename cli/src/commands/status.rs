//! `rukpak status`.

pub(crate) mod rollout;
mod summary;
mod tree;

use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::{ResourceExt as _, api::ListParams};
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus},
    labels,
};

use crate::{
    ExitStatus,
    args::{self, StatusArgs},
    cluster::{self, Cluster, live::inventory, watch},
    output,
    output::message,
};
pub(crate) use summary::{Summary, problem};

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitStatus> {
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| match &args.name {
            _ if args.watch => watch_instances(cluster, args.name.as_deref()).await,
            Some(name) => one(cluster, name, args).await,
            None => all(cluster, args).await,
        },
    )
}

async fn one(cluster: &Cluster, name: &str, args: &StatusArgs) -> anyhow::Result<ExitStatus> {
    let instance = cluster.instance(name).await?;
    let bundles = bundles_of(cluster, &instance).await?;
    let overflow = if args.all {
        let overflow = inventory::overflow_inventory(cluster, &instance).await?;
        overflow.into_iter().map(|listed| listed.identity).collect()
    } else {
        Vec::new()
    };
    let mut summary = Summary::new(&instance, &bundles, overflow, Timestamp::now());
    if let Some(rollout) = &mut summary.rollout
        && let Some(count) = rollout::count(cluster, &instance).await
    {
        rollout.add(count);
    }
    match output::described(&summary, args.output)? {
        Some(text) => output::print(&text)?,
        None => output::print_styled(&tree::tree(&summary, args.all))?,
    }
    Ok(ExitStatus::Done)
}

async fn all(cluster: &Cluster, args: &StatusArgs) -> anyhow::Result<ExitStatus> {
    let instances = cluster.instances();
    let mut summaries = Vec::new();
    let mut params = ListParams::default().limit(500);
    loop {
        let page = instances.list(&params).await;
        let page =
            page.map_err(|error| cluster.explain("failed to list BundleInstances", error))?;
        let some = page
            .items
            .iter()
            .map(|instance| Summary::new(instance, &[], Vec::new(), Timestamp::now()));
        summaries.extend(some);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    match output::described(&summaries, args.output)? {
        Some(text) => output::print(&text)?,
        None if summaries.is_empty() => {
            message::note(&format!(
                "no BundleInstances found; run \"{} install NAME BUNDLE\" to create one",
                args::name()
            ));
        }
        None => output::print(&tree::table(&summaries))?,
    }
    Ok(ExitStatus::Done)
}

/// Prints a line for each instance, and again when the line changes.
async fn watch_instances(cluster: &Cluster, name: Option<&str>) -> anyhow::Result<ExitStatus> {
    let mut printed = std::collections::HashMap::new();
    let changes = watch::changes(cluster, name);
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        let (line, key, exists) = match change? {
            watch::InstanceChange::Updated(instance) => {
                let key = instance.name_any();
                let summary = Summary::new(&instance, &[], Vec::new(), Timestamp::now());
                (tree::line(&summary), key, true)
            }
            watch::InstanceChange::Deleted(name) => (format!("{name}: not found\n"), name, false),
        };
        let before = printed.get(&key);
        if before == Some(&line) {
            continue;
        }
        if exists || before.is_some() {
            output::print(&line)?;
        } else {
            // Nothing changed: the instance did not exist when the command started.
            message::note(line.trim_end());
        }
        printed.insert(key, line);
    }
    Ok(ExitStatus::Done)
}

/// Returns the Bundles that the provisioner created for an instance, the newest first.
pub(crate) async fn bundles_of(
    cluster: &Cluster,
    instance: &BundleInstance,
) -> anyhow::Result<Vec<Bundle>> {
    let name = instance.name_any();
    let selector = format!(
        "{}=BundleInstance,{}={name}",
        labels::OWNER_KIND,
        labels::OWNER_NAME
    );
    let found = cluster
        .bundles()
        .list(&ListParams::default().labels(&selector))
        .await;
    let found = found
        .map_err(|error| cluster.explain(format!("failed to list Bundles of {name}"), error))?;
    let mut bundles: Vec<Bundle> = found
        .into_iter()
        .filter(|bundle| is_created_for(bundle, instance))
        .collect();
    bundles.sort_by_key(|bundle| {
        let created = bundle.metadata.creation_timestamp.as_ref();
        std::cmp::Reverse(created.map(|time| time.0))
    });
    Ok(bundles)
}

/// Reports whether the provisioner created a Bundle for an instance. Every client can copy owner references; the uid in
/// `status.bundles` is the proof. An older provisioner records no uid, so that its owner references are trusted.
fn is_created_for(bundle: &Bundle, instance: &BundleInstance) -> bool {
    let empty = BundleInstanceStatus::default();
    let status = instance.status.as_ref().unwrap_or(&empty);
    let is_older = status.bundles.is_empty()
        && status.installed.is_none()
        && status.installed_bundle_name.is_some();
    let mut created = status.bundles.iter();
    let mut owners = bundle.owner_references().iter();
    owners.any(|owner| instance.is_in(owner))
        && (is_older || created.any(|created| bundle.metadata.uid.as_ref() == Some(&created.uid)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn instance(status: &Value) -> BundleInstance {
        crate::testing::instance(&json!({"metadata": {"name": "a", "uid": "a"}, "status": status}))
    }

    fn bundle(api_version: &str, kind: &str, owner: &str) -> Bundle {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": "a-1", "uid": "1", "ownerReferences": [
                {"apiVersion": api_version, "kind": kind, "name": "a", "uid": owner}]},
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": {"type": "upload"}},
        }))
        .unwrap()
    }

    #[test]
    fn only_recorded_bundles_belong_to_an_instance() {
        let created = |uid: &str| json!([{"name": "a-1", "uid": uid, "templateHash": "0"}]);
        let installed = json!({"name": "a-1", "uid": "1", "contentDigest": "0"});
        let copy = || bundle("core.rukpak.io/v1alpha1", "BundleInstance", "a");
        ::tests::assert_each!(|status, bundle, expected| is_created_for(&bundle, &instance(&status)) => expected;
            json!({"bundles": created("1")}), copy() => true;
            json!({"bundles": created("2")}), copy() => false;
            json!({}), copy() => false;
            Value::Null, copy() => false;
            json!({"installedBundleName": "a-1"}), copy() => true;
            json!({"installedBundleName": "a-1", "bundles": created("2")}), copy() => false;
            json!({"installedBundleName": "a-1", "installed": installed}), copy() => false;
            json!({"bundles": created("1")}), bundle("core.rukpak.io/v1alpha1", "BundleInstance", "b") => false;
            json!({"bundles": created("1")}), bundle("core.rukpak.io/v1alpha1", "Bundle", "a") => false;
            json!({"bundles": created("1")}), bundle("example.com/v1", "BundleInstance", "a") => false;
        );
    }
}
