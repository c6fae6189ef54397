//! The measured provisioners: this one and rukpak's.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use cluster::{Cluster, DryRun};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::bundles::{Bundle, Class};
use crate::process::Process;
use crate::timeline::Verdict;

pub(crate) const SYSTEM: &str = "rukpak-system";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Ours,
    Peer,
}

pub(crate) struct Provisioner {
    pub(crate) process: Process,
    probes: u16,
    metrics: u16,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "rukpak-rs",
            Self::Peer => "rukpak 0.24",
        }
    }

    /// Kind of the owner in the labels of objects.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Ours => "BundleInstance",
            Self::Peer => "BundleDeployment",
        }
    }

    pub(crate) fn api(self, client: Client) -> Api<DynamicObject> {
        let version = match self {
            Self::Ours => "v1alpha1",
            Self::Peer => "v1alpha2",
        };
        let kind = GroupVersionKind::gvk("core.rukpak.io", version, self.kind());
        Api::all_with(client, &ApiResource::from_gvk(&kind))
    }

    /// Creates the CRDs and the namespace, as an admin does.
    pub(crate) async fn prepare(self, cluster: &Cluster) {
        let dir = match self {
            Self::Ours => Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds"),
            Self::Peer => module().join("manifests/base/apis/crds"),
        };
        let files = std::fs::read_dir(dir).unwrap();
        let files = files.map(|file| file.unwrap().path());
        for file in files.filter(|path| path.extension().is_some_and(|end| end == "yaml")) {
            for document in manifests::yaml::documents(&std::fs::read(file).unwrap()) {
                let document = document.unwrap();
                if !document.is_null() {
                    cluster.apply(&document, DryRun::No).await.unwrap();
                    let name = document["metadata"]["name"].as_str().unwrap();
                    cluster.wait_established(name).await.unwrap();
                }
            }
        }
        namespace(cluster, SYSTEM).await;
    }

    /// Starts the provisioner with the flags of its installation, and waits until it is ready.
    pub(crate) async fn start(self, cluster: &Cluster, storage: &Path) -> Provisioner {
        let [probes, metrics, content] = free_ports();
        let storage = storage.display().to_string();
        let mut args = vec![
            format!("--kubeconfig={}", cluster.kubeconfig_path().display()),
            format!("--system-namespace={SYSTEM}"),
            format!("--http-external-address=https://core.{SYSTEM}.svc"),
            format!("--health-probe-bind-address=127.0.0.1:{probes}"),
        ];
        let program = match self {
            Self::Ours => {
                args.extend([
                    format!("--storage-dir={storage}"),
                    "--leader-elect".to_owned(),
                    format!("--content-bind-address=127.0.0.1:{content}"),
                    format!("--metrics-bind-address=127.0.0.1:{metrics}"),
                    "--admin-bind-address=0".to_owned(),
                ]);
                PathBuf::from(env!("CARGO_BIN_EXE_provisioner"))
            }
            Self::Peer => {
                // The provisioner expects these directories to exist.
                for dir in ["bundles", "unpack"] {
                    std::fs::create_dir_all(format!("{storage}/{dir}")).unwrap();
                }
                args.extend([
                    format!("--provisioner-storage-dir={storage}/bundles"),
                    format!("--unpack-cache-dir={storage}/unpack"),
                    format!("--http-bind-address=127.0.0.1:{metrics}"),
                ]);
                peers().join("core")
            }
        };
        let provisioner = Provisioner {
            process: Process::start(&program, &args),
            probes,
            metrics,
        };
        provisioner.ready(self).await;
        provisioner
    }

    /// Returns the object that installs a bundle. Its objects go to an existing namespace.
    pub(crate) fn declaration(self, bundle: &Bundle, namespace: &str) -> Value {
        let class = match bundle.class {
            Class::Plain => "core-rukpak-io-plain",
            Class::Registry => "core-rukpak-io-registry",
        };
        let source =
            json!({"type": "image", "image": {"ref": bundle.image, "insecureSkipTLSVerify": true}});
        match self {
            Self::Ours => json!({
                "apiVersion": "core.rukpak.io/v1alpha1", "kind": self.kind(), "metadata": {"name": bundle.name},
                "spec": {
                    "provisionerClassName": "core-rukpak-io-plain", "installNamespace": namespace,
                    "template": {"spec": {"provisionerClassName": class, "source": source}},
                },
            }),
            Self::Peer => json!({
                "apiVersion": "core.rukpak.io/v1alpha2", "kind": self.kind(), "metadata": {"name": bundle.name},
                "spec": {"provisionerClassName": class, "installNamespace": namespace, "source": source},
            }),
        }
    }

    /// Returns the verdict of the conditions, or `None` while they report none.
    pub(crate) fn verdict(object: &DynamicObject) -> Option<Verdict> {
        let conditions = object.data.pointer("/status/conditions")?.as_array()?;
        let find = |type_: &str| conditions.iter().find(|one| one["type"] == type_);
        let failed = |condition: &Value| {
            let message = condition["message"].as_str().unwrap_or_default();
            Err(message.to_owned())
        };
        let is_refused = |one: &&Value| one["status"] == "False" && one["reason"] == "UnpackFailed";
        let refused = ["HasValidBundle", "Unpacked"].into_iter().filter_map(find);
        let mut refused = refused.filter(is_refused);
        match (find("Installed"), refused.next()) {
            (Some(installed), _) if installed["status"] == "True" => Some(Ok(())),
            (_, Some(refused)) => Some(failed(refused)),
            (Some(installed), _) => {
                let reason = installed["reason"].as_str().unwrap_or_default();
                let is_failed = reason.ends_with("Failed") || reason.starts_with("Error");
                is_failed.then(|| failed(installed))
            }
            (None, None) => None,
        }
    }
}

impl Provisioner {
    /// Waits until the provisioner reports that it is ready; this one must also hold the Lease, because before it only
    /// serves.
    async fn ready(&self, contender: Contender) {
        let end = self.process.started + Duration::from_secs(60);
        loop {
            let ready = self.get(self.probes, "readyz").await.is_some();
            let leads = contender == Contender::Peer || self.metric("rukpak_leader").await > 0.0;
            if ready && leads {
                return;
            }
            assert!(Instant::now() < end, "not ready: {}", self.process.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn get(&self, port: u16, path: &str) -> Option<String> {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}/{path}")).await;
        let answer = answer.ok()?.error_for_status().ok()?;
        answer.text().await.ok()
    }

    /// Returns the sum of all samples of a metric whose line has this prefix, or 0 if none exists.
    pub(crate) async fn metric(&self, beginning: &str) -> f64 {
        let text = self.get(self.metrics, "metrics").await.unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        let values = lines.filter_map(|line| line.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum()
    }
}

pub(crate) async fn namespace(cluster: &Cluster, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    cluster.apply(&namespace, DryRun::No).await.unwrap();
}

fn peers_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cluster/peers")
}

/// Returns the directory of the peers' programs, which are built if they are missing.
pub(crate) fn peers() -> PathBuf {
    output(&mut Command::new(peers_dir().join("build.sh"))).into()
}

/// Returns the directory of rukpak's Go module.
fn module() -> PathBuf {
    let list = "list -m -f {{.Dir}} github.com/operator-framework/rukpak".split(' ');
    output(Command::new("go").args(list).current_dir(peers_dir())).into()
}

fn output(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
