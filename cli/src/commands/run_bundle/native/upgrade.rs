//! `rukpak run bundle-upgrade`: changes the image of a BundleInstance in one patch.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use catalog::compose::{
    Bundle, ComposeMode,
    history::{History, INJECTED_BUNDLES, InvalidAnnotation},
};
use kube::ResourceExt as _;
use manifests::api::{GROUP, bundle::ImageSource, bundle_instance::BundleInstance};
use unpacker::source::Image;

use super::{
    check, compose, instance,
    locate::{LocatedInstance, describe_namespace, locate},
    pull_access::PullAccess,
    version_of,
    version_order::{self, HistoryEntry},
    wait, warn_ignored_flags,
};
use crate::{
    ExitStatus,
    args::RunUpgradeArgs,
    commands::{
        run_bundle::{
            RunContext, command,
            deadline::Deadline,
            images::{ImagePuller, PulledBundle},
            index_of,
        },
        uninstall::platform_operator,
    },
    output,
    output::message,
};

const FAILED: &str = "Failed to run bundle upgrade";

/// Change of an image, with the annotations that belong to it.
struct ImageChange {
    from: String,
    to: ImageSource,
    annotations: BTreeMap<String, Option<String>>,
}

// === impl ImageChange ===

impl ImageChange {
    /// Returns the rollback from the image `from`, which turned out not to work, to the image that ran before.
    fn rollback(instance: &BundleInstance, requested: &ImageSource, from: &str) -> Self {
        let (to, annotations) = instance::previous_image(instance, requested);
        Self {
            from: from.to_owned(),
            to,
            annotations,
        }
    }
}

pub(in crate::commands::run_bundle) async fn upgrade(
    task: &RunContext<'_>,
    args: &RunUpgradeArgs,
    puller: &ImagePuller,
    pulled: PulledBundle,
) -> anyhow::Result<ExitStatus> {
    let (cluster, deadline) = (task.cluster, task.deadline);
    let package = pulled.bundle.package.clone();
    let name = pulled.bundle.name.clone();
    warn_ignored_flags(&args.registry);
    let namespace = args.registry.namespace.as_deref();
    let lookup = async {
        let located = locate(cluster, &package, namespace).await?;
        Ok((located, PullAccess::read(cluster, &args.registry).await?))
    };
    let (located, access) = deadline.read_cluster(lookup).await?;
    let instance = match located {
        LocatedInstance::InNamespace(found) => *found,
        LocatedInstance::OtherNamespace(found) => bail!(
            "{} and cannot be moved to {}",
            describe_namespace(&found),
            namespace.unwrap_or_default()
        ),
        LocatedInstance::None => bail!(
            "no BundleInstance for package {package:?}; install it with {}",
            command(&format!("run bundle {}", args.image))
        ),
    };
    let own = instance.name_any();
    message::note(&format!("Found existing bundleinstance.{GROUP}/{own}"));
    ensure_upgradable(&instance)?;
    let requested = instance::requested_image(&instance).map_err(anyhow::Error::msg)?;
    let (applied, rollback) = if requested.reference == pulled.pinned {
        // An earlier run has requested this image.
        message::note(&format!(
            "bundleinstance.{GROUP}/{own} already has this bundle"
        ));
        let corrected = Box::pin(update_pull_access(task, &access, instance));
        let applied = deadline
            .run_to_end("changing the BundleInstance", corrected)
            .await?;
        let rollback = pending_rollback(&applied)?;
        (applied, rollback)
    } else {
        let history = extend_history(args, puller, &instance, &pulled).await?;
        let checked = check(cluster, &pulled, instance.spec.install_namespace.as_deref());
        deadline.read_cluster(checked).await?;
        let change = ImageChange {
            from: requested.reference.clone(),
            to: instance::image(&access, &pulled.pinned, Some(requested)),
            annotations: instance::annotations(&pulled, &history, Some(&requested.reference)),
        };
        let rollback = ImageChange::rollback(&instance, requested, &pulled.pinned);
        let changed = deadline.run_to_end(
            "changing the BundleInstance",
            patch_image(task, &own, &change),
        );
        let changed = changed.await?;
        message::note(&format!("bundleinstance.{GROUP}/{own} configured"));
        (changed, Some(rollback))
    };
    task.set_interrupt_message(format!(
        "the upgrade of BundleInstance {own} to {name:?} continues, and the previous version runs until it is replaced; run \
         the same command again to wait for it"
    ));
    if wait(task, &applied, FAILED, deadline).await? {
        output::print(&format!("Successfully upgraded to {name:?}\n"))?;
        return Ok(ExitStatus::Done);
    }
    match rollback {
        Some(rollback) if args.rollback_on_failure => return_to(task, &own, &rollback).await?,
        None if args.rollback_on_failure => message::note(
            "no rollback because an earlier run already installed this version; annotation core.rukpak.io/previous-image \
             has the image of the previous version",
        ),
        _ => {}
    }
    Ok(ExitStatus::Failed)
}

