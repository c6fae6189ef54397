//! What the tests of platform operators are played on: a control plane of its own, with catalogs that are served for real.

use cluster::{Cluster, DryRun};
use manifests::api::{condition::INSTALLED, definitions, platform::PlatformOperator};
use serde_json::{Value, json};
use unpacker::Content;

use crate::{
    catalogs::served::Server,
    support::{Options, Provisioner, World, operator, prepare, wait_for},
};

/// A cluster with a provisioner that takes catalogs from the namespace `catalogs`.
pub(crate) struct Platform {
    pub(crate) world: World,
}

impl Platform {
    pub(crate) async fn new() -> Self {
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

    pub(crate) async fn start(&self) -> Provisioner {
        self.start_with(Options::default()).await
    }

    /// The same, with more flags and environment.
    pub(crate) async fn start_with(&self, mut options: Options) -> Provisioner {
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("registries.conf");
        let text = format!(
            "[[registry]]\nlocation = \"{}\"\ninsecure = true\n",
            self.world.registry.host()
        );
        std::fs::write(&conf, text).unwrap();
        options.flags.extend([
            "--catalog-namespaces=catalogs".to_owned(),
            format!("--registries-conf={}", conf.display()),
        ]);
        Provisioner::start(self.world.cluster, options).await
    }

    /// Publishes versions of an operator, and tells them as a catalog has them.
    pub(crate) async fn bundles(&self, name: &str, versions: &[&str]) -> Vec<Value> {
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

    pub(crate) async fn want(&self, spec: Value) {
        let name = spec["package"]["name"].clone();
        let object = json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
            "metadata": {"name": name}, "spec": spec,
        });
        self.world.apply(&object).await;
    }

    pub(crate) async fn serve(&self, name: &str, server: &Server) {
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": "catalogs"},
            "spec": {"sourceType": "grpc", "address": server.address.to_string()},
        });
        self.world.apply(&source).await;
    }

    pub(crate) async fn becomes(&self, name: &str, status: &str, reason: &str, words: &str) {
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
pub(crate) fn package(name: &str, bundles: &[Value]) -> Vec<Value> {
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
