use crate::bundle::Place;

// parity: check-1, complaint-15
#[test]
fn sarif_points_at_files_of_the_repository() {
    let place = Place::new();
    place.bad("bundles/tide");
    place.tar("tide.tgz", "-czf", "bundles/tide", ".");
    let log = place
        .fail("validate ./bundles/tide tide.tgz missing -o sarif")
        .json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "rukpak");
    let rules = driver["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    let mut archives = 0;
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(
            rule["shortDescription"]["text"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        let physical = &result["locations"][0]["physicalLocation"];
        let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
        if uri == "tide.tgz" {
            archives += 1;
            assert!(
                result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].is_string()
            );
        } else {
            assert!(uri.starts_with("bundles/tide/"), "{uri}");
        }
    }
    assert_eq!(archives * 2, results.len());
    let webhooks = results
        .iter()
        .find(|result| result["ruleId"] == "Webhooks")
        .unwrap();
    let physical = &webhooks["locations"][0]["physicalLocation"];
    assert_eq!(
        physical["artifactLocation"]["uri"],
        "bundles/tide/manifests/csv.yaml"
    );
    assert!(
        physical["region"]["startLine"].as_u64() > Some(1),
        "{webhooks}"
    );
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(
        invocation["toolExecutionNotifications"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
