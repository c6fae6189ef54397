//! The programs of the control plane: from an existing directory, or built from source.

use std::env;
use std::path::{self, Path, PathBuf};

use tokio::process::Command;

use crate::{Error, Result};

/// The environment variable with a directory of `etcd`, `kube-apiserver` and optionally `kube-controller-manager`, as in
/// other Kubernetes tests.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A directory with the programs of a control plane.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    dir: PathBuf,
    chosen_by: &'static str,
}

impl Tools {
    /// Uses the directory that the environment names, or builds the programs unless they are built already.
    pub(crate) async fn find() -> Result<Self> {
        if let Some(dir) = env::var_os(ASSETS).filter(|dir| !dir.is_empty()) {
            let (dir, chosen_by) = (path::absolute(dir), ASSETS);
            let dir = dir.map_err(Error::io(format!("use {ASSETS}")))?;
            return Ok(Self { dir, chosen_by });
        }
        Self::build("tools").await
    }

    /// Builds a Go module of this crate, unless it is built already.
    pub(crate) async fn build(module: &str) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.sh");
        let output = Command::new(&script)
            .arg(module)
            .stderr(std::process::Stdio::inherit())
            .output()
            .await
            .map_err(Error::io(format!("run {}", script.display())))?;
        if !output.status.success() {
            let problem = format!("{} ended with {}", script.display(), output.status);
            let problem = format!("failed to build the control plane: {problem}");
            return Err(Error::Program(problem));
        }
        let dir = String::from_utf8_lossy(&output.stdout).trim_end().into();
        let chosen_by = "tests/cluster/build.sh";
        Ok(Self { dir, chosen_by })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn has(&self, program: &str) -> bool {
        self.dir.join(program).is_file()
    }

    pub(crate) fn path(&self, program: &'static str) -> Result<PathBuf> {
        if self.has(program) {
            return Ok(self.dir.join(program));
        }
        let (dir, setting) = (self.dir.display(), self.chosen_by);
        let problem = format!("no {program} in {dir}, the directory that {setting} names");
        Err(Error::Program(problem))
    }
}
