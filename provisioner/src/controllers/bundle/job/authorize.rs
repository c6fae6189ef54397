//! Authorization of uploads by unpack Jobs: only the pod of the Job of a Bundle may upload the content of the Bundle.

use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use manifests::api::{GROUP, bundle::Bundle};

/// Reason why an upload is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UploadDenied {
    /// The pod was replaced by another one with the same name.
    #[error("the token belongs to a pod that no longer exists")]
    PodReplaced,
    /// The pod does not belong to the Job of the Bundle.
    #[error("the token belongs to a pod of another owner, not to this Bundle's Job")]
    Foreign,
    /// The Job is terminating.
    #[error("the Job is being deleted")]
    Deleting,
}

/// Returns an error if the pod with this uid may not upload the content of a Bundle.
pub(crate) fn authorize_upload(
    bundle: &Bundle,
    job: &Job,
    pod: &Pod,
    uid: &str,
) -> Result<(), UploadDenied> {
    if pod.metadata.uid.as_deref() != Some(uid) {
        return Err(UploadDenied::PodReplaced);
    }
    if !is_owned(&pod.metadata, "Job", job.uid().as_deref()) || !belongs_to(job, bundle) {
        return Err(UploadDenied::Foreign);
    }
    match job.metadata.deletion_timestamp {
        Some(_) => Err(UploadDenied::Deleting),
        None => Ok(()),
    }
}

/// Reports whether a Job belongs to a Bundle, and not to an earlier Bundle of the same name.
pub(super) fn belongs_to(job: &Job, bundle: &Bundle) -> bool {
    is_owned(&job.metadata, "Bundle", bundle.uid().as_deref())
}

/// Returns the uid of the Bundle that controls an object.
pub(super) fn bundle(object: &ObjectMeta) -> Option<&str> {
    owner(object, "Bundle")
}

/// Reports whether an owner of this kind and uid controls an object.
pub(super) fn is_owned(object: &ObjectMeta, kind: &str, uid: Option<&str>) -> bool {
    let owner = owner(object, kind);
    owner.is_some() && owner == uid
}

/// Returns the uid of the controller owner of an object, if it is of this kind. The API server ensures that an object has
/// at most one.
fn owner<'a>(object: &'a ObjectMeta, kind: &str) -> Option<&'a str> {
    let group = match kind {
        "Bundle" => GROUP,
        _ => "batch",
    };
    let is_controller = |owner: &&OwnerReference| {
        let is_group = owner
            .api_version
            .split_once('/')
            .is_some_and(|(api_group, _)| api_group == group);
        owner.controller == Some(true) && is_group && owner.kind == kind && !owner.uid.is_empty()
    };
    let owner = object
        .owner_references
        .iter()
        .flatten()
        .find(is_controller)?;
    Some(&owner.uid)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(uid: &str) -> Bundle {
        object!({"metadata": {"name": "b", "uid": uid}, "spec": {"source": {"type": "image", "image": {"ref": "a/b"}}}})
    }

    fn owner(api: &str, kind: &str, uid: &str, controls: bool) -> Value {
        json!({"apiVersion": api, "kind": kind, "name": "b", "uid": uid, "controller": controls})
    }

    fn job(owner: &Value) -> Job {
        object!({"metadata": {"name": "j", "uid": "job", "ownerReferences": [owner]}})
    }

    fn pod(owners: &[Value]) -> Pod {
        object!({"metadata": {"name": "p", "uid": "pod", "ownerReferences": owners}})
    }

    #[test]
    fn only_the_job_pod_of_the_bundle_is_authorized() {
        let rukpak = "core.rukpak.io/v1alpha1";
        let of_bundle = owner(rukpak, "Bundle", "bundle", true);
        let of_job = owner("batch/v1", "Job", "job", true);
        let good = job(&of_bundle);
        let own_pod = pod(std::slice::from_ref(&of_job));
        assert_each!(|why, job, pod, uid, expected| authorize_upload(&bundle("bundle"), &job, &pod, uid) => expected;
            "all is well", good.clone(), own_pod.clone(), "pod" => Ok(());
            "a later pod of the same name", good.clone(), own_pod.clone(), "earlier" => Err(UploadDenied::PodReplaced);
            "a pod without a Job", good.clone(), pod(&[]), "pod" => Err(UploadDenied::Foreign);
            "another Job's pod", good.clone(), pod(&[owner("batch/v1", "Job", "other", true)]), "pod" => Err(UploadDenied::Foreign);
            "an owner that is not the controller", good.clone(), pod(&[owner("batch/v1", "Job", "job", false)]), "pod"
                => Err(UploadDenied::Foreign);
            "a Job of another API", good.clone(), pod(&[owner("example.com/v1", "Job", "job", true)]), "pod"
                => Err(UploadDenied::Foreign);
            "another Bundle's Job", job(&owner(rukpak, "Bundle", "other", true)), own_pod.clone(), "pod" => Err(UploadDenied::Foreign);
            "a Bundle of another API", job(&owner("example.com/v1", "Bundle", "bundle", true)), own_pod.clone(), "pod"
                => Err(UploadDenied::Foreign);
        );
        let deletion = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let terminating = with!(good => metadata.deletion_timestamp: deletion);
        assert_rows! {
            authorize_upload(&bundle("bundle"), &terminating, &own_pod, "pod") => Err(UploadDenied::Deleting);
            // A missing uid matches no owner.
            is_owned(&own_pod.metadata, "Job", None) => false;
            is_owned(&pod(&[owner("batch/v1", "Job", "", true)]).metadata, "Job", Some("")) => false;
        }
    }
}
