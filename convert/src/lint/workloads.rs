//! Workloads: the CSV's Deployments, and other workloads of the bundle.

use manifests::{image::Reference, object::get_path, path::Path};
use serde_json::Value;

use super::{Input, list, string_at, suggestion};
use crate::{
    bundle_info::{POD_TEMPLATE, pod_template},
    csv::DEPLOYMENTS,
    finding::{Findings, Location, code::Code},
};

/// An object that creates pods.
pub(super) struct Workload<'a> {
    label: String,
    /// The object, or the entry of the CSV.
    place: Location,
    /// Path of the pod template.
    keys: &'static [&'static str],
    pub(super) template: &'a Value,
}

/// Returns all workloads.
pub(super) fn all(input: Input<'_>) -> Vec<Workload<'_>> {
    let deployments = input.csv.into_iter().flat_map(|csv| {
        csv.deployments()
            .iter()
            .enumerate()
            .filter_map(move |(index, entry)| {
                Some(Workload {
                    label: format!("Deployment {:?}", string_at(entry, &["name"])),
                    place: csv.path_place(&Path::from(DEPLOYMENTS).index(index)),
                    keys: POD_TEMPLATE,
                    template: get_path(entry, POD_TEMPLATE)?,
                })
            })
    });
    let shipped = input.others.iter().filter_map(|item| {
        let keys = pod_template(item.kind())?;
        Some(Workload {
            label: item.label(),
            place: item.place.clone(),
            keys,
            template: get_path(&item.value, keys)?,
        })
    });
    deployments.chain(shipped).collect()
}

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    for workload in all(input) {
        for field in ["initContainers", "containers"] {
            for (index, container) in list(workload.template, &["spec", field]) {
                let container = Container {
                    label: format!(
                        "container {:?} of {}",
                        string_at(container, &["name"]),
                        workload.label
                    ),
                    place: workload.place.at(&path(&workload, field, index)),
                    value: container,
                };
                image(&container, findings);
                privileged(&container, findings);
                if field == "containers" {
                    requests(&container, findings);
                }
            }
        }
    }
}

fn path(workload: &Workload<'_>, field: &str, index: usize) -> Path {
    let template = workload
        .keys
        .iter()
        .fold(Path::root(), |path, key| path.key(*key));
    template.key("spec").key(field).index(index)
}

struct Container<'a> {
    label: String,
    place: Location,
    value: &'a Value,
}

/// Reports an image that can change under the same reference.
fn image(container: &Container<'_>, findings: &mut Findings) {
    let image = string_at(container.value, &["image"]);
    let problem = match image.parse::<Reference>() {
        Err(error) => format!("cannot start: {error}"),
        Ok(reference) if reference.is_pinned() => return,
        Ok(reference) if reference.tag() == Some("latest") => {
            format!("runs {image:?}, which can refer to different images over time")
        }
        Ok(_) => format!("runs {image:?}, which is not pinned by a digest"),
    };
    findings.warn(
        Code::MutableImage,
        container.place.at(&suggestion(container.value, &["image"])),
        format!("{} {problem}", container.label),
        "pin the image by digest, <repository>@sha256:…, so that tests, mirrors and clusters use the same image",
    );
}

fn privileged(container: &Container<'_>, findings: &mut Findings) {
    const KEYS: [&str; 2] = ["securityContext", "privileged"];
    if get_path(container.value, &KEYS) == Some(&Value::Bool(true)) {
        findings.warn(
            Code::Privileged,
            container.place.at(&Path::from(KEYS)),
            format!(
                "{} is privileged: it has root access to the node",
                container.label
            ),
            "grant the capabilities that it needs instead",
        );
    }
}

/// Reports missing requests, without which a busy node starves the operator. As in the cluster, a limit counts as a
/// request.
fn requests(container: &Container<'_>, findings: &mut Findings) {
    let has = |name| {
        ["requests", "limits"]
            .iter()
            .any(|field| get_path(container.value, &["resources", field, name]).is_some())
    };
    let missing: Vec<_> = ["cpu", "memory"]
        .into_iter()
        .filter(|name| !has(name))
        .collect();
    if !missing.is_empty() {
        findings.warn(
            Code::ResourceRequests,
            container.place.clone(),
            format!(
                "{} has no resource requests for {}",
                container.label,
                missing.join(" and ")
            ),
            "set resources.requests.cpu and resources.requests.memory",
        );
    }
}
