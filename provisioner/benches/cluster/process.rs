//! Measured processes.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Runs a program until the standard input of this script ends, also if the bench is killed. Prints the process id of
/// the program.
const KEEPER: &str = r#"
log=$1; shift
"$@" </dev/null >>"$log" 2>&1 &
echo $!
exec >/dev/null 2>&1
read -r end
kill -KILL $!
wait
"#;

/// A running program with a temporary directory. Dropping it kills the program.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    id: u32,
    dir: TempDir,
    pub(crate) started: Instant,
}

impl Process {
    pub(crate) fn start(program: &Path, args: &[String]) -> Self {
        let dir = tempfile::Builder::new().prefix("bench-").tempdir().unwrap();
        let started = Instant::now();
        let mut child = Command::new("sh")
            .args(["-c", KEEPER, "bench"])
            .arg(dir.path().join("log"))
            .arg(program)
            .args(args)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        Self {
            stdin: child.stdin.take(),
            child,
            id: line.trim().parse().unwrap(),
            dir,
            started,
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Returns the memory now and its peak, for a table.
    pub(crate) fn memory(&self) -> String {
        let status = self.proc("status");
        let megabytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = line.and_then(|line| line.split_whitespace().next());
            let kilobytes = kilobytes.and_then(|text| text.parse::<u64>().ok());
            1024 * kilobytes.unwrap_or(0) / 1_000_000
        };
        let [now, peak] = ["VmRSS:", "VmHWM:"].map(megabytes);
        format!("{now} MB (peak {peak} MB)")
    }

    pub(crate) fn cpu(&self) -> Duration {
        let stat = self.proc("stat");
        // The 12th and 13th field after the name, which may contain any character; in hundredths of a second.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|text| text.parse::<u64>().ok()).sum();
        Duration::from_millis(10 * ticks)
    }

    fn proc(&self, file: &str) -> String {
        let path = PathBuf::from(format!("/proc/{}/{file}", self.id));
        fs::read_to_string(path).unwrap_or_else(|_| panic!("it has ended: {}", tail(&self.log())))
    }

    /// Terminates the program, and waits for its end.
    pub(crate) async fn stop(&self) {
        let sent = Command::new("kill").arg(self.id.to_string()).status();
        assert!(sent.unwrap().success());
        let end = Instant::now() + Duration::from_secs(30);
        let files = PathBuf::from(format!("/proc/{}/fd", self.id));
        // A process without open files has ended.
        while fs::read_dir(&files).is_ok_and(|mut files| files.next().is_some()) {
            assert!(Instant::now() < end, "it does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("its log ends with:\n{}", tail(&self.log()));
        }
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
