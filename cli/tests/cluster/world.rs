//! A cluster with rukpak installed, and the command.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use cluster::{Cluster, Controllers, DryRun, Lease, Options, Pool};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, ServiceAccount},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use manifests::{
    api::{bundle::Bundle, install, instance::BundleInstance},
    yaml,
};
use serde_json::{Value, json};
use tempfile::TempDir;
pub(crate) use tests::Run;
use tests::{Args, Provisioner, Registry};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};

/// How long anything may take on a machine with a lot to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// What all tests share.
pub(crate) struct World {
    pub(crate) cluster: &'static Cluster,
    /// The kubeconfig of the provisioner, and its directory.
    pub(crate) account: (TempDir, PathBuf),
    pub(crate) provisioner: Provisioner,
    pub(crate) registry: Registry,
}

pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD.get_or_init(World::new).await
}

/// Takes an empty control plane without controllers, for one test.
pub(crate) async fn bare() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::Off, None), 3);
    POOL.take(async |_| Ok(())).await.unwrap()
}

impl World {
    async fn new() -> Self {
        let cluster = Cluster::shared().await.expect("there is a control plane");
        install(cluster, &install::Options::default()).await;
        let account = provisioner_account(cluster).await;
        let provisioner = Provisioner::beside(&binary(), &account.1);
        Self {
            cluster,
            account,
            provisioner,
            registry: Registry::plain(),
        }
    }

    /// Runs the command as the administrator, who has a client certificate and no token.
    pub(crate) fn run(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run_as(self.cluster.kubeconfig_path(), args)
    }

    /// Runs a command that has to succeed.
    #[track_caller]
    pub(crate) fn ok(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run(args).exits(0)
    }

    /// Runs a command that has to fail.
    #[track_caller]
    pub(crate) fn fail(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run(args).exits(1)
    }

    pub(crate) fn run_as(&self, kubeconfig: &Path, args: &(impl Args + ?Sized)) -> Run {
        let mut command = self.command(kubeconfig, args);
        command.stdin(Stdio::null()).output().unwrap().into()
    }

    /// Runs a command as the administrator with another address of the content service.
    pub(crate) fn run_at(&self, address: &str, args: &(impl Args + ?Sized)) -> Run {
        let mut command = Command::new(binary());
        command
            .args(args.words())
            .args(["--content-address", address, "--kubeconfig"])
            .arg(self.cluster.kubeconfig_path());
        command.stdin(Stdio::null()).output().unwrap().into()
    }

    /// The command with the way to the content service, where it needs one.
    pub(crate) fn command(&self, kubeconfig: &Path, args: &(impl Args + ?Sized)) -> Command {
        let (mut command, args) = (Command::new(binary()), args.words());
        command.args(&args).arg("--kubeconfig").arg(kubeconfig);
        if matches!(args.first(), Some(&("install" | "content" | "adopt"))) {
            command.args(["--content-address", &self.provisioner.content()]);
        }
        command
    }

    pub(crate) fn spawn(&self, args: &(impl Args + ?Sized)) -> Child {
        self.command(self.cluster.kubeconfig_path(), args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn instances(&self) -> Api<BundleInstance> {
        Api::all(self.cluster.client().unwrap())
    }

    pub(crate) fn bundles(&self) -> Api<Bundle> {
        Api::all(self.cluster.client().unwrap())
    }

    /// The ConfigMaps of the namespace `default`.
    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client().unwrap(), "default")
    }

    /// The name of the Bundle that an instance has installed.
    pub(crate) async fn installed(&self, name: &str) -> String {
        let instance = self.instances().get(name).await.unwrap();
        instance.status.unwrap().installed_bundle_name.unwrap()
    }

    /// Changes an instance as another client does.
    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let (instances, params) = (self.instances(), PatchParams::default());
        let patched = instances.patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    pub(crate) async fn apply(&self, object: &Value) {
        self.cluster.apply(object, DryRun::No).await.unwrap();
    }

