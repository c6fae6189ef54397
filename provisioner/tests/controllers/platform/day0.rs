//! What is there before the provisioner, when the apiserver takes its time.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster::Cluster;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _, client::ConfigExt as _};
use manifests::api::instance::BundleInstance;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsConnector;

use super::stage::{Platform, packages};
use crate::{
    catalogs::served::Server,
    support::{Options, Provisioner, eventually, wait_for},
};

/// How an apiserver answers while it starts.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It ends each connection.
    Ends,
    /// It says that it cannot answer yet.
    Busy,
    Serves,
}

/// The way to an apiserver: plain HTTP on this side, an administrator on the other.
struct Way {
    address: SocketAddr,
    state: watch::Sender<State>,
    /// Connections so far.
    tries: Arc<AtomicU64>,
}

impl Way {
    /// A port at which nobody is yet.
    async fn nowhere() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            address: free.local_addr().unwrap(),
            state: watch::Sender::new(State::Ends),
            tries: Arc::default(),
        }
    }

    fn kubeconfig(&self) -> String {
        let server = format!("http://{}", self.address);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        })
        .to_string()
    }

    async fn open(&self, cluster: &Cluster) {
        let config = cluster.config();
        let there = config.cluster_url.authority().unwrap().to_string();
        let tls = TlsConnector::from(Arc::new(config.rustls_client_config().unwrap()));
        let listener = eventually("the port is free", async || {
            let bound = TcpListener::bind(self.address).await;
            bound.map_err(|error| error.to_string())
        })
        .await;
        let (state, tries) = (self.state.subscribe(), Arc::clone(&self.tries));
        tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                tries.fetch_add(1, Ordering::SeqCst);
                let state = *state.borrow();
                tokio::spawn(pass(here, there.clone(), tls.clone(), state));
            }
        });
    }

    /// Waits until this many more have come, who are treated like this.
    async fn has_been_tried(&self, state: State, times: u64) {
        self.state.send_replace(state);
        let before = self.tries.load(Ordering::SeqCst);
        eventually("it tries again", async || {
            let tries = self.tries.load(Ordering::SeqCst);
            (tries >= before + times)
                .then_some(())
                .ok_or(format!("{tries} tries"))
        })
        .await;
    }
}

async fn pass(mut here: TcpStream, there: String, tls: TlsConnector, state: State) {
    match state {
        State::Ends => {}
        State::Busy => {
            let mut head = vec![0; 1 << 16];
            let _ = here.read(&mut head).await;
            let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = here.write_all(answer.as_bytes()).await;
            let _ = here.shutdown().await;
        }
        State::Serves => {
            let (host, _) = there.rsplit_once(':').unwrap();
            let name = ServerName::try_from(host.to_owned()).unwrap();
            let there = TcpStream::connect(&there).await.unwrap();
            let mut there = tls.connect(name, there).await.unwrap();
            let _ = copy_bidirectional(&mut here, &mut there).await;
        }
    }
}

#[tokio::test]
async fn an_apiserver_that_starts_slowly_delays_a_day_0_and_nothing_more() {
    let platform = Platform::new().await;
    let names = ["tide", "surf", "moon"];
    let mut all = Vec::new();
    for name in names {
        all.push((name, platform.bundles(name, &["1.0.0"]).await));
    }
    let server = Server::of(None, &packages(&all)).await;
    platform.serve("mine", &server).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    people(&platform).await;

    let way = Way::nowhere().await;
    let options = Options {
        kubeconfig: Some(way.kubeconfig()),
        ..Options::default()
    };
    let (_folder, options) = platform.prepared(options);
    let provisioner = Provisioner::launch(platform.world.cluster, options);
    let pid = provisioner.pid().await;
    provisioner.says("listening").await;
    // As long as nobody is there, nothing can be seen from here.
    tokio::time::sleep(Duration::from_secs(3)).await;
    way.open(platform.world.cluster).await;
    way.has_been_tried(State::Ends, 3).await;
    way.has_been_tried(State::Busy, 5).await;
    let operators = platform.operators();
    let tide = operators.get("tide").await.unwrap();
    assert!(tide.status.is_none(), "{:?}", tide.status);
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    way.state.send_replace(State::Serves);
    platform.has("tide", "1.0.0").await;
    platform
        .becomes("tide", "True", "InstallSuccessful", "Successfully applied")
        .await;
    objects_land_where_the_operator_says(&platform).await;
    assert!(!provisioner.has_ended(), "{}", provisioner.log());
    assert_eq!(provisioner.pid().await, pid);
    server.stop().await;
}

/// Two accounts, one of which may do everything, and operators that are to be installed as they.
async fn people(platform: &Platform) {
    let crew = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "crew"}});
    platform.world.apply(&crew).await;
    let account = |name: &str| json!({"name": name, "namespace": "crew"});
    for name in ["captain", "cook"] {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account(name)});
        platform.world.apply(&account).await;
    }
    let api = "rbac.authorization.k8s.io";
    let mut captain = account("captain");
    captain["kind"] = "ServiceAccount".into();
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "captain"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [captain],
    });
    platform.world.apply(&binding).await;
    for (package, name) in [("surf", "captain"), ("moon", "cook")] {
        let bundle = json!({"installNamespace": "harbour", "serviceAccount": account(name)});
        platform
            .want(json!({"package": {"name": package}, "bundle": bundle}))
            .await;
    }
}

async fn objects_land_where_the_operator_says(platform: &Platform) {
    platform.has("surf", "1.0.0").await;
    let deployments: Api<Deployment> = Api::namespaced(platform.world.client(), "harbour");
    let surf = deployments.get("surf-operator").await.unwrap();
    // Who has put it there is written down by the apiserver; what is written down of the instance, by us.
    assert!(!surf.managed_fields().is_empty());
    let instance = platform.instances().get("surf").await.unwrap();
    let status = instance.status.unwrap();
    assert_eq!(status.install_namespace.as_deref(), Some("harbour"));
    let account = instance.spec.service_account.unwrap();
    assert_eq!(
        (account.name.as_str(), account.namespace.as_str()),
        ("captain", "crew")
    );

    let lacks = "ServiceAccount crew/cook lacks rights that this bundle takes";
    platform
        .becomes("moon", "False", "InstallFailed", lacks)
        .await;
    assert!(
        deployments
            .get_opt("moon-operator")
            .await
            .unwrap()
            .is_none()
    );
    // Once he has them, it goes on.
    let api = "rbac.authorization.k8s.io";
    let binding: Value = json!({
        "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "cook"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "cook", "namespace": "crew"}],
    });
    platform.world.apply(&binding).await;
    wait_for(
        platform.instances(),
        "moon",
        "installed",
        |it: &BundleInstance| {
            let status = it.status.as_ref()?;
            (status.facts.version.as_deref() == Some("1.0.0")).then_some(())
        },
    )
    .await;
    platform
        .becomes("moon", "True", "InstallSuccessful", "Successfully applied")
        .await;
}
