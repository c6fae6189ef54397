//! Writes the status of a Bundle and publishes Events.

use kube::{Api, Resource as _, ResourceExt as _, runtime::events::EventType};
use manifests::api::{bundle::Bundle, condition::STALLED};
use tracing::info;

use super::{
    fetch::with_timeout,
    reconcile::{BundleContext, Error},
    status::{self, Outcome},
};

/// Writes the status if it has changed, and publishes an Event.
pub(super) async fn write(
    shared: &BundleContext,
    bundle: &Bundle,
    outcome: &Outcome,
) -> Result<(), Error> {
    let ctx = &shared.ctx;
    let mut status = status::build(bundle, outcome, &ctx.settings.external_address, (ctx.now)());
    if status::is_written(bundle, &status) {
        return Ok(());
    }
    let api: Api<Bundle> = Api::all(ctx.client.clone());
    let version = shared.written_versions.newest_version(bundle);
    let written = apply::status::apply(&api, bundle, version, &mut status, |_, _| {});
    match with_timeout(written).await {
        Ok(Some(written)) => shared.written_versions.note(&written),
        Ok(None) => return Ok(()),
        Err(source) => {
            return Err(Error::Write {
                bundle: bundle.name_any(),
                source,
            });
        }
    }
    // Stalled repeats the message of Unpacked.
    let mut conditions = status.conditions.iter().rev();
    let Some(condition) = conditions.find(|condition| condition.type_ != STALLED) else {
        return Ok(());
    };
    info!(
        bundle = bundle.name_any(),
        reason = condition.reason,
        "Bundle status changed"
    );
    let (type_, action) = match outcome {
        // For a Bundle that was created from a template, the events of the BundleInstance report the result.
        Outcome::Unpacked(_) if !bundle.owner_references().is_empty() => return Ok(()),
        Outcome::Unpacked(_) | Outcome::Found => (EventType::Normal, "Unpack"),
        Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Rejected(_) => {
            (EventType::Warning, "Unpack")
        }
        Outcome::UnknownClass => (EventType::Warning, "Reconcile"),
        Outcome::Pending(_) | Outcome::Unpacking => return Ok(()),
    };
    let about = bundle.object_ref(&());
    ctx.events
        .publish(&about, type_, &condition.reason, action, &condition.message)
        .await;
    Ok(())
}
