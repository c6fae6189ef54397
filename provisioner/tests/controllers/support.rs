//! Support shared by all controller tests.
//!
//! ```text
//!  world() ─┬─ cluster ── project CRDs, system namespace
//!           ├─ registry   (bundles are pushed as images)
//!           └─ provisioner, started on first use
//! ```
//!
//! A test binary has one world, so the objects of each test have unique names ([`unique`]). A client belongs to the runtime
//! of a test: create one with [`World::client`] in each test.

#![allow(dead_code, reason = "not every test needs everything")]
#![allow(
    unused_imports,
    reason = "tests name what they need through this module"
)]

mod bundles;
mod faulty_apiserver;
pub(crate) mod kubelet;
mod objects;
mod permissions;
mod planes;
mod provisioner_process;
mod sample_operator;
mod tcp_proxy;
mod unpacking;
mod wait;

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use cluster::Cluster;
use kube::{Api, Client, Resource};
use manifests::{
    api::{
        bundle::{Bundle, BundleSource, ImageSource},
        bundle_instance::BundleInstance,
    },
    content::Content,
    yaml,
};
use serde_json::{Value, json};
use tests::Registry;
use tokio::sync::OnceCell;
use unpacker::{
    Access,
    access::{Trust, Verify},
};

pub(crate) use bundles::{
    archive, config_map, content, crd, large, operator, operator_conditions, plain,
};
pub(crate) use faulty_apiserver::{Fault, Relay};
pub(crate) use kubelet::Kubelet;
pub(crate) use objects::{
    ApiObject, account, account_object, apply, bind_role, catalog_source, create, custom_resources,
    define, delete, list, listable, merge, merge_status, namespace_object, node_object, notes,
    notes_about, patch_as, quota, user,
};
pub(crate) use permissions::{
    bind, grant, install_rights, kubeconfig_of, own_kubeconfig, service_account, token,
    wait_permission,
};
pub(crate) use planes::{own, with_controllers, with_node, without_controllers};
pub(crate) use provisioner_process::{Options, Provisioner, storage};
pub(crate) use sample_operator::{FAILING, Play};
pub(crate) use tcp_proxy::Line;
pub(crate) use unpacking::{bundle, publish, trusting, unpacked, upload, wait_message};
pub(crate) use wait::{
    WAIT_TIMEOUT, assert_part, condition, eventually, found, has, message, until, until_within,
    wait_deleted, wait_for, wait_part, wait_recreated, wait_status, within,
};

pub(crate) const SYSTEM: &str = "rukpak-system";

/// The environment that all tests share.
pub(crate) struct World {
    pub(crate) cluster: &'static Cluster,
    /// A registry without TLS and without credentials.
    pub(crate) registry: Registry,
    provisioner: OnceCell<Provisioner>,
}

/// Returns the world of this test binary, and creates it on first use.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD.get_or_init(World::new).await
}

pub(crate) async fn running() -> &'static World {
    let world = world().await;
    world.provisioner().await;
    world
}

/// Returns a name that is unique in this cluster.
pub(crate) fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:04x}{count}", fastrand::u16(..))
}

impl World {
    async fn new() -> Self {
        let cluster = Cluster::shared().await.expect("there is a control plane");
        prepare(cluster).await;
        Self::bare(cluster)
    }

    /// Creates another world, from a prepared cluster and its provisioner.
    pub(crate) fn with_provisioner(cluster: &'static Cluster, provisioner: Provisioner) -> Self {
        let provisioner = OnceCell::new_with(Some(provisioner));
        tests::with!(Self::bare(cluster) => provisioner: provisioner)
    }

    /// Creates another world, whose provisioners a test starts itself.
    pub(crate) fn bare(cluster: &'static Cluster) -> Self {
        Self {
            cluster,
            registry: Registry::plain(),
            provisioner: OnceCell::new(),
        }
    }

