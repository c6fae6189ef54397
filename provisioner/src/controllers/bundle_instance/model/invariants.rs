//! The invariants that hold after every operation, and in the end.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::api::bundle_instance::RevisionState;

use super::{
    operations::{heal, release_finalizers, remove_foreign, set_template},
    *,
};

/// The number of reconciles until an instance without faults has converged.
const MAX_RECONCILES: usize = 40;
/// The message about a CRD that would lose a version in which custom resources are stored.
const STORED_VERSIONS: &str = "validating upgrade for CRD";
/// The number of reconciles after which an object of the active revision exists.
const MAX_MISSING: u32 = 3;
/// The time between two of them, in seconds: longer than every back-off and deadline.
const SETTLE_DELAY: i64 = 2000;

/// Checks that the objects of the active revision exist after a repair.
pub(super) fn check_installed(server: &mut Server) {
    let status = server.status();
    let before = std::mem::take(&mut server.missing);
    if server.instance.spec.paused {
        return;
    }
    let Some(active) = status.active() else {
        return;
    };
    let newest = status.newest().unwrap();
    // An object whose record cannot be read cannot be repaired.
    let is_readable = |number: i64| !server.lost.contains(&number);
    if !is_readable(active.number) || !is_readable(newest.number) {
        return;
    }
    let new = server.truth.get(&newest.number);
    let leaves_early = |identity: &Identity| {
        ["APIService", "ValidatingWebhookConfiguration"].contains(&identity.kind.as_str())
            && new.is_none_or(|new| !new.contains_key(identity))
    };
    let missing: BTreeMap<Identity, u32> = server.truth[&active.number]
        .keys()
        .filter(|identity| !server.objects.contains_key(identity))
        .filter(|identity| !server.denied.contains_key(identity) && !leaves_early(identity))
        .filter(|identity| !content::is_widget(identity) || server.has_crd())
        .map(|identity| {
            let count = before.get(identity).copied().unwrap_or_default();
            (identity.clone(), count + 1)
        })
        .collect();
    // A reconcile that records or rolls out changes the status, and leads to another one at once.
    if let Some((identity, _)) = missing.iter().find(|(_, count)| **count >= MAX_MISSING) {
        server.violate(format!("{identity} of the active revision is missing"));
    }
    server.missing = missing;
}

/// Checks that the status does not claim more than is true.
pub(super) fn check_status(server: &mut Server) {
    let status = server.status();
    let live = status.live().count();
    if live > 2 {
        server.violate(format!("{live} revisions are live"));
    }
    let numbers = status.revisions.iter().map(|revision| revision.number);
    if !numbers.is_sorted() {
        server.violate("the revisions are not in order");
    }
    let lost = status.live().find(|revision| {
        !server.records.contains_key(&revision.number) && !server.lost.contains(&revision.number)
    });
    if let Some(lost) = lost {
        let message = format!("the record of revision {} was deleted", lost.number);
        server.violate(message);
    }
}

/// Returns an unhealthy object of the newest live revision, or an applied object of the inventory that is unhealthy.
pub(super) fn unhealthy(server: &Server, status: &Status) -> Option<Identity> {
    status.applied_digest.as_ref()?;
    let owner = server.owner();
    let is_healthy = |identity: &Identity| {
        let live = server.objects.get(identity);
        live.is_some_and(|live| live.is_labelled(&owner) && live.health == Health::Current)
    };
    let truth = server.truth.get(&status.newest()?.number)?;
    truth.keys().find(|identity| !is_healthy(identity)).cloned()
}

pub(super) fn claims_health(status: &Status) -> bool {
    let healthy = condition::find(&status.conditions, condition::HEALTHY);
    healthy.is_some_and(|healthy| healthy.status == "True")
}

