//! Watches of the objects of an instance, and their observed health.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use kube::{ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceStatus},
        inventory_format,
    },
    object::Identity,
};
use tracing::warn;

use crate::{
    cluster::impersonation,
    controllers::bundle_instance::{
        outcome::HealthState,
        reconcile::READ_RETRY_DELAY,
        revisions,
        rollback::Unhealthy,
        state::{InstanceContext, InstanceState},
    },
};
use apply::{
    api_error, discovery::ApiKind, health::Health, informers::InstanceView, inventory::Inventory,
};

/// Maximum number of unhealthy objects that a condition names.
const MAX_NAMED: usize = 20;

/// Passes the objects of the instance to the watches, once after each change of the inventory or of the served APIs.
pub(crate) async fn watch(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) {
    let served = *shared.ctx.discovery.changes().borrow();
    let is_current = state.is_watched && state.served == served;
    state.watch_retry_delay = None;
    let Some(inventory) = state.inventory.as_ref().filter(|_| !is_current) else {
        return;
    };
    let gvk = |identity: &Identity, version: &str| {
        GroupVersionKind::gvk(&identity.group, version, &identity.kind)
    };
    let kinds: BTreeSet<(&str, &str, &str)> = inventory
        .iter()
        .map(|(identity, entry)| {
            (
                identity.group.as_str(),
                entry.version.as_str(),
                identity.kind.as_str(),
            )
        })
        .collect();
    let found = shared
        .ctx
        .discovery
        .find(
            kinds
                .into_iter()
                .map(|(group, version, kind)| GroupVersionKind::gvk(group, version, kind)),
        )
        .await;
    match found {
        Ok(found) => {
            let objects: BTreeMap<Identity, Arc<ApiKind>> = inventory
                .iter()
                .filter_map(|(identity, entry)| {
                    let kind = found.get(&gvk(identity, &entry.version))?.as_ref()?;
                    Some((identity.clone(), Arc::clone(kind)))
                })
                .collect();
            let account = revisions::account(instance, status).map(impersonation::from_reference);
            shared
                .ctx
                .informers
                .set_watched(&instance.name_any(), account.as_ref(), &objects);
            state.unserved = inventory
                .keys()
                .filter(|identity| !objects.contains_key(*identity))
                .cloned()
                .collect();
            state.is_watched = true;
            state.served = served;
        }
        Err(error) => {
            state.watch_retry_delay = Some(READ_RETRY_DELAY);
            let error = api_error::chain(&error);
            warn!(
                error,
                "failed to list the served APIs for the watches of an instance; retrying"
            );
        }
    }
}

/// Returns the unhealthy objects of an inventory. Prune candidates do not count.
pub(crate) fn unhealthy_of(
    inventory: Option<&Inventory>,
    view: &InstanceView,
    removing: &[String],
) -> Unhealthy {
    let removing = identities(removing);
    let expected = inventory.into_iter().flatten().filter(|(identity, entry)| {
        let is_expected = entry.fields.is_some() || view.objects.contains_key(identity);
        is_expected && !removing.contains(identity.to_string().as_str())
    });
    Unhealthy::observed(view, expected.map(|(identity, _)| identity))
}

/// Returns the health of the objects that the watches have observed.
pub(crate) fn health(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &InstanceState,
    removing: &[String],
) -> HealthState {
    let view = shared.ctx.informers.view(&instance.name_any());
    match state.unread {
        Some(number) => unknown(number),
        None => health_of(state.inventory.as_ref(), &view, removing),
    }
}

/// Returns the health of an instance with objects that neither the status nor a record lists.
pub(crate) fn unknown(number: i64) -> HealthState {
    HealthState::Unknown(format!(
        "the status does not list all objects, and the record of revision {number} cannot be used; the health of the objects \
         is reported once the installed Bundle is unpacked"
    ))
}

/// Returns the health of the objects of an inventory. Prune candidates do not count.
pub(crate) fn health_of(
    inventory: Option<&Inventory>,
    view: &InstanceView,
    removing: &[String],
) -> HealthState {
    if !view.failing.is_empty() {
        return HealthState::Unknown(view.failing.join("\n"));
    }
    let Some(inventory) = inventory.filter(|_| view.synced) else {
        return HealthState::NotObserved;
    };
    let removing = identities(removing);
    let mut failed = Vec::new();
    let mut progressing = Vec::new();
    for (identity, entry) in inventory {
        let health = view.objects.get(identity).map(|observed| &observed.health);
        let (list, message) = match health {
            Some(Health::Failed(message) | Health::TimedOut { message, .. }) => {
                (&mut failed, message.as_str())
            }
            Some(Health::InProgress(message)) => (&mut progressing, message.as_str()),
            Some(Health::Current) => continue,
            None if entry.fields.is_none() => continue, // was never applied
            None => (&mut progressing, "does not exist"),
        };
        if removing.contains(identity.to_string().as_str()) {
            continue;
        }
        list.push(inventory_format::format_unhealthy(
            identity,
            &entry.version,
            message,
        ));
    }
    if failed.is_empty() && progressing.is_empty() {
        return HealthState::Healthy;
    }
    let is_failed = !failed.is_empty();
    failed.append(&mut progressing);
    let more = failed.len().saturating_sub(MAX_NAMED);
    failed.truncate(MAX_NAMED);
    if more > 0 {
        failed.push(format!("and {more} more objects"));
    }
    if is_failed {
        HealthState::Failed(failed)
    } else {
        HealthState::Progressing(failed)
    }
}

/// Returns the identities in lines of `status.removing`; a problem may follow an identity.
fn identities(removing: &[String]) -> HashSet<&str> {
    let parts = removing
        .iter()
        .map(|line| line.split_once(": ").unwrap_or((line, "")));
    parts.map(|(identity, _)| identity).collect()
}

#[cfg(test)]
mod tests {
    use apply::{informers::ObservedObject, inventory::Entry};

    use super::*;

    #[test]
    fn health_of_leaving_objects_does_not_count() {
        let identity = |name: &str| crate::fixtures::identity("apps", "Deployment", "tide", name);
        let names = ["retained", "terminating", "denied"];
        let inventory: Inventory = names.map(|name| (identity(name), Entry::default())).into();
        let failed =
            || with!(ObservedObject::default() => health: Health::Failed("crashes".to_owned()));
        let mut view = with!(InstanceView::default() => synced: true);
        let objects = names.map(|name| (identity(name), failed()));
        view.objects.extend(objects);
        let leaving = ["terminating", "denied: may not be deleted"];
        let removing = leaving.map(|line| format!("Deployment tide/{line}"));
        assert_rows!(unhealthy_of(Some(&inventory), &view, &removing).all() => [identity("retained")].into());
        let HealthState::Failed(failed) = health_of(Some(&inventory), &view, &removing) else {
            panic!("an object failed");
        };
        assert_eq!(failed.len(), 1, "{failed:?}");
    }
}
