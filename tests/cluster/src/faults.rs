//! Faults of the control plane: tests stop its programs for some time, each in a separate cluster.

mod strangers;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::{Cluster, Error, Result, control_plane, pool, sandbox};

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The database.
    Etcd,
    /// kube-apiserver.
    Apiserver,
    /// kube-controller-manager.
    Controllers,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::Controllers => "kube-controller-manager",
        }
    }

    /// etcd runs without fsync, so it must be able to finish its writes.
    fn signal(self) -> &'static str {
        match self {
            Self::Etcd => "TERM",
            Self::Apiserver | Self::Controllers => "KILL",
        }
    }
}

impl Cluster {
    /// Stops a program and waits until it has ended: etcd with SIGTERM, the others with SIGKILL. Its data is kept.
    pub async fn stop(&self, program: Program) -> Result<()> {
        let run = self.run.as_ref().ok_or(Error::NotStarted(program.name()))?;
        self.is_altered.store(true, Ordering::Relaxed);
        run.stop(program.name(), program.signal()).await
    }

    /// Starts a stopped program again, on the same port and with the same data, and waits until it answers.
    pub async fn start_again(&self, program: Program) -> Result<()> {
        let run = self.run.as_ref().ok_or(Error::NotStarted(program.name()))?;
        run.start_again(program.name())?;
        match program {
            Program::Etcd => control_plane::listens(run, self.etcd()?).await,
            Program::Apiserver => control_plane::ready(run, self.config()).await,
            Program::Controllers => run.check(),
        }
    }

    /// Starts the API server again as if it had been built as another version: the same program with this `gitVersion`
    /// written into it. The version must have as many characters as the real one. An API server that another process
    /// started can only be upgraded on a [`machine`], and ends with it.
    pub async fn upgrade_apiserver(&self, version: &str) -> Result<()> {
        let name = Program::Apiserver.name();
        let client = self.client()?;
        let answer = client.apiserver_version().await;
        let before = answer.map_err(Error::api("read the version"))?.git_version;
        let Some(run) = self.run.as_ref() else {
            let dir = sandbox::current().and(self.kubeconfig_path().parent());
            let found = dir.and_then(strangers::find);
            let stranger = found.ok_or(Error::NotStarted(name))?;
            let file = stranger.dir.join(format!("{name}-{version}"));
            rewrite(&stranger.program, &file, (&before, version))?;
            return stranger.exchange(&file, &client).await;
        };
        self.stop(Program::Apiserver).await?;
        let file = run.dir().join(format!("{name}-{version}"));
        let program = run.exchange(name, file.clone())?;
        rewrite(&program, &file, (&before, version))?;
        self.start_again(Program::Apiserver).await
    }

    /// Raises or clears the etcd alarm `NOSPACE`: etcd denies writes, as if its database had reached the quota, and still
    /// permits reads and deletions.
    pub async fn fill_etcd(&self, is_full: bool) -> Result<()> {
        self.is_altered.store(true, Ordering::Relaxed);
        let action = if is_full { "ACTIVATE" } else { "DEACTIVATE" };
        let body = json!({"action": action, "memberID": "0", "alarm": "NOSPACE"});
        let etcd = pool::etcd(self)?;
        let answer = pool::post::<Value>(&etcd, "maintenance/alarm", &body);
        answer.await.map(drop)
    }

    /// Returns the address of etcd, which uses neither TLS nor passwords.
    pub fn etcd(&self) -> Result<SocketAddr> {
        self.etcd.ok_or(Error::NotStarted(Program::Etcd.name()))
    }
}

/// Writes a copy of a program with another version.
fn rewrite(program: &Path, file: &Path, (before, version): (&str, &str)) -> Result<()> {
    // The pattern does not match paths of source files. `sed` is fast enough for 100 MB.
    let script = r#"LC_ALL=C sed "s/\([^@]\)$1/\1$2/g" "$3" >"$4" && chmod 755 "$4""#;
    let status = Command::new("sh")
        .args(["-c", script, "sed", &before.replace('.', "\\."), version])
        .args([program, file])
        .status()
        .map_err(Error::io(format!("write {}", file.display())))?;
    if !status.success() || before.len() != version.len() {
        let problem = io::Error::other(format!("{before} cannot be made {version}"));
        return Err(Error::io(format!("write {}", file.display()))(problem));
    }
    Ok(())
}