/// Returns the rollback of an upgrade that an earlier run started, while the previous bundle is still installed.
fn pending_rollback(instance: &BundleInstance) -> anyhow::Result<Option<ImageChange>> {
    let requested = instance::requested_image(instance).map_err(anyhow::Error::msg)?;
    let running = instance::running_instead(instance, requested);
    Ok(running.map(|_| ImageChange::rollback(instance, requested, &requested.reference)))
}

/// Rejects an instance that a PlatformOperator manages, that is terminating, or that is pinned to a revision.
fn ensure_upgradable(instance: &BundleInstance) -> anyhow::Result<()> {
    let name = instance.name_any();
    if let Some(operator) = platform_operator(instance) {
        bail!(
            "BundleInstance {name} belongs to PlatformOperator {operator}, which would revert the change; no changes were \
             made; run \"kubectl edit platformoperator {operator}\" instead"
        );
    }
    if instance.metadata.deletion_timestamp.is_some() {
        bail!("BundleInstance {name} is terminating; run the bundle after it is deleted");
    }
    if let Some(number) = instance.spec.rollback_to {
        bail!(
            "BundleInstance {name} is pinned to revision {number}, so another bundle would have no effect; no changes were made; \
             run {} first",
            command(&format!("rollback {name} --undo"))
        );
    }
    Ok(())
}

/// Checks that the new version follows the earlier ones, and returns the history including the new version.
async fn extend_history(
    args: &RunUpgradeArgs,
    puller: &ImagePuller,
    instance: &BundleInstance,
    pulled: &PulledBundle,
) -> anyhow::Result<History> {
    let own = instance.name_any();
    let Some((installed, image)) = instance::installed(instance.status.as_ref()) else {
        bail!(
            "BundleInstance {own} has no installed bundle to upgrade; run {} for the reason, or {} before a new run",
            command(&format!("status {own}")),
            command(&format!("cleanup {}", pulled.bundle.package))
        );
    };
    let mut history =
        History::read(instance.annotations()).map_err(|error| fix_annotation_hint(&error))?;
    if history.injected.is_empty() {
        // Another tool created the instance, so that only the installed bundle is known.
        let Some(image) = image else {
            bail!(
                "BundleInstance {own} does not report the installed image; check that the provisioner is running"
            );
        };
        message::note(&format!(
            "{own} was not installed by \"run bundle\"; upgrading from {installed:?}"
        ));
        history.push(image, args.registry.mode)?;
    } else if let Some(version) = version_of(instance)
        && pulled.version.cmp_precedence(&version).is_le()
        && !args.force
    {
        // This check needs no downloads.
        return Err(version_order::OrderError::NotNewer {
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
                "failed to fetch {} of the history of BundleInstance {own}; remove annotation {} to use the installed bundle",
                injected.image_tag,
                catalog::compose::history::INJECTED_BUNDLES
            )
        })?;
        members.push(HistoryEntry {
            name: earlier.bundle.name.clone(),
            version: earlier.version,
            bundle: (injected, earlier.bundle),
        });
    }
    let predecessors =
        version_order::predecessors(members, &own, installed, &pulled.version, args.force)?;
    let mut bundles: Vec<Bundle> = Vec::new();
    for member in predecessors {
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
    compose(index, &pulled.bundle.package, ComposeMode::Upgrade, bundles)?;
    history.push(&pulled.pinned, args.registry.mode)?;
    Ok(history)
}

