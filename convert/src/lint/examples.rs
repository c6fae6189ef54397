//! Examples of custom resources, which consoles offer to users.

use std::collections::BTreeSet;

use manifests::{
    object::{group_version, type_name},
    path::Path,
};
use serde_json::Value;

use super::{near, word};
use crate::{budget::MAX_ANNOTATIONS, code::Code, csv::Csv, report::Findings};

/// The annotations that hold examples; the first one counts.
const KEYS: [&str; 2] = ["alm-examples", "olm.examples"];

/// Group, version and kind.
type Api<'a> = (&'a str, &'a str, &'a str);

pub(super) fn run(csv: Csv<'_>, findings: &mut Findings) {
    let provided = provided(csv);
    let present: Vec<_> = KEYS
        .iter()
        .filter_map(|key| Some((*key, csv.annotation(key)?)))
        .collect();
    if present.len() > 1 {
        findings.warn(
            Code::Example,
            csv.at(&Path::from(["metadata", "annotations", "olm.examples"])),
            "both `alm-examples` and `olm.examples` are present; only `alm-examples` counts",
            "keep one of them",
        );
    }
    let Some((key, json)) = present.first() else {
        if !provided.is_empty() {
            findings.warn(
                Code::Example,
                csv.at(&near(csv.value(), &["metadata", "annotations"])),
                "example annotations not found: consoles have nothing to offer for the APIs that the CSV owns",
                "write a JSON list with a custom resource of each kind into the annotation alm-examples",
            );
        }
        return;
    };
    let place = csv.at(&Path::from(["metadata", "annotations", key]));
    let mut warn = |message: String, remedy: &str| {
        findings.warn(Code::Example, place.clone(), message, remedy);
    };
    if json.len() > MAX_ANNOTATIONS {
        return; // The bundle is refused, as Deployments could not carry it.
    }
    let examples = match serde_json::from_str::<Value>(json) {
        Ok(Value::Array(list)) => list,
        Ok(other) => {
            let message = format!(
                "invalid example: {key} is {}, not a list; operator-sdk refuses this",
                type_name(&other)
            );
            return warn(message, "write a JSON list of custom resources");
        }
        Err(error) => {
            let message =
                format!("invalid example: {key} is not JSON: {error}; operator-sdk refuses this");
            return warn(message, "write a JSON list of custom resources");
        }
    };
    let known: BTreeSet<Api<'_>> = provided.iter().map(|(api, ..)| *api).collect();
    let mut shown: BTreeSet<Api<'_>> = BTreeSet::new();
    for (at, example) in examples.iter().enumerate() {
        let (group, version) = group_version(word(example, &["apiVersion"]));
        let api = (group, version, word(example, &["kind"]));
        shown.insert(api);
        if !known.contains(&api) {
            warn(
                format!(
                    "{key}[{at}] {} {:?}: example must have a provided API; operator-sdk refuses this",
                    if api.2.is_empty() {
                        "without a kind"
                    } else {
                        api.2
                    },
                    word(example, &["metadata", "name"]),
                ),
                "show kinds and versions that the CSV owns, or remove the example",
            );
        }
    }
    for ((group, version, kind), [field, list], at) in provided
        .into_iter()
        .filter(|(api, ..)| !shown.contains(api))
    {
        findings.warn(
            Code::Example,
            csv.at(&Path::from(["spec", field, list]).index(at)),
            format!("provided API {group}/{version} {kind} should have an example annotation"),
            &format!("add one to {key}"),
        );
    }
}

/// An API that the CSV owns, and its place: a field of the spec, the list in that field, the position in that list.
type Provided<'a> = (Api<'a>, [&'static str; 2], usize);

/// The APIs that the CSV owns.
fn provided(csv: Csv<'_>) -> Vec<Provided<'_>> {
    let crds = csv.crds("owned").iter().enumerate().map(|(at, crd)| {
        let group = word(crd, &["name"]).split_once('.').unwrap_or_default().1;
        let api = (group, word(crd, &["version"]), word(crd, &["kind"]));
        (api, ["customresourcedefinitions", "owned"], at)
    });
    let services = csv.api_services("owned").iter().enumerate();
    let services = services.map(|(at, service)| {
        let [group, version, kind] = ["group", "version", "kind"].map(|key| word(service, &[key]));
        (
            (group, version, kind),
            ["apiservicedefinitions", "owned"],
            at,
        )
    });
    crds.chain(services).collect()
}
