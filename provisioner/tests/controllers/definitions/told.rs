//! What does not stop an upgrade, and what cannot be checked.

use super::*;

// parity: rukpak-36
#[tokio::test]
async fn a_custom_resource_that_was_invalid_before_does_not_hold_an_upgrade_back() {
    let definition = Definition::new("Cluster", &[version("v1", &wide())]).await;
    definition
        .star(None, "sun", &json!({"size": 50, "color": "yellow"}))
        .await;
    let with = |maximum: u64, pattern: &str| {
        let mut spec = wide();
        spec["properties"]["size"]["maximum"] = json!(maximum);
        spec["properties"]["color"]["pattern"] = json!(pattern);
        definition.crd(&[version("v1", &spec)])
    };
    definition.apply(&with(10, "^y")).await;
    let findings = definition.check(&with(10, "^b")).await;
    assert_eq!(findings.problems, []);
    assert_eq!(
        messages(&findings.warnings),
        [format!(
            "upgrade of CRD \"{}\": 1 custom resources are invalid under the old schema as under the new one",
            definition.name()
        )]
    );
}

#[tokio::test]
async fn new_rules_are_reported_as_not_checked() {
    let definition = Definition::new("Cluster", &[version("v1", &wide())]).await;
    let mut spec = wide();
    spec["x-kubernetes-validations"] = json!([{"rule": "self.size < 10"}]);
    let findings = definition
        .check(&definition.crd(&[version("v1", &spec)]))
        .await;
    assert_eq!(findings.problems, []);
    let message = one_containing(&findings.warnings, "not checked");
    assert!(
        message.ends_with("v1: spec: rule \"self.size < 10\""),
        "{message}"
    );
}

#[tokio::test]
async fn an_account_without_the_right_to_list_is_told_so() {
    let definition = Definition::new("Cluster", &[version("v1", &wide())]).await;
    let account = ServiceAccountRef {
        name: "tenant".into(),
        namespace: "default".into(),
    };
    let incoming = definition.crd(&[version("v1", &with_required_color())]);
    let findings = definition.check_by(&incoming, None, Some(account)).await;
    let message = one_containing(&findings.problems, "cannot be checked");
    let remedy = format!("allow `list` on {}", definition.name());
    assert!(message.ends_with(&remedy), "{message}");
    assert!(
        message.contains("system:serviceaccount:default:tenant"),
        "{message}"
    );
}

#[tokio::test]
async fn a_conversion_webhook_that_does_not_answer_is_told() {
    let old = [version("v1", &wide()), version("v2", &wide())];
    let definition = Definition::new("Cluster", &old).await;
    definition.star(None, "sun", &json!({"size": 5})).await;
    let mut webhook = definition.crd(&old);
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/convert"},
    }});
    definition.apply(&webhook).await;
    let mut incoming = webhook.clone();
    incoming["spec"]["versions"][1] = version("v2", &with_required_color());
    let findings = definition.check(&incoming).await;
    let message = one_containing(&findings.problems, "cannot be checked");
    assert!(
        message.ends_with("make the conversion webhook work"),
        "{message}"
    );
}
