//! Bundles that OLM failed to unpack. The condition is set on every Subscription of the namespace and does not name the
//! bundle. The bundle's Job in the namespace of the catalog does.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::Job;
use kube::{Api, api::ListParams};

use crate::{cluster::Cluster, commands::upgrade_check::cluster_state::each};

/// Label of every unpack Job; its value is the name of the Job's ConfigMap.
const LABEL: &str = "operatorframework.io/bundle-unpack-ref";
/// Name of the container that has the bundle image.
const PULL: &str = "pull";
/// Number of Jobs per list page.
const PAGE_SIZE: u32 = 100;

/// Bundles that OLM failed to unpack and does not retry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum UnpackFailures {
    #[default]
    None,
    /// The affected bundle is unknown.
    Unknown,
    /// Images whose Jobs have failed.
    Images(BTreeSet<String>),
}

impl UnpackFailures {
    /// Reports whether one of these images may be affected.
    pub(super) fn may_be(&self, images: &[&str]) -> bool {
        match self {
            Self::None => false,
            Self::Unknown => true,
            Self::Images(failed) => images.iter().any(|image| failed.contains(*image)),
        }
    }
}

/// Returns the images whose Jobs in a namespace have failed; `None` if the user may not list Jobs.
pub(super) async fn failed(
    cluster: &Cluster,
    namespace: &str,
) -> anyhow::Result<Option<BTreeSet<String>>> {
    let api: Api<Job> = Api::namespaced(cluster.client.clone(), namespace);
    let mut jobs = Vec::new();
    let params = ListParams::default().limit(PAGE_SIZE).labels(LABEL);
    match each(&api, params, |job: Job| jobs.push(job)).await {
        Ok(()) => Ok(Some(images(&jobs))),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(cluster.explain("failed to list Jobs", error)),
    }
}

/// Returns the images that have only failed Jobs: OLM uses a Job that has not failed, if one exists.
fn images(jobs: &[Job]) -> BTreeSet<String> {
    let mut all: BTreeMap<&str, bool> = BTreeMap::new();
    for job in jobs {
        let pod = job
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref());
        let mut containers = pod
            .into_iter()
            .flat_map(|spec| spec.init_containers.iter().flatten());
        let pull = containers.find(|container| container.name == PULL);
        if let Some(image) = pull.and_then(|container| container.image.as_deref()) {
            let has_failed = all.entry(image).or_insert(true);
            *has_failed = *has_failed && is_failed(job);
        }
    }
    let failed = all.into_iter().filter(|entry| entry.1);
    failed.map(|entry| entry.0.to_owned()).collect()
}

fn is_failed(job: &Job) -> bool {
    let status = job.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Failed" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sdk-37
    #[test]
    fn failed_jobs_name_their_bundle_images() {
        let job = |image: &str, condition: &str, status: &str| -> Job {
            serde_json::from_value(json!({
                "spec": {"template": {"spec": {
                    "containers": [{"name": "extract", "image": "opm"}],
                    "initContainers": [{"name": "util", "image": "util"}, {"name": "pull", "image": image}],
                }}},
                "status": {"conditions": [{"type": condition, "status": status}]},
            }))
            .unwrap()
        };
        let jobs = vec![
            job("a", "Failed", "True"),
            job("b", "Failed", "False"),
            job("c", "Complete", "True"),
            // A retry succeeded.
            job("d", "Failed", "True"),
            job("d", "Complete", "True"),
            job("e", "Failed", "True"),
            job("e", "Failed", "True"),
            Job::default(),
        ];
        let expected = ["a", "e"].map(str::to_owned);
        assert_eq!(images(&jobs), BTreeSet::from(expected));
    }

    #[test]
    fn unknown_failure_may_affect_any_bundle() {
        let images = UnpackFailures::Images(BTreeSet::from(["a".to_owned()]));
        for (given_up, asked, expected) in [
            (&UnpackFailures::None, "a", false),
            (&UnpackFailures::Unknown, "a", true),
            (&images, "a", true),
            (&images, "b", false),
        ] {
            assert_eq!(given_up.may_be(&[asked, "x"]), expected, "{given_up:?}");
        }
    }
}
