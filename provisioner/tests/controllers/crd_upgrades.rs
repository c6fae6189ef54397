//! Upgrades of CRDs against custom resources of a real API server. Rows C1 to C6 of rukpak's acceptance tests, which
//! rukpak answered by a webhook; here a BundleInstance checks before it changes anything.

mod schema_conformance;

use apply::preflight::{self, Check, Findings};
use cluster::{DryRun, Lease};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use manifests::api::{
    bundle_instance::{CheckMode, Preflight, ServiceAccountRef},
    labels,
};
use serde_json::{Value, json};
use tests::assert_has;

use crate::preflight::Case;
use crate::support::{self, define, delete, merge, unique, without_controllers};

/// A CRD with custom resources, on a dedicated control plane.
struct Definition {
    client: Client,
    cluster: Lease,
    group: String,
    scope: &'static str,
}

impl Definition {
    async fn new(scope: &'static str, versions: &[Value]) -> Self {
        let cluster = without_controllers().await;
        let crd = Self {
            client: cluster.client().unwrap(),
            cluster,
            group: format!("{}.example.com", unique("sky")),
            scope,
        };
        define(&crd.cluster, &crd.crd(versions)).await;
        crd
    }

    fn name(&self) -> String {
        format!("stars.{}", self.group)
    }

    fn crd(&self, versions: &[Value]) -> Value {
        let mut crd = support::crd(&self.group, "Star");
        crd["spec"]["scope"] = json!(self.scope);
        crd["spec"]["versions"] = json!(versions);
        crd
    }

    fn stars(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&self.group, "v1", "Star"));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn star_object(&self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Star", "metadata": {"name": name}, "spec": spec})
    }

    async fn star(&self, namespace: Option<&str>, name: &str, spec: &Value) {
        // Unknown fields are dropped, as by kubectl without validation.
        let ignore = Some(kube::api::ValidationDirective::Ignore);
        let params = tests::with!(PatchParams::apply("tests").force() => field_validation: ignore);
        let (stars, star) = (self.stars(namespace), self.star_object(name, spec));
        let applied = stars.patch(name, &params, &Patch::Apply(&star)).await;
        applied.unwrap();
    }

    async fn check(&self, incoming: &Value) -> Findings {
        self.check_by(incoming, CheckMode::Enforce, None).await
    }

    async fn check_by(
        &self,
        incoming: &Value,
        crd_upgrade_safety: CheckMode,
        account: Option<&ServiceAccountRef>,
    ) -> Findings {
        let objects = std::slice::from_ref(incoming);
        let mut case = Case::new(self.cluster.cluster(), "default", objects);
        case.instance.spec.preflight = Some(tests::with!(Preflight, crd_upgrade_safety));
        if let Some(account) = account {
            case = case.by(account);
        }
        case.check(async |input| preflight::crd_safety::check(input, |_| true).await)
            .await
    }
}

fn version(name: &str, spec: &Value) -> Value {
    json!({"name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
}

fn wide() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}})
}

fn with_required_color() -> Value {
    tests::with!(wide() => |spec| spec["required"] = json!(["color"]))
}

fn with_maximum(size: u64) -> Value {
    tests::with!(wide() => |spec| spec["properties"]["size"]["maximum"] = json!(size))
}

fn messages(problems: &[preflight::Finding]) -> Vec<&str> {
    for problem in problems {
        assert_eq!(problem.check, Check::DefinitionUpgrade);
    }
    problems.iter().map(|problem| &*problem.message).collect()
}

fn one_containing<'a>(problems: &'a [preflight::Finding], text: &str) -> &'a str {
    let mut found = messages(problems);
    found.retain(|message| message.contains(text));
    let [message] = found[..] else {
        panic!("{text:?} is not in one of {problems:#?}");
    };
    message
}

