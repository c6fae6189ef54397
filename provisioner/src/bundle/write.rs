//! Writing a Bundle's status, and telling people.

use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::events::EventType,
};
use manifests::api::{
    bundle::{Bundle, BundleStatus},
    condition::STALLED,
};
use serde_json::json;
use tracing::info;

use super::{
    fetch::{ApiError, ask},
    reconcile::{Error, Shared},
    status::{self, Outcome},
    uid,
};
use crate::context::Context;
use apply::ssa::MANAGER;

/// Writes the status, if it says something new, and tells people.
pub(super) async fn write(
    shared: &Shared,
    bundle: &Bundle,
    outcome: &Outcome,
) -> Result<(), Error> {
    let ctx = &shared.ctx;
    let status = status::of(bundle, outcome, &ctx.settings.external_address, (ctx.now)());
    if status::is_written(bundle, &status) {
        return Ok(());
    }
    match patch(ctx, bundle, &status).await {
        Ok(written) => shared.written.note(&written),
        // It is gone, or another one has its name.
        Err(ApiError::Kube(kube::Error::Api(said))) if matches!(said.code, 404 | 409) => {
            return Ok(());
        }
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
        "the status of a Bundle changed"
    );
    let (type_, action) = match outcome {
        // Of one that is made from a template, the events of the BundleInstance report what becomes of it.
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

async fn patch(ctx: &Context, bundle: &Bundle, status: &BundleStatus) -> Result<Bundle, ApiError> {
    let api: Api<Bundle> = Api::all(ctx.client.clone());
    let name = bundle.name_any();
    let patch = json!({
        "apiVersion": Bundle::api_version(&()),
        "kind": Bundle::kind(&()),
        // The uid makes sure that it is not a later one of the same name.
        "metadata": {"name": name, "uid": uid(bundle)},
        "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&patch);
    ask(api.patch_status(&name, &params, &patch)).await
}
