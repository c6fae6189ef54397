//! Bundles that OLM failed to unpack. The condition is set on every Subscription of the namespace and does not name the
//! bundle. The Job in the namespace of the catalog names the bundle.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use kube::{Api, api::ListParams};
use manifests::api::olm::{OlmCondition, OperatorGroup, Subscription};

use super::api::Olm;
use crate::{cluster::Cluster, commands::upgrade_check::cluster_state::each};

/// Label of every unpack Job; its value is the name of the Job's ConfigMap.
const LABEL: &str = "operatorframework.io/bundle-unpack-ref";
/// Annotation of an OperatorGroup that makes OLM retry to unpack bundles.
const RETRY_INTERVAL: &str = "operatorframework.io/bundle-unpack-min-retry-interval";
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
    /// Reads the failures that concern a Subscription. The Jobs are in the namespace of its catalog.
    pub(super) async fn read(
        olm: Olm<'_>,
        namespace: &str,
        source_namespace: &str,
        subscription: &Subscription,
    ) -> anyhow::Result<Self> {
        if unpack_condition(subscription).is_none() {
            return Ok(Self::None);
        }
        let groups: Vec<OperatorGroup> = olm.list(namespace).await.unwrap_or_default();
        let failed = failed_images(olm.0, source_namespace).await?;
        Ok(Self::new(subscription, &groups, failed))
    }

    /// Returns the failures, given the images whose Jobs have failed, if the user may list them.
    pub(super) fn new(
        subscription: &Subscription,
        groups: &[OperatorGroup],
        failed: Option<BTreeSet<String>>,
    ) -> Self {
        let retries = |group: &OperatorGroup| {
            let annotations = group.metadata.annotations.as_ref();
            annotations.is_some_and(|annotations| annotations.contains_key(RETRY_INTERVAL))
        };
        match unpack_condition(subscription) {
            None => Self::None,
            Some(_) if groups.iter().any(retries) => Self::None,
            // In this case, the Job has not failed.
            Some(condition) if condition.reason == "ErrorPreventedUnpacking" => Self::Unknown,
            Some(_) => failed.map_or(Self::Unknown, Self::Images),
        }
    }

    /// Reports whether one of these images may be affected.
    pub(super) fn may_be(&self, images: &[&str]) -> bool {
        match self {
            Self::None => false,
            Self::Unknown => true,
            Self::Images(failed) => images.iter().any(|image| failed.contains(*image)),
        }
    }
}

/// Returns the condition about a bundle that OLM no longer tries to unpack. It is set on every Subscription of the
/// namespace, regardless of the package.
pub(super) fn unpack_condition(subscription: &Subscription) -> Option<&OlmCondition> {
    // A plan that could not be written is retried.
    let reasons = ["BundleUnpackFailed", "ErrorPreventedUnpacking"];
    let mut conditions = subscription.status.conditions.iter();
    conditions.rfind(|condition| {
        condition.type_ == "BundleUnpackFailed"
            && condition.status == "True"
            && reasons.contains(&condition.reason.as_str())
    })
}

/// Returns the images whose Jobs in a namespace have failed; `None` if the user may not list Jobs.
async fn failed_images(
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
    let (failed, not_failed): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(|job| is_failed(job));
    let usable: BTreeSet<&str> = not_failed.into_iter().filter_map(bundle_image).collect();
    let failed = failed.into_iter().filter_map(bundle_image);
    failed
        .filter(|image| !usable.contains(image))
        .map(str::to_owned)
        .collect()
}

fn bundle_image(job: &Job) -> Option<&str> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    let mut containers = pod.init_containers.iter().flatten();
    let pull = containers.find(|container| container.name == PULL)?;
    pull.image.as_deref()
}

fn is_failed(job: &Job) -> bool {
    let statuses = job.status.iter();
    let mut conditions = statuses.flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Failed" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-37
    #[test]
    fn failed_jobs_name_their_bundle_images() {
        let job = |image: &str, condition: &str, status: &str| -> Job {
            object!({
                "spec": {"template": {"spec": {
                    "containers": [{"name": "extract", "image": "opm"}],
                    "initContainers": [{"name": "util", "image": "util"}, {"name": "pull", "image": image}],
                }}},
                "status": {"conditions": [{"type": condition, "status": status}]},
            })
        };
        let jobs = [
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
        assert_eq!(images(&jobs), BTreeSet::from(["a", "e"].map(str::to_owned)));
    }

    #[test]
    fn unknown_failure_may_affect_any_bundle() {
        let images = UnpackFailures::Images(BTreeSet::from(["a".to_owned()]));
        ::tests::assert_rows! {
            UnpackFailures::None.may_be(&["a", "x"]) => false;
            UnpackFailures::Unknown.may_be(&["a", "x"]) => true;
            images.may_be(&["a", "x"]) => true;
            images.may_be(&["b", "x"]) => false;
        }
    }
}
