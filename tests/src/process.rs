//! A server program with a separate directory.

use std::{
    env,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(90);

/// A script that runs a program until the script's standard input ends, and then removes the program's directory, also if
/// the tests are killed. Arguments: directory, program, its arguments.
const SUPERVISOR: &str = r#"
dir=$1; shift
"$@" </dev/null &
exec 2>/dev/null # the log ends with the program
read -r end
kill -KILL $!
wait
rm -rf -- "$dir"
"#;

/// A running program. Dropping the value kills the program and removes its directory.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Mutex<Receiver<String>>,
    dir: TempDir,
    name: String,
}

impl Process {
    pub(crate) fn start(dir: TempDir, name: &str, args: &[&str]) -> Self {
        Self::with_dir(dir, &program(name), args)
    }

    pub(crate) fn with_dir(dir: TempDir, program: &Path, args: &[&str]) -> Self {
        let name = program.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let mut child = Command::new("sh")
            .args(["-c", SUPERVISOR, &name])
            .arg(dir.path())
            .arg(program)
            .args(args)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = Mutex::new(lines(child.stderr.take().unwrap()));
        Self {
            child,
            stdin,
            lines,
            dir,
            name,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits for the first line of the program's log for which `find` returns a value, and returns that value.
    pub(crate) fn wait_for<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        let end = Instant::now() + TIMEOUT;
        let lines = self.lines.lock().unwrap();
        let mut log = String::new();
        while let Ok(line) = lines.recv_timeout(end - Instant::now()) {
            if let Some(found) = find(&line) {
                return found;
            }
            log.extend([&*line, "\n"]);
        }
        panic!("{} is not ready; its log:\n{log}", self.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Reads the lines of a log to its end, also without a receiver, because a full pipe would block the program.
fn lines(log: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Returns the path of a program, also of servers outside of the `PATH`.
pub fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    dirs.map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed; as root, `make test` installs it"))
}
