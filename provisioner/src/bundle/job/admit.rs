//! Whose content is taken: that of the pod of the Job of this Bundle, and of nobody else.

use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use manifests::api::{GROUP, bundle::Bundle};

/// The reason why somebody's content is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The pod is another one by now.
    #[error("the token belongs to a pod that is gone")]
    Gone,
    /// The pod belongs to something else.
    #[error("the token belongs to a pod that is not of this Bundle's Job")]
    Foreign,
    /// The Job is on its way out.
    #[error("the Job is being deleted")]
    Deleting,
}

/// Reports whether the pod with this uid may hand a Bundle's content over.
pub(crate) fn admit(bundle: &Bundle, job: &Job, pod: &Pod, uid: &str) -> Result<(), Refused> {
    if pod.metadata.uid.as_deref() != Some(uid) {
        return Err(Refused::Gone);
    }
    if !is_owned(&pod.metadata, "Job", job.uid().as_deref()) || !is_of(job, bundle) {
        return Err(Refused::Foreign);
    }
    match job.metadata.deletion_timestamp {
        Some(_) => Err(Refused::Deleting),
        None => Ok(()),
    }
}

/// Reports whether a Job is that of a Bundle, and not of an earlier one of the same name.
pub(super) fn is_of(job: &Job, bundle: &Bundle) -> bool {
    is_owned(&job.metadata, "Bundle", bundle.uid().as_deref())
}

/// The uid of the Bundle that an object is controlled by.
pub(super) fn bundle(object: &ObjectMeta) -> Option<&str> {
    owner(object, "Bundle")
}

/// Reports whether an object is controlled by one of that kind and uid.
pub(super) fn is_owned(object: &ObjectMeta, kind: &str, uid: Option<&str>) -> bool {
    let owner = owner(object, kind);
    owner.is_some() && owner == uid
}

/// The uid of what an object is controlled by, if that is of this kind. The API server sees to it that it is one.
fn owner<'a>(object: &'a ObjectMeta, kind: &str) -> Option<&'a str> {
    let group = match kind {
        "Bundle" => GROUP,
        _ => "batch",
    };
    let is_it = |owner: &&OwnerReference| {
        let is_group = owner
            .api_version
            .split_once('/')
            .is_some_and(|(found, _)| found == group);
        owner.controller == Some(true) && is_group && owner.kind == kind && !owner.uid.is_empty()
    };
    let owner = object.owner_references.iter().flatten().find(is_it)?;
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
        let metadata = json!({"name": "j", "uid": "job", "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn pod(owners: &[Value]) -> Pod {
        let metadata = json!({"name": "p", "uid": "pod", "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    #[expect(clippy::large_stack_arrays, reason = "it is a table")]
    fn only_the_pod_of_the_job_of_the_bundle_is_admitted() {
        let rukpak = "core.rukpak.io/v1alpha1";
        let of_bundle = owner(rukpak, "Bundle", "bundle", true);
        let of_job = owner("batch/v1", "Job", "job", true);
        let good = job(&of_bundle);
        let ours = pod(std::slice::from_ref(&of_job));
        for (why, job, pod, uid, expected) in ::tests::rows![
            "all is well", good.clone(), ours.clone(), "pod" => Ok(());
            "a later pod of the same name", good.clone(), ours.clone(), "earlier" => Err(Refused::Gone);
            "a pod without a Job", good.clone(), pod(&[]), "pod" => Err(Refused::Foreign);
            "another Job's pod", good.clone(), pod(&[owner("batch/v1", "Job", "other", true)]), "pod" => Err(Refused::Foreign);
            "somebody who only says so", good.clone(), pod(&[owner("batch/v1", "Job", "job", false)]), "pod"
                => Err(Refused::Foreign);
            "a Job of another API", good.clone(), pod(&[owner("example.com/v1", "Job", "job", true)]), "pod"
                => Err(Refused::Foreign);
            "another Bundle's Job", job(&owner(rukpak, "Bundle", "other", true)), ours.clone(), "pod" => Err(Refused::Foreign);
            "a Bundle of another API", job(&owner("example.com/v1", "Bundle", "bundle", true)), ours.clone(), "pod"
                => Err(Refused::Foreign);
        ] {
            assert_eq!(admit(&bundle("bundle"), &job, &pod, uid), expected, "{why}");
        }
        let mut leaving = good;
        leaving.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_rows!(admit(&bundle("bundle"), &leaving, &ours, "pod") => Err(Refused::Deleting));
        // No uid is no proof of anything.
        assert!(!is_owned(&ours.metadata, "Job", None));
        assert_rows!(!is_owned(&pod(&[owner("batch/v1", "Job", "", true)]).metadata, "Job", Some("")) => true);
    }
}
