//! What was there before: folders that are written into, and files that cannot be part of a bundle.

use std::{fs, os::unix::fs::symlink, process::Command};

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
            let run = place.fail(&format!("unpack {source} -o {folder}"));
            run.err_has(format!("{folder}/{name} "));
            assert_eq!(place.list(folder), before);
        }
        let run = place.fail(&format!("unpack {source} -o b --force"));
        run.err_has("never replaced");
        assert_eq!(place.list("b"), [".git"]);
    }
    assert_eq!(place.read("a/.env"), "mine");
    assert_eq!(place.read("b/.git/config"), "mine");
    place.ok("unpack tide -o a --force");
    assert_eq!(place.read("a/.env"), "theirs");
}

#[test]
fn what_a_killed_run_left_is_not_in_the_way() {
    // `exec` keeps the number of the process, by which leftovers are named, as containers do.
    for (leftover, output, expected) in tests::rows![
        "mkdir -p out/.rukpak-$$/new", "out" => &["manifests", "metadata"][..];
        "mkdir out; touch out/.out.tgz.$$", "out/out.tgz" => &["out.tgz"];
    ] {
        let place = place();
        let script = format!("{leftover}; exec \"$0\" unpack tide -q -o {output}");
        let mut shell = place.command("/bin/sh".as_ref());
        let run: Run = shell
            .args(["-c", &script])
            .arg(binary())
            .output()
            .unwrap()
            .into();
        let run = run.exits(0);
        let there = place.list("out");
        assert_eq!(there[1..], *expected, "{there:?} {run:?}");
        assert!(there[0].starts_with('.'), "{there:?}");
        place.ok(&format!("convert {output}"));
    }
}

#[test]
fn folders_above_go_with_what_fails_and_stay_with_what_does_not() {
    let place = place();
    for output in ["deep/er/new", "./deep//er/."] {
        let run = place.fail(&format!("unpack missing -o {output}"));
        assert_eq!(place.list("."), ["tide"], "{run:?}");
    }
    fs::create_dir(place.path("deep")).unwrap();
    place.fail("unpack missing -o deep/er/new");
    assert!(place.list("deep").is_empty());
    place.ok("unpack tide -o deep/er/new/.");
    assert_eq!(place.list("deep/er/new"), ["manifests", "metadata"]);
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
    run.err_has("set TMPDIR to another folder");
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
        let run = place.ok(&["push", "--dry-run", bundle, IMAGE]);
        let warning =
            "warning: the image is made without 1 symbolic link (tests/link) of the bundle;";
        run.err_has(warning);
    }
    let quiet = place.ok(&["push", "--dry-run", "-q", "tide", IMAGE]);
    assert_eq!(quiet.err, "");
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
        let run = place.fail(&["push", "--dry-run", bundle, IMAGE]);
        let refused =
            "entry \"manifests/fifo\" is a device, FIFO or socket, not a regular file; remove";
        run.err_has(refused);
    }
}
