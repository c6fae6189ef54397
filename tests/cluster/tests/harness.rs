//! Tests of the harness: its programs answer, and it leaves nothing behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cluster::{Cluster, Controllers, DryRun, Error, KUBECONFIG, Options, Pool, Program};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::time::timeout;

const SECONDS_30: Duration = Duration::from_secs(30);

fn map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}

/// The programs of a control plane, and its reaper.
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "sh"];

fn shelves(scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shelves.pool.example.com"},
        "spec": {
            "group": "pool.example.com", "scope": scope,
            "names": {"plural": "shelves", "kind": "Shelf", "listKind": "ShelfList", "singular": "shelf"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

#[tokio::test]
async fn pooled_control_plane_is_reset_for_each_test() -> Result<()> {
    static POOL: Pool = Pool::new(Options::new(Controllers::On, None), 1);
    let mut prepared = map("default", "prepared");
    prepared["data"] = json!({"by": "the pool"});
    let [space, mine] = ["prepared", "mine"]
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let (mut dirs, mut account_uids) = (Vec::new(), Vec::new());
    for scope in ["Namespaced", "Cluster", "Namespaced"] {
        let prepare = async |cluster: &Cluster| {
            cluster.apply(&space, DryRun::No).await?;
            cluster.apply(&prepared, DryRun::No).await.map(drop)
        };
        let cluster = POOL.take(prepare).await?;
        dirs.push(cluster.dir().context("started elsewhere")?.to_owned());
        let client = cluster.client()?;
        let namespaces = Api::<Namespace>::all(client.clone());
        assert!(namespaces.get_opt("mine").await?.is_none());
        let nodes = Api::<Node>::all(client.clone());
        assert!(nodes.get_opt("mine").await?.is_none());
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
        let found = maps.get("prepared").await?.data.unwrap_or_default();
        assert_eq!(found.get("by").map(String::as_str), Some("the pool"));
        assert!(maps.get_opt("mine").await?.is_none());
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "prepared");
        account_uids.push(accounts.get("default").await?.metadata.uid);
        let events = Api::<Event>::namespaced(client.clone(), "mine");
        let events = events.list(&ListParams::default()).await?.items;
        assert!(events.is_empty(), "{events:?}");
        let served = client.list_api_groups().await?.groups;
        assert!(served.iter().all(|group| group.name != "pool.example.com"));

        cluster.apply(&shelves(scope), DryRun::No).await?;
        cluster.wait_established("shelves.pool.example.com").await?;
        cluster.apply(&mine, DryRun::No).await?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}});
        cluster.apply(&node, DryRun::No).await?;
        let shelf = json!({
            "apiVersion": "pool.example.com/v1", "kind": "Shelf", "metadata": {"name": "mine", "namespace": "mine"},
        });
        cluster.apply(&shelf, DryRun::No).await?;
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "mine", "namespace": "mine"},
            "involvedObject": {"kind": "Shelf", "name": "mine", "namespace": "mine"},
        });
        cluster.apply(&event, DryRun::No).await?;
        for namespace in ["mine", "default"] {
            cluster.apply(&map(namespace, "mine"), DryRun::No).await?;
        }
        // The controllers also work in a namespace whose name the previous test used.
        let accounts = Api::<ServiceAccount>::namespaced(client, "mine");
        let exists = |account: Option<&ServiceAccount>| account.is_some();
        let exists = timeout(SECONDS_30, await_condition(accounts, "default", exists)).await;
        exists.context("no service account")??;
        if dirs.len() == 1 {
            let patch = Patch::Merge(json!({"data": {"by": "a test"}}));
            let params = PatchParams::default();
            maps.patch("prepared", &params, &patch).await?;
        } else {
            maps.delete("prepared", &DeleteParams::default()).await?;
        }
        if dirs.len() == 2 {
            cluster.stop(Program::Controllers).await?;
        }
    }
    assert_eq!(dirs[0], dirs[1]);
    assert_eq!(account_uids[0], account_uids[1]);
    assert_ne!(dirs[1], dirs[2], "its controllers do not run");
    assert_eq!(programs_of(&dirs[1])?, ["sh"]);
    Ok(())
}

