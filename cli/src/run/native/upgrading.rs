//! `rukpak run bundle-upgrade`: the image of a BundleInstance becomes another one, in one patch.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use catalog::inject::{
    Bundle, Form,
    history::{Damaged, History, INJECTED_BUNDLES},
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{GROUP, bundle::ImageSource, instance::BundleInstance};
use unpacker::source::Image;

use super::{
    access::Access,
    check, compose,
    line::{self, Member},
    object,
    place::{Located, locate, tells},
    tell_meaningless, version_of, wait,
};
use crate::{
    Exit,
    args::RunUpgradeArgs,
    cluster::{Cluster, MANAGER},
    message, output,
    run::{
        Task, command,
        deadline::Deadline,
        index_of,
        pulling::{Pulled, Puller},
    },
    uninstalling::maker,
};

/// How often a change is tried that somebody else has got ahead of.
const TRIES: usize = 10;

const FAILED: &str = "Failed to run bundle upgrade";

/// From one image to another, with all that is said about it.
struct Pivot {
    from: String,
    to: ImageSource,
    annotations: BTreeMap<String, Option<String>>,
}

// === impl Pivot ===

impl Pivot {
    /// From an image that turns out not to work to what ran before.
    fn back(instance: &BundleInstance, wanted: &ImageSource, from: &str) -> Self {
        let (to, annotations) = object::back(instance, wanted);
        Self {
            from: from.to_owned(),
            to,
            annotations,
        }
    }
}

pub(in crate::run) async fn upgrade(
    task: &Task<'_>,
    args: &RunUpgradeArgs,
    puller: &Puller,
    pulled: Pulled,
) -> anyhow::Result<Exit> {
    let (cluster, deadline) = (task.cluster, task.deadline);
    let package = pulled.bundle.package.clone();
    let name = pulled.bundle.name.clone();
    tell_meaningless(&args.registry);
    let namespace = args.registry.namespace.as_deref();
    let looking = async {
        let located = locate(cluster, &package, namespace).await?;
        Ok((located, Access::read(cluster, &args.registry).await?))
    };
    let (located, access) = deadline.keep("looking at the cluster", looking).await?;
    let instance = match located {
        Located::Here(found) => *found,
        Located::Elsewhere(found) => bail!(
            "{}, and cannot be moved to {}",
            tells(&found),
            namespace.unwrap_or_default()
        ),
        Located::Nothing => bail!(
            "no BundleInstance for package {package:?}; install it with {}",
            command(&format!("run bundle {}", args.image))
        ),
    };
    let own = instance.name_any();
    message::note(&format!("Found existing bundleinstance.{GROUP}/{own}"));
    refuse(&instance)?;
    let wanted = object::wanted(&instance).map_err(anyhow::Error::msg)?;
    let (applied, back) = if wanted.reference == pulled.pinned {
        // An earlier run has asked for it.
        message::note(&format!(
            "bundleinstance.{GROUP}/{own} has this bundle already"
        ));
        let corrected = Box::pin(correct(cluster, &access, instance));
        let applied = deadline
            .keep("changing the BundleInstance", corrected)
            .await?;
        let back = still(&applied)?;
        (applied, back)
    } else {
        let history = follow(args, puller, &instance, &pulled).await?;
        let checked = check(cluster, &pulled, instance.spec.install_namespace.as_deref());
        deadline.keep("looking at the cluster", checked).await?;
        let pivot = Pivot {
            from: wanted.reference.clone(),
            to: object::image(&access, &pulled.pinned, Some(wanted)),
            annotations: object::annotations(&pulled, &history, Some(&wanted.reference)),
        };
        let back = Pivot::back(&instance, wanted, &pulled.pinned);
        task.leaves(format!(
            "BundleInstance {own} may have been changed: run the same command again"
        ));
        let changed = deadline.keep("changing the BundleInstance", turn(cluster, &own, &pivot));
        let changed = changed.await?;
        message::note(&format!("bundleinstance.{GROUP}/{own} configured"));
        (changed, Some(back))
    };
    task.leaves(format!(
        "BundleInstance {own} is on its way to {name:?}, and what ran before runs until that can take its place: run the same \
         command again to wait for it"
    ));
    if wait(task, &applied, FAILED, deadline).await? {
        output::print(&format!("Successfully upgraded to {name:?}\n"))?;
        return Ok(Exit::Done);
    }
    match back {
        Some(back) if args.rollback_on_failure => return_to(task, &own, &back).await?,
        None if args.rollback_on_failure => message::note(
            "this version is what is installed, since an earlier run, so that nothing is rolled back; the annotation \
             core.rukpak.io/previous-image has the image that ran before",
        ),
        _ => {}
    }
    Ok(Exit::Failed)
}

