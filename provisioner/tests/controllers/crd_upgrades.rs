//! Upgrades of CRDs against custom resources of a real API server, and version constraints of the cluster. Rows C1 to
//! C6 of rukpak's acceptance tests, which rukpak answered by a webhook; here a BundleInstance checks before it changes
//! anything.

mod openshift;
mod schema_conformance;
mod warnings;

use apply::{
    account::Account,
    discovery::{ApiKind, Discovery},
    inventory::Inventory,
    plan::{ApplyStep, InstanceOwner, Plan, Wave},
    preflight::{self, Check, Findings, Input, Policy},
    revision::ObjectHash,
};
use cluster::{Cluster, DryRun};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use manifests::{
    api::{
        bundle_instance::{CheckMode, Preflight},
        labels,
    },
    object::Object,
};
use provisioner::controllers::bundle_instance::policy;
use serde_json::{Value, json};

use crate::support::{define, delete, merge, unique};

/// A CRD in the cluster, with custom resources. Dropping it deletes the CRD.
struct Definition {
    client: Client,
    cluster: &'static Cluster,
    group: String,
    scope: &'static str,
}

impl Definition {
    /// Applies a CRD of `Star` with these versions.
    async fn new(scope: &'static str, versions: &[Value]) -> Self {
        let cluster = Cluster::shared().await.unwrap();
        let definition = Self {
            client: cluster.client().unwrap(),
            cluster,
            group: format!("{}.example.com", unique("sky")),
            scope,
        };
        definition.apply(&definition.crd(versions)).await;
        definition
    }

    async fn apply(&self, crd: &Value) {
        define(self.cluster, crd).await;
    }

    fn name(&self) -> String {
        format!("stars.{}", self.group)
    }

    fn crd(&self, versions: &[Value]) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name()},
            "spec": {
                "group": self.group,
                "scope": self.scope,
                "names": {"plural": "stars", "singular": "star", "kind": "Star", "listKind": "StarList"},
                "versions": versions,
            },
        })
    }

    fn stars(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(&self.group, "v1", "Star");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "stars");
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn star(&self, namespace: Option<&str>, name: &str, spec: &Value) {
        let api_version = format!("{}/v1", self.group);
        let star = json!({"apiVersion": api_version, "kind": "Star", "metadata": {"name": name}, "spec": spec});
        // Unknown fields are dropped, as by kubectl without validation.
        let params = PatchParams {
            field_manager: Some("tests".into()),
            field_validation: Some(kube::api::ValidationDirective::Ignore),
            force: true,
            ..PatchParams::default()
        };
        let stars = self.stars(namespace);
        let applied = stars.patch(name, &params, &Patch::Apply(&star)).await;
        applied.unwrap();
    }

    async fn check(&self, incoming: &Value) -> Findings {
        self.check_by(incoming, None, None).await
    }

    async fn check_by(
        &self,
        incoming: &Value,
        preflight: Option<Preflight>,
        account: Option<Account>,
    ) -> Findings {
        let mut config = self.cluster.config().clone();
        config.auth_info.impersonate = account.as_ref().map(Account::service_account_user);
        let client = Client::try_from(config).unwrap();
        let plan = Plan {
            steps: vec![step(incoming)],
            ..Plan::default()
        };
        let own = &self.client;
        let input = Input {
            owner: &InstanceOwner {
                name: "sky".into(),
                uid: "u".into(),
            },
            parent: None,
            policy: &Policy {
                account,
                crd_upgrade_safety: policy::upgrade_safety(
                    preflight.unwrap_or_default().crd_upgrade_safety,
                ),
                ..Policy::default()
            },
            plan: &plan,
            existing: &std::collections::BTreeSet::new(),
            inventory: &Inventory::new(),
            client: &client,
            own,
            kinds: &Discovery::new(own.clone()),
            is_cluster_admin: &preflight::ClusterAdminCheck::default(),
            namespace: None,
            system_namespace: "rukpak-system",
            concurrency: 8,
        };
        preflight::crd_safety::check(&input, |_| true)
            .await
            .unwrap()
    }
}

impl Drop for Definition {
    fn drop(&mut self) {
        let (config, name) = (self.cluster.config().clone(), self.name());
        // The runtime of the test may be shutting down.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let _ = runtime.block_on(async {
                let crds: Api<CustomResourceDefinition> =
                    Api::all(Client::try_from(config).unwrap());
                crds.delete(&name, &DeleteParams::default()).await
            });
        })
        .join()
        .unwrap();
    }
}

