use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    process::Stdio,
    time::{Duration, Instant},
};

use crate::bundle::{Place, Run, binary};

fn place() -> Place {
    let place = Place::new();
    place.good("tide");
    place
}

/// What a line of the description says.
fn told<'a>(text: &'a str, title: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(title));
    assert!(line.is_some(), "no {title}: {text}");
    line.unwrap().trim()
}

#[test]
fn a_source_is_described() {
    let place = place();
    symlink("nowhere", place.path("tide/link")).unwrap();
    let run = place.ok("unpack tide");
    assert_eq!(told(&run.out, "Resolved"), "tide");
    assert!(told(&run.out, "Digest").starts_with("sha256:"), "{run:?}");
    assert!(
        told(&run.out, "Content").starts_with("3 files, "),
        "{run:?}"
    );
    assert_eq!(told(&run.out, "Skipped"), "1 symbolic link (link)");
    assert_eq!(run.err, "");

    let json = place.ok("unpack tide --format json").json();
    assert_eq!(json["digest"], told(&run.out, "Digest"));
    assert_eq!(
        (&json["files"], &json["skipped"]["symlinks"]),
        (&3.into(), &1.into())
    );
    let yaml = place.ok("unpack tide --format yaml").out;
    assert!(yaml.contains("files: 3\n"), "{yaml}");
}

// parity: check-23
#[test]
fn the_same_content_has_the_same_digest_wherever_it_comes_from() {
    let place = place();
    place.tar("flat.tgz", "-czf", "tide", ".");
    place.tar("nested.tar", "-cf", ".", "tide");
    place.ok("unpack tide -o again.tar.gz");
    let archive = fs::read(place.path("flat.tgz")).unwrap();
    let digest = |run: Run| told(&run.exits(0).out, "Digest").to_owned();
    let expected = digest(place.run("unpack tide"));
    for source in ["flat.tgz", "nested.tar", "again.tar.gz"] {
        assert_eq!(
            digest(place.run(&format!("unpack {source}"))),
            expected,
            "{source}"
        );
    }
    assert_eq!(digest(place.run_with(&["unpack", "-"], &archive)), expected);
}

