//! `rukpak catalogsource migrate`, killed before and after each of its writes: the next run completes the migration.

use std::{
    fs,
    future::pending,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use cluster::Cluster;
use http::{
    Request, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::{
    Client, Config,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    client::Body,
};
use tempfile::NamedTempFile;
use tests::Site;
use tokio::{sync::mpsc, time::timeout};

use super::*;
use crate::environment::{Run, WAIT_TIMEOUT};

/// The write at which a run is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Before the API server receives the write.
    Before(usize),
    /// After the API server has executed the write, before the response.
    After(usize),
    /// The run is not killed.
    Never,
}

/// A proxy to the API server that counts writes and answers all but one. Its clients are cluster admins.
struct Relay {
    kubeconfig: NamedTempFile,
    _site: Site,
    writes: Arc<AtomicUsize>,
    reached: mpsc::UnboundedReceiver<()>,
}

impl Relay {
    fn new(cluster: &Cluster, end: End) -> Self {
        let (config, writes) = (cluster.config().clone(), Arc::new(AtomicUsize::new(0)));
        let (reach, reached) = mpsc::unbounded_channel();
        let counted = Arc::clone(&writes);
        let site = Site::start(None, move |request: Request<Bytes>| {
            let (config, reach) = (config.clone(), reach.clone());
            let is_write = request.method() != "GET";
            let at = counted.fetch_add(usize::from(is_write), Ordering::SeqCst) + 1;
            async move {
                let stop = async |point| {
                    if is_write && end == point {
                        reach.send(()).unwrap();
                        pending::<()>().await;
                    }
                };
                stop(End::Before(at)).await;
                let answer = pass(config, request).await;
                stop(End::After(at)).await;
                answer
            }
        });
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "relay",
            "clusters": [{"name": "relay", "cluster": {"server": site.url("")}}],
            "users": [{"name": "relay", "user": {}}],
            "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "relay"}}],
        });
        let kubeconfig = NamedTempFile::new().unwrap();
        fs::write(kubeconfig.path(), text.to_string()).unwrap();
        Self {
            kubeconfig,
            _site: site,
            writes,
            reached,
        }
    }

    fn spawn(&self, cluster: &Cluster) -> Child {
        let kubeconfig = self.kubeconfig.path().display();
        cluster.spawn(&format!("catalogsource migrate --kubeconfig {kubeconfig}"))
    }
}

/// Passes a request on with a client of the proxy's runtime.
async fn pass(config: Config, request: Request<Bytes>) -> Response<Bytes> {
    let client = Client::try_from(config).unwrap();
    let mut request = request.map(Body::from);
    request.headers_mut().remove(HOST);
    let (mut parts, body) = client.send(request).await.unwrap().into_parts();
    for header in [CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
        parts.headers.remove(header);
    }
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// Returns the name, the stored spec and the migrated spec of each CatalogSource.
fn rows() -> [(&'static str, Value, Value); 3] {
    tests::rows![
        "a-both", json!({"sourceType": "grpc", "image": "a:1", "address": "b:2"})
            => json!({"sourceType": "grpc", "image": "a:1"});
        "b-good", json!({"catalogImageSource": {"catalogImage": "a:1"}})
            => json!({"catalogImageSource": {"catalogImage": "a:1"}});
        "c-map", json!({"configMapSource": {"configMap": "m"}, "secrets": ["s"]})
            => json!({"configMapSource": {"configMap": "m"}});
    ]
}

struct Stored<'a> {
    cluster: &'a Cluster,
    sources: Api<DynamicObject>,
}

impl Stored<'_> {
    async fn reset(&self) {
        for (name, spec, _) in rows() {
            let mut object = self.sources.get(name).await.unwrap();
            object.data["spec"] = spec;
            let params = PostParams::default();
            self.sources.replace(name, &params, &object).await.unwrap();
        }
        store_versions(self.cluster, &["v1alpha0", "v1alpha1"]).await;
    }

    /// Returns the number of migrated CatalogSources. Checks that the others are unchanged.
    async fn migrated(&self) -> usize {
        let mut migrated = 0;
        for (name, before, after) in rows() {
            let spec = self.sources.get(name).await.unwrap().data["spec"].clone();
            assert!(spec == before || spec == after, "{name}: {spec}");
            migrated += usize::from(spec == after);
        }
        migrated
    }

    /// Runs the command to its end, checks that all objects are migrated, and returns the number of writes.
    async fn complete(&self, about: &str) -> usize {
        let relay = Relay::new(self.cluster, End::Never);
        let run = Run::from(relay.spawn(self.cluster).wait_with_output().unwrap()).exits(0);
        let writes = relay.writes.load(Ordering::SeqCst);
        assert_eq!(run.out.is_empty(), writes == 0, "{about}: {run:?}");
        assert_eq!(self.migrated().await, rows().len(), "{about}");
        assert_eq!(stored_versions(self.cluster).await, ["v1alpha1"], "{about}");
        writes
    }
}

pub(super) async fn each_run_is_completed_by_the_next_one(cluster: &Cluster) {
    // Without the validation rules, contradictory specs can be stored.
    let lax = crd(|spec| {
        let rules = spec.as_object_mut().unwrap();
        rules.remove("x-kubernetes-validations").unwrap();
    });
    let sources = rows().map(|(name, spec, _)| source(name, &spec));
    apply(cluster, [lax].into_iter().chain(sources)).await;
    let resource = ApiResource::erase::<CatalogSource>(&());
    let stored = Stored {
        cluster,
        sources: Api::namespaced_with(cluster.client().unwrap(), "default", &resource),
    };

    // Without interruption, each object and the CRD are written once.
    stored.reset().await;
    let all = stored.complete("undisturbed").await;
    assert_eq!(all, rows().len() + 1);

    for end in (1..=all).flat_map(|at| [End::Before(at), End::After(at)]) {
        stored.reset().await;
        let mut relay = Relay::new(cluster, end);
        let mut child = relay.spawn(cluster);
        let reached = timeout(WAIT_TIMEOUT, relay.reached.recv()).await;
        assert!(matches!(reached, Ok(Some(()))), "{end:?} was not reached");
        child.kill().unwrap();
        child.wait().unwrap();

        // The CRD is written last.
        let is_forgotten = stored_versions(cluster).await == ["v1alpha1"];
        assert_eq!(is_forgotten, end == End::After(all), "{end:?}");
        if is_forgotten {
            assert_eq!(stored.migrated().await, rows().len(), "{end:?}");
        }
        tests::assert_rows!(stored.complete(&format!("{end:?}")).await == 0 => end == End::After(all), "{end:?}");
    }
    let all = stored.sources.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), rows().len());
    // A further run has no effect.
    assert_eq!(stored.complete("done").await, 0);
    let (delete, list) = (DeleteParams::default(), ListParams::default());
    let deleted = stored.sources.delete_collection(&delete, &list).await;
    deleted.unwrap();
}
