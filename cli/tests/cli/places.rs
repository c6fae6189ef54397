//! What was there before: folders that are written into, and files that cannot be part of a bundle.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::bundle::{Place, Run, binary};

fn place() -> Place {
    let place = Place::new();
    place.good("tide");
    place
}

#[test]
fn hidden_files_are_replaced_by_force_alone_and_a_repository_never() {
    let place = place();
    for name in ["tide/.env", "tide/.git/config"] {
        place.write(name, "theirs");
    }
    place.write("a/.env", "mine");
    place.write("b/.git/config", "mine");
    place.tar("tide.tgz", "-czf", "tide", ".");
    for source in ["tide", "tide.tgz"] {
        for (folder, name) in [("a", ".env"), ("b", ".git")] {
            let before = place.list(folder);
            let run = place.run(&["unpack", source, "-o", folder]).exits(1);
            assert!(run.err.contains(&format!("{folder}/{name} ")), "{run:?}");
            assert_eq!(place.list(folder), before);
        }
        let run = place
            .run(&["unpack", source, "-o", "b", "--force"])
            .exits(1);
        assert!(run.err.contains("never replaced"), "{run:?}");
        assert_eq!(place.list("b"), [".git"]);
    }
    assert_eq!(place.read("a/.env"), "mine");
    assert_eq!(place.read("b/.git/config"), "mine");
    place
        .run(&["unpack", "tide", "-o", "a", "--force"])
        .exits(0);
    assert_eq!(place.read("a/.env"), "theirs");
}

#[test]
fn a_link_in_the_way_is_called_one() {
    let place = place();
    fs::create_dir_all(place.path("elsewhere")).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    symlink("../elsewhere", place.path("out/manifests")).unwrap();
    let run = place
        .run(&["unpack", "tide", "-o", "out", "--force"])
        .exits(1);
    assert!(run.err.contains("symbolic link"), "{run:?}");
}

#[test]
fn what_a_killed_run_left_is_not_in_the_way() {
    let place = place();
    // `exec` keeps the number of the process, as containers do.
    let script = r#"mkdir -p out/.rukpak-$$/new && exec "$0" unpack tide -q -o out"#;
    let run: Run = place
        .command("/bin/sh".as_ref())
        .args(["-c", script])
        .arg(binary())
        .output()
        .unwrap()
        .into();
    let run = run.exits(0);
    let there = place.list("out");
    assert_eq!(there.len(), 3, "{there:?} {run:?}");
    assert_eq!(there[1..], ["manifests", "metadata"]);
}

#[test]
fn folders_above_go_with_what_fails_and_stay_with_what_does_not() {
    let place = place();
    for output in ["deep/er/new", "./deep//er/."] {
        let run = place.run(&["unpack", "missing", "-o", output]).exits(1);
        assert_eq!(place.list("."), ["tide"], "{run:?}");
    }
    fs::create_dir(place.path("deep")).unwrap();
    place
        .run(&["unpack", "missing", "-o", "deep/er/new"])
        .exits(1);
    assert!(place.list("deep").is_empty());
    place
        .run(&["unpack", "tide", "-o", "deep/er/new/."])
        .exits(0);
    assert_eq!(place.list("deep/er/new"), ["manifests", "metadata"]);
}

#[test]
fn folders_above_go_with_what_is_interrupted() {
    let place = place();
    let mut child = place
        .command(&binary())
        .args(["unpack", "-", "-o", "deep/er/new"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[0; 100]).unwrap();
    let since = Instant::now();
    while !place.path("deep/er/new").exists() {
        assert!(since.elapsed() < Duration::from_secs(20), "it never begins");
        std::thread::yield_now();
    }
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let run: Run = child.wait_with_output().unwrap().into();
    assert_eq!(run.code, Some(130), "{run:?}");
    assert_eq!(place.list("."), ["tide"], "{run:?}");
    drop(input);
}

#[test]
fn no_room_for_temporary_files_is_told_with_the_remedy() {
    let place = place();
    place.write("tide/manifests/large.yaml", "x".repeat(3 << 20));
    let run: Run = place
        .command(&binary())
        .env("TMPDIR", place.path("none"))
        .args(["unpack", "tide"])
        .output()
        .unwrap()
        .into();
    let run = run.exits(1);
    assert!(run.err.contains("set TMPDIR to another folder"), "{run:?}");
}

const IMAGE: &str = "registry.example.com/acme/tide:v1";

#[test]
fn push_reports_skipped_entries_of_its_directories() {
    let place = place();
    fs::create_dir(place.path("tide/tests")).unwrap();
    symlink("x", place.path("tide/tests/link")).unwrap();
    symlink("x", place.path("tide/outside")).unwrap();
    place.tar("all.tgz", "-czf", "tide", ".");
    for bundle in ["tide", "all.tgz"] {
        let run = place.run(&["push", "--dry-run", bundle, IMAGE]).exits(0);
        let warning =
            "warning: the image is made without 1 symbolic link (tests/link) of the bundle;";
        assert!(run.err.contains(warning), "{run:?}");
    }
    let quiet = place
        .run(&["push", "--dry-run", "-q", "tide", IMAGE])
        .exits(0);
    assert_eq!(quiet.err, "");
}

#[test]
fn push_follows_links_of_a_bundle_to_its_own_files() {
    let place = place();
    let push = || place.run(&["push", "--dry-run", "-q", "tide", IMAGE]);
    let expected = push().exits(0).out;
    let at = |name: &str| place.path(name);
    fs::rename(at("tide/manifests/map.yaml"), at("tide/map.yaml")).unwrap();
    symlink("../map.yaml", at("tide/manifests/map.yaml")).unwrap();
    assert_eq!(push().exits(0).out, expected);
}

#[test]
fn push_refuses_manifests_that_are_not_regular_files() {
    let place = place();
    let fifo = Command::new("mkfifo")
        .arg(place.path("tide/manifests/fifo"))
        .status()
        .unwrap();
    assert!(fifo.success());
    place.tar("all.tgz", "-czf", "tide", ".");
    for bundle in ["tide", "all.tgz"] {
        let run = place.run(&["push", "--dry-run", bundle, IMAGE]).exits(1);
        let refused =
            "entry \"manifests/fifo\" is a device, FIFO or socket, not a regular file; remove";
        assert!(run.err.contains(refused), "{run:?}");
    }
}

#[test]
fn manifests_that_are_a_link_are_called_one() {
    for name in ["manifests", "metadata"] {
        let place = place();
        fs::rename(place.path(&format!("tide/{name}")), place.path("tide/real")).unwrap();
        symlink("real", place.path(&format!("tide/{name}"))).unwrap();
        let run = place.run(&["push", "--dry-run", "tide", IMAGE]).exits(1);
        let text = format!("entry \"{name}\" is a symbolic link to \"real\"");
        assert!(run.err.contains(&text), "{run:?}");
    }
}

#[test]
fn what_a_killed_process_of_the_same_number_left_is_in_nobodys_way() {
    let place = Place::new();
    place.good("tide");
    let out = place.path("out.tgz").to_str().unwrap().to_owned();
    // The shell becomes the command, so that it has the number that the leftover is named by.
    let script = format!(
        "touch .out.tgz.$$ && exec '{}' unpack --quiet tide -o out.tgz",
        binary().display()
    );
    let mut shell = place.command(std::path::Path::new("sh"));
    let ran = shell.args(["-c", &script]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(std::fs::metadata(out).unwrap().len() > 0);
}
