//! Platform operators on a control plane of their own, with catalogs that are served for real.

use cluster::{Cluster, DryRun};
use kube::api::{Patch, PatchParams};
use manifests::api::{
    condition::INSTALLED, definitions, instance::BundleInstance, platform::PlatformOperator,
};
use serde_json::{Value, json};
use unpacker::Content;

use crate::{
    catalogs::served::Server,
    support::{Options, Provisioner, World, eventually, operator, prepare, wait_for},
};

/// A cluster with a provisioner that takes catalogs from the namespace `catalogs`.
struct Platform {
    world: World,
}

impl Platform {
    async fn new() -> Self {
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start().await.unwrap()));
        prepare(cluster).await;
        cluster.stand_in_node().await.unwrap();
        for definition in definitions::foreign() {
            let name = definition.metadata.name.clone().unwrap();
            let definition = serde_json::to_value(definition).unwrap();
            cluster.apply(&definition, DryRun::No).await.unwrap();
            cluster.wait_established(&name).await.unwrap();
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "catalogs"}});
        cluster.apply(&namespace, DryRun::No).await.unwrap();
        Self {
            world: World::bare(cluster),
        }
    }

    async fn start(&self) -> Provisioner {
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("registries.conf");
        let text = format!(
            "[[registry]]\nlocation = \"{}\"\ninsecure = true\n",
            self.world.registry.host()
        );
        std::fs::write(&conf, text).unwrap();
        let options = Options {
            flags: vec![
                "--catalog-namespaces=catalogs".to_owned(),
                format!("--registries-conf={}", conf.display()),
            ],
            ..Options::default()
        };
        Provisioner::start(self.world.cluster, options).await
    }

    /// Publishes versions of an operator, and tells them as a catalog has them.
    async fn bundles(&self, name: &str, versions: &[&str]) -> Vec<Value> {
        let mut bundles = Vec::new();
        for version in versions {
            let content: Content = operator(name, version, &[]);
            let image = self
                .world
                .push(&format!("{name}:v{version}"), &content)
                .await;
            bundles.push(json!({
                "schema": "olm.bundle", "package": name, "name": format!("{name}.v{version}"), "image": image,
                "properties": [
                    {"type": "olm.package", "value": {"packageName": name, "version": version}},
                    {"type": "olm.csv.metadata", "value": {"displayName": name}},
                ],
            }));
        }
        bundles
    }

    async fn want(&self, spec: Value) {
        let name = spec["package"]["name"].clone();
        let object = json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
            "metadata": {"name": name}, "spec": spec,
        });
        self.world.apply(&object).await;
    }

    async fn serve(&self, name: &str, server: &Server) {
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": "catalogs"},
            "spec": {"sourceType": "grpc", "address": server.address.to_string()},
        });
        self.world.apply(&source).await;
    }

    async fn becomes(&self, name: &str, status: &str, reason: &str, words: &str) {
        wait_for(
            self.world.api::<PlatformOperator>(),
            name,
            &format!("{status} {reason} {words}"),
            |operator| {
                let conditions = &operator.status.as_ref()?.conditions;
                let it = conditions.iter().find(|it| it.type_ == INSTALLED)?;
                let is = it.status == status && it.reason == reason && it.message.contains(words);
                is.then_some(())
            },
        )
        .await;
    }
}

/// A catalog of one package, in which each bundle replaces the one before.
fn package(name: &str, bundles: &[Value]) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut before: Option<Value> = None;
    for bundle in bundles {
        let mut entry = json!({"name": bundle["name"]});
        if let Some(before) = before {
            entry["replaces"] = before;
        }
        before = Some(bundle["name"].clone());
        entries.push(entry);
    }
    let mut documents = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    documents.extend(bundles.iter().cloned());
    documents
}

#[tokio::test]
async fn what_is_there_before_the_provisioner_is_installed_and_patched() {
    let platform = Platform::new().await;
    let bundles = platform.bundles("tide", &["1.0.0", "1.0.1"]).await;
    let server = Server::of(None, &package("tide", &bundles[..1])).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    platform.want(json!({"package": {"name": "typo"}})).await;
    platform.serve("mine", &server).await;
    let _provisioner = platform.start().await;
    platform
        .becomes("tide", "True", "InstallSuccessful", "Successfully applied")
        .await;
    platform
        .becomes("typo", "False", "SourceFailed", "failed to find candidate")
        .await;
    let operators = platform.world.api::<PlatformOperator>();
    let tide = operators.get("tide").await.unwrap();
    assert_eq!(tide.active_instance(), Some("tide"));
    let status = tide.status.unwrap();
    assert_eq!(status.chosen_bundle.unwrap().name, "tide.v1.0.0");

    // Somebody meddles; the choice comes back, what he added stays.
    let instances = platform.world.api::<BundleInstance>();
    let patch = json!({
        "metadata": {"annotations": {"mine": "x"}},
        "spec": {"template": {"spec": {"source": {"image": {"ref": "127.0.0.1:1/other:v1"}}}}},
    });
    instances
        .patch("tide", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let image = bundles[0]["image"].as_str().unwrap().to_owned();
    eventually("it is put back", async || {
        let tide = instances.get("tide").await.unwrap();
        let source = tide.spec.template.spec.source.image.unwrap().reference;
        let kept = tide.metadata.annotations.unwrap().contains_key("mine");
        let status = operators.get("tide").await.unwrap().status;
        (source == image && kept)
            .then_some(())
            .ok_or(format!("{source} {status:?}"))
    })
    .await;

    // The catalog gets a patch: another server comes in place of the one there was.
    let address = server.stop().await;
    let server = Server::of(Some(address), &package("tide", &bundles)).await;
    wait_for(operators, "tide", "patched", |tide| {
        let chosen = tide.status.as_ref()?.chosen_bundle.as_ref()?;
        (chosen.name == "tide.v1.0.1").then_some(())
    })
    .await;
    wait_for(instances, "tide", "installed", |tide| {
        let status = tide.status.as_ref()?;
        (status.facts.version.as_deref() == Some("1.0.1")).then_some(())
    })
    .await;
    server.stop().await;
}
