//! Findings that do not stop an upgrade, and CRDs that cannot be checked.

use super::*;

/// Custom resources that are invalid under the old schema as well do not stop an upgrade.
pub(super) async fn resources_that_were_invalid_before_hold_nothing_back(crd: &Definition) {
    let yellow = json!({"size": 50, "color": "yellow"});
    crd.star(None, "mars", &yellow).await;
    let with = |maximum: u64, pattern: &str| {
        let mut spec = wide();
        spec["properties"]["size"]["maximum"] = json!(maximum);
        spec["properties"]["color"]["pattern"] = json!(pattern);
        crd.crd(&[version("v1", &spec)])
    };
    crd.apply(&with(10, "^y")).await;
    let findings = crd.check(&with(10, "^b")).await;
    assert_eq!(findings.problems, []);
    assert_eq!(
        messages(&findings.warnings),
        [format!(
            "upgrade of CRD \"{}\": 1 custom resources are invalid under both the old and the new schema",
            crd.name()
        )]
    );
}

/// Validation rules are reported, because only the API server evaluates them.
pub(super) async fn new_rules_are_reported_as_not_checked(crd: &Definition) {
    let mut spec = wide();
    spec["x-kubernetes-validations"] = json!([{"rule": "self.size < 10"}]);
    let incoming = crd.crd(&[version("v1", &spec)]);
    let findings = crd.check(&incoming).await;
    assert_eq!(findings.problems, []);
    let message = one_containing(&findings.warnings, "not checked");
    let rule = "v1: spec: rule \"self.size < 10\"";
    assert!(message.ends_with(rule), "{message}");
}

/// A service account that cannot list the custom resources is named with the remedy.
pub(super) async fn missing_permission_to_list_is_reported(crd: &Definition) {
    let account = Account {
        name: "tenant".into(),
        namespace: "default".into(),
    };
    let incoming = crd.crd(&[version("v1", &with_required_color())]);
    let findings = crd.check_by(&incoming, None, Some(account)).await;
    let message = one_containing(&findings.problems, "failed to check the custom resources");
    let remedy = format!("allow `list` on {}", crd.name());
    assert!(message.ends_with(&remedy), "{message}");
    let user = "system:serviceaccount:default:tenant";
    assert!(message.contains(user), "{message}");
}

#[tokio::test]
async fn unavailable_conversion_webhook_is_reported() {
    let old = [version("v1", &wide()), version("v2", &wide())];
    let crd = Definition::new("Cluster", &old).await;
    crd.star(None, "sun", &json!({"size": 5})).await;
    let mut webhook = crd.crd(&old);
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/convert"},
    }});
    crd.apply(&webhook).await;
    let mut incoming = webhook.clone();
    incoming["spec"]["versions"][1] = version("v2", &with_required_color());
    let findings = crd.check(&incoming).await;
    let message = one_containing(&findings.problems, "failed to check the custom resources");
    let remedy = "make sure that the conversion webhook is running";
    assert!(message.ends_with(remedy), "{message}");
}