#[tokio::test]
async fn stopped_programs_restart_on_the_same_port_with_their_data() -> Result<()> {
    let cluster = Cluster::start_with(&Options::new(Controllers::Off, None)).await?;
    let dir = cluster.dir().context("started elsewhere")?.to_owned();
    let stored = map("default", "kept");
    let maps = Api::<ConfigMap>::namespaced(cluster.client()?, "default");
    cluster.apply(&stored, DryRun::Yes).await?;
    assert!(maps.get_opt("kept").await?.is_none());
    cluster.apply(&stored, DryRun::No).await?;

    cluster.stop(Program::Apiserver).await?;
    wait_for_programs(&dir, &["etcd", "sh"])?;
    maps.get("kept").await.unwrap_err();
    cluster.stop(Program::Etcd).await?;
    wait_for_programs(&dir, &["sh"])?;
    cluster.start_again(Program::Etcd).await?;
    cluster.start_again(Program::Apiserver).await?;
    maps.get("kept").await?;

    let missing = cluster.stop(Program::Controllers).await.unwrap_err();
    let is_named = matches!(missing, Error::NotStarted("kube-controller-manager"));
    assert!(is_named, "{missing}");
    // The reaper also kills the restarted programs.
    drop(cluster);
    assert_eq!(programs_of(&dir)?, [""; 0]);
    assert!(!dir.exists());
    Ok(())
}

#[tokio::test]
async fn dead_process_is_named_with_its_last_lines() {
    let options = Options {
        apiserver_flags: vec!["--no-such-flag".into()],
        ..Options::default()
    };
    let error = Cluster::start_with(&options).await.unwrap_err();
    assert!(
        matches!(&error, Error::Died { name: "kube-apiserver", log, .. } if log.contains("unknown flag: --no-such-flag")),
        "{error}"
    );
}

#[test]
fn killed_process_leaves_nothing() -> Result<()> {
    let mut up = cluster_up();
    let mut up = Killed(up.stdout(Stdio::piped()).spawn()?);
    let dir = announced_dir(&mut up.0)?;
    wait_for_programs(&dir, &PROGRAMS)?;

    up.0.kill()?;
    up.0.wait()?;
    wait_for_programs(&dir, &[])?;
    assert!(!dir.exists());
    Ok(())
}

#[test]
fn cluster_up_runs_a_command_and_ends_with_its_code() -> Result<()> {
    let script = r#"kubectl get --raw /readyz; echo " $KUBECONFIG"; exit 7"#;
    let output = cluster_up().args(["--", "sh", "-c", script]).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(7), "{text}");
    let kubeconfig = text.trim_end().strip_prefix("ok ");
    let kubeconfig = kubeconfig.with_context(|| text.clone())?;
    assert!(!Path::new(kubeconfig).exists());
    Ok(())
}

#[tokio::test]
async fn named_kubeconfig_is_used_instead_of_a_new_cluster() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let output = cluster_up()
        .args(["--", "sh", "-c", r#"echo "$KUBECONFIG""#])
        .env(KUBECONFIG, cluster.kubeconfig_path())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    assert_eq!(Path::new(text.trim_end()), cluster.kubeconfig_path());

    let mut up = cluster_up();
    let output = up.args(["--", "true"]).env(KUBECONFIG, "/no/such/file");
    let text = String::from_utf8(output.output()?.stderr)?;
    let problem = "failed to use the kubeconfig /no/such/file";
    assert!(text.contains(problem), "{text}");
    Ok(())
}

#[tokio::test]
async fn named_assets_are_used_instead_of_a_build() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let built = cluster.tools().context("started elsewhere")?;
    let assets = tempfile::tempdir()?;
    let link = |program: &str| symlink(built.join(program), assets.path().join(program));
    link("etcd")?;
    let mut up = cluster_up();
    up.env("KUBEBUILDER_ASSETS", assets.path());
    let text = String::from_utf8(up.output()?.stderr)?;
    let path = assets.path().display().to_string();
    let sentence =
        format!("no kube-apiserver in {path}, the directory that KUBEBUILDER_ASSETS names");
    assert!(text.contains(&sentence), "{text}");

    link("kube-apiserver")?;
    let mut up = Killed(up.stdout(Stdio::piped()).spawn()?);
    let dir = announced_dir(&mut up.0)?;
    wait_for_programs(&dir, &["etcd", "kube-apiserver", "sh"])?;
    let lines = command_lines_of(&dir)?;
    ensure!(lines.iter().any(|line| line.starts_with(&path)));
    Ok(())
}