fn step(object: &Value) -> ApplyStep {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let object = Object::try_from(object.clone()).unwrap();
    ApplyStep {
        wave: Wave::Definitions,
        hash: ObjectHash::new(&object),
        object,
        kind: ApiKind {
            resource: ApiResource::from_gvk(&gvk),
            namespaced: false,
        }
        .into(),
    }
}

fn version(name: &str, spec: &Value) -> Value {
    json!({
        "name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    })
}

/// Returns a schema that accepts any star.
fn wide() -> Value {
    json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}, "moons": {"type": "array", "items": {"type": "string"}},
    }})
}

fn with_required_color() -> Value {
    let mut spec = wide();
    spec["required"] = json!(["color"]);
    spec
}

fn messages(problems: &[preflight::Finding]) -> Vec<&str> {
    for problem in problems {
        assert_eq!(problem.check, Check::DefinitionUpgrade);
    }
    problems.iter().map(|problem| &*problem.message).collect()
}

fn one_containing<'a>(problems: &'a [preflight::Finding], text: &str) -> &'a str {
    let mut found = messages(problems)
        .into_iter()
        .filter(|message| message.contains(text));
    let message = found
        .next()
        .unwrap_or_else(|| panic!("no {text:?} in {problems:#?}"));
    assert_eq!(found.next(), None);
    message
}

/// Rows C1 and C2: a safe update is admitted.
async fn safe_update_is_admitted(definition: &Definition) {
    let mut wider = wide();
    wider["properties"]["age"] = json!({"type": "integer", "minimum": 0});
    let mut incoming = definition.crd(&[version("v1", &wider), version("v2", &wider)]);
    assert_eq!(definition.check(&incoming).await, Findings::default());
    incoming["metadata"]["labels"] =
        json!({labels::OWNER_KIND: "BundleInstance", labels::OWNER_NAME: "sky"});
    assert_eq!(definition.check(&incoming).await, Findings::default());
}

/// Row C3: a new required field is denied while a custom resource lacks the field.
async fn required_field_is_denied(definition: &Definition) {
    let incoming = definition.crd(&[version("v1", &with_required_color())]);
    let findings = definition.check(&incoming).await;
    let name = definition.name();
    assert_eq!(
        messages(&findings.problems),
        [
            format!(
                "failed to validate safety of UPDATE for CRD \"{name}\" (NOTE: to disable this validation, set the \
                 \"core.rukpak.io/safe-crd-upgrade-validation\" annotation to \"false\", or \
                 spec.preflight.crdUpgradeSafety to Off): error validating existing CRs against new CRD's schema for \
                 \"{name}\": existing custom object sun failed validation for new schema version v1: \
                 spec.color: Required value"
            ),
            format!(
                "validating upgrade for CRD \"{name}\" failed: v1: spec.color: required: added. Install a bundle \
                 version that keeps the fields and versions in use, or, if they are not needed, set \
                 spec.preflight.crdUpgradeSafety: Off, or annotation core.rukpak.io/safe-crd-upgrade-validation: \
                 \"false\" on the CRD"
            ),
        ]
    );
}

/// Row C5: the annotation and the spec turn the check off.
async fn annotation_and_spec_turn_the_check_off(definition: &Definition) {
    let mut incoming = definition.crd(&[version("v1", &with_required_color())]);
    let off = Preflight {
        crd_upgrade_safety: CheckMode::Off,
        ..Preflight::default()
    };
    let findings = definition.check_by(&incoming, Some(off), None).await;
    assert_eq!(findings, Findings::default());
    for (value, problems) in [("false", 0), ("true", 2), ("False", 2)] {
        incoming["metadata"]["annotations"] = json!({labels::SAFE_CRD_UPGRADE: value});
        let findings = definition.check(&incoming).await;
        assert_eq!(findings.problems.len(), problems, "{value}: {findings:?}");
    }
}

/// Row C6: a stored version cannot be removed.
async fn stored_version_stays(definition: &Definition) {
    let mut v2 = version("v2", &wide());
    v2["storage"] = json!(true);
    let findings = definition.check(&definition.crd(&[v2])).await;
    one_containing(&findings.problems, "cannot remove stored versions [v1]");
}