    /// A kubeconfig with the token of a new ServiceAccount that is bound to these ClusterRoles.
    pub(crate) async fn somebody(&self, name: &str, roles: &[&str]) -> (TempDir, PathBuf) {
        let account = json!({"kind": "ServiceAccount", "name": name, "namespace": "default"});
        self.apply(&json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "default"},
        }))
        .await;
        for role in roles {
            self.apply(&json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{name}-{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [account],
            }))
            .await;
        }
        kubeconfig(self.cluster, "default", name).await
    }

    /// Uninstalls, so that later tests have less to look at.
    pub(crate) fn remove(&self, name: &str) {
        self.run(&format!(
            "uninstall {name} --yes --crd-deletion-policy delete"
        ))
        .exits(0);
    }
}

/// Returns a kubeconfig with a token of the provisioner's ServiceAccount, as whom its Deployment works: the admission
/// policies let no other user write the Bundles of a BundleInstance.
pub(crate) async fn provisioner_account(cluster: &Cluster) -> (TempDir, PathBuf) {
    kubeconfig(cluster, "rukpak-system", "provisioner").await
}

/// Returns a kubeconfig with a new token of a ServiceAccount.
async fn kubeconfig(cluster: &Cluster, namespace: &str, account: &str) -> (TempDir, PathBuf) {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client().unwrap(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .unwrap();
    let token = answer.status.unwrap().token.unwrap();
    let admin = fs::read(cluster.kubeconfig_path()).unwrap();
    let mut config = yaml::documents(&admin).next().unwrap().unwrap();
    config["users"][0]["user"] = json!({"token": token});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    (folder, path)
}

/// Applies the install file.
pub(crate) async fn install(cluster: &Cluster, options: &install::Options) {
    for object in install::objects(options) {
        cluster.apply(&object, DryRun::No).await.unwrap();
        if object["kind"] == "CustomResourceDefinition" {
            let name = object["metadata"]["name"].as_str().unwrap();
            cluster.wait_established(name).await.unwrap();
        }
    }
}

/// A name that nobody else in this cluster has.
pub(crate) fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:x}-{count}", std::process::id())
}

pub(crate) fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_rukpak").into()
}

/// A plain bundle in a folder: a ConfigMap for each name, with this text.
pub(crate) fn plain(names: &[&str], text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    for name in names {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"},
            "data": {"text": text},
        });
        fs::write(manifests.join(format!("{name}.yaml")), format!("{map:#}")).unwrap();
    }
    folder
}

/// A definition of Tides, in an API group of this name.
pub(crate) fn definition(name: &str) -> Value {
    let group = format!("{name}.example.com");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("tides.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": "Tide", "listKind": "TideList", "plural": "tides", "singular": "tide"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

pub(crate) fn text(folder: &TempDir) -> &str {
    folder.path().to_str().unwrap()
}

/// Tries until there is a result; the last reason why there was none is said when there never is.
pub(crate) async fn eventually<T>(
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(result) => return result,
            Err(reason) if Instant::now() > end => panic!("not {what}: {reason}"),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Sends a process what Ctrl-C sends.
fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
}

/// A command that is interrupted as soon as it listens for signals: it talks to the cluster then.
pub(crate) async fn until_it_listens(child: Child) -> Run {
    let path = format!("/proc/{}/status", child.id());
    eventually("listening", async || {
        let fields = fs::read_to_string(&path).unwrap();
        let mut lines = fields.lines();
        let caught = lines.find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = u64::from_str_radix(caught.unwrap(), 16).unwrap();
        if caught & 2 == 0 { Err(fields) } else { Ok(()) }
    })
    .await;
    interrupt(&child);
    let run: Run = child.wait_with_output().unwrap().into();
    run.exits(130)
}

/// A command that is interrupted as soon as it has said something: nobody brings about what it waits for then.
pub(crate) fn until_it_says(mut child: Child, part: &str) -> Run {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    while !err.contains(part) {
        let read = lines.read_line(&mut err).unwrap();
        assert_ne!(read, 0, "it does not say {part:?}: {err}");
    }
    interrupt(&child);
    lines.read_to_string(&mut err).unwrap();
    let run: Run = child.wait_with_output().unwrap().into();
    Run { err, ..run }.exits(130)
}
