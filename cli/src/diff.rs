//! `rukpak diff`.

mod rights;
pub(crate) mod text;

use std::ffi::OsString;

use futures::{StreamExt as _, stream};
use manifests::object::Identity;
use serde_json::Value;

use crate::{
    Exit,
    args::{self, DiffArgs, Format},
    cluster::{self, Cluster},
    desired::{self, Choice, Desired, Wanted},
    live::Live,
    message, output,
    reach::Reach,
    revisions, source,
};
use text::{Change, Origin};

/// Requests at a time.
const CONCURRENCY: usize = 8;

/// As kubectl diff: there are differences.
const DIFFERENT: u8 = 1;
/// And as there: something went wrong.
pub(crate) const FAILED: u8 = 2;

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    match (args.revision, &args.bundle) {
        (Some(number), _) => compare_revision(args, number),
        (None, Some(bundle)) => compare_bundle(args, bundle),
        (None, None) => args::usage("name a BUNDLE or a --revision"),
    }
}

fn compare_revision(args: &DiffArgs, number: i64) -> anyhow::Result<Exit> {
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

fn compare_bundle(args: &DiffArgs, bundle: &OsString) -> anyhow::Result<Exit> {
    let source = source::one(bundle, &args.access);
    let reach = Reach::new(&args.access, std::slice::from_ref(&source), false)?;
    let content = reach.content(&source, &args.limits.into())?;
    drop(reach);
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| {
            let name = &args.name;
            let instance = cluster.find_instance(name).await?;
            if instance.is_none() {
                message::note(&format!(
                    "there is no BundleInstance {name}: everything is new"
                ));
            }
            let choice = Choice {
                name,
                install_namespace: args.install_namespace.as_deref(),
                class: args.class.map(|class| match class {
                    Format::Registry => convert::Class::Registry,
                    Format::Plain => convert::Class::Plain,
                }),
                limits: args.limits.yaml(),
            };
            let desired = desired::of(cluster, instance.as_ref(), &choice, &content).await?;
            let Some(desired) = desired else {
                return Ok(Exit::Code(FAILED));
            };
            compare(cluster, desired, Origin::Bundle).await
        },
    )
}

/// Prints how the cluster would change, and returns what the exit code says of it.
pub(crate) async fn compare(
    cluster: &Cluster,
    desired: Desired,
    origin: Origin,
) -> anyhow::Result<Exit> {
    tell_aside(&desired);
    let mut live = Live::new(cluster, &[]);
    let (leaving, gone) = leaving(&mut live, &desired.leaving).await?;
    let wanted = applied(cluster, &desired.wanted).await;
    let mut changes = Vec::new();
    let mut is_refused = false;
    let mut before = Vec::new();
    let mut after = Vec::new();
    for (wanted, applied) in desired.wanted.iter().zip(wanted) {
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                message::error(&format!("{error:#}"));
                is_refused = true;
                continue;
            }
        };
        // What the server cannot say yet is shown as it would be sent.
        let now = applied.unwrap_or_else(|| wanted.object.value().clone());
        before.extend(wanted.live.clone());
        after.push(now.clone());
        let identity = wanted.object.identity();
        changes.extend(Change::of(identity, wanted.live.as_ref(), Some(&now)));
    }
    for (identity, object) in leaving {
        changes.extend(Change::of(identity, Some(&object), None));
        before.push(object);
    }
    let rights = rights::compare(&mut live, &before, &after).await?;
    let report = text::report(&rights, &changes, origin);
    output::print_styled(&report)?;
    for identity in gone {
        message::note(&format!(
            "{identity} is in the inventory, and is gone already"
        ));
    }
    Ok(if is_refused {
        Exit::Code(FAILED)
    } else if changes.is_empty() {
        Exit::Done
    } else {
        Exit::Code(DIFFERENT)
    })
}

/// What is no difference, and should be known.
fn tell_aside(desired: &Desired) {
    for identity in &desired.used {
        message::note(&format!("{identity} exists, and is used as it is"));
    }
    for identity in &desired.unserved {
        message::warning(&format!(
            "{identity} is of a kind that the cluster does not serve"
        ));
    }
    for Wanted { object, holder, .. } in &desired.wanted {
        use manifests::api::holder::Holder;
        if let Some(holder) = holder
            && !matches!(holder, Holder::Us | Holder::Released)
        {
            message::warning(&format!(
                "{} exists and belongs to {holder}: it is in the way, see {} adopt",
                object.identity(),
                args::name()
            ));
        }
    }
}

/// What each object would be, as the server says.
async fn applied(cluster: &Cluster, wanted: &[Wanted]) -> Vec<anyhow::Result<Option<Value>>> {
    let live = Live::new(cluster, &[]);
    let requests = wanted.iter().map(|it| live.applied(&it.kind, &it.object));
    let requests: Vec<_> = requests.collect();
    stream::iter(requests).buffered(CONCURRENCY).collect().await
}

/// The objects that leave, as they are, and those that are gone.
async fn leaving(
    live: &mut Live<'_>,
    leaving: &[Identity],
) -> anyhow::Result<(Vec<(Identity, Value)>, Vec<Identity>)> {
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    for identity in leaving {
        match live.look_up(identity).await? {
            Some(object) => found.push((identity.clone(), object)),
            None => gone.push(identity.clone()),
        }
    }
    Ok((found, gone))
}
