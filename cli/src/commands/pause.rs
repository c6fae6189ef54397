//! `rukpak pause` and `rukpak resume`.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    Exit,
    args::{ChangeArgs, DryRun},
    cluster::{self, Cluster, MANAGER},
    output,
};

pub(crate) fn run(args: &ChangeArgs, paused: bool) -> anyhow::Result<Exit> {
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| change(cluster, args, paused).await,
    )
}

async fn change(cluster: &Cluster, args: &ChangeArgs, paused: bool) -> anyhow::Result<Exit> {
    let name = &args.name;
    let before = cluster.instance(name).await?;
    let (instance, done) = if before.spec.paused == paused {
        let done = if paused {
            "already paused"
        } else {
            "not paused"
        };
        (before, done.to_owned())
    } else {
        let params = PatchParams {
            dry_run: args.dry_run == DryRun::Server,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        // The uid makes the patch fail if another instance has the name now.
        let patch = json!({"metadata": {"uid": before.metadata.uid}, "spec": {"paused": paused}});
        let changed = cluster
            .instances()
            .patch(name, &params, &Patch::Merge(patch))
            .await;
        let verb = if paused { "pause" } else { "resume" };
        let changed = changed.map_err(|error| {
            cluster.trouble(format!("failed to {verb} BundleInstance {name}"), error)
        })?;
        let done = if paused { "paused" } else { "resumed" };
        (changed, output::tried(done, args.dry_run))
    };
    output::changed(&instance, &done, args.output)?;
    Ok(Exit::Done)
}
