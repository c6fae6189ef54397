//! Examples of custom resources, which consoles offer to users.

use std::collections::BTreeSet;

use manifests::{
    object::{group_version, type_name},
    path::Path,
};
use serde_json::Value;

use super::{string_at, suggestion};
use crate::{
    budget::MAX_ANNOTATIONS,
    csv::Csv,
    finding::{Findings, code::Code},
};

/// Annotations that contain examples; the first existing one is used.
const KEYS: [&str; 2] = ["alm-examples", "olm.examples"];

/// API as group, version and kind.
type Api<'a> = (&'a str, &'a str, &'a str);

pub(super) fn run(csv: Csv<'_>, findings: &mut Findings) {
    let provided_apis = provided_apis(csv);
    let present: Vec<_> = KEYS
        .iter()
        .filter_map(|key| Some((*key, csv.annotation(key)?)))
        .collect();
    if present.len() > 1 {
        findings.warn(
            Code::Example,
            csv.path_place(&Path::from(["metadata", "annotations", "olm.examples"])),
            "both `alm-examples` and `olm.examples` are present; `olm.examples` is ignored",
            "keep one of them",
        );
    }
    let Some((key, json)) = present.first() else {
        if !provided_apis.is_empty() {
            findings.warn(
                Code::Example,
                csv.path_place(&suggestion(csv.value(), &["metadata", "annotations"])),
                "example annotations not found: consoles cannot show examples for the APIs that the CSV owns",
                "set the annotation alm-examples to a JSON list with a custom resource of each kind",
            );
        }
        return;
    };
    let place = csv.path_place(&Path::from(["metadata", "annotations", key]));
    let mut warn = |message: String, remedy: &str| {
        findings.warn(Code::Example, place.clone(), message, remedy);
    };
    if json.len() > MAX_ANNOTATIONS {
        return; // The bundle is rejected, because Deployments cannot contain the annotation.
    }
    let examples = match serde_json::from_str::<Value>(json) {
        Ok(Value::Array(list)) => list,
        Ok(other) => {
            let message = format!(
                "invalid example: {key} is {}, not a list; operator-sdk rejects this",
                type_name(&other)
            );
            return warn(message, "set it to a JSON list of custom resources");
        }
        Err(error) => {
            let message =
                format!("invalid example: {key} is not JSON: {error}; operator-sdk rejects this");
            return warn(message, "set it to a JSON list of custom resources");
        }
    };
    let owned: BTreeSet<Api<'_>> = provided_apis.iter().map(|(api, ..)| *api).collect();
    let mut with_example: BTreeSet<Api<'_>> = BTreeSet::new();
    for (at, example) in examples.iter().enumerate() {
        let (group, version) = group_version(string_at(example, &["apiVersion"]));
        let api = (group, version, string_at(example, &["kind"]));
        with_example.insert(api);
        if !owned.contains(&api) {
            warn(
                format!(
                    "{key}[{at}] {} {:?}: example must have a provided API; operator-sdk rejects this",
                    if api.2.is_empty() {
                        "without a kind"
                    } else {
                        api.2
                    },
                    string_at(example, &["metadata", "name"]),
                ),
                "use kinds and versions that the CSV owns, or remove the example",
            );
        }
    }
    for ((group, version, kind), [field, list], at) in provided_apis
        .into_iter()
        .filter(|(api, ..)| !with_example.contains(api))
    {
        findings.warn(
            Code::Example,
            csv.path_place(&Path::from(["spec", field, list]).index(at)),
            format!("provided API {group}/{version} {kind} should have an example annotation"),
            &format!("add one to {key}"),
        );
    }
}

/// An API that the CSV owns, and its location: a field of the spec, the list in that field, and the position in that list.
type Provided<'a> = (Api<'a>, [&'static str; 2], usize);

/// Returns the APIs that the CSV owns.
fn provided_apis(csv: Csv<'_>) -> Vec<Provided<'_>> {
    let crds = csv.crds("owned").iter().enumerate().map(|(at, crd)| {
        let group = string_at(crd, &["name"])
            .split_once('.')
            .unwrap_or_default()
            .1;
        let api = (
            group,
            string_at(crd, &["version"]),
            string_at(crd, &["kind"]),
        );
        (api, ["customresourcedefinitions", "owned"], at)
    });
    let services = csv.api_services("owned").iter().enumerate();
    let services = services.map(|(at, service)| {
        let [group, version, kind] =
            ["group", "version", "kind"].map(|key| string_at(service, &[key]));
        (
            (group, version, kind),
            ["apiservicedefinitions", "owned"],
            at,
        )
    });
    crds.chain(services).collect()
}