/// The way back from an upgrade that an earlier run has begun, as long as what ran before is installed.
fn still(instance: &BundleInstance) -> anyhow::Result<Option<Pivot>> {
    let wanted = object::wanted(instance).map_err(anyhow::Error::msg)?;
    let runs = object::still_runs(instance, wanted);
    Ok(runs.map(|_| Pivot::back(instance, wanted, &wanted.reference)))
}

/// Refuses what is decided elsewhere, or cannot be upgraded from.
fn refuse(instance: &BundleInstance) -> anyhow::Result<()> {
    let name = instance.name_any();
    if let Some(operator) = maker(instance) {
        bail!(
            "BundleInstance {name} belongs to PlatformOperator {operator}, which would change it back; nothing was changed: \
             change the PlatformOperator, as with \"kubectl edit platformoperator {operator}\""
        );
    }
    if instance.metadata.deletion_timestamp.is_some() {
        bail!("BundleInstance {name} is being deleted; run the bundle when it is gone");
    }
    Ok(())
}

/// Checks that the new version comes after those before, and returns the history with it.
async fn follow(
    args: &RunUpgradeArgs,
    puller: &Puller,
    instance: &BundleInstance,
    pulled: &Pulled,
) -> anyhow::Result<History> {
    let own = instance.name_any();
    let Some((installed, image)) = object::installed(instance.status.as_ref()) else {
        bail!(
            "BundleInstance {own} has nothing installed that could be upgraded; {} tells why, and {} makes room for a new run",
            command(&format!("status {own}")),
            command(&format!("cleanup {}", pulled.bundle.package))
        );
    };
    let mut history = History::read(instance.annotations()).map_err(|it| damaged(&it))?;
    if history.injected.is_empty() {
        // It was made in another way: what is installed is all there is to know.
        let Some(image) = image else {
            bail!(
                "BundleInstance {own} does not tell which image is installed; is the provisioner running?"
            );
        };
        message::note(&format!(
            "{own} was not installed by \"run bundle\"; {installed:?} is upgraded from"
        ));
        history.push(image, args.registry.mode)?;
    } else if let Some(version) = version_of(instance)
        && pulled.version.cmp_precedence(&version).is_le()
        && !args.force
    {
        // Nothing has to be fetched to know that.
        return Err(line::Refusal::NotNewer {
            new: pulled.version.clone(),
            installed: version,
        }
        .into());
    }
    let mut members = Vec::new();
    for injected in std::mem::take(&mut history.injected) {
        let image = Image::parse(&injected.image_tag)
            .map_err(|error| anyhow!("the history of BundleInstance {own}: {error}"))?;
        let earlier = puller.bundle(image).await.with_context(|| {
            format!(
                "{} of the history of BundleInstance {own} cannot be had; remove its annotation {} to go by what is installed",
                injected.image_tag,
                catalog::inject::history::INJECTED_BUNDLES
            )
        })?;
        members.push(Member {
            name: earlier.bundle.name.clone(),
            version: earlier.version,
            bundle: (injected, earlier.bundle),
        });
    }
    let before = line::before(members, &own, installed, &pulled.version, args.force)?;
    let mut bundles: Vec<Bundle> = Vec::new();
    for member in before {
        let (injected, bundle) = member.bundle;
        history.injected.push(injected);
        bundles.push(bundle);
    }
    bundles.push(pulled.bundle.clone());
    message::note(&format!(
        "Creating a File-Based Catalog of {} versions of {:?}",
        bundles.len(),
        pulled.bundle.package
    ));
    let index = index_of(puller, &history, args.registry.mode).await?;
    compose(index, &pulled.bundle.package, Form::Upgrade, bundles)?;
    history.push(&pulled.pinned, args.registry.mode)?;
    Ok(history)
}

