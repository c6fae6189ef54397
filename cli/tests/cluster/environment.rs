//! A shared cluster with rukpak, and helpers to run the command in it.

use std::{
    borrow::Borrow,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use cluster::{Cluster, Controllers, DryRun, Lease, Options, Pool, wait};
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{ConfigMap, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use manifests::{
    api::{bundle::Bundle, bundle_instance::BundleInstance, install},
    yaml,
};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
pub(crate) use tests::Run;
use tests::{Args, Provisioner, Registry};
use tokio::sync::OnceCell;

/// Limit of every wait. It allows for a busy machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(180);

/// A cluster, with a user, for which the command runs.
pub(crate) trait Rukpak {
    fn rukpak(&self, args: &(impl Args + ?Sized)) -> Command;

    fn run(&self, args: &(impl Args + ?Sized)) -> Run {
        self.rukpak(args).output().unwrap().into()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn ok(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run(args).exits(0)
    }

    fn spawn(&self, args: &(impl Args + ?Sized)) -> Child {
        let mut command = self.rukpak(args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

impl Rukpak for Cluster {
    fn rukpak(&self, args: &(impl Args + ?Sized)) -> Command {
        let (mut command, args) = (Command::new(binary()), args.words());
        command.args(&args).stdin(Stdio::null());
        if !args.contains(&"--kubeconfig") {
            command.arg("--kubeconfig").arg(self.kubeconfig_path());
        }
        command
    }
}

/// The cluster and servers that all tests share.
pub(crate) struct World {
    pub(crate) cluster: &'static Cluster,
    /// Kubeconfig of the provisioner.
    pub(crate) account: NamedTempFile,
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

/// Adds the address of the content service to commands that need it. Without a kubeconfig argument, the user is the cluster
/// admin, who has a client certificate and no token.
impl Rukpak for World {
    fn rukpak(&self, args: &(impl Args + ?Sized)) -> Command {
        let mut command = self.cluster.rukpak(args);
        let (address, args) = ("--content-address", args.words());
        let is_needed = matches!(args.first(), Some(&("install" | "content" | "adopt")));
        if is_needed && !args.contains(&address) {
            command.args([address, &self.provisioner.content()]);
        }
        command
    }
}

impl World {
    async fn new() -> Self {
        let cluster = Cluster::shared().await.expect("there is a control plane");
        apply(cluster, install::objects(&install::Options::default())).await;
        let account = provisioner_account(cluster).await;
        Self {
            cluster,
            provisioner: Provisioner::beside(&binary(), account.path()),
            account,
            registry: Registry::plain(),
        }
    }

    pub(crate) fn instances(&self) -> Api<BundleInstance> {
        Api::all(self.cluster.client().unwrap())
    }

    pub(crate) fn bundles(&self) -> Api<Bundle> {
        Api::all(self.cluster.client().unwrap())
    }

    /// Returns the ConfigMaps of the namespace `default`.
    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client().unwrap(), "default")
    }

    pub(crate) async fn installed(&self, name: &str) -> String {
        let instance = self.instances().get(name).await.unwrap();
        instance.status.unwrap().installed_bundle_name.unwrap()
    }

    /// Waits until the status of an instance contains a text.
    pub(crate) async fn reports(&self, name: &str, part: &str) {
        eventually(part, async || {
            let status = json!(self.instances().get(name).await.unwrap().status).to_string();
            status.contains(part).then_some(()).ok_or(status)
        })
        .await;
    }

    /// Changes an instance as another client.
    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let (instances, params) = (self.instances(), PatchParams::default());
        let patched = instances.patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    pub(crate) async fn apply(&self, object: Value) {
        apply(self.cluster, [object]).await;
    }

    /// Returns a kubeconfig of a ServiceAccount in the namespace `default` after it is bound to a ClusterRole.
    pub(crate) async fn kubeconfig(&self, name: &str, role: Option<&str>) -> NamedTempFile {
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
        self.apply(object).await;
        if let Some(role) = role {
            let (bound, role) = (format!("{name}-{role}"), ("ClusterRole", role));
            self.apply(binding(&bound, None, role, &account(name)))
                .await;
        }
        kubeconfig(self.cluster, "default", name).await
    }

    /// Uninstalls an instance, so that later tests have fewer objects to read.
    pub(crate) fn remove(&self, name: &str) {
        let uninstall = format!("uninstall {name} --yes --crd-deletion-policy delete");
        self.ok(&uninstall);
    }
}

/// Returns a ServiceAccount of the namespace `default` as the subject of a binding.
pub(crate) fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": "default"})
}

/// Returns a user as the subject of a binding.
pub(crate) fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

/// Returns a binding of a role, given by kind and name, for a namespace or the whole cluster.
pub(crate) fn binding(
    name: &str,
    namespace: Option<&str>,
    (kind, role): (&str, &str),
    subject: &Value,
) -> Value {
    let group = "rbac.authorization.k8s.io";
    let (scope, metadata) = match namespace {
        Some(namespace) => ("", json!({"name": name, "namespace": namespace})),
        None => ("Cluster", json!({"name": name})),
    };
    json!({
        "apiVersion": format!("{group}/v1"), "kind": format!("{scope}RoleBinding"), "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": kind, "name": role}, "subjects": [subject],
    })
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns a kubeconfig with a token of the provisioner's ServiceAccount, like its Deployment: the admission
/// policies let no other user write the Bundles of a BundleInstance.
pub(crate) async fn provisioner_account(cluster: &Cluster) -> NamedTempFile {
    kubeconfig(cluster, "rukpak-system", "provisioner").await
}

async fn kubeconfig(cluster: &Cluster, namespace: &str, account: &str) -> NamedTempFile {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client().unwrap(), namespace);
    let request = tests::with!(TokenRequest, spec: Some(TokenRequestSpec::default()));
    let params = PostParams::default();
    let answer = accounts.create_token_request(account, &params, &request);
    let token = answer.await.unwrap().status.unwrap().token.unwrap();
    let admin = fs::read(cluster.kubeconfig_path()).unwrap();
    let mut config = yaml::documents(&admin).next().unwrap().unwrap();
    config["users"][0]["user"] = json!({"token": token});
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), config.to_string()).unwrap();
    file
}

/// Applies objects in order. Waits until a CRD is established, so that its custom resources may follow.
pub(crate) async fn apply(
    cluster: &Cluster,
    objects: impl IntoIterator<Item = impl Borrow<Value>>,
) {
    for object in objects {
        let object = object.borrow();
        cluster.apply(object, DryRun::No).await.unwrap();
        if object["kind"] == "CustomResourceDefinition" {
            let name = object["metadata"]["name"].as_str().unwrap();
            cluster.wait_established(name).await.unwrap();
        }
    }
}

pub(crate) fn objects(crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Vec<Value> {
    let crds = crds.into_iter();
    crds.map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

pub(crate) fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:x}-{count}", std::process::id())
}

pub(crate) fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_rukpak").into()
}