/// Removes all faults, and checks that the instance reaches what its spec demands, and nothing else.
pub(super) fn converge(world: &mut World) -> Result<(), String> {
    let server = &mut world.server;
    server.denied.clear();
    heal(server);
    release_finalizers(server);
    remove_foreign(server);
    server.instance.spec.paused = false;
    world.server.registry.is_reachable = true;
    for reconcile in 0..MAX_RECONCILES {
        if reconcile == MAX_RECONCILES / 2 {
            revert(world);
        }
        world.server.now += SETTLE_DELAY;
        world.reconcile();
        check_installed(&mut world.server);
        check_status(&mut world.server);
        world.verdict()?;
        if is_settled(world) {
            return complete(&world.server);
        }
        // An admin deletes the objects that cannot be changed, as the message says.
        let refused = world.controller.refused.clone();
        for identity in refused.iter().filter(|identity| !is_definition(identity)) {
            world.server.remove(identity);
        }
        heal(&mut world.server);
    }
    let status = world.server.status();
    let is_blocked = |condition: &Condition| condition.message.contains(STORED_VERSIONS);
    if !world.server.lost.is_empty() && status.conditions.iter().any(is_blocked) {
        // The remaining records have a CRD to which the live one cannot return. The condition names the remedy.
        return Ok(());
    }
    Err(format!(
        "does not converge: {:?}, {:#?}, removing {:?}",
        status.conditions, status.revisions, status.removing
    ))
}

/// Changes the template back to that of the newest revision, as an admin does if the API server rejects the new one.
fn revert(world: &mut World) {
    let status = world.server.status();
    // A template that failed and was given up is not tried again.
    let newest = match &status.failed_template_hash {
        Some(_) => status.active().cloned(),
        None => status.newest().cloned(),
    };
    let spec = &mut world.server.instance.spec;
    spec.rollback_to = None;
    for number in 0..world.server.registry.contents.len() {
        set_template(&mut world.server.instance, number);
        let hash = template::hash(&world.server.instance);
        let bundle = template::bundle_name(&world.server.instance, &hash);
        let is_reverted = match &newest {
            Some(newest) => newest.template_hash.as_ref() == Some(&hash),
            None => status.installed_bundle_name.as_ref() == Some(&bundle),
        };
        if is_reverted {
            return;
        }
    }
}

fn is_settled(world: &World) -> bool {
    let status = world.server.status();
    let newest = status.newest();
    let is_active = newest.is_some_and(|newest| newest.state == RevisionState::Active);
    let installed = condition::find(&status.conditions, condition::INSTALLED);
    let spec = &world.server.instance.spec;
    let is_held = spec.rollback_to.is_some() || status.failed_template_hash.is_some();
    let hash = template::hash(&world.server.instance);
    let is_newest = newest.is_some_and(|newest| newest.template_hash.as_ref() == Some(&hash));
    // A CRD does not lose a version in which custom resources are stored.
    let reasons = "cannot be rolled back|is not recorded".split('|');
    let mut reasons = reasons.chain([STORED_VERSIONS]);
    let is_refused = installed.is_some_and(|c| reasons.any(|reason| c.message.contains(reason)));
    is_active
        && status.applied_digest.is_some()
        && status.removing.is_empty()
        && claims_health(&status)
        && (is_held || is_newest || is_refused)
}

/// Checks that the objects in the cluster are those of the active revision.
fn complete(server: &Server) -> Result<(), String> {
    let owner = server.owner();
    let active = server.status().active().unwrap().number;
    let expected = server.truth[&active].iter();
    let expected = expected.map(|(identity, hash)| (identity, Some(*hash)));
    let expected: BTreeMap<_, _> = expected.collect();
    // An object whose record and index are both lost remains until the instance is removed.
    let is_lost = |identity: &Identity| server.has_lost_both && !expected.contains_key(&identity);
    let found = server.objects.iter();
    let found = found.filter(|(identity, live)| live.is_labelled(&owner) && !is_lost(identity));
    let found = found.map(|(identity, live)| (identity, live.hash()));
    let found: BTreeMap<_, _> = found.collect();
    if found != expected {
        return Err(format!("installed are {found:#?} instead of {expected:#?}"));
    }
    Ok(())
}

/// Removes the instance, and checks that nothing is left of it.
pub(super) fn uninstall(world: &mut World) -> Result<(), String> {
    for _ in 0..MAX_RECONCILES {
        let is_done = world.controller.uninstall(&mut world.server);
        if matches!(is_done, Ok(true)) {
            break;
        }
    }
    world.verdict()?;
    let owner = world.server.owner();
    let objects = world.server.objects.iter();
    let left: Vec<_> = objects
        .filter(|(_, live)| live.is_labelled(&owner) && !world.server.has_lost_both)
        .collect();
    let records = &world.server.records;
    if left.is_empty() && records.is_empty() {
        return Ok(());
    }
    let records = records.keys();
    Err(format!("left are {left:?}, records of {records:?}"))
}