/// Changes the image and what is said about it at once, unless somebody has changed the image meanwhile.
async fn turn(cluster: &Cluster, name: &str, pivot: &Pivot) -> anyhow::Result<BundleInstance> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    for _ in 0..TRIES {
        let now = cluster.instance(name).await?;
        let wanted = object::wanted(&now).map_err(anyhow::Error::msg)?;
        if wanted.reference != pivot.from {
            bail!(
                "somebody has changed the image of BundleInstance {name} to {} meanwhile; look what is wanted, and try again",
                wanted.reference
            );
        }
        let change = object::change(&now, &pivot.to, &pivot.annotations);
        match cluster
            .instances()
            .patch(name, &params, &Patch::Merge(change))
            .await
        {
            Ok(changed) => return Ok(changed),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => {
                let what = format!("failed to change BundleInstance {name}");
                return Err(cluster.trouble(what, error));
            }
        }
    }
    bail!("BundleInstance {name} changes all the time; try again")
}

/// Has an image pulled as the flags say from now on, where an earlier run has asked for it in another way.
pub(super) async fn correct(
    cluster: &Cluster,
    access: &Access,
    instance: BundleInstance,
) -> anyhow::Result<BundleInstance> {
    let wanted = object::wanted(&instance).map_err(anyhow::Error::msg)?;
    let Some(to) = object::corrected(access, wanted) else {
        return Ok(instance);
    };
    let name = instance.name_any();
    let pivot = Pivot {
        from: wanted.reference.clone(),
        to,
        annotations: BTreeMap::new(),
    };
    let changed = turn(cluster, &name, &pivot).await?;
    message::note(&format!(
        "bundleinstance.{GROUP}/{name} configured, for its image is to be pulled in another way"
    ));
    Ok(changed)
}

/// Without the injected bundles what is installed is gone on from, which nothing but the instance's status tells.
fn damaged(what: &Damaged) -> anyhow::Error {
    match what.key {
        INJECTED_BUNDLES => anyhow!(
            "{what}, or remove the annotation, so that the history is told from what is installed"
        ),
        _ => anyhow!("{what}"),
    }
}

/// Goes back to what was installed, and waits for that as long as for the upgrade.
async fn return_to(task: &Task<'_>, name: &str, back: &Pivot) -> anyhow::Result<()> {
    let image = &back.to.reference;
    message::note(&format!("rolling back to {image}"));
    let deadline = Deadline::after(task.deadline.timeout);
    let turned = turn(task.cluster, name, back);
    let turned = deadline.keep("rolling back", turned).await;
    let instance = turned.with_context(|| format!("BundleInstance {name} is not rolled back"))?;
    task.leaves(format!(
        "BundleInstance {name} is on its way back to {image}"
    ));
    if wait(task, &instance, "rollback", deadline).await? {
        message::note(&format!("rolled back to {image}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use catalog::inject::history::INDEX_IMAGE;

    use super::*;

    #[test]
    fn without_olm_a_damaged_history_can_be_removed() {
        for (key, told) in ::tests::rows![
            INJECTED_BUNDLES => ", or remove the annotation, so that the history is told from what is installed";
            INDEX_IMAGE => ", or remove the annotation if none was";
        ] {
            let annotations = BTreeMap::from([(key.to_owned(), "[{".to_owned())]);
            let read = History::read(&annotations).unwrap_err();
            let error = damaged(&read).to_string();
            assert!(error.ends_with(told), "{error}");
        }
    }
}
