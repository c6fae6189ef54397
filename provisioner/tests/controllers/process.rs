//! The process: flags, probes, metrics, log level, leader election and signals, and the environment of the tests.

mod events;
mod leadership;
mod policies;

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use cluster::Cluster;
use kube::Api;
use manifests::api::bundle::{Bundle, BundleSource, HttpSource};
use reqwest::StatusCode;
use tests::assert_has;
use tokio::sync::OnceCell;

use crate::support::{
    self, Options, Provisioner, Relay, apply, create, eventually, found, namespace_object, unique,
};

/// Returns a control plane for tests with their own provisioners, which would reconcile the Bundles of all other tests.
async fn plane() -> &'static Cluster {
    static PLANE: OnceCell<Cluster> = OnceCell::const_new();
    let options = cluster::Options::new(cluster::Controllers::Off, None);
    PLANE.get_or_init(|| support::own(&options)).await
}

/// Creates a system namespace for one test, and returns its flag.
async fn system(cluster: &Cluster) -> (String, String) {
    let name = unique("system");
    apply(cluster, &namespace_object(&name)).await;
    (format!("--system-namespace={name}"), name)
}

/// Starts a provisioner of Bundles with a separate system namespace and this grace period.
async fn start(cluster: &Cluster, grace: &str) -> Provisioner {
    let (system, _) = system(cluster).await;
    let grace = format!("--shutdown-grace={grace}");
    let options = Options::with_flags(&[&system, "--controllers=bundle", &grace]);
    Provisioner::start(cluster, options).await
}

async fn get(url: &str) -> (StatusCode, String) {
    let answer = reqwest::get(url).await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

async fn put(url: &str, body: &str) -> (StatusCode, String) {
    let client = reqwest::Client::new();
    let answer = client.put(url).body(body.to_owned()).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn processes_answer_probes_and_end_on_signals() {
    let cluster = plane().await;
    let provisioner = start(cluster, "2s").await;
    let probes = provisioner.url("probes");
    for path in ["healthz", "readyz"] {
        tests::assert_rows!(get(&format!("{probes}/{path}")).await => (StatusCode::OK, "ok\n".to_owned()), "{path}");
    }
    let (status, _) = get(&format!("{probes}/log-level")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let (status, text) = get(&format!("{}/metrics", provisioner.url("metrics"))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.lines().any(|line| line == "rukpak_leader 1"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");

    let url = format!("{}/log-level", provisioner.url("admin"));
    let before = (StatusCode::OK, "info,provisioner=debug\n".to_owned());
    assert_eq!(get(&url).await, before);

    let (status, text) = put(&url, "loud").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_has(text, "use error, warn, info, debug or trace");
    let (status, _) = put(&url, &"x".repeat((4 << 10) + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // The server answers before it has read the whole body. The client may report a closed connection instead of the
    // answer.
    let enormous = reqwest::Client::new().put(&url).body("x".repeat(1 << 20));
    if let Ok(answer) = enormous.send().await {
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(get(&url).await, before, "after rejected values");

    assert_eq!(put(&url, "trace").await.0, StatusCode::NO_CONTENT);
    provisioner.wait_log("log level changed").await;
    assert_eq!(get(&url).await.1, "trace\n");

    provisioner.signal("TERM").await;
    assert_eq!(provisioner.ended().await, 0, "{}", provisioner.log());
    provisioner.wait_log("stopped").await;

    // The second signal ends the process.
    let provisioner = start(cluster, "1h").await;
    let _fetch = endless_fetch(cluster).await;
    provisioner.signal("TERM").await;
    let stopping = "shutting down; send the signal again to exit immediately";
    provisioner.wait_log(stopping).await;
    let found = get(&format!("{}/readyz", provisioner.url("probes"))).await;
    tests::assert_rows!(found => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()));
    assert!(!provisioner.has_ended());
    provisioner.signal("TERM").await;
    assert_eq!(provisioner.ended().await, 143, "{}", provisioner.log());
    // The grace period is limited.
    let provisioner = start(cluster, "0s").await;
    let _fetch = endless_fetch(cluster).await;
    provisioner.stop().await;
}

#[tokio::test]
async fn start_waits_for_the_api_server_and_rejects_bad_flags() {
    let options = tests::with!(Options, kubeconfig: Some(Relay::kubeconfig_of("127.0.0.1:1")));
    let cluster = plane().await;
    let provisioner = Provisioner::launch(cluster, options);
    let probes = found("there are probes", async || {
        let mut lines = provisioner.lines().into_iter();
        let line = lines.find(|line| line["service"] == "probes")?;
        Some(format!("http://{}", line["address"].as_str()?))
    })
    .await;
    assert_eq!(get(&format!("{probes}/healthz")).await.0, StatusCode::OK);
    let status = eventually("readyz names the tasks", async || {
        let (status, text) = get(&format!("{probes}/readyz")).await;
        let is_complete = text.contains("content service") && text.contains("Bundles");
        is_complete.then_some(status).ok_or(text)
    })
    .await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    provisioner.signal("INT").await;
    assert_eq!(provisioner.ended().await, 0, "{}", provisioner.log());

    let file = tempfile::NamedTempFile::new().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = taken.local_addr().unwrap();
    for (flag, code, problem) in tests::rows![
        "--kubeconfig=/nowhere/kubeconfig".to_owned(), 1 => "/nowhere/kubeconfig";
        format!("--storage-dir={}", file.path().display()), 1 => "--storage-dir";
        format!("--metrics-bind-address={taken}"), 1 => "--metrics-bind-address";
        format!("--content-bind-address={taken}"), 1 => "--content-bind-address";
        "--admin-bind-address=:0".to_owned(), 1 => "kubectl port-forward";
        "--log-level=loud".to_owned(), 2 => "--log-level";
    ] {
        let provisioner = Provisioner::launch(cluster, Options::with_flags(&[&flag]));
        let (ended, log) = (provisioner.ended().await, provisioner.log());
        assert_eq!(ended, code, "{flag}: {log}");
        assert!(log.contains(problem), "{flag}: {log}");
    }
}

/// Creates a Bundle whose server never answers, and returns the connection of the provisioner.
async fn endless_fetch(cluster: &Cluster) -> TcpStream {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/bundle.tgz", silent.local_addr().unwrap());
    let http = tests::with!(HttpSource, url);
    let source = tests::with!(BundleSource, type_: "http".to_owned(), http: Some(http));
    let bundles: Api<Bundle> = Api::all(cluster.client().unwrap());
    let bundle = support::bundle(&unique("silent"), "plain", source);
    create(&bundles, &bundle).await;
    let accepted = tokio::task::spawn_blocking(move || silent.accept().unwrap());
    accepted.await.unwrap().0
}
