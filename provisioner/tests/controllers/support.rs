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
mod kinds;
pub(crate) mod kubelet;
mod objects;
mod permissions;
mod planes;
mod provisioner_process;
mod requests;
mod sample_operator;
mod tcp_proxy;
mod unpacking;
mod wait;

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use cluster::{Cluster, DryRun};
use kube::{Api, Client, Resource, api::PostParams};
use manifests::{
    api::{
        bundle::{Bundle, BundleSource, BundleSpec, ImageSource},
        bundle_instance::{BundleInstance, BundleInstanceSpec, BundleTemplate, TemplateSpec},
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
    registry::BundleImage,
};

pub(crate) use bundles::{config_map, content, crd, large, operator, operator_conditions, plain};
pub(crate) use faulty_apiserver::{Fault, Relay};
pub(crate) use kinds::{account, account_object, bind_role, catalog_source, node_object, user};
pub(crate) use kubelet::Kubelet;
pub(crate) use objects::{
    apply, custom_resources, define, delete, listable, merge, merge_status, namespace_object,
    notes, patch_as, quota,
};
pub(crate) use permissions::{
    bind, grant, install_rights, kubeconfig_of, own_kubeconfig, service_account, token,
};
pub(crate) use planes::{own, with_controllers, with_node, without_controllers};
pub(crate) use provisioner_process::{Options, Provisioner, storage};
pub(crate) use requests::{create, list, notes_about};
pub(crate) use sample_operator::{FAILING, Play};
pub(crate) use tcp_proxy::Line;
pub(crate) use unpacking::{bundle, publish, says, trusting, unpacked, upload};
pub(crate) use wait::{
    PATIENCE, condition, eventually, found, has, message, until, until_within, wait_deleted,
    wait_for, within,
};

/// The system namespace.
pub(crate) const SYSTEM: &str = "rukpak-system";

/// The environment that all tests share.
pub(crate) struct World {
    /// The control plane.
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

/// Returns the world, with a running provisioner.
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
        Self {
            cluster,
            registry: Registry::plain(),
            provisioner: OnceCell::new(),
        }
    }

    /// Creates another world, from a prepared cluster and its provisioner.
    pub(crate) fn with_provisioner(cluster: &'static Cluster, provisioner: Provisioner) -> Self {
        Self {
            provisioner: OnceCell::new_with(Some(provisioner)),
            ..Self::bare(cluster)
        }
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

    /// Returns the API of a cluster-scoped kind.
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

    /// Applies any object as cluster admin.
    pub(crate) async fn apply(&self, object: &Value) {
        apply(self.cluster, object).await;
    }

    /// Creates a Bundle of class `plain` or `registry`.
    pub(crate) async fn bundle(&self, name: &str, class: &str, source: BundleSource) -> Bundle {
        let spec = BundleSpec {
            provisioner_class_name: format!("core-rukpak-io-{class}"),
            source,
        };
        let (api, params) = (self.api(), PostParams::default());
        api.create(&params, &Bundle::new(name, spec)).await.unwrap()
    }

    /// Creates a BundleInstance of class `plain` or `registry`.
    pub(crate) async fn instance(
        &self,
        name: &str,
        class: &str,
        source: BundleSource,
    ) -> BundleInstance {
        self.create(&instance(name, class, source)).await
    }

    /// Creates a prepared BundleInstance.
    pub(crate) async fn create(&self, instance: &BundleInstance) -> BundleInstance {
        let params = PostParams::default();
        self.api().create(&params, instance).await.unwrap()
    }

    /// Removes a BundleInstance, and waits until the instance does not exist.
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
    pub(crate) async fn says(&self, name: &str, kind: &str, parts: &[&str]) -> BundleInstance {
        let (type_, reason) = kind.split_once(' ').unwrap_or((kind, ""));
        let description = format!("{kind}: {parts:?}");
        wait_for(
            self.api(),
            name,
            &description,
            |instance: &BundleInstance| {
                let found = condition(&instance.status.as_ref()?.conditions, type_)?;
                let has_reason = reason.is_empty() || found.reason == reason;
                let has_parts = parts.iter().all(|part| found.message.contains(part));
                (has_reason && has_parts).then_some(())
            },
        )
        .await
    }

    /// Waits until a BundleInstance has a condition with this status, and returns the instance.
    pub(crate) async fn wait_instance(
        &self,
        name: &str,
        type_: &str,
        status: &str,
    ) -> BundleInstance {
        wait_for(
            self.api(),
            name,
            &format!("{type_}={status}"),
            |instance: &BundleInstance| {
                has(&instance.status.as_ref()?.conditions, type_, status).then_some(())
            },
        )
        .await
    }

    /// Waits until a Bundle has a condition with this status, and returns the Bundle.
    pub(crate) async fn wait_bundle(&self, name: &str, type_: &str, status: &str) -> Bundle {
        wait_for(
            self.api(),
            name,
            &format!("{type_}={status}"),
            |bundle: &Bundle| has(&bundle.status.as_ref()?.conditions, type_, status).then_some(()),
        )
        .await
    }
}

/// Returns a BundleInstance of class `plain` or `registry`, for changes before its creation.
pub(crate) fn instance(name: &str, class: &str, source: BundleSource) -> BundleInstance {
    let class = format!("core-rukpak-io-{class}");
    let spec = BundleInstanceSpec {
        provisioner_class_name: "core-rukpak-io-plain".to_owned(),
        template: BundleTemplate {
            metadata: None,
            spec: TemplateSpec {
                provisioner_class_name: Some(class),
                source,
            },
        },
        install_namespace: None,
        config: None,
        service_account: None,
        crd_deletion_policy: manifests::api::bundle_instance::CrdDeletionPolicy::default(),
        preflight: None,
        overrides: Vec::new(),
        rollback: manifests::api::bundle_instance::Rollback::default(),
        rollback_to: None,
        upgrade: None,
        progress_deadline_seconds: None,
        revision_history_limit: None,
        paused: false,
    };
    BundleInstance::new(name, spec)
}

/// Publishes content as an image, `name:tag`, and returns the full image reference.
pub(crate) async fn push(registry: &Registry, name: &str, content: &Content) -> String {
    let image = registry.image(name);
    let (reference, bundle) = (image.parse().unwrap(), BundleImage::new(content).unwrap());
    let pushed = unpacker::registry::push(&reference, &bundle, &insecure()).await;
    pushed.unwrap();
    image
}

/// Returns the access to the test registry, which has neither TLS nor credentials.
pub(crate) fn insecure() -> Access {
    Access {
        trust: Trust {
            verify: Verify::Never,
            ..Trust::default()
        },
        ..Access::default()
    }
}

/// Returns an image of [`World::push`] as a source.
pub(crate) fn image(image: &str) -> BundleSource {
    BundleSource {
        type_: "image".to_owned(),
        image: Some(ImageSource {
            reference: image.to_owned(),
            insecure_skip_tls_verify: true,
            ..ImageSource::default()
        }),
        ..BundleSource::default()
    }
}

/// Applies the CRDs and creates the system namespace, as an admin does first.
pub(crate) async fn prepare(cluster: &Cluster) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds");
    for definition in crds(&dir) {
        define(cluster, &definition).await;
    }
    apply(cluster, &namespace_object(SYSTEM)).await;
}

/// Returns the CRDs that an admin applies.
fn crds(dir: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    let read = |path| {
        let text = std::fs::read(path).unwrap();
        let documents = yaml::documents(&text).map(Result::unwrap);
        documents
            .filter(|document| !document.is_null())
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(read).collect()
}
