//! A separate machine for a node: isolated network, mounts and processes, made with `unshare(1)`, which end with the command
//! that runs on it, also if it is killed. The node can use any port, bridge and file.
//!
//! ```text
//!  cluster-up ── setpriv, unshare ── sandbox.sh (process 1) ── command
//!      │               └ each dies with the one before it; the namespaces die with process 1
//!      └── reaper (sh): the control groups and an empty directory, which are in no namespace
//! ```

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use crate::{Error, Result};

/// The environment variable with the machine's directory for processes on it; `CLUSTER_ADDRESS` holds [`ADDRESS`].
pub const MACHINE_DIR: &str = "CLUSTER_MACHINE";

/// The address at which pods reach servers on the machine; `127.0.0.1` is the pod itself.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

pub(crate) const PODS: &str = "10.88.0.0/16";
pub(crate) const SERVICES: &str = "10.0.0.0/16";

const GROUPS: &str = "/sys/fs/cgroup";
const PREFIX: &str = "cluster-machine-";
/// The directories of CNI plugins on Debian and on other distributions.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// Commands that have to work in namespaces, and the problem if they fail.
const TRIALS: [(&[&str], &str, &str); 4] = [
    (
        &["--net", "--mount", "--pid", "--fork", "--mount-proc"],
        "true",
        "it may not make namespaces (a container has to be privileged)",
    ),
    (
        &["--mount"],
        "mount -t tmpfs none /run && mkdir /run/a /run/b /run/c && \
         mount -t overlay -o lowerdir=/run/a,upperdir=/run/b,workdir=/run/c none /run/a",
        "its kernel has no overlayfs, or no tmpfs",
    ),
    (
        &["--net"],
        "ip link add bridge0 type bridge && ip link add veth0 type veth peer name veth1",
        "its kernel has no bridges, or no veth devices",
    ),
    (
        &["--net"],
        "iptables -t nat -A POSTROUTING -m comment --comment a -j MASQUERADE",
        "its kernel cannot translate addresses (iptables, nat)",
    ),
];

/// Removes control groups and the directory once its standard input ends. Processes in the groups are ending by then.
const REAPER: &str = r#"
trap '' HUP INT TERM
dir=$1; shift
read -r end
for attempt in $(seq 100); do
	left=
	for group; do
		find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
		[ ! -d "$group" ] || left=yes
	done
	[ -z "$left" ] && break
	sleep 0.1
done
rmdir "$dir"
"#;

/// The resources on the real machine while a command runs on its separate machine. Dropping the value removes them.
#[derive(Debug)]
pub struct Machine {
    dir: PathBuf,
    reaper: Child,
}

impl Machine {
    /// Prepares a machine.
    pub fn new() -> Result<Self> {
        check()?;
        sweep();
        let dir = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-{}-", pid_namespace(), process::id()))
            .tempdir()
            .map_err(Error::io("make a temporary directory"))?;
        let name = name(dir.path());
        let groups = hierarchies().into_iter().map(|root| root.join(&name));
        let groups: Vec<PathBuf> = groups.collect();
        let reaper = Command::new("sh")
            .args(["-c", REAPER, "reaper"])
            .arg(dir.path())
            .args(&groups)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // out of reach of the terminal's Ctrl-C
            .spawn()
            .map_err(Error::io("start sh"))?;
        let dir = dir.keep();
        let machine = Self { dir, reaper };
        for group in &groups {
            make_group(group)?;
        }
        Ok(machine)
    }

    /// Returns a command that runs on the machine. The thread that spawns the command must outlive it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "unshare"])
            .args(["--net", "--mount", "--pid", "--fork", "--mount-proc"])
            .args(["--kill-child", "sh"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sandbox.sh"))
            .arg(&self.dir)
            .arg(format!("{ADDRESS}/16"))
            .arg(SERVICES)
            .arg(program);
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
    }
}

/// Returns the directory of the separate machine that this process runs on, if any.
pub fn current() -> Option<PathBuf> {
    let dir = std::env::var_os(MACHINE_DIR).filter(|dir| !dir.is_empty());
    dir.map(Into::into)
}

/// The control group of a machine, from the root of each hierarchy.
pub(crate) fn group(dir: &Path) -> String {
    format!("/{}", name(dir))
}

pub(crate) fn plugins() -> Option<&'static str> {
    let complete = |dir: &&str| {
        let mut names = ["bridge", "host-local", "loopback", "portmap"].into_iter();
        names.all(|plugin| Path::new(dir).join(plugin).is_file())
    };
    PLUGINS.into_iter().find(complete)
}

