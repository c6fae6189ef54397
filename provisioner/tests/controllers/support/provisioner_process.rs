//! The provisioner as a process, with its real flags, signals and log.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
};

use cluster::Cluster;
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use super::wait::{eventually, until};

/// The number of log lines that a failure quotes.
const LINES: usize = 40;

/// Runs a program until its standard input ends, and then removes its directory, also when the tests are killed. The
/// directory contains the program's log, its process id, and its exit code once the program has ended.
const KEEPER: &str = r#"
folder=$1; shift
(
	sh -c 'echo $$ >"$0/pid.new" && mv "$0/pid.new" "$0/pid"; exec "$@"' "$folder" "$@" </dev/null >>"$folder/log" 2>&1
	echo $? >"$folder/exit.new" && mv "$folder/exit.new" "$folder/exit"
) &
exec >/dev/null 2>&1
read -r end
[ -e "$folder/exit" ] || kill -KILL "$(cat "$folder/pid")"
wait
rm -rf -- "$folder"
"#;

#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// Additional flags, appended last.
    pub(crate) flags: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// The content store, which outlives this process. `None` is a store in the process's own directory.
    pub(crate) storage: Option<PathBuf>,
    /// The text of a kubeconfig. `None` is the cluster-admin kubeconfig.
    pub(crate) kubeconfig: Option<String>,
}

impl Options {
    pub(crate) fn with_flags(flags: &[&str]) -> Self {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        tests::with!(Self, flags)
    }
}

/// A running provisioner. Dropping it, and the end of the tests, kills the process and removes its directory.
#[derive(Debug)]
pub(crate) struct Provisioner {
    child: Child,
    stdin: Option<ChildStdin>,
    dir: TempDir,
    addresses: BTreeMap<String, String>,
}

static LOGS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Provisioner {
    /// Starts a provisioner, and waits until it is ready.
    pub(crate) async fn start(cluster: &Cluster, options: Options) -> Self {
        let mut this = Self::launch(cluster, options);
        this.addresses = eventually("ready", async || {
            let addresses = this.addresses();
            // The probes answer before the other services listen.
            for service in ["metrics", "admin", "content"] {
                if !addresses.contains_key(service) {
                    return Err(format!("{service} is not served yet"));
                }
            }
            let probes = addresses.get("probes").ok_or("it serves no probes yet")?;
            let answer = reqwest::get(format!("http://{probes}/readyz")).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let is_ready = answer.status().is_success();
            let text = answer.text().await.unwrap_or_default();
            is_ready.then_some(addresses).ok_or(text)
        })
        .await;
        this
    }

    /// Starts a provisioner, and does not wait.
    pub(crate) fn launch(cluster: &Cluster, options: Options) -> Self {
        let dir = tempfile::Builder::new().prefix("provisioner-").tempdir();
        let dir = dir.unwrap();
        let storage = options.storage.unwrap_or_else(|| dir.path().join("store"));
        let kubeconfig = match options.kubeconfig {
            Some(text) => {
                let path = dir.path().join("kubeconfig");
                fs::write(&path, text).unwrap();
                path
            }
            None => cluster.kubeconfig_path().to_owned(),
        };
        let services = ["health-probe", "metrics", "content", "admin"];
        let mut child = Command::new("sh")
            .args(["-c", KEEPER, "provisioner"])
            .arg(dir.path())
            .arg(env!("CARGO_BIN_EXE_provisioner"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--storage-dir")
            .arg(storage)
            .args(services.map(|service| format!("--{service}-bind-address=127.0.0.1:0")))
            .args(["--log-format=json", "--log-level=info,provisioner=debug"])
            .args(options.flags)
            .envs(options.environment)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        LOGS.lock().push(dir.path().join("log"));
        Self {
            stdin: child.stdin.take(),
            child,
            dir,
            addresses: BTreeMap::new(),
        }
    }

    /// Returns `http://127.0.0.1:PORT` of `probes`, `metrics` or `admin`, or `https://…` of `content`.
    pub(crate) fn url(&self, service: &str) -> String {
        let missing = || panic!("{service} is not served:\n{}", self.log());
        let address = self.addresses.get(service).unwrap_or_else(missing);
        let secure = if service == "content" { "s" } else { "" };
        format!("http{secure}://{address}")
    }

    /// Returns the directory of its store, unless a test has set another one.
    pub(crate) fn storage(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    }

    pub(crate) async fn pid(&self) -> u32 {
        let pid = eventually("running", async || {
            let pid = fs::read_to_string(self.dir.path().join("pid"));
            pid.map_err(|error| error.to_string())
        });
        pid.await.trim().parse().unwrap()
    }

    /// Sends a signal to the process: `TERM`, `INT`, `KILL`, `STOP`, `CONT`.
    pub(crate) async fn signal(&self, signal: &str) {
        let arguments = [format!("-{signal}"), self.pid().await.to_string()];
        let sent = Command::new("kill").args(arguments).status();
        assert!(sent.unwrap().success(), "kill -{signal}: {}", self.log());
    }

    /// Waits until the process has ended, and returns its exit code: 128 plus the signal's number if a signal ended it.
    pub(crate) async fn ended(&self) -> i32 {
        eventually("the end of the provisioner", async || {
            let code = fs::read_to_string(self.dir.path().join("exit"));
            Ok(code.map_err(|_| self.log())?.trim().parse().unwrap())
        })
        .await
    }

    pub(crate) async fn kill(self) {
        self.signal("KILL").await;
        assert_eq!(self.ended().await, 137, "{}", self.log());
    }

    pub(crate) async fn stop(self) {
        self.signal("TERM").await;
        assert_eq!(self.ended().await, 0, "{}", self.log());
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.dir.path().join("exit").exists()
    }

    /// Waits until a log line has this message, and returns the line.
    pub(crate) async fn wait_log(&self, message: &str) -> Value {
        eventually(message, async || {
            let lines = self.lines();
            let found = lines.into_iter().find(|line| line["message"] == message);
            found.ok_or_else(|| self.log())
        })
        .await
    }

    pub(crate) async fn counts(&self, line: &str) {
        let url = format!("{}/metrics", self.url("metrics"));
        let metrics = async || reqwest::get(&url).await.unwrap().text().await.unwrap();
        let has_line = |text: &String| text.lines().any(|other| other == line);
        until(line, metrics, has_line).await;
    }

    /// Reads the addresses from the log, because the process chooses its ports.
    fn addresses(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut lines = self.lines();
        lines.retain(|line| line["message"] == "listening");
        let address = |line: &Value| Some((text(&line["service"])?, text(&line["address"])?));
        lines.iter().filter_map(address).collect()
    }
}

impl Drop for Provisioner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the provisioner's log ends with:\n{}", tail(&self.log()));
        }
        let log = self.dir.path().join("log");
        LOGS.lock().retain(|other| *other != log);
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Returns the last log lines of the running provisioners about an object, and their warnings and errors.
pub(crate) fn logs(about: &str) -> String {
    let logs = LOGS.lock().clone();
    let mut quoted = String::new();
    for log in &logs {
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines = text.lines().filter(|line| {
            let plain = !line.starts_with('{');
            plain || line.contains(about) || line.contains("\"ERROR\"") || line.contains("\"WARN\"")
        });
        let lines: Vec<_> = lines.collect();
        let _ = writeln!(quoted, "{}:\n{}", log.display(), tail(&lines.join("\n")));
    }
    quoted
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Creates the directory of a store that outlives provisioners.
pub(crate) fn storage() -> TempDir {
    tempfile::Builder::new().prefix("store-").tempdir().unwrap()
}
