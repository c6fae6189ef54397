//! `provisioner serve` as the pod of a catalog runs it: its input, its termination, and its termination message.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use catalog::registry::{Client, ClientLimits};
use serde_json::json;
use tests::{assert_has, gzip, write};

fn blobs(package: &str) -> String {
    let metas = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": format!("{package}.v1.0.0")}]}),
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v1.0.0"), "image": "example.com/bundle:v1", "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
        ]}),
    ];
    metas.map(|meta| meta.to_string()).join("\n")
}

/// A running program; dropping it kills it.
struct Program {
    child: Child,
    log: BufReader<ChildStderr>,
    args: String,
}

impl Program {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_provisioner"))
            .current_dir(dir)
            .env_clear()
            .envs(tests::profile_file())
            .env("TMPDIR", dir)
            .arg("serve")
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let args = args.join(" ");
        Self { child, log, args }
    }

    /// Waits for the address on which the program serves.
    fn address(&mut self) -> String {
        let mut log_text = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "{log_text}");
            if let Some((_, address)) = line.split_once("address=") {
                let (_, port) = address.split(' ').next().unwrap().rsplit_once(':').unwrap();
                return format!("127.0.0.1:{port}");
            }
            log_text.push_str(&line);
        }
    }

    fn packages(&mut self) -> Vec<String> {
        let address = self.address();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let client = Client::connect(&address, ClientLimits::default()).await;
            let mut packages = client.unwrap().list_packages().await.unwrap();
            packages.sort();
            packages
        })
    }

    /// Terminates the program, and returns the rest of the log.
    fn terminated(self) -> String {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(killed.unwrap().success());
        self.ended(0)
    }

    /// Waits for the end with an exit code, and returns the rest of the log.
    fn ended(mut self, code: i32) -> String {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        let ended = self.child.wait().unwrap().code();
        assert_eq!(ended, Some(code), "{}: {rest}", self.args);
        rest
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// parity: pod-14, run-15
#[test]
fn catalog_in_parts_is_served_until_termination() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let zipped = gzip(blobs("tide").as_bytes());
    write(root, "catalog/part-0/a.json.gz", zipped);
    write(root, "catalog/part-1/b.yaml", blobs("wave"));
    // The data that a kubelet stores next to its links.
    write(root, "catalog/part-1/..data/b.yaml", blobs("wave"));
    let mut program = Program::start(root, &["catalog", "-p", "0"]);
    assert_eq!(program.packages(), ["tide", "wave"]);
    assert_has(program.terminated(), "shutting down server");
    let left: Vec<_> = fs::read_dir(root).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn cache_is_built_once_and_reused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "catalog/a.json", blobs("tide"));
    Program::start(root, &["catalog", "--cache-dir=cache", "--cache-only"]).ended(0);
    let mut program = Program::start(root, &["catalog", "--cache-dir=cache", "--port=0"]);
    assert_eq!(program.packages(), ["tide"]);
    program.terminated();
    // A cache of another catalog is not served, unless that is allowed.
    write(root, "catalog/b.json", blobs("wave"));
    let stale = Program::start(root, &["catalog", "--cache-dir=cache", "--port=0"]);
    assert_has(stale.ended(1), "integrity check failed");
    // A read-only cache is used if it matches, and left unchanged if not.
    let cached = || -> Vec<_> {
        let entries = fs::read_dir(root.join("cache")).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = cached();
    for dir in ["cache", "nowhere"] {
        let from = format!("--cache-from={dir}");
        let mut program = Program::start(root, &["catalog", &from, "--port=0"]);
        assert_eq!(program.packages(), ["tide", "wave"]);
        assert_eq!(cached(), before);
    }
    assert!(!root.join("nowhere").exists());
    let flags = ["--cache-enforce-integrity=false", "--port=0"];
    let args = [&["catalog", "--cache-dir=cache"], &flags[..]].concat();
    assert_eq!(Program::start(root, &args).packages(), ["tide", "wave"]);
}

#[test]
fn mounted_config_map_of_the_oldest_format_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let csv = "- {metadata: {name: tide.v1}, spec: {version: 1.0.0}}";
    let package = "- {packageName: tide, channels: [{name: stable, currentCSV: tide.v1}]}";
    write(root, "map/customResourceDefinitions", "");
    write(root, "map/clusterServiceVersions", csv);
    write(root, "map/packages", package);
    let mut program = Program::start(root, &["map", "--port=0"]);
    assert_eq!(program.packages(), ["tide"]);
    write(root, "map/packages", "tide");
    let log = Program::start(root, &["map", "--port=0"]).ended(1);
    assert_has(log, "set it to a list of packages");
}

// parity: pod-14
#[test]
fn program_is_copied_into_another_image() {
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), log)
    };
    let place = dir.path().to_str().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_provisioner"));
    assert_eq!(run(program, &["copy", place]), (Some(0), String::new()));
    let copy = dir.path().join("provisioner");
    for command in ["serve", "copy"] {
        let (code, log) = run(&copy, &[command, "/nowhere"]);
        assert_eq!(code, Some(1), "{command}: {log}");
        assert!(log.contains("/nowhere"), "{command}: {log}");
    }
}

// parity: pod-14
#[test]
fn serving_errors_are_written_to_the_termination_log() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let faulty = blobs("tide").replacen("\"stable\"", "\"other\"", 1);
    write(root, "catalog/a.json", faulty);
    write(root, "damaged/a.json.gz", "{}");
    for (args, code, problem) in [
        (&["nowhere"][..], 1, "check that it exists"),
        (&["damaged"], 1, "failed to decompress"),
        (&["catalog", "--strict"], 1, "cannot be served completely"),
        (&["catalog", "--cache-enforce-integrity"], 2, "--cache-dir"),
        (&[], 2, "<DIR>"),
    ] {
        let termination_log = root.join("last-words");
        drop(fs::remove_file(&termination_log));
        let args: Vec<_> = [args, &["--port=0", "-t", "last-words"]].concat();
        let log = Program::start(root, &args).ended(code);
        assert!(log.contains(problem), "{args:?}: {log}");
        if code == 1 {
            let reported = fs::read_to_string(&termination_log).unwrap();
            assert!(reported.contains(problem), "{args:?}: {reported}");
        }
    }
}
