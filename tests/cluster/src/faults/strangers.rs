//! An API server on this machine that another process started, as `cluster-up` does for the command that it runs. The
//! server that replaces it has no parent process, and ends with the machine.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kube::Client;
use tokio::time::timeout;

use crate::{Error, Result, control_plane, wait};

const NAME: &str = "kube-apiserver";
/// The timeout of the server's end and of its readiness.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A process that another process started.
#[derive(Debug)]
pub(super) struct Stranger {
    process: String,
    pub(super) program: PathBuf,
    args: Vec<OsString>,
    pub(super) dir: PathBuf,
}

/// Returns the API server whose keys are in this directory.
pub(super) fn find(dir: &Path) -> Option<Stranger> {
    let keys = format!("--cert-dir={}", dir.display());
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let mut parts = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let program = PathBuf::from(parts.next()?);
        let name = program.file_name()?.to_str()?.to_owned();
        let args = parts.filter(|arg| !arg.is_empty());
        let args: Vec<OsString> = args.map(OsStr::to_owned).collect();
        let is_match = name.starts_with(NAME) && args.iter().any(|arg| *arg == *keys);
        is_match.then(|| Stranger {
            process: entry.file_name().to_string_lossy().into_owned(),
            program,
            args,
            dir: dir.to_owned(),
        })
    })
}

impl Stranger {
    /// Stops the server, starts another program with the same arguments, and waits until that program is ready.
    pub(super) async fn exchange(self, program: &Path, client: &Client) -> Result<()> {
        let status = Command::new("kill")
            .args(["-KILL", &self.process])
            .status()
            .map_err(Error::io(format!("stop {NAME}")))?;
        if !status.success() {
            return Err(Error::NotStarted(NAME));
        }
        // The server has ended when its port is free.
        let address = self.address().ok_or(Error::NotStarted(NAME))?;
        self.until("the API server ends", async || {
            let bound = TcpListener::bind(address);
            bound.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        let log = self.dir.join(format!("{NAME}.log"));
        let open = || File::options().append(true).create(true).open(&log);
        let doing = || Error::io(format!("start {}", program.display()));
        Command::new(program)
            .args(&self.args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(open().map_err(doing())?)
            .stderr(open().map_err(doing())?)
            .process_group(0)
            .spawn()
            .map_err(doing())?;
        let readyz = async || control_plane::readyz(client).await;
        self.until("the API server is ready", readyz).await
    }

    fn address(&self) -> Option<SocketAddr> {
        let flag = |name: &str| {
            let mut args = self.args.iter().filter_map(|arg| arg.to_str());
            args.find_map(|arg| arg.strip_prefix(name))
        };
        let address = flag("--bind-address=")?.parse().ok()?;
        let port = flag("--secure-port=")?.parse().ok()?;
        Some(SocketAddr::new(address, port))
    }

    async fn until(
        &self,
        expectation: &str,
        ready: impl AsyncFn() -> std::result::Result<(), String>,
    ) -> Result<()> {
        let is_ready = async || {
            let answer = timeout(Duration::from_secs(5), ready()).await;
            answer.unwrap_or_else(|elapsed| Err(elapsed.to_string()))
        };
        let result = wait::eventually(TIMEOUT, is_ready).await;
        result.map_err(|reason| {
            let detail = format!(" ({reason}; its log is in {})", self.dir.display());
            Error::timeout(expectation, TIMEOUT, detail)
        })
    }
}