/// CRDs that do not exist are not checked, and neither is one that is being deleted.
async fn missing_crd_is_not_checked(crd: &Definition) {
    let mut narrow = crd.crd(&[version("v1", &with_required_color())]);
    for name in ["moons.example.com", "../../../../api/v1/nodes", "a?b=c", ""] {
        narrow["metadata"]["name"] = json!(name);
        tests::assert_rows!(crd.check(&narrow).await => Findings::default(), "{name}");
    }
    narrow["metadata"]["name"] = json!(crd.name());
    assert_eq!(crd.check(&narrow).await.problems.len(), 2);

    let finalizers = |all: &[&str]| json!({"metadata": {"finalizers": all}});
    let crds: Api<CustomResourceDefinition> = Api::all(crd.client.clone());
    let name = crd.name();
    merge(&crds, &name, &finalizers(&["example.com/hold"])).await;
    delete(&crds, &name).await;
    assert_eq!(crd.check(&narrow).await, Findings::default());
    merge(&crds, &name, &finalizers(&[])).await;
}

// parity: c1, c3, complaint-9, rukpak-6, c4, c5, c6, rukpak-35, rukpak-36, rukpak-37
#[tokio::test]
async fn c1_to_c6_crd_upgrades_are_checked() {
    let crd = &Definition::new("Cluster", &[version("v1", &wide())]).await;
    crd.star(None, "sun", &json!({"size": 5})).await;
    crd.star(None, "vega", &json!({"color": "blue"})).await;
    // C1 and C2: a safe update is admitted. The plan adds the owner labels.
    let wider = tests::with!(wide() => |spec| spec["properties"]["age"] = json!({"type": "integer", "minimum": 0}));
    tests::assert_rows!(crd.check(&crd.crd(&[version("v1", &wider), version("v2", &wider)])).await => Findings::default());

    // C3: a new required field is denied while a custom resource lacks the field.
    let mut incoming = crd.crd(&[version("v1", &with_required_color())]);
    let name = crd.name();
    let resources = format!(
        "failed to validate safety of UPDATE for CRD \"{name}\" (NOTE: to disable this validation, set the \
         \"core.rukpak.io/safe-crd-upgrade-validation\" annotation to \"false\", or spec.preflight.crdUpgradeSafety to Off): \
         error validating existing CRs against new CRD's schema for \"{name}\": existing custom object sun failed validation for \
         new schema version v1: spec.color: Required value"
    );
    let schema = format!(
        "validating upgrade for CRD \"{name}\" failed: v1: spec.color: required: added. Install a bundle version that keeps \
         the fields and versions in use, or, if they are not needed, set spec.preflight.crdUpgradeSafety: Off, or annotation \
         core.rukpak.io/safe-crd-upgrade-validation: \"false\" on the CRD"
    );
    let findings = crd.check(&incoming).await;
    assert_eq!(messages(&findings.problems), [resources, schema]);

    // C4: updates by other clients are admitted.
    crd.cluster.apply(&incoming, DryRun::Yes).await.unwrap();

    // A service account that cannot list the custom resources is named with the remedy.
    let account = ServiceAccountRef {
        name: "tenant".into(),
        namespace: "default".into(),
    };
    let mode = CheckMode::Enforce;
    let findings = crd.check_by(&incoming, mode, Some(&account)).await;
    let message = one_containing(&findings.problems, "failed to check the custom resources");
    tests::assert_rows!(message.ends_with(&format!("allow `list` on {}", crd.name())) => true, "{message}");
    assert_has(message, "system:serviceaccount:default:tenant");

    // C5: the annotation and the spec turn the check off.
    tests::assert_rows!(crd.check_by(&incoming, CheckMode::Off, None).await => Findings::default());
    for (value, problems) in [("false", 0), ("true", 2), ("False", 2)] {
        incoming["metadata"]["annotations"] = json!({labels::SAFE_CRD_UPGRADE: value});
        let findings = crd.check(&incoming).await;
        assert_eq!(findings.problems.len(), problems, "{value}: {findings:?}");
    }

    // C6: a stored version cannot be removed. A removed field is reported with the custom resources that use the field.
    let v2 = tests::with!(version("v2", &wide()) => |version| version["storage"] = json!(true));
    let findings = crd.check(&crd.crd(&[v2])).await;
    one_containing(&findings.problems, "cannot remove stored versions [v1]");
    let narrow = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let findings = crd.check(&crd.crd(&[version("v1", &narrow)])).await;
    let removed = "failed: v1: spec.color: existing field: removed.";
    one_containing(&findings.problems, removed);
    let message = one_containing(&findings.problems, "would be lost");
    assert_has(message, "existing custom object vega failed");
    assert!(!message.contains("object sun"), "{message}");

    // Validation rules are reported, because only the API server evaluates them.
    let spec = tests::with!(wide() => |spec| spec["x-kubernetes-validations"] = json!([{"rule": "self.size < 10"}]));
    let findings = crd.check(&crd.crd(&[version("v1", &spec)])).await;
    assert_eq!(findings.problems, []);
    let message = one_containing(&findings.warnings, "not checked");
    tests::assert_rows!(message.ends_with("v1: spec: rule \"self.size < 10\"") => true, "{message}");

    // Custom resources that are invalid under the old schema as well do not stop an upgrade.
    let yellow = json!({"size": 50, "color": "yellow"});
    crd.star(None, "mars", &yellow).await;
    let with = |maximum: u64, pattern: &str| {
        let spec = tests::with!(with_maximum(maximum) => |spec| spec["properties"]["color"]["pattern"] = json!(pattern));
        crd.crd(&[version("v1", &spec)])
    };
    define(&crd.cluster, &with(10, "^y")).await;
    let findings = crd.check(&with(10, "^b")).await;
    assert_eq!(findings.problems, []);
    let warning = format!(
        "upgrade of CRD \"{name}\": 1 custom resources are invalid under both the old and the new schema"
    );
    assert_eq!(messages(&findings.warnings), [warning]);
    missing_crd_is_not_checked(crd).await;
}

