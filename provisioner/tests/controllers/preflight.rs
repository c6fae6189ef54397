//! Preflight checks report all problems together.

mod permissions;

use std::collections::BTreeSet;

use apply::{
    discovery::Discovery,
    inventory::{Entry, Inventory},
    plan::{self, InstanceOwner, Plan},
    preflight::{self, Check, Findings, Input, ownership},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    core::GroupVersionKind,
};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, ServiceAccountRef},
        labels,
    },
    object::{Identity, Object},
};
use provisioner::{
    cluster::impersonation::ImpersonatedClients, controllers::bundle_instance::policy,
};
use serde_json::{Value, json};
use tests::assert_has;

use super::support::{self, SYSTEM, World, unique, world};
use crate::support::{delete, merge};

/// An installation for the checks.
struct Case {
    instance: BundleInstance,
    namespace: String,
    objects: Vec<Value>,
    inventory: Inventory,
    client: Client,
}

impl Case {
    fn new(world: &World, namespace: &str, objects: &[Value]) -> Self {
        let mut instance = support::instance(&unique("preflight"), "plain", support::image("a/b"));
        instance.metadata.uid = Some(unique("uid"));
        Self {
            instance,
            namespace: namespace.to_owned(),
            objects: objects.to_vec(),
            inventory: Inventory::new(),
            client: world.client(),
        }
    }

    /// Sets the account whose permissions are checked.
    fn by(mut self, world: &World, account: &ServiceAccountRef) -> Self {
        let accounts = ImpersonatedClients::new(world.cluster.config().clone()).unwrap();
        self.client = accounts.client(Some(account)).unwrap();
        self.instance.spec.service_account = Some(account.clone());
        self
    }

    fn name(&self) -> String {
        self.instance.name_any()
    }

    fn owner(&self) -> InstanceOwner {
        InstanceOwner {
            name: self.name(),
            uid: self.instance.uid().unwrap(),
        }
    }

    async fn plan(&self, kinds: &Discovery) -> Plan {
        let objects: Vec<Object> = self
            .objects
            .iter()
            .map(|object| Object::try_from(object.clone()).unwrap())
            .collect();
        let gvks = objects.iter().map(|object| {
            let (group, version) = manifests::object::group_version(object.api_version());
            GroupVersionKind::gvk(group, version, object.kind())
        });
        let found = kinds.find(gvks.collect::<Vec<_>>()).await.unwrap();
        let optional = BTreeSet::new();
        let (owner, namespace) = (self.owner(), &self.namespace);
        plan::new(
            objects,
            &found,
            &self.inventory,
            &owner,
            namespace,
            &optional,
        )
    }

    async fn run(&self, world: &World) -> Findings {
        let own = world.client();
        let kinds = Discovery::new(own.clone());
        let plan = self.plan(&kinds).await;
        let input = Input {
            owner: &self.owner(),
            parent: policy::parent(&self.instance),
            policy: &policy::policy(&self.instance),
            plan: &plan,
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
        preflight::run(&input).await.unwrap()
    }
}

fn messages(findings: &Findings, check: Check) -> Vec<&str> {
    let problems = findings.problems.iter();
    problems
        .filter(|problem| problem.check == check)
        .map(|problem| problem.message.as_str())
        .collect()
}

fn config(namespace: &str, name: &str, metadata: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}});
    let fields = metadata.as_object().cloned().unwrap_or_default();
    object["metadata"].as_object_mut().unwrap().extend(fields);
    object
}

fn owned_by(instance: &str) -> Value {
    json!({"labels": {
        "core.rukpak.io/owner-kind": "BundleInstance",
        "core.rukpak.io/owner-name": instance,
    }})
}

async fn other_instance(world: &World) -> String {
    let mut instance = support::instance(&unique("other"), "plain", support::image("a/b"));
    instance.spec.paused = true;
    world.create(&instance).await.name_any()
}

