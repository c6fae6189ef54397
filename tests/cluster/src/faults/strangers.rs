//! The API server of this machine's cluster where another process has started it, as `cluster-up` does for the command that
//! it runs. What takes its place is nobody's child any more, and ends with the machine.

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
/// How long it may take to end, and to be ready.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process of somebody else.
#[derive(Debug)]
pub(super) struct Stranger {
    process: String,
    pub(super) program: PathBuf,
    args: Vec<OsString>,
    /// Where its files are.
    pub(super) folder: PathBuf,
}

/// The one whose keys are in this folder.
pub(super) fn apiserver(folder: &Path) -> Option<Stranger> {
    let keys = format!("--cert-dir={}", folder.display());
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let program = PathBuf::from(words.next()?);
        let name = program.file_name()?.to_str()?.to_owned();
        let args: Vec<OsString> = words
            .filter(|it| !it.is_empty())
            .map(OsStr::to_owned)
            .collect();
        let is_it = name.starts_with(NAME) && args.iter().any(|arg| *arg == *keys);
        is_it.then(|| Stranger {
            process: entry.file_name().to_string_lossy().into_owned(),
            program,
            args,
            folder: folder.to_owned(),
        })
    })
}

// === impl Stranger ===

impl Stranger {
    /// Ends it, starts another program in its place, and waits until that is ready.
    pub(super) async fn exchange(self, program: &Path, client: &Client) -> Result<()> {
        let status = Command::new("kill")
            .args(["-KILL", &self.process])
            .status()
            .map_err(Error::io(format!("stop {NAME}")))?;
        if !status.success() {
            return Err(Error::NotStarted(NAME));
        }
        // It has really ended when another one could listen.
        let address = self.address().ok_or(Error::NotStarted(NAME))?;
        self.until("the API server's end", async || {
            TcpListener::bind(address)
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await?;
        let log = self.folder.join(format!("{NAME}.log"));
        let open = || File::options().append(true).create(true).open(&log);
        let doing = || Error::io(format!("start {}", program.display()));
        Command::new(program)
            .args(&self.args)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(open().map_err(doing())?)
            .stderr(open().map_err(doing())?)
            .process_group(0)
            .spawn()
            .map_err(doing())?;
        let readyz = async || control_plane::readyz(client).await;
        self.until("the API server's readiness", readyz).await
    }

    /// Where it listens.
    fn address(&self) -> Option<SocketAddr> {
        let flag = |name: &str| {
            let mut args = self.args.iter().filter_map(|it| it.to_str());
            args.find_map(|it| it.strip_prefix(name))
        };
        let address = flag("--bind-address=")?.parse().ok()?;
        Some(SocketAddr::new(
            address,
            flag("--secure-port=")?.parse().ok()?,
        ))
    }

    async fn until(
        &self,
        what: &str,
        ready: impl AsyncFn() -> std::result::Result<(), String>,
    ) -> Result<()> {
        let is_ready = async || {
            let answer = timeout(Duration::from_secs(5), ready()).await;
            answer.unwrap_or_else(|elapsed| Err(elapsed.to_string()))
        };
        let done = wait::eventually(PATIENCE, is_ready).await;
        done.map_err(|seen| Error::Timeout {
            what: what.to_owned(),
            after: PATIENCE,
            detail: format!(" ({seen}; its log is in {})", self.folder.display()),
        })
    }
}
