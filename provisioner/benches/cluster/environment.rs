//! A control plane with a registry for one contender.

use std::time::{Duration, Instant};

use cluster::{Cluster, Options};
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject},
    discovery::{Discovery, verbs},
};
use manifests::{api, api::bundle_instance::BundleInstance, content::Content};
use serde_json::Value;
use tempfile::TempDir;
use tests::Registry;
use tokio::time::sleep;

use crate::api_requests::{Audit, Calls, Mark};
use crate::bundles::{self, Bundle, Class};
use crate::subject::{Contender, Provisioner, SYSTEM, namespace};
use crate::timeline::Verdicts;

/// Control plane, registry and provisioner of one contender.
pub(crate) struct Environment {
    pub(crate) contender: Contender,
    pub(crate) provisioner: Provisioner,
    pub(crate) client: Client,
    pub(crate) verdicts: Verdicts,
    registry: Registry,
    storage: TempDir,
    cluster: Cluster,
    audit: Audit,
}

pub(crate) fn is_healthy(instance: &DynamicObject) -> bool {
    let conditions = instance.data["status"]["conditions"].as_array();
    let is_met = |one: &Value| one["type"] == "Healthy" && one["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_met))
}

impl Environment {
    /// Creates a control plane with a provisioner that is ready.
    pub(crate) async fn new(contender: Contender) -> Self {
        let audit = Audit::new();
        let options = ::tests::with!(Options, apiserver_flags: audit.flags());
        let cluster = Cluster::start_with(&options).await.unwrap();
        contender.prepare(&cluster).await;
        let mut config = cluster.config().clone();
        let agent = HeaderValue::from_static("bench");
        config.headers.push((http::header::USER_AGENT, agent));
        let client = Client::try_from(config).unwrap();
        // The initial objects of a control plane take some seconds.
        sleep(Duration::from_secs(5)).await;
        let storage = tempfile::tempdir().unwrap();
        let provisioner = contender.start(&cluster, storage.path()).await;
        let verdicts = Verdicts::watch(contender.api(client.clone()));
        Self {
            contender,
            provisioner,
            client,
            verdicts,
            registry: Registry::plain(),
            storage,
            cluster,
            audit,
        }
    }

    /// Terminates the provisioner as its node does, and starts it again.
    pub(crate) async fn restart(mut self) -> Self {
        self.provisioner.process.stop().await;
        let storage = self.storage.path();
        self.provisioner = self.contender.start(&self.cluster, storage).await;
        self
    }

    pub(crate) async fn namespace(&self, name: &str) {
        namespace(&self.cluster, name).await;
    }

    pub(crate) async fn push(&self, name: &str, class: Class, content: &Content) -> Bundle {
        bundles::push(&self.registry, name, class, content).await
    }

    pub(crate) async fn push_all(
        &self,
        class: Class,
        contents: Vec<(String, Content)>,
    ) -> Vec<Bundle> {
        stream::iter(contents)
            .map(|(name, content)| async move { self.push(&name, class, &content).await })
            .buffered(8)
            .collect()
            .await
    }

    /// Creates the object that installs a bundle.
    pub(crate) async fn declare(&self, bundle: &Bundle, namespace: &str) {
        let declaration = self.contender.declaration(bundle, namespace);
        let object: DynamicObject = serde_json::from_value(declaration).unwrap();
        let api = self.contender.api(self.client.clone());
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn wait_until_healthy(&self) {
        let api = self.contender.api(self.client.clone());
        let end = Instant::now() + Duration::from_secs(600);
        loop {
            let all = api.list(&ListParams::default()).await.unwrap().items;
            let left = all.iter().filter(|instance| !is_healthy(instance)).count();
            if left == 0 {
                return;
            }
            assert!(Instant::now() < end, "{left} instances are not healthy");
            sleep(Duration::from_secs(3)).await;
        }
    }

    /// Returns the sizes of BundleInstances, Bundles and Secrets that record the instances, as etcd stores them: custom resources
    /// as JSON, and of Secrets the data. Not counted are the metadata of Secrets, and former versions before a compaction.
    pub(crate) async fn recorded(&self) -> [usize; 3] {
        let size = async |resource: ApiResource| {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let all = api.list(&ListParams::default()).await.unwrap();
            let size = |object| serde_json::to_vec(object).unwrap().len();
            all.iter().map(size).sum()
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SYSTEM);
        let secrets = secrets.list(&ListParams::default()).await.unwrap();
        let data = secrets
            .iter()
            .flat_map(|secret| secret.data.iter().flatten());
        [
            size(ApiResource::erase::<BundleInstance>(&())).await,
            size(ApiResource::erase::<api::bundle::Bundle>(&())).await,
            data.map(|(_, data)| data.0.len()).sum(),
        ]
    }

    pub(crate) fn mark(&self) -> Mark {
        self.audit.mark()
    }

    /// Returns the requests of the provisioner between a mark and a time.
    pub(crate) fn calls(&self, since: Mark, until: Timestamp) -> Calls {
        self.audit.since(since, until)
    }

    /// Returns the requests of the provisioner while nothing changes.
    pub(crate) async fn calls_at_rest(&self, time: Duration) -> Calls {
        let mark = self.mark();
        sleep(time).await;
        self.calls(mark, Timestamp::now())
    }

    /// Counts the objects with the labels of the contender's instances.
    pub(crate) async fn objects(&self) -> usize {
        let discovery = Discovery::new(self.client.clone());
        let discovery = discovery.run_aggregated().await.unwrap();
        let kinds = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::recommended_resources)
            .filter(|(kind, can)| {
                can.supports_operation(verbs::LIST) && kind.group != "core.rukpak.io"
            });
        let selector = format!("core.rukpak.io/owner-kind={}", self.contender.kind());
        let params = ListParams::default().labels(&selector);
        let mut count = 0;
        for (kind, _) in kinds {
            let api = Api::<DynamicObject>::all_with(self.client.clone(), &kind);
            // The list fails for custom resources of a CRD that is terminating or not established.
            if let Ok(objects) = api.list_metadata(&params).await {
                count += objects.items.len();
            }
        }
        count
    }
}
