use crate::bundle::Workspace;

// parity: check-1, complaint-15
#[test]
fn sarif_points_at_files_of_the_repository() {
    let workspace = Workspace::new();
    workspace.bad("bundles/tide");
    workspace.tar("tide.tgz", "-czf", "bundles/tide", ".");
    let run = workspace.run("validate ./bundles/tide tide.tgz missing -o sarif");
    let log = run.exits(1).json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "rukpak");
    let results = run["results"].as_array().unwrap();
    let mut archives = 0;
    for result in results {
        let rule = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        let rule = &driver["rules"][rule];
        assert_eq!(rule["id"], result["ruleId"]);
        let short = rule["shortDescription"]["text"].as_str();
        assert!(short.is_some_and(|text| !text.is_empty()), "{rule}");
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        let location = &result["locations"][0];
        let uri = &location["physicalLocation"]["artifactLocation"]["uri"];
        let uri = uri.as_str().unwrap();
        if uri == "tide.tgz" {
            archives += 1;
            assert!(location["logicalLocations"][0]["fullyQualifiedName"].is_string());
        } else {
            assert!(uri.starts_with("bundles/tide/"), "{uri}");
        }
    }
    assert_eq!(archives * 2, results.len());
    let webhooks = results.iter().find(|result| result["ruleId"] == "Webhooks");
    let physical = &webhooks.unwrap()["locations"][0]["physicalLocation"];
    tests::assert_rows!(&physical["artifactLocation"]["uri"] => "bundles/tide/manifests/csv.yaml");
    let line = physical["region"]["startLine"].as_u64();
    assert!(line > Some(1), "{physical}");
    tests::assert_rows!(run["invocations"][0]["toolExecutionNotifications"].as_array().unwrap().len() => 1);
}