    /// Returns a client with cluster-admin for this test.
    pub(crate) fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    pub(crate) fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client())
    }

    /// The provisioner that reconciles all Bundles and BundleInstances of this cluster.
    pub(crate) async fn provisioner(&self) -> &Provisioner {
        let start = || Provisioner::start(self.cluster, Options::default());
        self.provisioner.get_or_init(start).await
    }

    /// Publishes content as an image, `name:tag`, and returns the full image reference.
    pub(crate) async fn push(&self, name: &str, content: &Content) -> String {
        push(&self.registry, name, content).await
    }

    pub(crate) async fn apply(&self, object: &Value) {
        apply(self.cluster, object).await;
    }

    pub(crate) async fn bundle(&self, name: &str, class: &str, source: BundleSource) -> Bundle {
        create(&self.api(), &bundle(name, class, source)).await
    }

    pub(crate) async fn instance(
        &self,
        name: &str,
        class: &str,
        source: BundleSource,
    ) -> BundleInstance {
        self.create(&instance(name, class, source)).await
    }

    pub(crate) async fn create(&self, instance: &BundleInstance) -> BundleInstance {
        create(&self.api(), instance).await
    }

    pub(crate) async fn uninstall(&self, name: &str) {
        let api: Api<BundleInstance> = self.api();
        delete(&api, name).await;
        wait_deleted(api, name).await;
    }

    /// Creates a namespace that is not deleted, and returns its name.
    pub(crate) async fn namespace(&self, prefix: &str) -> String {
        let name = unique(prefix);
        self.apply(&namespace_object(&name)).await;
        name
    }

    /// Waits until a condition, by `Type` or `Type Reason`, has these parts in its message.
    pub(crate) async fn wait_message(
        &self,
        name: &str,
        kind: &str,
        parts: &[&str],
    ) -> BundleInstance {
        let (type_, reason) = kind.split_once(' ').unwrap_or((kind, ""));
        let reports = |instance: &BundleInstance| {
            let found = condition(&instance.status.as_ref()?.conditions, type_)?;
            let has_reason = reason.is_empty() || found.reason == reason;
            (has_reason && parts.iter().all(|part| found.message.contains(part))).then_some(())
        };
        wait_for(self.api(), name, &format!("{kind}: {parts:?}"), reports).await
    }

    pub(crate) async fn wait_instance(&self, name: &str, ty: &str, status: &str) -> BundleInstance {
        wait_status(self.api(), name, [ty, status]).await
    }

    pub(crate) async fn wait_bundle(&self, name: &str, type_: &str, status: &str) -> Bundle {
        wait_status(self.api(), name, [type_, status]).await
    }
}

/// Returns a BundleInstance of class `plain` or `registry`, for changes before its creation.
pub(crate) fn instance(name: &str, class: &str, source: BundleSource) -> BundleInstance {
    let class = format!("core-rukpak-io-{class}");
    let source = serde_json::to_value(source).unwrap();
    let spec = json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"spec": {"provisionerClassName": class, "source": source}},
    });
    BundleInstance::new(name, serde_json::from_value(spec).unwrap())
}

/// Publishes content as an image, `name:tag`, and returns the full image reference.
pub(crate) async fn push(registry: &Registry, name: &str, content: &Content) -> String {
    let image = registry.image(name);
    publish(&image, content, &insecure()).await;
    image
}

/// Returns the access to the test registry, which has neither TLS nor credentials.
pub(crate) fn insecure() -> Access {
    let trust = tests::with!(Trust, verify: Verify::Never);
    tests::with!(Access, trust)
}

/// Returns an image of [`World::push`] as a source.
pub(crate) fn image(image: &str) -> BundleSource {
    let reference = image.to_owned();
    let image = tests::with!(ImageSource, reference, insecure_skip_tls_verify: true);
    tests::with!(BundleSource, type_: "image".to_owned(), image: Some(image))
}

/// Applies the CRDs and creates the system namespace, as an admin does first.
pub(crate) async fn prepare(cluster: &Cluster) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds");
    let files = std::fs::read_dir(dir).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "yaml")) {
        for document in yaml::documents(&std::fs::read(file).unwrap()) {
            let document: Value = document.unwrap();
            if !document.is_null() {
                define(cluster, &document).await;
            }
        }
    }
    apply(cluster, &namespace_object(SYSTEM)).await;
}