/// A removed field is reported with the custom resources that use the field.
async fn removed_field_is_reported_with_its_users(definition: &Definition) {
    let mut narrow = wide();
    let properties = narrow["properties"].as_object_mut().unwrap();
    properties.remove("color");
    let incoming = definition.crd(&[version("v1", &narrow)]);
    let findings = definition.check(&incoming).await;
    let removed = "failed: v1: spec.color: existing field: removed.";
    one_containing(&findings.problems, removed);
    let message = one_containing(&findings.problems, "would be lost");
    assert!(
        message.contains("existing custom object vega failed"),
        "{message}"
    );
    assert!(!message.contains("object sun"), "{message}");
}

/// CRDs that do not exist are not checked, and neither is one that is being deleted.
async fn absent_definition_is_not_checked(definition: &Definition) {
    let mut narrow = definition.crd(&[version("v1", &with_required_color())]);
    for name in ["moons.example.com", "../../../../api/v1/nodes", "a?b=c", ""] {
        narrow["metadata"]["name"] = json!(name);
        let findings = definition.check(&narrow).await;
        assert_eq!(findings, Findings::default(), "{name}");
    }
    narrow["metadata"]["name"] = json!(definition.name());
    assert_eq!(definition.check(&narrow).await.problems.len(), 2);

    let finalizers = |all: &[&str]| json!({"metadata": {"finalizers": all}});
    let crds: Api<CustomResourceDefinition> = Api::all(definition.client.clone());
    let name = definition.name();
    merge(&crds, &name, &finalizers(&["example.com/hold"])).await;
    delete(&crds, &name).await;
    assert_eq!(definition.check(&narrow).await, Findings::default());
    merge(&crds, &name, &finalizers(&[])).await;
}

// parity: c1, c3, complaint-9, rukpak-6, c4, c5, c6, rukpak-35, rukpak-36, rukpak-37
#[tokio::test]
async fn c1_to_c6_upgrades_of_definitions_are_checked() {
    let definition = Definition::new("Cluster", &[version("v1", &wide())]).await;
    for (name, spec) in [
        ("sun", json!({"size": 5})),
        ("vega", json!({"color": "blue"})),
    ] {
        definition.star(None, name, &spec).await;
    }
    safe_update_is_admitted(&definition).await;
    required_field_is_denied(&definition).await;
    // C4: updates by other clients are admitted.
    let incoming = definition.crd(&[version("v1", &with_required_color())]);
    let cluster = definition.cluster;
    cluster.apply(&incoming, DryRun::Yes).await.unwrap();
    annotation_and_spec_turn_the_check_off(&definition).await;
    stored_version_stays(&definition).await;
    removed_field_is_reported_with_its_users(&definition).await;
    warnings::new_rules_are_reported_as_not_checked(&definition).await;
    warnings::missing_permission_to_list_is_reported(&definition).await;
    warnings::resources_that_were_invalid_before_hold_nothing_back(&definition).await;
    absent_definition_is_not_checked(&definition).await;
}

// parity: rukpak-38
#[tokio::test]
async fn custom_resources_beyond_the_first_page_are_counted() {
    let definition = Definition::new("Namespaced", &[version("v1", &wide())]).await;
    let namespace = definition.cluster.temp_namespace("stars").await.unwrap();
    let stars = 0..230;
    let written = stars.map(async |index| {
        let (name, spec) = (format!("star-{index:03}"), json!({"size": index}));
        let namespace = Some(namespace.name());
        definition.star(namespace, &name, &spec).await;
    });
    futures::future::join_all(written).await;
    let with_maximum = |maximum: u64| {
        let mut spec = wide();
        spec["properties"]["size"]["maximum"] = json!(maximum);
        definition.crd(&[version("v1", &spec)])
    };
    // Only the last object.
    let findings = definition.check(&with_maximum(228)).await;
    let message = one_containing(&findings.problems, "failed validation");
    let last = format!(
        "existing custom object {namespace}/star-229 failed validation for new schema version v1: \
         spec.size: Invalid value: 229: should be less than or equal to 228"
    );
    assert!(message.ends_with(&last), "{message}");
    let findings = definition.check(&with_maximum(9)).await;
    let message = one_containing(&findings.problems, "failed validation");
    assert!(message.ends_with("; and 215 more"), "{message}");
    assert_eq!(message.matches("existing custom object").count(), 5);
}
