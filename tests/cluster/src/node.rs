//! A real node: containerd, kubelet, kube-proxy, a scheduler, DNS, and a registry that stands for all others. It requires
//! a [`machine`].
//!
//! ```text
//!  pod (10.88.…) ── cni0 ── 10.88.0.1 ─┬─ kube-apiserver    Service kubernetes, through kube-proxy's rules
//!                                      ├─ CoreDNS :53       NAME.NAMESPACE.svc
//!                                      └─ registry :5000    source of the images of quay.io and all other hosts
//! ```

mod files;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Command;

use crate::binaries::Tools;
use crate::control_plane::{self, ControlPlane, KUBECONFIG, until};
use crate::sandbox::{self, ADDRESS};
use crate::{Error, Result};

/// The name of the node.
pub const NAME: &str = "worker";

/// The registry that containerd pulls all images from, over plain HTTP. A push needs no credentials.
pub const REGISTRY: SocketAddr = SocketAddr::new(IpAddr::V4(ADDRESS), 5000);

/// The Go modules of the node, and the module with the programs that run in its pods.
const NODE: &str = "node";
const RUNTIME: &str = "runtime";
const PODS: &str = "pods";

const PAUSE: &str = "localhost/pause:1";
const DNS_PORT: u16 = 53;
const PROXY_HEALTH_PORT: u16 = 10256;

fn registries(dir: &Path) -> PathBuf {
    dir.join("registries")
}

/// Returns the socket of containerd, for `ctr --address`.
pub fn containerd() -> Result<PathBuf> {
    Ok(machine_dir()?.join("containerd.sock"))
}

/// Configures containerd to pull from this host and port without TLS, instead of from [`REGISTRY`].
pub fn trust(host: &str) -> Result<()> {
    let dir = registries(&machine_dir()?).join(host);
    let text = format!("server = \"http://{host}\"\n");
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(dir.join("hosts.toml"), text))
        .map_err(Error::io(format!("trust the registry {host}")))
}

/// Builds the programs of a node, unless they are built already.
pub async fn build() -> Result<()> {
    Tools::find().await?;
    for module in [NODE, RUNTIME, PODS] {
        Tools::build(module).await?;
    }
    Ok(())
}

fn machine_dir() -> Result<PathBuf> {
    sandbox::current().ok_or_else(|| {
        Error::Machine("it needs a separate machine; run `cluster-up --node`".to_owned())
    })
}

/// Starts the node's programs, waits until the node is Ready, and returns the directories with its programs.
pub(crate) async fn start(plane: &mut ControlPlane) -> Result<Vec<PathBuf>> {
    let machine = machine_dir()?;
    let node = Tools::build(NODE).await?;
    let runtime = Tools::build(RUNTIME).await?;
    let pods = Tools::build(PODS).await?;
    let run = &mut plane.run;
    let dir = run.dir().to_owned();
    let files = files::write(&dir, &machine, &runtime)?;
    let text = |path: &Path| path.display().to_string();
    let config = |flag: &str, path: &Path| vec![format!("--{flag}={}", path.display())];
    let kubeconfig = format!("--kubeconfig={}", dir.join(KUBECONFIG).display());

    let registry = vec!["serve".to_owned(), text(&files.registry)];
    run.spawn("registry", Path::new("docker-registry"), &registry)?;
    let containerd = config("config", &files.containerd);
    run.spawn("containerd", &runtime.path("containerd")?, &containerd)?;
    let mut scheduler = config("cert-dir", &dir);
    scheduler.extend([kubeconfig.clone(), "--leader-elect=false".to_owned()]);
    let coredns = vec!["-conf".to_owned(), text(&files.corefile)];
    for (name, args) in [
        ("coredns", coredns),
        ("kube-scheduler", scheduler),
        ("kube-proxy", config("config", &files.proxy)),
    ] {
        run.spawn(name, &node.path(name)?, &args)?;
    }

    let socket = machine.join("containerd.sock");
    until("containerd listens", run, || async {
        let connected = UnixStream::connect(&socket).await;
        connected.map_err(|error| error.to_string())
    })
    .await?;
    import(&runtime, &socket, &pods.dir().join("pause.tar")).await?;

    let mut kubelet = config("config", &files.kubelet);
    kubelet.extend([
        kubeconfig,
        format!("--hostname-override={NAME}"),
        format!("--node-ip={ADDRESS}"),
        format!("--root-dir={}", dir.join("kubelet").display()),
    ]);
    run.spawn("kubelet", &node.path("kubelet")?, &kubelet)?;

    let nodes: Api<Node> = Api::all(control_plane::client(&plane.config)?);
    until("the node is Ready", run, || async {
        let node = nodes.get(NAME).await.map_err(|error| error.to_string())?;
        ready(&node)
    })
    .await?;
    for (server, port) in [
        ("DNS", DNS_PORT),
        ("kube-proxy", PROXY_HEALTH_PORT),
        ("the registry", REGISTRY.port()),
    ] {
        until(&format!("{server} listens"), run, || async {
            let connected = TcpStream::connect((ADDRESS, port)).await;
            connected.map_err(|error| error.to_string())
        })
        .await?;
    }
    let dirs = [&node, &runtime, &pods].map(|tools| tools.dir().to_owned());
    Ok(dirs.into())
}

/// Returns an error with the reason if pods cannot be scheduled to the node.
fn ready(node: &Node) -> Result<(), String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    if let Some(taint) = taints.into_iter().flatten().next() {
        return Err(format!("it has the taint {}", taint.key));
    }
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    match conditions.find(|condition| condition.type_ == "Ready") {
        Some(condition) if condition.status == "True" => Ok(()),
        Some(condition) => Err(condition.message.clone().unwrap_or_default()),
        None => Err("no condition is reported yet".to_owned()),
    }
}

/// Imports an image into containerd, which does not pull it then.
async fn import(runtime: &Tools, socket: &Path, archive: &Path) -> Result<()> {
    let doing = || format!("import {}", archive.display());
    let output = Command::new(runtime.path("ctr")?)
        .arg("--address")
        .arg(socket)
        .args(["--namespace", "k8s.io", "images", "import"])
        .arg(archive)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(Error::io(doing()))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::io(doing())(std::io::Error::other(message)))
}
