//! Platform operators on OpenShift: the ClusterVersion changes, and the PlatformOperator CRD of OpenShift drops unknown
//! fields.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _};
use manifests::api::platform_operator::condition::UPGRADEABLE;
use serde_json::{Value, json};

use super::support::{Platform, bundle, optional_crd, packages, with_maximum};
use crate::catalogs::external_servers::Server;
use crate::cluster_operator::{history, version};
use crate::openshift::{CLUSTER_VERSION, PLATFORM_OPERATOR, crd};
use crate::support::{delete, eventually, merge, wait_for};

/// An OpenShift without a release yet, and a catalog.
struct Sea {
    platform: Platform,
    packages: Vec<(&'static str, Vec<Value>)>,
    server: Server,
}

const BLOCKS: &str = "The following operators will not run on the next OpenShift Version: ";

// parity: max-17, max-18, max-olm-19, platform-2, openshift-18, openshift-24
#[tokio::test]
async fn packages_follow_the_cluster_with_the_openshift_crd() {
    let mut sea = Sea::new().await;
    let provisioner = sea.platform.start().await;
    sea.known_fields_are_reported().await;
    sea = sea.restart_catalog(4).await;
    sea.follows_the_cluster().await;
    // The cluster is upgraded while no provisioner runs.
    drop(provisioner);
    sea.history(&["Completed 4.14.2", "Completed 4.13.0"]).await;
    let more = sea.platform.bundles("tide", &["1.3.0"]).await;
    sea.packages[0].1.extend(more);
    sea = sea.restart_catalog(5).await;
    let _provisioner = sea.platform.start().await;
    sea.platform.has("tide", "1.3.0").await;
    sea.platform.has_minors("tide", "4.14 1.3").await;
    sea.surf_is_kept().await;
    sea.becomes_idle().await;
}

// === impl Sea ===

impl Sea {
    async fn new() -> Self {
        let platform = Platform::bare().await;
        let catalog_source = optional_crd("CatalogSource");
        for crd in [crd(CLUSTER_VERSION), crd(PLATFORM_OPERATOR), catalog_source] {
            platform.define(&crd).await;
        }
        platform.world.apply(&version()).await;
        let tide = ["1.0.0", "1.0.1", "1.1.0", "1.2.0"];
        let tide = platform.bundles("tide", &tide).await;
        // The newest version does not support this cluster. The supported one blocks the upgrade to the next release, and
        // declares the maximum itself, too.
        let first = platform.push_limited("surf", "4.12").await;
        let first = with_maximum(bundle("surf", "1.0.0", &first), "4.12");
        let newest = platform.bundles("surf", &["1.1.0"]).await.remove(0);
        let surf = vec![first, with_maximum(newest, "4.11")];
        let moon = platform.bundles("moon", &["1.0.0"]).await.remove(0);
        let moon = vec![with_maximum(moon, "4.11")];
        let all = vec![("tide", tide), ("surf", surf), ("moon", moon)];
        let server = platform.serve_mine(&begin(&all, 1)).await;
        for package in ["tide", "surf", "moon"] {
            let spec = json!({"package": {"name": package}});
            platform.declare(spec).await;
        }
        // The pattern of the CRD has no anchors and accepts this name.
        let odd = json!({"package": {"name": "Foo_Bar!"}});
        platform.declare_as("odd", odd).await;
        Self {
            platform,
            packages: all,
            server,
        }
    }

    async fn history(&self, entries: &[&str]) {
        history(self.platform.world.cluster, entries).await;
    }

    /// Restarts the catalog in another process, with this many versions of `tide`.
    async fn restart_catalog(self, versions: usize) -> Self {
        let documents = begin(&self.packages, versions);
        let server = self.server.replaced(&documents).await;
        Self { server, ..self }
    }

