//! Detection of unpack Jobs that admission policies or old clusters have changed.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use manifests::api::labels;

use super::manifest::BUNDLE;

/// Returns the part of a Job that was lost when it was created, and the remedy.
pub(super) fn removed_by_admission(declared: &Job, created: &Job) -> Option<&'static str> {
    let is_unchanged =
        |key: &str| created.annotations().get(key) == declared.annotations().get(key);
    if !is_unchanged(labels::IMAGE) || !is_unchanged(labels::SPEC_HASH) {
        return Some(
            "its annotations; exempt the system namespace from the policy that removes them",
        );
    }
    // Policies may add labels.
    let has_labels = |declared: &BTreeMap<String, String>, created: &BTreeMap<String, String>| {
        let keys = [labels::OWNER_KIND, labels::OWNER_NAME];
        keys.iter()
            .all(|&key| declared.get(key) == created.get(key))
    };
    if !has_labels(declared.labels(), created.labels())
        || !has_labels(&pod_labels(declared), &pod_labels(created))
    {
        return Some(
            "its labels or those of its pods; exempt the system namespace from the policy that changes them",
        );
    }
    if has_volume(declared) && !has_volume(created) {
        return Some(
            "its image volume: this cluster does not support image volumes; start the provisioner with \
             --unpack-mode=init-container",
        );
    }
    None
}

fn pod_labels(job: &Job) -> BTreeMap<String, String> {
    let template = job.spec.as_ref().map(|spec| &spec.template);
    let metadata = template.and_then(|template| template.metadata.as_ref());
    let labels = metadata.and_then(|metadata| metadata.labels.clone());
    labels.unwrap_or_default()
}

fn has_volume(job: &Job) -> bool {
    let pod = job
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let mut volumes = pod.into_iter().flat_map(|pod| pod.volumes.iter().flatten());
    volumes.any(|volume| volume.name == BUNDLE && volume.image.is_some())
}

#[cfg(test)]
mod tests {
    use ::tests::assert_has;
    use unpacker::source::Image;

    use super::*;
    use crate::{
        controllers::bundle::job::manifest,
        runtime::settings::{Settings, UnpackMode},
    };

    type Change = fn(&mut Job, String);

    #[test]
    fn removed_fields_are_detected_and_added_fields_ignored() {
        let bundle = object!({
            "metadata": {"name": "b", "uid": "u"},
            "spec": {"source": {"type": "image", "image": {"ref": "quay.io/a/b:v1"}}},
        });
        let image = Image {
            reference: "quay.io/a/b:v1".parse().unwrap(),
            platform: None,
        };
        let settings = Settings::default();
        let declared = manifest::build_job(&bundle, &image, UnpackMode::ImageVolume, &settings);
        let declared = declared.unwrap();
        let mut created = declared.clone();
        created.annotations_mut().insert("a".into(), "b".into());
        let pod = created.spec.as_mut().unwrap().template.spec.as_mut();
        let pod = pod.unwrap();
        let sidecar =
            with!(pod.containers[0].clone() => |sidecar| sidecar.name = "sidecar".to_owned());
        pod.containers.insert(0, sidecar);
        assert_eq!(removed_by_admission(&declared, &created), None);

        let name = labels::OWNER_NAME.to_owned();
        let changes: [(Change, _); 4] = ::tests::rows![
            |job, _| job.annotations_mut().clear() => "annotations";
            |job, name| { job.labels_mut().insert(name, "other".to_owned()); } => "its labels";
            |job, _| job.spec.as_mut().unwrap().template.metadata = None => "its pods";
            |job, _| job.spec.as_mut().unwrap().template.spec.as_mut().unwrap().volumes = None => "--unpack-mode";
        ];
        for (change, problem) in changes {
            let changed = with!(created.clone() => |job| change(&mut job, name.clone()));
            assert_has(removed_by_admission(&declared, &changed).unwrap(), problem);
        }
    }
}
