//! What the first generations say in the ClusterServiceVersion alone: the APIs that a bundle needs, and its images. Later
//! ones have tables of these, which opm's migrations fill from there.

use std::collections::BTreeSet;

use manifests::object::{at, text};
use serde_json::Value;

use super::properties::Gvk;

/// The APIs that a bundle needs. Of a definition only the name tells its group.
pub(super) fn required(csv: &Value) -> Vec<Gvk> {
    let definitions = list(csv, &["spec", "customresourcedefinitions", "required"]);
    let definitions = definitions.filter_map(|it| {
        let (_, group) = text(it, &["name"])?.split_once('.')?;
        Some(gvk(it, group))
    });
    let services = list(csv, &["spec", "apiservicedefinitions", "required"]);
    let services = services.map(|it| gvk(it, text(it, &["group"]).unwrap_or_default()));
    definitions.chain(services).collect()
}

/// The images that a bundle names: those that it runs, and those that it says it wants.
pub(super) fn images(csv: &Value) -> BTreeSet<String> {
    let deployments = list(csv, &["spec", "install", "spec", "deployments"]);
    let containers = deployments.flat_map(|it| {
        let pod = |key| list(it, &["spec", "template", "spec", key]);
        pod("containers").chain(pod("initContainers"))
    });
    let related = list(csv, &["spec", "relatedImages"]);
    let images = containers
        .chain(related)
        .filter_map(|it| text(it, &["image"]));
    images
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

fn gvk(definition: &Value, group: &str) -> Gvk {
    let word = |key| text(definition, &[key]).unwrap_or_default().to_owned();
    Gvk {
        group: group.to_owned(),
        kind: word("kind"),
        version: word("version"),
    }
}

fn list<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = at(value, path).and_then(Value::as_array);
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sqlite-1
    #[test]
    fn a_csv_says_what_a_bundle_needs_and_runs() {
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
        let needed: Vec<String> = required(&csv)
            .iter()
            .map(|it| format!("{}/{} {}", it.group, it.version, it.kind))
            .collect();
        assert_eq!(needed, ["moon.example/v1 Moon", "sun.example/v2 Sun"]);
        let found = images(&csv);
        assert_eq!(found, ["a:1", "b:1", "c:1"].map(str::to_owned).into());
        for odd in [json!(null), json!([1]), json!({"spec": {"install": 1}})] {
            assert_eq!((required(&odd).len(), images(&odd).len()), (0, 0), "{odd}");
        }
    }
}