fn name(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns an error with one line if this machine lacks a requirement of a node.
pub fn check() -> Result<()> {
    let lack = |problem: &str| Err(Error::Machine(problem.to_owned()));
    let succeeds = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let command = command.args(args).stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !succeeds("sh", &["-c", "[ \"$(id -u)\" = 0 ]"]) {
        return lack("only root may start one");
    }
    for (program, package) in [
        ("ip", "iproute2"),
        ("iptables", "iptables"),
        ("conntrack", "conntrack"),
        ("mount", "mount"),
        ("setpriv", "util-linux"),
        ("unshare", "util-linux"),
        ("docker-registry", "docker-registry"),
    ] {
        if !succeeds("sh", &["-c", &format!("command -v {program}")]) {
            return lack(&format!("there is no {program} (Debian: {package})"));
        }
    }
    if plugins().is_none() {
        let dirs = PLUGINS.join(" or ");
        let package = "Debian: containernetworking-plugins";
        return lack(&format!("no CNI plugins found in {dirs} ({package})"));
    }
    if hierarchies().is_empty() {
        return lack(&format!("there are no control groups in {GROUPS}"));
    }
    for (args, script, lacking) in TRIALS {
        let script = ["sh", "-c", script];
        if !succeeds("unshare", &[args, &script].concat()) {
            return lack(lacking);
        }
    }
    Ok(())
}

/// The roots of the hierarchies of control groups: one of version 2, or one for each controller of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(GROUPS);
    if root.join("cgroup.controllers").is_file() {
        return vec![root];
    }
    let entries = fs::read_dir(&root).into_iter().flatten().flatten();
    // Some hierarchies have a second name, which is a link. A system with version 1 can have a version 2 for processes alone.
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    real.map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").is_file())
        .collect()
}

fn make_group(group: &Path) -> Result<()> {
    let failure = || Error::io(format!("make the control group {}", group.display()));
    let parent = group.parent().unwrap_or(group);
    let controllers = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    let control = parent.join("cgroup.subtree_control");
    for controller in controllers.split_whitespace() {
        // The check below reports required controllers that cannot be delegated.
        let _ = fs::write(&control, format!("+{controller}"));
    }
    fs::create_dir(group).map_err(failure())?;
    if parent == Path::new(GROUPS) {
        let have = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        for needed in ["cpu", "memory", "pids"] {
            if have.split_whitespace().all(|name| name != needed) {
                let groups = format!("groups below {}", parent.display());
                let problem = format!("the controller {needed} is missing for {groups}");
                return Err(Error::Machine(problem));
            }
        }
    }
    // A new group of version 1 has neither processors nor memory.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (parent.join(file), group.join(file));
        if fs::read_to_string(&to).is_ok_and(|own| own.trim().is_empty()) && from.is_file() {
            let all = fs::read(from).map_err(failure())?;
            fs::write(to, all).map_err(failure())?;
        }
    }
    Ok(())
}

/// Identifies the PID namespace. Machines have different PIDs, and share the control groups.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Removes the remains of machines whose reaper was killed as well. Only for machines of this PID namespace, because it is
/// unknown whether others still run.
fn sweep() {
    let prefix = format!("{PREFIX}{}-", pid_namespace());
    let left = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(&prefix);
        let owner = owner.and_then(|rest| rest.split('-').next());
        owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists())
    };
    for root in hierarchies().into_iter().chain([std::env::temp_dir()]) {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        for entry in entries.filter(left) {
            // Removes only empty directories; the files of a control group do not count.
            let _ = Command::new("find")
                .arg(entry.path())
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
                .stderr(Stdio::null())
                .status();
        }
    }
}
