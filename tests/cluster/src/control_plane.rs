//! Starting etcd, the API server and the controllers, in this order.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::binaries::Tools;
use crate::processes::Run;
use crate::{AUDIT_LOG, Controllers, Error, Nodes, Options, Result, pki, sandbox};

const ATTEMPTS: usize = 3;
const READY_TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(20);
pub(crate) const KUBECONFIG: &str = "kubeconfig";

#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) run: Run,
    pub(crate) etcd: SocketAddr,
    pub(crate) config: Config,
    pub(crate) kubeconfig: PathBuf,
}

/// Starts a control plane on free ports. Another process can take a port before its server does; then the start is retried.
pub(crate) async fn start(tools: &Tools, options: &Options) -> Result<ControlPlane> {
    let mut attempt = 1;
    loop {
        match start_once(tools, options).await {
            Err(error) if error.is_port_clash() && attempt < ATTEMPTS => attempt += 1,
            outcome => return outcome,
        }
    }
}

async fn start_once(tools: &Tools, options: &Options) -> Result<ControlPlane> {
    let run = Run::new()?;
    let dir = run.dir().to_owned();
    pki::write(&dir)?;
    let [etcd, peer, api] = free_ports()?;

    run.spawn("etcd", &tools.path("etcd")?, &etcd_args(&dir, etcd, peer))?;
    let etcd = SocketAddr::from((Ipv4Addr::LOCALHOST, etcd));
    listens(&run, etcd).await?;

    let address = match options.nodes {
        Nodes::None => Ipv4Addr::LOCALHOST,
        Nodes::One => sandbox::ADDRESS,
    };
    let mut args = apiserver_args(&dir, address, api, etcd.port());
    if let Some(policy) = options.audit_policy {
        let path = dir.join("audit-policy");
        pki::save(&dir, "audit-policy", policy)?;
        args.push(format!("--audit-policy-file={}", path.display()));
        let log = dir.join(AUDIT_LOG);
        args.push(format!("--audit-log-path={}", log.display()));
    }
    args.extend_from_slice(&options.apiserver_flags);
    run.spawn("kube-apiserver", &tools.path("kube-apiserver")?, &args)?;

    let kubeconfig = write_kubeconfig(&dir, address, api)?;
    let config = read_kubeconfig(&kubeconfig).await?;
    ready(&run, &config).await?;

    if options.controllers == Controllers::On {
        const CONTROLLERS: &str = "kube-controller-manager";
        if tools.has(CONTROLLERS) {
            let program = tools.path(CONTROLLERS)?;
            run.spawn(CONTROLLERS, &program, &controllers_args(&dir))?;
        } else {
            let tools = tools.dir().display();
            eprintln!("cluster: no {CONTROLLERS} in {tools}: starting without");
        }
    }
    Ok(ControlPlane {
        run,
        etcd,
        config,
        kubeconfig,
    })
}

pub(crate) async fn listens(run: &Run, etcd: SocketAddr) -> Result<()> {
    until("etcd listens", run, || async {
        let connected = TcpStream::connect(etcd).await;
        connected.map(drop).map_err(|error| error.to_string())
    })
    .await
}

pub(crate) async fn ready(run: &Run, config: &Config) -> Result<()> {
    let client = client(config)?;
    until("the API server is ready", run, || readyz(&client)).await
}

pub(crate) async fn readyz(client: &Client) -> Result<(), String> {
    let request = kube::core::Request::new("").get("readyz", &kube::api::GetParams::default());
    let request = request.map_err(|error| error.to_string())?;
    let answer = client.request_text(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// Reads the configuration of a client from a kubeconfig file's current context.
pub(crate) async fn read_kubeconfig(path: &Path) -> Result<Config> {
    let failure = |error| {
        let doing = format!("use the kubeconfig {}", path.display());
        Error::io(doing)(io::Error::other::<KubeconfigError>(error))
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failure)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(failure)
}

/// Returns a client. The client lives as long as the runtime in which it was created.
pub(crate) fn client(config: &Config) -> Result<Client> {
    // Fails if another crate of the test has already installed a provider, which is sufficient.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::try_from(config.clone()).map_err(Error::api("make a client"))
}

/// Waits until `ready` succeeds, or fails at the timeout or after a process of the run has ended.
pub(crate) async fn until<T, F: Future<Output = Result<T, String>>>(
    expectation: &str,
    run: &Run,
    ready: impl Fn() -> F,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let answer = tokio::time::timeout(Duration::from_secs(5), ready()).await;
        let reason = match answer {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => reason,
            Err(elapsed) => elapsed.to_string(),
        };
        run.check()?;
        if start.elapsed() > READY_TIMEOUT {
            let detail = format!(" ({reason}){}", run.logs());
            return Err(Error::timeout(expectation, READY_TIMEOUT, detail));
        }
        sleep(POLL).await;
    }
}

/// Ports without a listener. All are different, because they are held at the same time.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    let failure = || Error::io("find a free port");
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failure())?;
        *port = listener.local_addr().map_err(failure())?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn etcd_args(dir: &Path, port: u16, peer: u16) -> Vec<String> {
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
        "--unsafe-no-fsync".into(), // nothing here outlives the machine
    ]
}

fn apiserver_args(dir: &Path, address: Ipv4Addr, port: u16, etcd: u16) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let token_key = file(pki::TOKEN_KEY);
    // Endpoints of the Service `kubernetes` must not be loopback addresses.
    let is_loopback = address.is_loopback();
    let reconciler = if is_loopback { "none" } else { "lease" };
    vec![
        format!("--secure-port={port}"),
        format!("--bind-address={address}"),
        format!("--advertise-address={address}"),
        format!("--endpoint-reconciler-type={reconciler}"),
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--cert-dir={}", dir.display()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file(pki::CA)),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file(pki::TOKENS)),
        format!("--service-account-signing-key-file={token_key}"),
        "--authorization-mode=Node,RBAC".into(),
        "--allow-privileged=true".into(),
        format!("--service-cluster-ip-range={}", sandbox::SERVICES),
        format!("--kubelet-client-certificate={}", file("admin.crt")),
        format!("--kubelet-client-key={}", file("admin.key")),
        "--kubelet-preferred-address-types=InternalIP".into(),
    ]
}

fn controllers_args(dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let token_key = file(pki::TOKEN_KEY);
    vec![
        format!("--kubeconfig={}", file(KUBECONFIG)),
        "--controllers=*,-nodeipam".into(),
        format!("--service-account-private-key-file={token_key}"),
        format!("--root-ca-file={}", file(pki::CA)),
        "--use-service-account-credentials=true".into(),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
    ]
}

/// Writes a kubeconfig for the cluster admin. JSON is YAML, so kubectl reads it too.
fn write_kubeconfig(dir: &Path, address: Ipv4Addr, port: u16) -> Result<PathBuf> {
    let file = |name: &str| dir.join(name).display().to_string();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "cluster",
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "admin"}}],
        "clusters": [{"name": "cluster", "cluster": {
            "server": format!("https://{address}:{port}"), "certificate-authority": file(pki::CA),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate": file("admin.crt"), "client-key": file("admin.key"),
        }}],
    });
    pki::save(dir, KUBECONFIG, &format!("{kubeconfig:#}\n"))?;
    Ok(dir.join(KUBECONFIG))
}
