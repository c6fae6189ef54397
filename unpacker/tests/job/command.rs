//! Running the binary.

use crate::*;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_unpack");

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// The termination message.
    pub(crate) message: String,
    pub(crate) took: Duration,
}

/// One run of the binary, with a termination message of its own.
pub(crate) struct Run {
    pub(crate) command: Command,
    message: PathBuf,
    folder: tempfile::TempDir,
}

impl Run {
    /// Without arguments.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let message = folder.path().join("termination");
        let mut command = Command::new(BINARY);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_remove("SSL_CERT_FILE")
            .kill_on_drop(true);
        Self {
            command,
            message,
            folder,
        }
    }

    /// Sends a folder somewhere.
    pub(crate) fn from_to(folder: &Path, to: &str) -> Self {
        let run = Self::new().args(["--bundle-dir"]).args([folder]);
        run.args(["--to", to])
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// With a file that has this in it.
    pub(crate) fn file(self, flag: &str, text: &str) -> Self {
        let path = self.folder.path().join(flag.trim_matches('-'));
        fs::write(&path, text).unwrap();
        self.args([flag.as_ref(), path.as_os_str()])
    }

    /// Runs it to its end, which must come within a minute.
    pub(crate) async fn run(mut self) -> Ran {
        let started = Instant::now();
        self.command.arg("--termination-message").arg(&self.message);
        let output = time::timeout(Duration::from_secs(60), self.command.output());
        let output = output.await.expect("the binary ends").unwrap();
        Ran {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
            message: fs::read_to_string(&self.message).unwrap_or_default(),
            took: started.elapsed(),
        }
    }
}

impl Ran {
    /// The termination message of a failure, which is also in the log.
    pub(crate) fn failure(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.stderr.contains(&self.message), "{self:?}");
        self.message
    }

    /// Checks the reason of a failure and a part of its message.
    pub(crate) fn failed(self, reason: &str, message: &str) {
        let found = self.failure();
        let has_reason = found.starts_with(&format!("{reason}: "));
        assert!(has_reason && found.contains(message), "{message}: {found}");
    }

    /// Checks a success, which prints one line at the start and one at the end.
    pub(crate) fn succeeded(&self) {
        assert_rows!((self.code, &*self.message, self.stderr.lines().count()) => (Some(0), "", 2), "{self:?}");
    }
}

/// The exit code, the output and the log of a command.
pub(crate) fn printed(output: Output) -> (Option<i32>, Vec<u8>, String) {
    let log = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), output.stdout, log)
}
