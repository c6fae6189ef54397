//! The provisioner beside a cluster, for tests of its clients.

use std::path::Path;

use serde_json::Value;

use crate::process::Process;

/// A running provisioner.
#[derive(Debug)]
pub struct Provisioner {
    _run: Process,
    content: String,
}

impl Provisioner {
    /// Starts the program with the permissions of a kubeconfig, and waits until it serves content. The program must be in the
    /// directory of `other`, another program of this workspace.
    pub fn beside(other: &Path, kubeconfig: &Path) -> Self {
        Self::with(other, kubeconfig, &[])
    }

    /// Starts the program like [`Self::beside`], with more arguments.
    pub fn with(other: &Path, kubeconfig: &Path, more: &[&str]) -> Self {
        let program = other.with_file_name("provisioner");
        let (path, remedy) = (program.display(), "cargo build -p provisioner makes it");
        assert!(program.is_file(), "{path} is missing: {remedy}");
        let dir = tempfile::Builder::new().prefix("provisioner-").tempdir();
        let dir = dir.unwrap();
        let store = dir.path().join("store");
        let ports = "--health-probe-bind-address=0 --metrics-bind-address=0 --admin-bind-address=0 \
                     --content-bind-address=127.0.0.1:0";
        let mut args: Vec<&str> = ports.split(' ').chain(more.iter().copied()).collect();
        args.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
        args.extend(["--storage-dir", store.to_str().unwrap()]);
        let run = Process::with_dir(dir, &program, &args);
        let content = run.wait_for(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let is_ready = line["message"] == "serving" && line["service"] == "content service";
            is_ready.then(|| line["address"].as_str().unwrap().to_owned())
        });
        Self { _run: run, content }
    }

    /// Returns the URL of the content service, `https://127.0.0.1:PORT`.
    pub fn content(&self) -> String {
        format!("https://{}", self.content)
    }
}