#[test]
fn what_was_unpacked_converts_to_the_same() {
    let place = place();
    let expected = place.ok("convert tide").out;
    place.tar("nested.tgz", "-czf", ".", "tide");
    for output in ["folder", "deep/er/folder", "a.tgz", "a.tar", "b.tar.gz"] {
        let run = place.ok(&format!("unpack nested.tgz -o {output}"));
        assert_eq!(run.out, "");
        assert!(told(&run.err, "Digest").starts_with("sha256:"), "{run:?}");
        assert_eq!(place.ok(&format!("convert {output}")).out, expected);
    }
    let mut child = place
        .command(&binary())
        .args(["unpack", "tide", "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let convert: Run = place
        .command(&binary())
        .args(["convert", "-"])
        .stdin(child.stdout.take().unwrap())
        .output()
        .unwrap()
        .into();
    assert_eq!(convert.exits(0).out, expected);
    assert!(child.wait().unwrap().success());
}

#[test]
fn files_keep_whether_they_can_be_run_and_nothing_else_of_their_mode() {
    let place = place();
    for (name, mode) in [("tide/run", 0o4750), ("tide/read", 0o600)] {
        place.write(name, "x");
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    place.ok("unpack tide -o out");
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode_bits();
    let usual = {
        place.write("usual", "x");
        mode("usual")
    };
    assert_eq!(mode("out/read"), usual);
    assert_eq!(mode("out/run"), usual | (usual & 0o444) >> 2);
}

trait ModeBits {
    fn mode_bits(&self) -> u32;
}

impl ModeBits for fs::Metadata {
    fn mode_bits(&self) -> u32 {
        self.permissions().mode() & 0o7777
    }
}

#[test]
fn part_of_a_source_can_be_taken() {
    let place = place();
    let args = "unpack tide --only metadata --only manifests/csv.yaml -o out";
    let run = place.ok(&args);
    assert_eq!(place.list("out/manifests"), ["csv.yaml"]);
    assert_eq!(place.list("out/metadata"), ["annotations.yaml"]);
    assert_eq!(told(&run.err, "Skipped"), "1 outside the selection");
    let run = place.fail("unpack tide --only catalog -o none");
    run.err_has("nothing of tide is selected");
    assert!(!place.path("none").exists());
    for only in ["../x", "/etc"] {
        let run = place.fail(&format!("unpack tide --only {only}"));
        assert!(
            run.err.contains("only") || run.err.contains(only),
            "{run:?}"
        );
    }
}

#[test]
fn a_folder_that_is_not_empty_is_left_alone() {
    let place = place();
    place.write("out/mine", "mine");
    let run = place.fail("unpack tide -o out");
    run.err_has("not empty");
    run.err_has("--force");
    assert_eq!(place.list("out"), ["mine"]);
    // Hidden files are no reason.
    fs::remove_file(place.path("out/mine")).unwrap();
    place.write("out/.gitkeep", "");
    place.ok("unpack tide -o out");
    assert_eq!(place.list("out"), [".gitkeep", "manifests", "metadata"]);
}

#[test]
fn force_replaces_whole_folders_and_keeps_the_rest() {
    let place = place();
    place.write("out/manifests/old.yaml", "old");
    place.write("out/mine/file", "mine");
    place.ok("unpack tide -q --force -o out");
    assert_eq!(place.list("out"), ["manifests", "metadata", "mine"]);
    assert_eq!(place.list("out/manifests"), ["csv.yaml", "map.yaml"]);
}

#[test]
fn links_in_the_folder_are_replaced_and_not_followed() {
    let place = place();
    place.write("elsewhere/file", "x");
    fs::create_dir(place.path("out")).unwrap();
    symlink(place.path("elsewhere"), place.path("out/manifests")).unwrap();
    let run = place.fail("unpack tide --force -o out");
    run.err_has("in the way");
    run.err_has("symbolic link");
    assert_eq!(place.list("elsewhere"), ["file"]);
    assert_eq!(place.list("out"), ["manifests"]);
}

#[test]
fn nothing_is_left_of_what_fails() {
    let place = place();
    place.write("tide/manifests/large.yaml", "x".repeat(100_000));
    for output in ["new", "new.tgz", "new.tar", "deep/new"] {
        let before = place.list(".");
        let run = place.fail(&format!("unpack tide --max-file-size 64Ki -o {output}"));
        run.err_has("--max-file-size");
        assert_eq!(place.list("."), before);
    }
    place.write("old.tgz", "old");
    place.fail("unpack missing -o old.tgz");
    assert_eq!(place.read("old.tgz"), "old");
    for (output, text) in [
        ("tide/manifests/csv.yaml", "is a file"),
        ("folder.tgz", "is a folder"),
    ] {
        fs::create_dir_all(place.path("folder.tgz")).unwrap();
        let run = place.fail(&format!("unpack tide -o {output}"));
        run.err_has(text);
    }
}

#[test]
fn names_that_differ_in_case_alone_are_told() {
    let place = place();
    place.write("tide/manifests/CSV.yaml", "x");
    let run = place.ok("unpack tide -o out");
    run.err_has("differ only in capital letters");
    assert_eq!(
        place.list("out/manifests"),
        ["CSV.yaml", "csv.yaml", "map.yaml"]
    );
    let run = place.ok("unpack tide -q");
    assert_eq!(run.err, "");
}

#[test]
fn the_report_is_written_beside_everything_else() {
    let place = place();
    let args = "unpack tide -q -o out --report report.json";
    let run = place.ok(&args);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["resolved"], "tide");
    // Asked for, the description goes where data goes.
    let run = place.ok("unpack tide -o a.tgz --format json");
    assert_eq!((run.json(), run.err.as_str()), (report, ""));
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let place = place();
    for output in ["out", "out.tgz", "deep/er/new"] {
        let mut child = place
            .command(&binary())
            .args(["unpack", "-", "-o", output])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun when the hidden name is there, and waits for the rest of the archive.
        let mut input = child.stdin.take().unwrap();
        input.write_all(&[0; 100]).unwrap();
        let since = Instant::now();
        let begun = || {
            let there = place.list(".");
            there
                .iter()
                .any(|name| name == "out" || name == "deep" || name.starts_with(".out"))
        };
        while !begun() {
            assert!(since.elapsed() < Duration::from_secs(20), "it never begins");
            std::thread::yield_now();
        }
        let killed = std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        let run: Run = child.wait_with_output().unwrap().into();
        assert_eq!(place.list("."), ["tide"], "{run:?}");
        assert_eq!(run.code, Some(130), "{run:?}");
        drop(input);
    }
}