#[test]
fn missing_go_is_reported_in_one_line() -> Result<()> {
    let empty = tempfile::tempdir()?;
    let output = Command::new("/bin/sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.sh"))
        .env("PATH", empty.path())
        .output()?;
    let text = String::from_utf8(output.stderr)?;
    assert!(!output.status.success());
    assert!(text.starts_with("cluster: Go not found"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    Ok(())
}

#[test]
fn missing_node_requirement_is_reported_in_one_line() -> Result<()> {
    let programs = tempfile::tempdir()?;
    for program in ["sh", "id", "iptables", "conntrack"] {
        for dir in ["/usr/bin", "/usr/sbin", "/bin"] {
            let (from, to) = (Path::new(dir).join(program), programs.path().join(program));
            if from.exists() && !to.exists() {
                symlink(from, to)?;
            }
        }
    }
    let mut check = cluster_up();
    check.args(["--node", "--check"]);
    check.env("PATH", programs.path());
    let output = check.env("RUST_BACKTRACE", "0").output()?;
    let text = String::from_utf8(output.stderr)?;
    assert!(!output.status.success());
    let root = String::from_utf8(Command::new("id").arg("-u").output()?.stdout)? == "0\n";
    let lacking = if root {
        "there is no ip (Debian: iproute2)"
    } else {
        "only root may start one"
    };
    assert_eq!(text, format!("Error: a node cannot run here: {lacking}\n"));
    Ok(())
}

/// A child process that does not outlive a failed assertion.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cluster_up() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cluster-up"));
    command.env_remove(KUBECONFIG);
    command
}

/// Reads the directory of a control plane from the output of `cluster-up`, which is printed when it is ready.
fn announced_dir(up: &mut Child) -> Result<PathBuf> {
    let mut line = String::new();
    BufReader::new(up.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let kubeconfig = line.trim_end().strip_prefix("export KUBECONFIG=");
    let kubeconfig = kubeconfig.with_context(|| line.clone())?;
    let dir = Path::new(kubeconfig).parent();
    Ok(dir.context("no directory")?.to_owned())
}

/// The command lines of all processes that name the directory, with arguments separated by NUL.
fn command_lines_of(dir: &Path) -> Result<Vec<String>> {
    let dir = dir.to_str().context("not UTF-8")?;
    let entries = fs::read_dir("/proc")?.flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    Ok(lines.filter(|line| line.contains(dir)).collect())
}

fn programs_of(dir: &Path) -> Result<Vec<String>> {
    let name = |line: &String| {
        let program = line.split('\0').next().unwrap_or_default();
        program.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let mut names: Vec<String> = command_lines_of(dir)?.iter().map(name).collect();
    names.sort();
    Ok(names)
}

/// Waits until exactly these programs work in the directory: a new process starts as a shell, and a killed process takes a
/// moment to end.
fn wait_for_programs(dir: &Path, expected: &[&str]) -> Result<()> {
    let start = Instant::now();
    loop {
        let programs = programs_of(dir)?;
        if programs == expected {
            return Ok(());
        }
        let is_early = start.elapsed() < SECONDS_30;
        ensure!(is_early, "{programs:?} instead of {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
