//! The processes and the temporary directory of one control plane, which are removed together.

use std::fs::{self, File};

use parking_lot::Mutex;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::sleep;

use crate::{Error, Result};

const LOG_LINES: usize = 15;
const LOG_LINE_CHARS: usize = 400;
const POLL: Duration = Duration::from_millis(10);

/// A directory and the processes that work in it. Dropping the value kills the processes and removes the directory; if the
/// test is killed, the reaper does so.
#[derive(Debug)]
pub(crate) struct Run {
    dir: PathBuf,
    processes: Mutex<Vec<Process>>,
    /// A shell whose standard input ends when this process does.
    reaper: Mutex<Child>,
}

#[derive(Debug)]
struct Process {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    child: Child,
    /// Whether a test has stopped the program. The test may start it again.
    stopped: bool,
}

impl Run {
    pub(crate) fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("cluster-").tempdir();
        let dir = dir.map_err(Error::io("make a temporary directory"))?;
        let reaper = Command::new("sh")
            .args(["-c", include_str!("reaper.sh"), "reaper"])
            .arg(dir.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // out of reach of the terminal's Ctrl-C
            .spawn()
            .map_err(Error::io("start sh"))?;
        Ok(Self {
            dir: dir.keep(),
            processes: Mutex::default(),
            reaper: Mutex::new(reaper),
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a program that writes its log into the run's directory. Its arguments must name a file in that directory: the
    /// reaper identifies its processes by that.
    pub(crate) fn spawn(&self, name: &'static str, program: &Path, args: &[String]) -> Result<()> {
        let log = self.dir.join(format!("{name}.log"));
        let child = self.launch(name, program, args, &log)?;
        self.processes.lock().push(Process {
            name,
            program: program.to_owned(),
            args: args.to_vec(),
            log,
            child,
            stopped: false,
        });
        Ok(())
    }

    /// Stops a program with a signal, and waits until it has ended. Its data and its log are kept.
    pub(crate) async fn stop(&self, name: &'static str, signal: &str) -> Result<()> {
        let id = {
            let mut processes = self.processes.lock();
            let process = find(&mut processes, name)?;
            if process.stopped {
                return Ok(());
            }
            process.stopped = true;
            process.child.id().to_string()
        };
        let status = Command::new("kill").args(["-s", signal, &id]).status();
        let status = status.map_err(Error::io(format!("stop {name}")))?;
        if !status.success() {
            return self.check();
        }
        loop {
            let ended = find(&mut self.processes.lock(), name)?.child.try_wait();
            let ended = ended.map_err(Error::io("read the state of a process"))?;
            if ended.is_some() {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    pub(crate) fn start_again(&self, name: &'static str) -> Result<()> {
        let mut processes = self.processes.lock();
        let process = find(&mut processes, name)?;
        if process.stopped {
            process.child = self.launch(name, &process.program, &process.args, &process.log)?;
            process.stopped = false;
        }
        Ok(())
    }

    pub(crate) fn exchange(&self, name: &'static str, program: PathBuf) -> Result<PathBuf> {
        let mut processes = self.processes.lock();
        let process = find(&mut processes, name)?;
        Ok(std::mem::replace(&mut process.program, program))
    }

    fn launch(
        &self,
        name: &'static str,
        program: &Path,
        args: &[String],
        path: &Path,
    ) -> Result<Child> {
        let log = File::options().create(true).append(true).open(path);
        let log = log.map_err(Error::io(format!("open {}", path.display())))?;
        let log_of_stderr = log.try_clone().map_err(Error::io("share a log"))?;
        // The program starts only after the reaper can identify it, so that it is never left behind.
        let mut child = Command::new("sh")
            .args(["-c", r#"read -r go && exec "$@" </dev/null"#, name])
            .arg(program)
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(log_of_stderr)
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("start {}", program.display())))?;
        let id = child.id();
        let started = self
            .reaper
            .lock()
            .stdin
            .as_mut()
            .map_or(Ok(()), |stdin| writeln!(stdin, "{id}"))
            .map_err(Error::io("report a process to the reaper"))
            .and_then(|()| {
                let stdin = child.stdin.take();
                stdin
                    .map_or(Ok(()), |mut stdin| writeln!(stdin, "go"))
                    .map_err(Error::io(format!("start {}", program.display())))
            });
        if started.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        started.map(|()| child)
    }

    /// Returns an error if a process has ended by itself.
    pub(crate) fn check(&self) -> Result<()> {
        let mut processes = self.processes.lock();
        for process in processes.iter_mut().filter(|process| !process.stopped) {
            let ended = process.child.try_wait();
            if let Some(status) = ended.map_err(Error::io("read the state of a process"))? {
                let log = tail(&fs::read_to_string(&process.log).unwrap_or_default());
                let name = process.name;
                return Err(Error::Died { name, status, log });
            }
        }
        Ok(())
    }

    /// The last lines of each process's log, for the error at a timeout.
    pub(crate) fn logs(&self) -> String {
        let quote = |Process { name, log, .. }: &Process| {
            let text = fs::read_to_string(log).unwrap_or_default();
            format!("\nthe end of the log of {name}:\n{}", tail(&text))
        };
        self.processes.lock().iter().map(quote).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for Process { child, .. } in self.processes.lock().iter_mut().rev() {
            // A process that has already ended only needs the wait.
            let _ = child.kill();
            let _ = child.wait();
        }
        let reaper = self.reaper.get_mut();
        drop(reaper.stdin.take());
        let _ = reaper.wait(); // it removes the directory
    }
}

fn find<'a>(processes: &'a mut [Process], name: &'static str) -> Result<&'a mut Process> {
    let found = processes.iter_mut().find(|process| process.name == name);
    found.ok_or(Error::NotStarted(name))
}

fn tail(log: &str) -> String {
    let skipped = log.lines().count().saturating_sub(LOG_LINES);
    let lines = log.lines().skip(skipped);
    let lines = lines.map(|line| line.chars().take(LOG_LINE_CHARS).collect());
    lines.collect::<Vec<String>>().join("\n")
}
