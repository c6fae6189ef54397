//! What is seen of an instance's objects.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use kube::{ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        instance::{BundleInstance, BundleInstanceStatus},
        listing,
    },
    object::Identity,
};
use tracing::warn;

use crate::{
    account,
    instance::{
        memory::{Memory, Shared},
        outcome::Health,
        revisions,
        rollback::Unhealthy,
    },
};
use apply::{discovery::Kind, health, informers::View, inventory::Inventory};

/// How many unwell objects a condition names.
const MOST_NAMED: usize = 20;

/// Tells the watches what belongs to the instance, once after each change of that or of what is served.
pub(in crate::instance) async fn watch(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) {
    let served = *shared.ctx.kinds.changes().borrow();
    let is_known = memory.is_watched && memory.served == served;
    let Some(inventory) = memory.inventory.as_ref().filter(|_| !is_known) else {
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
        .kinds
        .find(
            kinds
                .into_iter()
                .map(|(group, version, kind)| GroupVersionKind::gvk(group, version, kind)),
        )
        .await;
    match found {
        Ok(found) => {
            let wanted: BTreeMap<Identity, Arc<Kind>> = inventory
                .iter()
                .filter_map(|(identity, entry)| {
                    let kind = found.get(&gvk(identity, &entry.version))?.as_ref()?;
                    Some((identity.clone(), Arc::clone(kind)))
                })
                .collect();
            let account = revisions::account(instance, status).map(account::from_reference);
            shared
                .ctx
                .watches
                .want(&instance.name_any(), account.as_ref(), &wanted);
            memory.unserved = inventory
                .keys()
                .filter(|identity| !wanted.contains_key(*identity))
                .cloned()
                .collect();
            memory.is_watched = true;
            memory.served = served;
        }
        Err(error) => warn!(%error, "the served APIs cannot be listed; watches start later"),
    }
}

/// Returns the objects that are not healthy, as far as the informers have observed them.
pub(in crate::instance) fn unhealthy(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
    removing: &[String],
) -> Unhealthy {
    let view = shared.ctx.watches.view(&instance.name_any());
    unhealthy_of(memory.inventory.as_ref(), &view, removing)
}

/// Returns the objects of an inventory that are not healthy. What is being removed does not count.
pub(in crate::instance) fn unhealthy_of(
    inventory: Option<&Inventory>,
    view: &View,
    removing: &[String],
) -> Unhealthy {
    let mut unhealthy = Unhealthy::default();
    let removing = identities(removing);
    for (identity, entry) in inventory.into_iter().flatten() {
        if removing.contains(identity.to_string().as_str()) {
            continue;
        }
        let list = match view.objects.get(identity).map(|seen| &seen.health) {
            Some(health::Health::Failed(_)) => &mut unhealthy.failed,
            Some(health::Health::InProgress(_)) => &mut unhealthy.slow,
            None if entry.fields.is_some() => &mut unhealthy.slow,
            Some(health::Health::Current) | None => continue,
        };
        list.insert(identity.clone());
    }
    unhealthy
}

/// How the objects are, as far as the watches have seen them.
pub(in crate::instance) fn health(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
    removing: &[String],
) -> Health {
    let view = shared.ctx.watches.view(&instance.name_any());
    match memory.unread {
        Some(number) => unknown(number),
        None => health_of(memory.inventory.as_ref(), &view, removing),
    }
}

/// Returns the health of an instance if neither the status nor a record lists some of its objects.
pub(in crate::instance) fn unknown(number: i64) -> Health {
    Health::Unknown(format!(
        "the status does not list all objects, and the record of revision {number} cannot be used; the health of the objects \
         is reported once the installed Bundle is unpacked"
    ))
}

/// Returns the health of the objects of an inventory. What is being removed does not count.
pub(in crate::instance) fn health_of(
    inventory: Option<&Inventory>,
    view: &View,
    removing: &[String],
) -> Health {
    if !view.failing.is_empty() {
        return Health::Unknown(view.failing.join("\n"));
    }
    let Some(inventory) = inventory.filter(|_| view.synced) else {
        return Health::NotLooked;
    };
    let removing = identities(removing);
    let mut failed = Vec::new();
    let mut going = Vec::new();
    for (identity, entry) in inventory {
        let seen = view.objects.get(identity).map(|seen| &seen.health);
        let (list, message) = match seen {
            Some(health::Health::Failed(message)) => (&mut failed, message.as_str()),
            Some(health::Health::InProgress(message)) => (&mut going, message.as_str()),
            Some(health::Health::Current) => continue,
            None if entry.fields.is_none() => continue, // was never applied
            None => (&mut going, "does not exist"),
        };
        if removing.contains(identity.to_string().as_str()) {
            continue;
        }
        list.push(listing::unwell(identity, &entry.version, message));
    }
    if failed.is_empty() && going.is_empty() {
        return Health::Healthy;
    }
    let is_failed = !failed.is_empty();
    failed.append(&mut going);
    let more = failed.len().saturating_sub(MOST_NAMED);
    failed.truncate(MOST_NAMED);
    if more > 0 {
        failed.push(format!("and {more} more objects"));
    }
    if is_failed {
        Health::Failed(failed)
    } else {
        Health::Progressing(failed)
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
    use apply::{informers::Seen, inventory::Entry};

    use super::*;

    #[test]
    fn health_of_leaving_objects_does_not_count() {
        let identity = |name: &str| crate::fixtures::identity("apps", "Deployment", "tide", name);
        let names = ["stays", "going", "denied"];
        let inventory: Inventory = names.map(|name| (identity(name), Entry::default())).into();
        let failed =
            || with!(Seen::default() => health: health::Health::Failed("crashes".to_owned()));
        let mut view = with!(View::default() => synced: true);
        view.objects
            .extend(names.map(|name| (identity(name), failed())));
        let leaving = ["going".to_owned(), "denied: may not be deleted".to_owned()];
        let removing = leaving.map(|line| format!("Deployment tide/{line}"));
        assert_rows!(unhealthy_of(Some(&inventory), &view, &removing).all() => [identity("stays")].into());
        let Health::Failed(failed) = health_of(Some(&inventory), &view, &removing) else {
            panic!("an object failed");
        };
        assert_eq!(failed.len(), 1, "{failed:?}");
    }
}
