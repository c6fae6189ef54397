//! Data that the first schema versions contain only in the ClusterServiceVersion: required APIs and images of a bundle.
//! Later versions have tables, which opm's migrations fill from there.

use std::collections::BTreeSet;

use manifests::object::{get_path, text};
use serde_json::Value;

use super::properties::Gvk;

/// Returns the APIs that a bundle requires. The group of a CRD is derived from its name.
pub(super) fn required(csv: &Value) -> Vec<Gvk> {
    let crds = list(csv, &["spec", "customresourcedefinitions", "required"]);
    let crds = crds.filter_map(|description| {
        let (_, group) = text(description, &["name"])?.split_once('.')?;
        Some(gvk(description, group))
    });
    let services = list(csv, &["spec", "apiservicedefinitions", "required"]);
    let services =
        services.map(|service| gvk(service, text(service, &["group"]).unwrap_or_default()));
    crds.chain(services).collect()
}

/// Returns the images of a bundle: those of its deployments, and the related images.
pub(super) fn images(csv: &Value) -> BTreeSet<String> {
    let deployments = list(csv, &["spec", "install", "spec", "deployments"]);
    let containers = deployments.flat_map(|deployment| {
        let pod = |key| list(deployment, &["spec", "template", "spec", key]);
        pod("containers").chain(pod("initContainers"))
    });
    let related = list(csv, &["spec", "relatedImages"]);
    let images = containers
        .chain(related)
        .filter_map(|entry| text(entry, &["image"]));
    images
        .filter(|image| !image.is_empty())
        .map(str::to_owned)
        .collect()
}

fn gvk(description: &Value, group: &str) -> Gvk {
    let word = |key| text(description, &[key]).unwrap_or_default().to_owned();
    Gvk {
        group: group.to_owned(),
        kind: word("kind"),
        version: word("version"),
    }
}

fn list<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = get_path(value, path).and_then(Value::as_array);
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::list;

    // parity: sqlite-1
    #[test]
    fn csv_has_requirements_and_images() {
        let csv = json!({"spec": {
            "customresourcedefinitions": {
                "owned": [{"name": "tides.tide.example", "version": "v1", "kind": "Tide"}],
                "required": [
                    {"name": "moons.moon.example", "version": "v1", "kind": "Moon"},
                    {"name": "nowhere", "version": "v1", "kind": "Nowhere"},
                    3,
                ],
            },
            "apiservicedefinitions": {"required": [{"group": "sun.example", "version": "v2", "kind": "Sun", "name": "suns"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "a", "spec": {"template": {"spec": {
                "containers": [{"image": "a:1"}, {"image": ""}, {}], "initContainers": [{"image": "b:1"}],
            }}}}]}},
            "relatedImages": [{"name": "c", "image": "c:1"}, {"name": "a", "image": "a:1"}],
        }});
        let needed = list(required(&csv), |api| {
            format!("{}/{} {}, ", api.group, api.version, api.kind)
        });
        assert_eq!(needed, "moon.example/v1 Moon, sun.example/v2 Sun, ");
        assert_rows!(images(&csv) => ["a:1", "b:1", "c:1"].map(str::to_owned).into());
        for odd in [json!(null), json!([1]), json!({"spec": {"install": 1}})] {
            assert_eq!((required(&odd).len(), images(&odd).len()), (0, 0), "{odd}");
        }
    }
}