/// Patches the image and the annotations together, unless another client has changed the image.
async fn patch_image(
    task: &RunContext<'_>,
    name: &str,
    change: &ImageChange,
) -> anyhow::Result<BundleInstance> {
    let patch = |current: &BundleInstance| {
        let requested = instance::requested_image(current).map_err(anyhow::Error::msg)?;
        if requested.reference != change.from {
            bail!(
                "the image of BundleInstance {name} was changed to {} by another client; check which one is intended, and \
                 retry",
                requested.reference
            );
        }
        Ok(Some(instance::change(
            current,
            &change.to,
            &change.annotations,
        )))
    };
    let current = task.cluster.instance(name).await?;
    task.set_interrupt_message(format!(
        "BundleInstance {name} may have been changed; run the same command again"
    ));
    let doing = "failed to change BundleInstance";
    Box::pin(task.cluster.patch_instance(current, doing, patch)).await
}

/// Updates the pull settings of the image to those of the flags if an earlier run requested other settings.
pub(super) async fn update_pull_access(
    task: &RunContext<'_>,
    access: &PullAccess,
    instance: BundleInstance,
) -> anyhow::Result<BundleInstance> {
    let requested = instance::requested_image(&instance).map_err(anyhow::Error::msg)?;
    let Some(to) = instance::corrected(access, requested) else {
        return Ok(instance);
    };
    let name = instance.name_any();
    let change = ImageChange {
        from: requested.reference.clone(),
        to,
        annotations: BTreeMap::new(),
    };
    let changed = patch_image(task, &name, &change).await?;
    message::note(&format!(
        "bundleinstance.{GROUP}/{name} configured with other pull settings"
    ));
    Ok(changed)
}

/// Returns an error for an invalid annotation, with a remedy. Without the injected bundles the upgrade starts from the
/// installed bundle, which only the status of the instance reports.
fn fix_annotation_hint(error: &InvalidAnnotation) -> anyhow::Error {
    match error.key {
        INJECTED_BUNDLES => {
            anyhow!("{error}, or remove the annotation to use the installed bundle")
        }
        _ => anyhow!("{error}"),
    }
}

/// Rolls back to the bundle that was installed, with the timeout of the upgrade.
async fn return_to(
    task: &RunContext<'_>,
    name: &str,
    rollback: &ImageChange,
) -> anyhow::Result<()> {
    let image = &rollback.to.reference;
    message::note(&format!("rolling back to {image}"));
    let deadline = Deadline::after(task.deadline.timeout);
    let patched = patch_image(task, name, rollback);
    let patched = deadline.run_to_end("rolling back", patched).await;
    let instance = patched.with_context(|| format!("failed to roll back BundleInstance {name}"))?;
    task.set_interrupt_message(format!("rolling back BundleInstance {name} to {image}"));
    if wait(task, &instance, "rollback", deadline).await? {
        message::note(&format!("rolled back to {image}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use catalog::compose::history::INDEX_IMAGE;

    use super::*;

    #[test]
    fn pinned_instance_is_not_upgraded() {
        let instance = |spec| crate::testing::instance(&serde_json::json!({"spec": spec}));
        assert!(ensure_upgradable(&instance(serde_json::json!({}))).is_ok());
        let pinned = ensure_upgradable(&instance(serde_json::json!({"rollbackTo": 1})));
        ::tests::assert_has(pinned.unwrap_err(), "is pinned to revision 1");
    }

    #[test]
    fn without_olm_a_damaged_history_can_be_removed() {
        for (key, expected) in ::tests::rows![
            INJECTED_BUNDLES => ", or remove the annotation to use the installed bundle";
            INDEX_IMAGE => ", or remove the annotation if there was none";
        ] {
            let annotations = BTreeMap::from([(key.to_owned(), "[{".to_owned())]);
            let error = fix_annotation_hint(&History::read(&annotations).unwrap_err()).to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