    async fn known_fields_are_reported(&self) {
        let platform = &self.platform;
        // Without a release the constraints cannot be evaluated.
        let unknown = "failed to determine the cluster version";
        let refused = platform.becomes("tide", "False", "SourceFailed", unknown);
        refused.await;
        self.history(&["Completed 4.12.0"]).await;
        platform.has("tide", "1.0.0").await;
        platform.has("surf", "1.0.0").await;
        for (name, part) in tests::rows![
            "moon" => "requires OpenShift <= 4.11 but the cluster is 4.12";
            "odd" => "spec.package.name \"Foo_Bar!\"";
        ] {
            platform.becomes(name, "False", "SourceFailed", part).await;
        }
        let closed = ("False", "IncompatibleOperatorsInstalled", BLOCKS);
        platform.wait_condition("surf", UPGRADEABLE, closed).await;
        platform.has_minors("tide", "4.12 1.0").await;
        self.becomes_idle().await;
    }

    /// Waits until no write repeats because the CRD drops fields.
    async fn becomes_idle(&self) {
        let operators = self.platform.operators();
        eventually("at rest", async || {
            let before = operators.get("tide").await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let tide = operators.get("tide").await.unwrap();
            let is_at_rest = before.resource_version() == tide.resource_version();
            let is_reported = is_at_rest && tide.active_instance() == Some("tide");
            let status = tide.status.clone().unwrap_or_default();
            assert_eq!((status.chosen_bundle, status.cluster_minor), (None, None));
            is_reported.then_some(()).ok_or(format!("{tide:?}"))
        })
        .await;
    }

    /// Patch versions are installed at once, minor versions only after the cluster has completed its upgrade.
    async fn follows_the_cluster(&self) {
        let platform = &self.platform;
        platform.has("tide", "1.0.1").await;
        self.history(&["Partial 4.13.0", "Completed 4.12.0"]).await;
        self.history(&["Completed 4.12.9"]).await;
        self.becomes_idle().await;
        assert_eq!(platform.choices("tide").await, ["1.0.0", "1.0.1"]);
        self.history(&["Completed 4.13.0"]).await;
        platform.has("tide", "1.2.0").await;
        let all = ["1.0.0", "1.0.1", "1.1.0", "1.2.0"];
        assert_eq!(platform.choices("tide").await, all);
        platform.has_minors("tide", "4.13 1.2").await;
        // The installed bundle is kept although the cluster exceeds its max OpenShift version.
        platform.succeeds("surf", "Successfully applied").await;
        self.surf_is_repaired().await;
        self.becomes_idle().await;
    }

    /// The installed bundle is repaired on any cluster version.
    async fn surf_is_repaired(&self) {
        let deployments: Api<Deployment> =
            Api::namespaced(self.platform.world.client(), "surf-system");
        let before = deployments.get("surf-operator").await.unwrap().uid();
        delete(&deployments, "surf-operator").await;
        let is_recreated = |deployment: &Deployment| {
            let is_present = deployment.metadata.deletion_timestamp.is_none();
            (is_present && deployment.uid() != before).then_some(())
        };
        wait_for(deployments, "surf-operator", "re-created", is_recreated).await;
    }

    /// A restarted provisioner keeps the bundle, and reports the violated constraint when the bundle is applied again.
    async fn surf_is_kept(&self) {
        self.surf_is_repaired().await;
        let annotations = json!({"annotations": {"example.com/depth": "3"}});
        let config = json!({"spec": {"config": {"deploymentConfig": annotations}}});
        merge(&self.platform.instances(), "surf", &config).await;
        let notice = ["the bundle is already installed and is kept"];
        let (world, condition) = (&self.platform.world, "Installed InstallationSucceeded");
        world.wait_message("surf", condition, &notice).await;
        self.platform.succeeds("surf", "").await;
    }
}

/// Returns the catalog with this many versions of `tide`.
fn begin(all: &[(&'static str, Vec<Value>)], versions: usize) -> Vec<Value> {
    let mut all = all.to_vec();
    all[0].1.truncate(versions);
    packages(&all)
}
