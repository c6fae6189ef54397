//! A machine of its own for a node: network, mounts and processes that nobody else sees, made with `unshare(1)` and gone
//! with the command that runs there, however it ends. The node can take any port, bridge and file that it likes.
//!
//! ```text
//!  cluster-up ── setpriv, unshare ── machine.sh (process 1) ── command
//!      │               └ each dies with the one before it; the namespaces die with process 1
//!      └── reaper (sh): the control groups and an empty folder, which are in no namespace
//! ```

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use crate::{Error, Result};

/// Names the folder of the machine to those who run on it; `CLUSTER_ADDRESS` tells them [`ADDRESS`].
pub const FOLDER: &str = "CLUSTER_MACHINE";

/// Where pods reach what listens on the machine. It is theirs in no other way: `127.0.0.1` is the pod itself.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

/// The addresses of pods, and of the machine.
pub(crate) const PODS: &str = "10.88.0.0/16";
/// The addresses of Services.
pub(crate) const SERVICES: &str = "10.0.0.0/16";

const GROUPS: &str = "/sys/fs/cgroup";
const PREFIX: &str = "cluster-machine-";
/// Where Debian has the plugins that connect pods, and where others do.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// What has to work in namespaces, and what is lacking where it does not.
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

/// Removes control groups and the folder once its standard input ends. Processes in the groups are dying by then.
const REAPER: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
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
rmdir "$folder"
"#;

/// What is left to do on the real machine while a command runs on its own. Dropping it removes all that.
#[derive(Debug)]
pub struct Machine {
    folder: PathBuf,
    reaper: Child,
}

impl Machine {
    /// Prepares one.
    ///
    /// # Errors
    ///
    /// Fails when this machine lacks something that a node needs, and says what in one line.
    pub fn new() -> Result<Self> {
        check()?;
        sweep();
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-{}-", world(), process::id()))
            .tempdir()
            .map_err(Error::io("make a temporary folder"))?;
        let name = name(folder.path());
        let groups = hierarchies().into_iter().map(|root| root.join(&name));
        let groups: Vec<PathBuf> = groups.collect();
        let reaper = Command::new("sh")
            .args(["-c", REAPER, "reaper"])
            .arg(folder.path())
            .args(&groups)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // out of reach of the terminal's Ctrl-C
            .spawn()
            .map_err(Error::io("start sh"))?;
        let machine = Self {
            folder: folder.keep(),
            reaper,
        };
        for group in &groups {
            make_group(group)?;
        }
        Ok(machine)
    }

    /// A command that runs there. It has to be spawned by a thread that lives as long as it shall.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "unshare"])
            .args(["--net", "--mount", "--pid", "--fork", "--mount-proc"])
            .args(["--kill-child", "sh"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/machine.sh"))
            .arg(&self.folder)
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

/// The folder of the machine that this process runs on, if that is one of its own.
pub fn current() -> Option<PathBuf> {
    std::env::var_os(FOLDER)
        .filter(|folder| !folder.is_empty())
        .map(Into::into)
}

/// The control group of a machine, from the root of each hierarchy.
pub(crate) fn group(folder: &Path) -> String {
    format!("/{}", name(folder))
}

/// The folder with the plugins that connect pods.
pub(crate) fn plugins() -> Option<&'static str> {
    let complete = |folder: &&str| {
        ["bridge", "host-local", "loopback", "portmap"]
            .iter()
            .all(|plugin| Path::new(folder).join(plugin).is_file())
    };
    PLUGINS.into_iter().find(complete)
}

fn name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Fails when this machine lacks something that a node needs, and says what in one line.
///
/// # Errors
///
/// Fails with the first thing that is lacking.
pub fn check() -> Result<()> {
    let lack = |what: &str| Err(Error::Machine(what.to_owned()));
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
        let folders = PLUGINS.join(" or ");
        return lack(&format!(
            "there are no CNI plugins in {folders} (Debian: containernetworking-plugins)"
        ));
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
    // Some of them have a second name, which is a link. Beside version 1 there can be one of version 2 for processes alone.
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    real.map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").is_file())
        .collect()
}

fn make_group(group: &Path) -> Result<()> {
    let failure = || Error::io(format!("make the control group {}", group.display()));
    let parent = group.parent().unwrap_or(group);
    let controllers = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace() {
        // Those that cannot be passed on are missed below, if they matter.
        let _ = fs::write(
            parent.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
    fs::create_dir(group).map_err(failure())?;
    if parent == Path::new(GROUPS) {
        let have = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        for needed in ["cpu", "memory", "pids"] {
            if !have
                .split_whitespace()
                .any(|controller| controller == needed)
            {
                return Err(Error::Machine(format!(
                    "the controller {needed} is not there for groups below {}",
                    parent.display()
                )));
            }
        }
    }
    // A new group of version 1 has neither processors nor memory of its own.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (parent.join(file), group.join(file));
        if fs::read_to_string(&to).is_ok_and(|own| own.trim().is_empty()) && from.is_file() {
            let all = fs::read(from).map_err(failure())?;
            fs::write(to, all).map_err(failure())?;
        }
    }
    Ok(())
}

/// Which processes are seen from here: those of a machine see others, and yet the same control groups.
fn world() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Removes what machines have left whose reaper was killed as well; of those that were started from here, since nobody
/// can tell whether others live.
fn sweep() {
    let ours = format!("{PREFIX}{}-", world());
    let left = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(&ours)
            .and_then(|rest| rest.split('-').next());
        owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists())
    };
    for root in hierarchies().into_iter().chain([std::env::temp_dir()]) {
        for entry in fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .filter(left)
        {
            // Removes folders only, and only empty ones; a control group's files count for nothing.
            let _ = Command::new("find")
                .arg(entry.path())
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
                .stderr(Stdio::null())
                .status();
        }
    }
}
