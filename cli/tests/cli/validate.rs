use crate::bundle::{Place, csv};

// parity: check-1
#[test]
fn findings_are_a_table() {
    let place = Place::new();
    place.bad("tide");
    let run = place.fail("validate tide");
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(
        lines[0].starts_with("LEVEL ") && lines[0].ends_with("MESSAGE"),
        "{}",
        run.out
    );
    assert!(lines[1].starts_with("error "), "{}", run.out);
    let webhooks: Vec<_> = lines
        .iter()
        .filter(|line| line.contains(" Webhooks "))
        .collect();
    assert_eq!(webhooks.len(), 1);
    assert!(webhooks[0].contains(" manifests/csv.yaml:"), "{}", run.out);
    run.err_starts_with("2 errors, ");
}

#[test]
fn only_errors_fail_unless_strict() {
    let place = Place::new();
    place.good("good");
    let mut csv = csv("tide");
    csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["unknown"] = 1.into();
    place.bundle("tide", &csv);
    let run = place.ok("validate tide");
    run.out_has("warning");
    run.err_starts_with("0 errors, ");
    place.fail("validate tide --strict");
    place.fail("validate tide --warnings-as-errors");
    place.ok("validate good");
}

// parity: check-4
#[test]
fn the_summary_never_hides_a_bundle_that_cannot_be_read() {
    let place = Place::new();
    place.good("good");
    place.write("broken.tgz", "no archive");
    let last = |args: &[&str]| {
        let run = place.fail(args);
        run.err.lines().last().unwrap().to_owned()
    };
    for bundle in ["broken.tgz", "missing"] {
        assert_eq!(
            last(&["validate", bundle]),
            "failed to read 1 bundle: nothing was validated"
        );
        let both = last(&["validate", "good", bundle]);
        assert!(
            both.starts_with("0 errors, ")
                && both.ends_with(" in 1 bundle; failed to read 1 bundle"),
            "{both}"
        );
        let list = place.fail(&format!("validate {bundle} -o json"));
        assert!(list.json()[0]["error"].is_string());
        let log = place.fail(&format!("validate {bundle} -o sarif"));
        let invocation = &log.json()["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
    }
}

// parity: check-1, complaint-15
#[test]
fn json_has_an_entry_for_each_bundle() {
    let place = Place::new();
    place.good("good");
    place.bad("bad");
    let run = place.fail("validate bad good missing -o json");
    let list = run.json();
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["bundle"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["bad", "good", "missing"]);
    assert_eq!(list[0]["csv"], "bad.v1.2.3");
    assert_eq!(list[0]["findings"][0]["level"], "error");
    assert!(
        list[2]["error"]
            .as_str()
            .unwrap()
            .contains("does not exist here")
    );
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
}

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