#[tokio::test]
async fn objects_of_other_owners_are_reported_together() {
    let world = world().await;
    let namespace = world.cluster.temp_namespace("preflight").await.unwrap();
    let namespace = namespace.name();
    let other = other_instance(world).await;
    let names = [
        "adopted", "free", "gone", "helm", "let-go", "mine", "other", "vacant",
    ];
    let objects = names.map(|name| config(namespace, name, &json!({})));
    let mut case = Case::new(world, namespace, &objects);
    let mine = case.name();
    for (name, metadata) in tests::rows![
        "adopted" => json!({"annotations": {"core.rukpak.io/adopt": mine}});
        "free" => json!({});
        "gone" => owned_by("preflight-gone");
        "helm" => json!({"annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}});
        "mine" => owned_by(&mine);
        "other" => owned_by(&other);
    ] {
        world.apply(&config(namespace, name, &metadata)).await;
    }
    // The state of an object that an instance has released.
    let mut let_go = config(namespace, "let-go", &json!({}));
    let_go["data"] = json!({"a": "b"}); // a field manager without applied fields owns nothing
    let api = Api::<ConfigMap>::namespaced(world.client(), namespace);
    let params = PatchParams::apply("rukpak");
    let let_go = Patch::Apply(&let_go);
    api.patch("let-go", &params, &let_go).await.unwrap();

    let found = case.run(world).await;
    let adopt = |name: &str| {
        format!(
            "to let this BundleInstance adopt it, run: kubectl annotate configmaps/{name} -n {namespace} \
             core.rukpak.io/adopt={mine}"
        )
    };
    let expected = [
        format!(
            "ConfigMap {namespace}/free already exists and is not managed by a BundleInstance: {}",
            adopt("free")
        ),
        format!(
            "ConfigMap {namespace}/gone already exists and is owned by BundleInstance preflight-gone, which no longer exists: {}",
            adopt("gone")
        ),
        format!(
            "ConfigMap {namespace}/helm already exists and is managed by the Helm release shop/web: remove it there; \
             if it still exists afterwards, {}",
            adopt("helm")
        ),
        format!(
            "ConfigMap {namespace}/other already exists and is owned by BundleInstance {other}: delete that BundleInstance, or remove \
             the object from one of the two bundles"
        ),
    ];
    assert_eq!(messages(&found, Check::Ownership), expected);
    assert_eq!(found.problems.len(), expected.len(), "{found:#?}");

    // An applied object belongs to the instance. An object that was only planned does not.
    for name in names {
        let object = Object::try_from(config(namespace, name, &json!({}))).unwrap();
        let entry = Entry {
            version: "v1".to_owned(),
            fields: (name != "free").then(|| "0123456789ab".parse().unwrap()),
            recreating: false,
        };
        case.inventory.insert(object.identity(), entry);
    }
    let found = case.run(world).await;
    assert_eq!(messages(&found, Check::Ownership), expected[..1]);

    let kinds = Discovery::new(world.client());
    let steps = case.plan(&kinds).await.steps;
    let (client, owner) = (world.client(), case.owner());
    let taken = ownership::recheck(&client, &steps, &owner, 4)
        .await
        .unwrap();
    let taken: Vec<&str> = taken
        .keys()
        .map(|identity| identity.name.as_str())
        .collect();
    assert_eq!(taken, ["free", "gone", "helm", "other"]);
    let instances = world.api::<BundleInstance>();
    delete(&instances, &other).await;
}

#[tokio::test]
async fn own_objects_and_missing_apis_are_all_named() {
    let world = world().await;
    let mut case = Case::new(world, "default", &[]);
    let own_object = |kind: &str, name: &str| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": kind, "metadata": {"name": name}});
    case.instance.metadata.labels =
        serde_json::from_value(owned_by("parent")["labels"].clone()).unwrap();
    case.objects = vec![
        own_object("BundleInstance", &case.name()),
        own_object("BundleInstance", "parent"),
        own_object("BundleInstance", &unique("child")),
        own_object("Bundle", &unique("bundle")),
        config(SYSTEM, "rukpak-upload", &json!({})),
        support::namespace_object(SYSTEM),
    ];
    let found = case.run(world).await;
    let messages = messages(&found, Check::Ownership);
    assert_eq!(messages.len(), 5, "{messages:#?}");
    for (message, part) in messages.iter().zip([
        "is created by a BundleInstance",
        "BundleInstance parent installs BundleInstance",
        "is the BundleInstance that installs this bundle",
        "ConfigMap rukpak-system/rukpak-upload would be created in the provisioner's namespace",
        "Namespace rukpak-system is the provisioner's namespace",
    ]) {
        assert!(message.contains(part), "{part}: {messages:#?}");
        assert!(!message.contains(labels::ADOPT), "{message}");
    }
    apis_that_are_missing_are_named(world).await;
}

/// Each missing API is named with the object that needs the API.
async fn apis_that_are_missing_are_named(world: &World) {
    let namespace = world.cluster.temp_namespace("preflight").await.unwrap();
    let olm = |version: &str, kind: &str| {
        json!({
            "apiVersion": format!("operators.coreos.com/{version}"),
            "kind": kind,
            "metadata": {"name": "a", "namespace": namespace.name()},
        })
    };
    let kinds = [
        ("v1alpha1", "CatalogSource"),
        ("v1alpha1", "ClusterServiceVersion"),
        ("v1", "OLMConfig"),
        ("v1", "OperatorGroup"),
    ];
    let objects = kinds.map(|(version, kind)| olm(version, kind));
    let found = Case::new(world, namespace.name(), &objects)
        .run(world)
        .await;
    let expected = kinds.map(|(version, kind)| {
        format!(
            "required resource not found: no matches for kind \"{kind}\" in version \"operators.coreos.com/{version}\", needed \
             by {kind} {namespace}/a: install its CRD or API server; the installation then continues automatically"
        )
    });
    assert_eq!(messages(&found, Check::Apis), expected);
    assert_eq!(found.problems.len(), expected.len(), "{found:#?}");
}

#[tokio::test]
async fn namespaces_exist_or_are_bundled_and_can_be_shared() {
    let world = world().await;
    let missing = unique("missing");
    let brought = unique("brought");
    let ending = world.cluster.temp_namespace("ending").await.unwrap();
    let shared = world.cluster.temp_namespace("shared").await.unwrap();
    let other = other_instance(world).await;
    let namespace = support::namespace_object;
    let mut taken = namespace(shared.name());
    taken["metadata"]["labels"] = owned_by(&other)["labels"].clone();
    world.apply(&taken).await;
    let finalizer = json!({"finalizers": ["tests.rukpak.io/hold"]});
    let held = config(ending.name(), "held", &finalizer);
    world.apply(&held).await;
    let namespaces = world.api::<Namespace>();
    delete(&namespaces, ending.name()).await;

    let objects = [
        config(&missing, "a", &json!({})),
        namespace(&brought),
        config(&brought, "a", &json!({})),
        config(ending.name(), "a", &json!({})),
        namespace(shared.name()),
        config(shared.name(), "a", &json!({})),
    ];
    let case = Case::new(world, &missing, &objects);
    let found = case.run(world).await;
    let mut expected = [
        format!(
            "namespace {:?} is being deleted, and ConfigMap {ending}/a would be created in it: create it again after \
             the deletion; the installation then continues automatically",
            ending.name()
        ),
        format!(
            "namespace {missing:?} does not exist and is not part of the bundle, but ConfigMap {missing}/a would be \
             created in it: create it; the installation then continues automatically"
        ),
    ];
    expected.sort();
    assert_eq!(messages(&found, Check::Namespace), expected);
    assert_eq!(found.problems.len(), expected.len(), "{found:#?}");
    let identity = Identity {
        group: String::new(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: shared.name().to_owned(),
    };
    assert_eq!(found.used_as_is, BTreeSet::from([identity]));
    let warnings = found.warnings.iter();
    let warnings: Vec<_> = warnings.map(|warning| &warning.message).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_has(warnings[0], &format!("is owned by BundleInstance {other}"));

    let held = Api::<ConfigMap>::namespaced(world.client(), ending.name());
    let free = json!({"metadata": {"finalizers": null}});
    merge(&held, "held", &free).await;
    let instances = world.api::<BundleInstance>();
    delete(&instances, &other).await;
}
