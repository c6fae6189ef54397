//! What OLM could not unpack. The condition that says so is on every Subscription of the namespace, and does not name the bundle:
//! its Job does, in the namespace of the catalog.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::Job;
use kube::{Api, api::ListParams};

use crate::{cluster::Cluster, upgrade::read::each};

/// On every such Job: its ConfigMap.
const LABEL: &str = "operatorframework.io/bundle-unpack-ref";
/// The container whose image is the bundle's.
const PULL: &str = "pull";
/// How many Jobs are in a page.
const PAGE: u32 = 100;

/// What OLM could not unpack, and does not try again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum GivenUp {
    #[default]
    Nothing,
    /// It is not known of which bundle.
    Something,
    /// The images whose Jobs have failed.
    Images(BTreeSet<String>),
}

impl GivenUp {
    /// Whether this may be one of these images.
    pub(super) fn may_be(&self, images: &[&str]) -> bool {
        match self {
            Self::Nothing => false,
            Self::Something => true,
            Self::Images(failed) => images.iter().any(|it| failed.contains(*it)),
        }
    }
}

/// The images whose Jobs have failed in a namespace; nothing where one may not look.
pub(super) async fn failed(
    cluster: &Cluster,
    namespace: &str,
) -> anyhow::Result<Option<BTreeSet<String>>> {
    let api: Api<Job> = Api::namespaced(cluster.client.clone(), namespace);
    let mut jobs = Vec::new();
    let params = ListParams::default().limit(PAGE).labels(LABEL);
    match each(&api, params, |it: Job| jobs.push(it)).await {
        Ok(()) => Ok(Some(images(&jobs))),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(cluster.trouble("failed to list Jobs", error)),
    }
}

/// The images of which no Job goes on or is done: OLM takes one that has not failed, if there is one.
fn images(jobs: &[Job]) -> BTreeSet<String> {
    let mut all: BTreeMap<&str, bool> = BTreeMap::new();
    for job in jobs {
        let pod = job.spec.as_ref().and_then(|it| it.template.spec.as_ref());
        let mut containers = pod
            .into_iter()
            .flat_map(|it| it.init_containers.iter().flatten());
        let pull = containers.find(|it| it.name == PULL);
        if let Some(image) = pull.and_then(|it| it.image.as_deref()) {
            let has_failed = all.entry(image).or_insert(true);
            *has_failed = *has_failed && is_failed(job);
        }
    }
    let failed = all.into_iter().filter(|it| it.1);
    failed.map(|it| it.0.to_owned()).collect()
}

fn is_failed(job: &Job) -> bool {
    let status = job.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == "Failed" && it.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sdk-37
    #[test]
    fn a_job_tells_which_bundle_could_not_be_unpacked() {
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
            // It was tried again.
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
    fn what_is_not_known_may_be_any_bundle() {
        let images = GivenUp::Images(BTreeSet::from(["a".to_owned()]));
        for (given_up, asked, expected) in [
            (&GivenUp::Nothing, "a", false),
            (&GivenUp::Something, "a", true),
            (&images, "a", true),
            (&images, "b", false),
        ] {
            assert_eq!(given_up.may_be(&[asked, "x"]), expected, "{given_up:?}");
        }
    }
}
