use serde_json::json;

use crate::bundle::Place;

#[test]
fn a_bundle_is_described() {
    let place = Place::new();
    place.good("tide");
    let run = place.ok("inspect tide");
    let lines: Vec<String> = run
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "Bundle:",
        "Name: tide.v1.2.3",
        "Package: tide",
        "Conversion: converted, 6 objects",
        "Channels: stable, beta",
        "Replaces: tide.v1.2.2",
        "Skip range: >=1.0.0 <1.2.3",
        "Kubernetes at least 1.25.0",
        "tide.example.com/tide:1.2.3",
        "1 Deployment apps/v1",
        "Rights of ServiceAccount tide-system/tide in the whole cluster:",
        "get, list configmaps",
        "! get, list, watch secrets Secrets",
    ] {
        assert!(
            lines.iter().any(|known| known == line),
            "{line:?} in {}",
            run.out
        );
    }
}

#[test]
fn programs_get_the_same() {
    let place = Place::new();
    place.good("tide");
    let told = place.ok("inspect tide -o json").json();
    assert_eq!(told["outcome"], "converted");
    assert_eq!(told["class"], "registry+v1");
    assert_eq!(told["facts"]["replaces"], "tide.v1.2.2");
    assert_eq!(
        told["objects"][0],
        json!({"apiVersion": "v1", "group": "", "kind": "Namespace", "name": "tide-system"})
    );
    let rights = &told["rights"][0];
    assert_eq!(
        rights["holder"],
        json!({"kind": "ServiceAccount", "namespace": "tide-system", "name": "tide"})
    );
    assert_eq!(rights["scope"], "cluster");
    assert_eq!(
        rights["grants"][1],
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"], "dangers": ["Secrets"]})
    );
    let yaml = place.ok("inspect tide -o yaml").out;
    assert!(yaml.contains("outcome: converted\n"), "{yaml}");
}

#[test]
fn a_refused_bundle_is_described_as_far_as_it_is_known() {
    let place = Place::new();
    place.bad("tide");
    let run = place.ok("inspect tide");
    run.out_has("refused, 2 problems");
    run.out_has("Package:");
    let told = place.ok("inspect tide -o json").json();
    assert_eq!(told["outcome"], "refused");
    assert_eq!(told["refusals"].as_array().unwrap().len(), 2);
    place.fail("inspect missing");
}
