//! `rukpak diff`.

mod permissions;
pub(crate) mod report;

use std::ffi::OsString;

use manifests::object::Identity;
use serde_json::Value;

use crate::{
    ExitStatus,
    args::{self, ContentFormat, DiffArgs},
    cluster::{
        self, Cluster,
        desired::{self, Desired, DesiredObject, InstanceDefaults},
        live::LiveObjects,
        revisions,
    },
    fetch::Fetcher,
    output,
    output::message,
    source,
};
use report::{Change, Origin};

/// Exit code if differences exist, like that of `kubectl diff`.
const EXIT_DIFFERENT: u8 = 1;
/// Exit code of a failure, like that of `kubectl diff`.
pub(crate) const EXIT_FAILED: u8 = 2;

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<ExitStatus> {
    match (args.revision, &args.bundle) {
        (Some(number), _) => compare_revision(args, number),
        (None, Some(bundle)) => compare_bundle(args, bundle),
        (None, None) => args::usage("specify BUNDLE or --revision"),
    }
}

fn compare_revision(args: &DiffArgs, number: i64) -> anyhow::Result<ExitStatus> {
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| {
            let instance = cluster.instance(&args.name).await?;
            let revision = revisions::read(cluster, &instance, number).await?;
            let desired = desired::from_revision(cluster, &instance, revision).await?;
            compare(cluster, desired, Origin::Revision(number)).await
        },
    )
}

fn compare_bundle(args: &DiffArgs, bundle: &OsString) -> anyhow::Result<ExitStatus> {
    let source = source::one(bundle, &args.access);
    let reach = Fetcher::new(&args.access, std::slice::from_ref(&source), false)?;
    let content = reach.content(&source, &args.limits.into())?;
    drop(reach);
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| {
            let name = &args.name;
            let instance = cluster.get_instance_opt(name).await?;
            if instance.is_none() {
                message::note(&format!(
                    "BundleInstance {name} not found; all objects are new"
                ));
            }
            let defaults = InstanceDefaults {
                name,
                install_namespace: args.install_namespace.as_deref(),
                class: args.class.map(|class| match class {
                    ContentFormat::Registry => convert::Class::Registry,
                    ContentFormat::Plain => convert::Class::Plain,
                }),
                limits: args.limits.yaml(),
            };
            let desired =
                desired::from_bundle(cluster, instance.as_ref(), &defaults, &content).await?;
            let Some(desired) = desired else {
                return Ok(ExitStatus::Code(EXIT_FAILED));
            };
            compare(cluster, desired, Origin::Bundle).await
        },
    )
}

/// Prints the differences to the cluster, and returns the exit code.
pub(crate) async fn compare(
    cluster: &Cluster,
    desired: Desired,
    origin: Origin,
) -> anyhow::Result<ExitStatus> {
    report_skipped(&desired);
    let mut live = LiveObjects::new(cluster, &[]);
    let (to_prune, missing) = live_objects(&mut live, &desired.to_prune).await?;
    let results = applied(cluster, &desired.objects).await;
    let mut changes = Vec::new();
    let mut is_rejected = false;
    let mut before = Vec::new();
    let mut after = Vec::new();
    for (desired_object, applied) in desired.objects.iter().zip(results) {
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                message::error(&format!("{error:#}"));
                is_rejected = true;
                continue;
            }
        };
        // An object that the API server cannot evaluate yet is shown as it would be sent.
        let now = applied.unwrap_or_else(|| desired_object.object.value().clone());
        before.extend(desired_object.live.clone());
        after.push(now.clone());
        let identity = desired_object.object.identity();
        changes.extend(Change::between(
            identity,
            desired_object.live.as_ref(),
            Some(&now),
        ));
    }
    for object in &desired.newly_deferred {
        let now = Some(object.value());
        changes.extend(Change::between(object.identity(), None, now));
    }
    for (identity, object) in to_prune {
        changes.extend(Change::between(identity, Some(&object), None));
        before.push(object);
    }
    let rights = permissions::compare(&mut live, before, after).await?;
    let report = report::report(&rights, &changes, origin);
    output::print_styled(&report)?;
    for identity in missing {
        message::note(&format!(
            "{identity} is in the inventory but no longer exists"
        ));
    }
    Ok(if is_rejected {
        ExitStatus::Code(EXIT_FAILED)
    } else if changes.is_empty() {
        ExitStatus::Done
    } else {
        ExitStatus::Code(EXIT_DIFFERENT)
    })
}

/// Reports objects that are not compared, or that belong to another owner.
fn report_skipped(desired: &Desired) {
    for identity in &desired.used_as_is {
        message::note(&format!("{identity} already exists and is used unchanged"));
    }
    for identity in &desired.missing_kinds {
        message::warning(&format!("{identity}: kind not served by the cluster"));
    }
    for DesiredObject {
        object,
        owner: holder,
        ..
    } in &desired.objects
    {
        use manifests::api::owner::ObjectOwner;
        if let Some(holder) = holder
            && !matches!(holder, ObjectOwner::ThisInstance | ObjectOwner::Released)
        {
            message::warning(&format!(
                "{} already exists and belongs to {holder}; run \"{} adopt\" to adopt it",
                object.identity(),
                args::name()
            ));
        }
    }
}

/// Returns each object as the API server would store it.
async fn applied(
    cluster: &Cluster,
    objects: &[DesiredObject],
) -> Vec<anyhow::Result<Option<Value>>> {
    let live = LiveObjects::new(cluster, &[]);
    let requests = objects
        .iter()
        .map(|desired| live.applied(&desired.kind, &desired.object));
    cluster::join(requests).await
}

/// Returns the live objects, and the identities of those that no longer exist.
async fn live_objects(
    live: &mut LiveObjects<'_>,
    identities: &[Identity],
) -> anyhow::Result<(Vec<(Identity, Value)>, Vec<Identity>)> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for identity in identities {
        match live.discover(identity).await? {
            Some(object) => found.push((identity.clone(), object)),
            None => missing.push(identity.clone()),
        }
    }
    Ok((found, missing))
}
