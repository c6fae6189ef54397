//! Preflight checks report all problems together.

mod permissions;

use std::collections::BTreeSet;

use apply::{
    discovery::Discovery,
    inventory::{Entry, Inventory},
    plan::{self, ApplyStep, InstanceOwner, Plan},
    preflight::{self, Check, Findings, Input, ownership},
};
use cluster::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, ServiceAccountRef},
        labels,
    },
    object::Object,
};
use provisioner::{
    cluster::impersonation::ImpersonatedClients, controllers::bundle_instance::policy,
};
use serde_json::{Value, json};
use tests::assert_has;

use crate::support::{self, SYSTEM, delete, unique, world};

/// A bundle whose installation is checked.
pub(crate) struct Case {
    pub(crate) instance: BundleInstance,
    cluster: &'static Cluster,
    namespace: String,
    objects: Vec<Value>,
    inventory: Inventory,
    client: Client,
}

impl Case {
    pub(crate) fn new(cluster: &'static Cluster, namespace: &str, objects: &[Value]) -> Self {
        let instance = support::instance(&unique("preflight"), "plain", support::image("a/b"));
        Self {
            instance: tests::with!(instance => metadata.uid: Some(unique("uid"))),
            cluster,
            namespace: namespace.to_owned(),
            objects: objects.to_vec(),
            inventory: Inventory::new(),
            client: cluster.client().unwrap(),
        }
    }

    pub(crate) fn by(mut self, account: &ServiceAccountRef) -> Self {
        let accounts = ImpersonatedClients::new(self.cluster.config().clone()).unwrap();
        self.client = accounts.client(Some(account)).unwrap();
        self.instance.spec.service_account = Some(account.clone());
        self
    }

    fn owner(&self) -> InstanceOwner {
        InstanceOwner {
            name: self.instance.name_any(),
            uid: self.instance.uid().unwrap(),
        }
    }

    async fn steps(&self) -> Vec<ApplyStep> {
        let kinds = Discovery::new(self.cluster.client().unwrap());
        self.plan(&kinds).await.steps
    }

    async fn plan(&self, kinds: &Discovery) -> Plan {
        let objects = self.objects.iter().cloned().map(Object::try_from);
        let objects: Vec<Object> = objects.map(Result::unwrap).collect();
        let found = kinds.find(objects.iter().map(plan::kind_of)).await.unwrap();
        let (owner, namespace, optional) = (self.owner(), &self.namespace, BTreeSet::new());
        let inventory = &self.inventory;
        plan::new(objects, &found, inventory, &owner, namespace, &optional)
    }

    async fn run(&self) -> Findings {
        self.check(preflight::run).await
    }

    pub(crate) async fn check(
        &self,
        check: impl AsyncFnOnce(&Input<'_>) -> Result<Findings, kube::Error>,
    ) -> Findings {
        let own = self.cluster.client().unwrap();
        let kinds = Discovery::new(own.clone());
        let input = Input {
            owner: &self.owner(),
            parent: policy::parent(&self.instance),
            policy: &policy::policy(&self.instance),
            plan: &self.plan(&kinds).await,
            existing: &BTreeSet::new(),
            inventory: &self.inventory,
            client: &self.client,
            own: &own,
            kinds: &kinds,
            is_cluster_admin: &preflight::ClusterAdminCheck::default(),
            namespace: None,
            system_namespace: SYSTEM,
            concurrency: 8,
        };
        check(&input).await.unwrap()
    }
}

fn messages(findings: &Findings, check: Check) -> Vec<&str> {
    let problems = findings.problems.iter();
    let problems = problems.filter(|problem| problem.check == check);
    problems.map(|problem| problem.message.as_str()).collect()
}

fn config(namespace: &str, name: &str, metadata: &Value) -> Value {
    let mut object = support::config_map(namespace, name, "text");
    let fields = metadata.as_object().unwrap().clone();
    object["metadata"].as_object_mut().unwrap().extend(fields);
    object
}

fn owned_by(instance: &str) -> Value {
    json!({"labels": {labels::OWNER_KIND: "BundleInstance", labels::OWNER_NAME: instance}})
}

#[tokio::test]
async fn objects_of_other_owners_are_reported_together() {
    let world = world().await;
    let namespace = world.cluster.temp_namespace("preflight").await.unwrap();
    let namespace = namespace.name();
    let mut other = support::instance(&unique("other"), "plain", support::image("a/b"));
    other.spec.paused = true;
    let other = world.create(&other).await.name_any();
    let names = ["free", "let-go", "mine", "orphan", "other", "vacant"];
    let objects = names.map(|name| config(namespace, name, &json!({})));
    let mut case = Case::new(world.cluster, namespace, &objects);
    let mine = case.instance.name_any();
    for (name, metadata) in tests::rows![
        "free" => json!({});
        "orphan" => owned_by("preflight-deleted");
        "mine" => owned_by(&mine);
        "other" => owned_by(&other);
    ] {
        world.apply(&config(namespace, name, &metadata)).await;
    }
    // The state of an object that an instance has released.
    let annotations = json!({"annotations": {labels::ADOPT: "former"}});
    let let_go = Patch::Apply(config(namespace, "let-go", &annotations));
    let api = Api::<ConfigMap>::namespaced(world.client(), namespace);
    let params = PatchParams::apply("rukpak");
    api.patch("let-go", &params, &let_go).await.unwrap();

    let found = case.run().await;
    let adoptable = |name: &str, owner: &str| {
        format!(
            "ConfigMap {namespace}/{name} already exists and is {owner}: to let this BundleInstance adopt it, run: kubectl \
             annotate configmaps/{name} -n {namespace} core.rukpak.io/adopt={mine}"
        )
    };
    let deleted = "owned by BundleInstance preflight-deleted, which no longer exists";
    let expected = [
        adoptable("free", "not managed by a BundleInstance"),
        adoptable("orphan", deleted),
        format!(
            "ConfigMap {namespace}/other already exists and is owned by BundleInstance {other}: delete that BundleInstance, \
             or remove the object from one of the two bundles"
        ),
    ];
    assert_eq!(messages(&found, Check::Ownership), expected);
    assert_eq!(found.problems.len(), expected.len(), "{found:#?}");

    // An applied object belongs to the instance. An object that was only planned does not.
    for name in names {
        let object = Object::try_from(config(namespace, name, &json!({}))).unwrap();
        let fields = (name != "free").then(|| "0123456789ab".parse().unwrap());
        let entry = tests::with!(Entry, version: "v1".to_owned(), fields);
        case.inventory.insert(object.identity(), entry);
    }
    tests::assert_rows!(messages(&case.run().await, Check::Ownership) => expected[..1]);

    let (steps, owner) = (case.steps().await, case.owner());
    let taken = ownership::recheck(&world.client(), &steps, &owner, 4).await;
    let taken = taken.unwrap();
    tests::assert_rows!(taken.keys().map(|identity| identity.name.as_str()).collect::<Vec<_>>() => ["free", "orphan", "other"]);
    delete::<BundleInstance>(&world.api(), &other).await;
}
