//! `rukpak pause` and `rukpak resume`.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    ExitStatus,
    args::{ChangeArgs, DryRun},
    cluster::{self, Cluster, FIELD_MANAGER},
    output,
};

pub(crate) fn run(args: &ChangeArgs, paused: bool) -> anyhow::Result<ExitStatus> {
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| change(cluster, args, paused).await,
    )
}

async fn change(cluster: &Cluster, args: &ChangeArgs, paused: bool) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let before = cluster.instance(name).await?;
    let (instance, done) = if before.spec.paused == paused {
        let done = if paused {
            "already paused"
        } else {
            "not paused"
        };
        (before, done)
    } else {
        let params = PatchParams {
            dry_run: args.dry_run == DryRun::Server,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        // The uid makes the patch fail if another instance has the name now.
        let patch = json!({"metadata": {"uid": before.metadata.uid}, "spec": {"paused": paused}});
        let changed = cluster
            .instances()
            .patch(name, &params, &Patch::Merge(patch))
            .await;
        let verb = if paused { "pause" } else { "resume" };
        let changed = changed.map_err(|error| {
            cluster.explain(format!("failed to {verb} BundleInstance {name}"), error)
        })?;
        let done = if paused { "paused" } else { "resumed" };
        (changed, done)
    };
    let done = output::print_dry_run(done, args.dry_run);
    output::print_changed(&instance, &done, args.output)?;
    Ok(ExitStatus::Done)
}
