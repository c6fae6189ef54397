//! Objects of a target: rendered from the content of a Bundle, or read from a record.

use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
};

use super::{
    Source, Target,
    attempt::{failure_for, unusable_record},
    is_as_declared, is_ready,
    records::{Records, has_key},
    render::{RenderError, Rendered, render},
};
use crate::controllers::{
    bundle,
    bundle_instance::{
        outcome::{Failure, RetryClass},
        revisions::{self, owner},
        state::{InstanceContext, InstanceState},
    },
};

/// Renders the objects of the target, or reads them from a record.
pub(super) async fn rendered(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
) -> Result<Rendered, Failure> {
    let revision = match target.source {
        Source::Bundle(bundle) => {
            let records = Records::new(before, bundle);
            let rendered = rendered_bundle(instance, shared, bundle, &records, key);
            let rendered = Box::pin(rendered).await;
            state.lacks_content = match &rendered {
                // The failure of objects with earlier inputs is not a failure of the present spec.
                Ok(rendered) => !has_key(&rendered.details, key),
                Err(RenderError::NotLoaded(_)) => true,
                Err(RenderError::Rejected(_)) => false,
            };
            return rendered.map_err(RenderError::into_failure);
        }
        Source::Revision(revision) | Source::Newest(revision) => revision,
    };
    let record = revisions::read(shared, &owner(instance), revision).await;
    let record = record.map_err(|error| {
        if error.is_transient() {
            return failure_for(target)(error.to_string(), RetryClass::Soon);
        }
        state.lost = Some(revision.number);
        unusable_record(target, &error.to_string())
    })?;
    Ok(Rendered::of_target(
        record, instance, before, target, revision,
    ))
}

/// Renders the objects of a Bundle, or reads them from a record with the same inputs.
///
/// An interrupted rollout uses its record even if the content is available. Records of other revisions of the template are read
/// only if the content cannot be loaded. If no such record exists either, an interrupted rollout of the template ends with the
/// recorded inputs.
async fn rendered_bundle(
    instance: &BundleInstance,
    shared: &InstanceContext,
    bundle: &Bundle,
    records: &Records<'_>,
    key: &str,
) -> Result<Rendered, RenderError> {
    let read = async |revisions| recorded(instance, shared, bundle, revisions, key).await;
    if let Some(rendered) = read(records.interrupted.as_slice()).await? {
        return Ok(rendered);
    }
    match render(instance, shared, bundle).await {
        Ok(mut rendered) => {
            rendered.details.key = Some(key.to_owned());
            Ok(rendered)
        }
        Err(RenderError::NotLoaded(failure)) => {
            if let Some(rendered) = read(&records.of_template).await? {
                return Ok(rendered);
            }
            if let Some(newest) = records.unfinished
                && let Ok(record) = revisions::read(shared, &owner(instance), newest).await
                && let Some(rendered) = Rendered::of_unfinished(record, instance, newest, bundle)
            {
                return Ok(rendered);
            }
            Err(RenderError::NotLoaded(failure))
        }
        Err(rejected) => Err(rejected),
    }
}

/// Reads the records of revisions until one has the key. Records that are missing or altered are skipped.
async fn recorded(
    instance: &BundleInstance,
    shared: &InstanceContext,
    bundle: &Bundle,
    revisions: &[&RevisionStatus],
    key: &str,
) -> Result<Option<Rendered>, RenderError> {
    let owner = owner(instance);
    for revision in revisions {
        match revisions::read(shared, &owner, revision).await {
            Ok(record) if has_key(&record.header.details, key) => {
                return Ok(Some(Rendered::of_bundle_record(record, instance, bundle)));
            }
            // A transient error does not show that the record is missing.
            Err(error) if error.is_transient() => {
                let target = Target {
                    source: Source::Bundle(bundle),
                    rollback: None,
                };
                let failure = failure_for(&target)(error.to_string(), RetryClass::Soon);
                return Err(RenderError::NotLoaded(failure));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Reports whether content that has to be rendered again is lost, after a change of only the provisioner's release or the
/// cluster. Unless a record has the objects, the installation remains as recorded until the Bundle controller has fetched the
/// content.
pub(super) async fn lacks_content(
    instance: &BundleInstance,
    shared: &InstanceContext,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
) -> bool {
    let bundle = target.bundle();
    let Some(bundle) = bundle.filter(|_| is_as_declared(instance, status, target)) else {
        return false;
    };
    if bundle::is_available(&shared.ctx, bundle).await {
        return false;
    }
    // A new release of the provisioner affects all instances. So no record is read for an instance that is ready.
    let of_template = Records::new(status, bundle).of_template;
    is_ready(instance, status)
        // After a transient error of the API server, a record may still have the objects.
        || matches!(recorded(instance, shared, bundle, &of_template, key).await, Ok(None))
}