/// Writes a plain bundle with one ConfigMap for each name, with this text.
pub(crate) fn plain(names: &[&str], text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let manifests = dir.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    for name in names {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": {"text": text},
        });
        fs::write(manifests.join(format!("{name}.yaml")), format!("{map:#}")).unwrap();
    }
    dir
}

/// Returns a CRD of Tides, in an API group with this name.
pub(crate) fn crd(name: &str) -> Value {
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

pub(crate) fn text(dir: &TempDir) -> &str {
    dir.path().to_str().unwrap()
}

/// Retries until there is a result. Panics with the last reason after the time limit.
pub(crate) async fn eventually<T>(
    goal: &str,
    attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let result = wait::eventually(WAIT_TIMEOUT, attempt).await;
    result.unwrap_or_else(|reason| panic!("not {goal}: {reason}"))
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
}

/// Interrupts a command as soon as it handles signals, that is, when it has started to talk to the cluster.
pub(crate) async fn interrupt_when_listening(child: Child) -> Run {
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
    Run::from(child.wait_with_output().unwrap()).exits(130)
}

/// Interrupts a command as soon as its standard error contains a text. The command waits at that time.
pub(crate) fn interrupt_after_output(mut child: Child, part: &str) -> Run {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    while !err.contains(part) {
        let read = lines.read_line(&mut err).unwrap();
        assert_ne!(read, 0, "{part:?} is not in {err}");
    }
    interrupt(&child);
    lines.read_to_string(&mut err).unwrap();
    let run: Run = child.wait_with_output().unwrap().into();
    Run { err, ..run }.exits(130)
}
