//! The machine that the tests run on leaves nothing behind. No other test would notice.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use cluster::sandbox;

/// Starts another machine within this one, and waits until its command prints the directory of its files.
fn start(script: &str) -> (Child, PathBuf) {
    let mut command = Command::new("cluster-up");
    command
        .args(["--machine", "--", "sh", "-c", script])
        .env_remove(sandbox::MACHINE_DIR)
        .stdout(Stdio::piped());
    let child = command.spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    (child, PathBuf::from(line.trim_end()))
}

fn groups(dir: &Path) -> Vec<PathBuf> {
    let name = dir.file_name().unwrap();
    let roots = fs::read_dir("/sys/fs/cgroup").unwrap();
    let roots = roots.map(|entry| entry.unwrap().path());
    let roots = roots.chain(["/sys/fs/cgroup".into()]);
    let groups = roots.map(|root| root.join(name));
    groups.filter(|group| group.is_dir()).collect()
}

fn assert_removed(dir: &Path) {
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        let mut left = groups(dir);
        left.extend(dir.exists().then(|| dir.to_owned()));
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let is_mounted = mounts.contains(dir.to_str().unwrap());
        if left.is_empty() && !is_mounted {
            return;
        }
        assert!(Instant::now() < end, "{left:?}, mounted: {is_mounted}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn machine_leaves_nothing_when_its_command_ends() {
    let script = "echo $CLUSTER_MACHINE; touch /run/mine /var/mine $TMPDIR/mine; ip link add mine type bridge; exit 7";
    let (mut child, dir) = start(script);
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_removed(&dir);
    for file in ["/run/mine", "/var/mine"] {
        assert!(!Path::new(file).exists(), "{file}");
    }
    let mut links = Command::new("ip");
    links.args(["link", "show", "mine"]);
    assert!(!links.status().unwrap().success());
}

#[test]
fn machine_leaves_nothing_when_it_is_killed() {
    // A process in the machine's control groups would keep them.
    let script = "for group in /sys/fs/cgroup/*/${CLUSTER_MACHINE##*/} /sys/fs/cgroup/${CLUSTER_MACHINE##*/}; do
            [ ! -d $group ] || { mkdir $group/deeper && echo $$ >$group/deeper/cgroup.procs; } 2>/dev/null
        done
        echo $CLUSTER_MACHINE; exec sleep 1000";
    let (mut child, dir) = start(script);
    assert!(!groups(&dir).is_empty());
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_removed(&dir);
}

#[test]
fn machine_cannot_change_kernel_settings() {
    let change = "cat /proc/sys/kernel/panic; echo 3 >/proc/sys/kernel/threads-max";
    let (mut child, _) = start(&format!("echo $CLUSTER_MACHINE; {change}"));
    assert!(!child.wait().unwrap().success());
}
