//! Runs the binary of unpack Jobs.

use crate::*;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_unpack");

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// The termination message.
    pub(crate) message: String,
    pub(crate) took: Duration,
}

/// One run of the binary with a separate termination message file.
pub(crate) struct Run {
    pub(crate) command: Command,
    message: PathBuf,
    directory: tempfile::TempDir,
}

impl Run {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let message = directory.path().join("termination");
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
            directory,
        }
    }

    pub(crate) fn from_to(directory: &Path, to: &str) -> Self {
        let run = Self::new().args(["--bundle-dir"]).args([directory]);
        run.args(["--to", to])
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds a flag whose value is a file with this text.
    pub(crate) fn file(self, flag: &str, text: &str) -> Self {
        let path = self.directory.path().join(flag.trim_matches('-'));
        fs::write(&path, text).unwrap();
        self.args([flag.as_ref(), path.as_os_str()])
    }

    /// Waits for the end of the run, for at most a minute.
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
    /// Returns the termination message of a failure, which is also in the log.
    pub(crate) fn failure(self) -> String {
        assert_rows!((self.code, self.stderr.contains(&self.message)) => (Some(1), true), "{self:?}");
        self.message
    }

    /// Checks the reason of a failure and a part of its message.
    pub(crate) fn failed(self, reason: &str, message: &str) {
        let found = self.failure();
        assert_rows!(found.starts_with(&format!("{reason}: ")) && found.contains(message) => true, "{message}: {found}");
    }

    /// Checks a success, which prints one line at the start and one at the end.
    pub(crate) fn succeeded(&self) {
        assert_rows!((self.code, &*self.message, self.stderr.lines().count()) => (Some(0), "", 2), "{self:?}");
    }
}

pub(crate) fn printed(output: Output) -> (Option<i32>, Vec<u8>, String) {
    let log = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), output.stdout, log)
}
