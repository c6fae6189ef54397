//! The processes and the temporary folder of one control plane, which vanish together.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Error, Result};

/// How much of a log an error quotes.
const LOG_LINES: usize = 15;
const LOG_LINE_CHARS: usize = 400;

/// A folder and the processes that work in it. Dropping it kills the processes and removes the folder; when it cannot be
/// dropped any more, the reaper does so.
#[derive(Debug)]
pub(crate) struct Run {
    folder: PathBuf,
    processes: Vec<Process>,
    /// A shell whose standard input ends when this process does.
    reaper: Child,
}

#[derive(Debug)]
struct Process {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

// === impl Run ===

impl Run {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("cluster-")
            .tempdir()
            .map_err(Error::io("make a temporary folder"))?;
        let reaper = Command::new("sh")
            .args(["-c", include_str!("reaper.sh"), "reaper"])
            .arg(folder.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // out of reach of the terminal's Ctrl-C
            .spawn()
            .map_err(Error::io("start sh"))?;
        Ok(Self {
            folder: folder.keep(),
            processes: Vec::new(),
            reaper,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program that writes its log into the run's folder. Its arguments must name a file in that folder: that is
    /// how the reaper knows its own.
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        program: &Path,
        args: &[String],
    ) -> Result<()> {
        let path = self.folder.join(format!("{name}.log"));
        let log = File::create(&path).map_err(Error::io(format!("create {}", path.display())))?;
        let log_of_stderr = log.try_clone().map_err(Error::io("share a log"))?;
        // The program starts only once the reaper knows it, so there is no moment in which it could be left behind.
        let child = Command::new("sh")
            .args(["-c", r#"read -r go && exec "$@" </dev/null"#, name])
            .arg(program)
            .args(args)
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(log_of_stderr)
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("start {}", program.display())))?;
        let id = child.id();
        self.processes.push(Process {
            name,
            log: path,
            child,
        });
        self.reaper
            .stdin
            .as_mut()
            .map_or(Ok(()), |stdin| writeln!(stdin, "{id}"))
            .map_err(Error::io("tell the reaper of a process"))?;
        self.processes
            .last_mut()
            .and_then(|process| process.child.stdin.take())
            .map_or(Ok(()), |mut stdin| writeln!(stdin, "go"))
            .map_err(Error::io(format!("start {}", program.display())))
    }

    /// Fails when a process has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for Process { name, log, child } in &mut self.processes {
            if let Some(status) = child.try_wait().map_err(Error::io("look at a process"))? {
                let log = tail(&fs::read_to_string(log).unwrap_or_default());
                return Err(Error::Died { name, status, log });
            }
        }
        Ok(())
    }

    /// The end of each process's log, to say what they were doing when time ran out.
    pub(crate) fn logs(&self) -> String {
        let quote = |Process { name, log, .. }: &Process| {
            let text = fs::read_to_string(log).unwrap_or_default();
            format!("\nthe end of the log of {name}:\n{}", tail(&text))
        };
        self.processes
            .iter()
            .map(quote)
            .collect::<Vec<_>>()
            .concat()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for Process { child, .. } in self.processes.iter_mut().rev() {
            // A process that has already ended needs no killing, only the waiting.
            let _ = child.kill();
            let _ = child.wait();
        }
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait(); // it removes the folder
    }
}

/// The last lines of a log, the long ones shortened.
fn tail(log: &str) -> String {
    let lines: Vec<String> = log
        .lines()
        .rev()
        .take(LOG_LINES)
        .map(|line| line.chars().take(LOG_LINE_CHARS).collect())
        .collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