// parity: rukpak-38
#[tokio::test]
async fn custom_resources_beyond_the_first_page_are_counted() {
    let crd = Definition::new("Namespaced", &[version("v1", &wide())]).await;
    let written = (0..230).map(async |index| {
        let (name, spec) = (format!("star-{index:03}"), json!({"size": index}));
        crd.star(Some("default"), &name, &spec).await;
    });
    futures::future::join_all(written).await;
    let with_maximum = |maximum| crd.crd(&[version("v1", &with_maximum(maximum))]);
    // Only the last object.
    let findings = crd.check(&with_maximum(228)).await;
    let message = one_containing(&findings.problems, "failed validation");
    let last = "existing custom object default/star-229 failed validation for new schema version v1: spec.size: Invalid \
                value: 229: should be less than or equal to 228";
    assert!(message.ends_with(last), "{message}");
    let findings = crd.check(&with_maximum(9)).await;
    let message = one_containing(&findings.problems, "failed validation");
    assert!(message.ends_with("; and 215 more"), "{message}");
    assert_eq!(message.matches("existing custom object").count(), 5);
}

#[tokio::test]
async fn unavailable_conversion_webhook_is_reported() {
    let old = [version("v1", &wide()), version("v2", &wide())];
    let crd = Definition::new("Cluster", &old).await;
    crd.star(None, "sun", &json!({"size": 5})).await;
    let mut webhook = crd.crd(&old);
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/convert"}}});
    define(&crd.cluster, &webhook).await;
    let incoming = tests::with!(webhook => |crd| crd["spec"]["versions"][1] = version("v2", &with_required_color()));
    let findings = crd.check(&incoming).await;
    let message = one_containing(&findings.problems, "failed to check the custom resources");
    tests::assert_rows!(message.ends_with("make sure that the conversion webhook is running") => true, "{message}");
}
