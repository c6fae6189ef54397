//! Folders as images have them.

use std::{
    fs,
    io::Read as _,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    time::Duration,
};

use flate2::read::GzDecoder;
use tokio::{io::AsyncReadExt as _, process};

use crate::{
    bundle,
    command::{BINARY, Run},
    content,
    sending::noise,
    tar, write,
};

fn inflate(archive: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    GzDecoder::new(archive).read_to_end(&mut tar).unwrap();
    tar
}

#[tokio::test]
async fn standard_output_gets_what_packing_gives() {
    let bundle = bundle();
    let long = format!("tests/{}/{}", "long".repeat(30), "name".repeat(30));
    write(bundle.path(), &long, "x");
    write(bundle.path(), "tests/run.sh", "#!/bin/sh\n");
    write(bundle.path(), "tests/empty", "");
    let script = bundle.path().join("tests/run.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o750)).unwrap();
    let ran = Run::from_to(bundle.path(), "-").run().await;
    ran.succeeded();
    let (wanted, digest) = tar(&content(bundle.path()));
    assert!(inflate(&ran.stdout) == wanted, "the same bytes");
    assert!(ran.stderr.contains(&digest.to_string()), "{}", ran.stderr);
}

#[tokio::test]
async fn only_and_all_choose() {
    let bundle = bundle();
    for (args, paths) in [
        (&["--only", "etc"] as &[_], "etc/shadow"),
        (
            &["--only", "etc", "--only=manifests/deep"],
            "etc/shadow manifests/deep/er.yaml",
        ),
        (&["--only", "manifests/csv.yaml"], "manifests/csv.yaml"),
        (
            &["--all"],
            "etc/shadow manifests/csv.yaml manifests/deep.yaml manifests/deep/er.yaml metadata/annotations.yaml",
        ),
    ] {
        let ran = Run::from_to(bundle.path(), "-").args(args).run().await;
        ran.succeeded();
        let unpacked =
            unpacker::stream(ran.stdout.as_slice(), &unpacker::Options::default()).unwrap();
        let found: Vec<_> = unpacked.content.files().map(|(path, _)| path).collect();
        assert_eq!(found.join(" "), paths);
    }
}

#[tokio::test]
async fn links_sockets_fifos_and_devices_are_sent_without_content() {
    let bundle = bundle();
    let root = bundle.path();
    symlink(".", root.join("manifests/loop")).unwrap();
    symlink("loop2", root.join("manifests/loop2")).unwrap();
    symlink("/etc/passwd", root.join("manifests/outside")).unwrap();
    symlink("/etc", root.join("tests")).unwrap();
    let _socket = UnixListener::bind(root.join("manifests/socket")).unwrap();
    let mut special = 2;
    let made = |name: &str, args: &[&str]| {
        let mut mknod = std::process::Command::new("mknod");
        mknod
            .arg(root.join(name))
            .args(args)
            .status()
            .unwrap()
            .success()
    };
    assert!(made("manifests/fifo", &["p"]));
    if made("manifests/device", &["c", "1", "5"]) {
        special += 1; // a user other than root may not make one
    }
    let ran = Run::from_to(root, "-").run().await;
    ran.succeeded();
    let counted =
        format!("not regular files: 4 symbolic links, {special} special files (manifests/");
    assert!(ran.stderr.contains(&counted), "{}", ran.stderr);
    let local = content(root);
    let sent = unpacker::stream(ran.stdout.as_slice(), &unpacker::Options::default()).unwrap();
    assert!(sent.content.irregular().eq(local.irregular()));
    assert_eq!(tar(&sent.content), tar(&local));
    // The claims are about the content alone.
    let digest = tar(&local).1.to_string();
    assert!(ran.stderr.contains(&digest), "{}", ran.stderr);
    assert_ne!(inflate(&ran.stdout), tar(&local).0);
}

#[tokio::test]
async fn a_folder_without_any_of_it_is_an_error_that_says_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "other/file", "x");
    let ran = Run::from_to(folder.path(), "-").run().await;
    ran.failed(
        "NothingSelected",
        "looking for manifests, metadata, tests; check",
    );
    assert_eq!(ran.stdout, b"");
    let ran = Run::from_to(Path::new("/none"), "-").run().await;
    ran.failed("ReadFailed", "failed to take \"/none\": ");
}

#[tokio::test]
async fn the_root_of_this_machine_is_looked_at_and_not_read() {
    assert!(
        !Path::new("/manifests").exists() && !Path::new("/metadata").exists(),
        "this machine is no bundle"
    );
    let ran = Run::from_to(Path::new("/"), "-")
        .args(["--only", "manifests"])
        .run()
        .await;
    ran.failed(
        "NothingSelected",
        "no file found in \"/\", looking for manifests; check that the image is a bundle",
    );
    assert!(ran.took < Duration::from_secs(2), "{ran:?}");
}

#[tokio::test]
async fn what_the_user_may_not_read_is_named_with_the_remedy_before_anything_is_sent() {
    let bundle = bundle();
    let root = bundle.path();
    // For another user to get at both.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root, open.clone()).unwrap();
    let bin = tempfile::tempdir().unwrap();
    fs::set_permissions(bin.path(), open).unwrap();
    let installed = Run::new()
        .args(["--install"])
        .args([bin.path()])
        .run()
        .await;
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let us = fs::metadata("/proc/self").unwrap().uid();
    let user = if us == 0 { 65534 } else { us };
    for (path, mode) in [
        ("manifests/csv.yaml", 0o600),
        ("manifests/deep", 0o700),
        ("manifests/deep", 0o644),
    ] {
        let closed = root.join(path);
        let before = fs::metadata(&closed).unwrap().permissions();
        let mode = if us == 0 { mode } else { 0 };
        fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = process::Command::new(bin.path().join("unpack"));
        if us == 0 {
            command.uid(user).gid(user);
        }
        let output = command
            .args(["--bundle-dir".as_ref(), root.as_os_str()])
            .args(["--to", "-"])
            .output()
            .await
            .unwrap();
        fs::set_permissions(&closed, before).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout),
            (Some(1), vec![]),
            "{stderr}"
        );
        assert!(
            stderr.starts_with(&format!(
                "unpack: failed: FileUnreadable: \"{}",
                closed.display()
            )),
            "{stderr}"
        );
        let remedy = format!(
            "may not be read by user {user}; make it readable in the image (chmod a+r, and a+rx for folders), or run the Job as a user that may read it"
        );
        assert!(stderr.contains(&remedy), "{stderr}");
    }
}

#[tokio::test]
async fn limits_hold_before_anything_is_sent() {
    let bundle = bundle();
    for (flag, value, message) in [
        (
            "--max-size",
            "40",
            "content is larger than the limit of 40 bytes",
        ),
        (
            "--max-file-size",
            "12",
            "file \"manifests/csv.yaml\" is larger than the limit of 12 bytes",
        ),
        ("--max-entries", "3", "more than 3 entries"),
        ("--max-path-length", "12", "limit of 12 bytes"),
        ("--max-path-depth", "2", "limit of 2 folders"),
    ] {
        let ran = Run::from_to(bundle.path(), "-")
            .args([flag, value])
            .run()
            .await;
        ran.failed("LimitExceeded", message);
        assert_eq!(ran.stdout, b"");
    }
}

#[tokio::test]
async fn memory_stays_flat_and_a_file_that_changes_meanwhile_gives_no_whole_archive() {
    let bundle = bundle();
    for number in 0..6 {
        write(
            bundle.path(),
            &format!("tests/noise{number}"),
            noise(8 << 20),
        );
    }
    let limits = ["--max-size", "1Gi"];
    let mut child = process::Command::new(BINARY)
        .args(["--bundle-dir".as_ref(), bundle.path().as_os_str()])
        .args(["--to", "-"])
        .args(limits)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut archive = vec![0; 32 << 20];
    stdout.read_exact(&mut archive).await.unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 24 << 10, "{peak} KiB");

    // It is stuck at the pipe, so that the last file is still to come.
    write(bundle.path(), "tests/noise5", noise(9 << 20));
    stdout.read_to_end(&mut archive).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("failed to read \"tests/noise5\"; check that it is still there and may be read: its size changed while it was read"), "{stderr}");
    let options = unpacker::Options {
        limits: unpacker::Limits {
            total: 1 << 30,
            ..unpacker::Limits::default()
        },
        ..unpacker::Options::default()
    };
    let error = unpacker::stream(archive.as_slice(), &options).unwrap_err();
    assert_eq!(error.reason(), "ArchiveTruncated", "{error}");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_an_error_and_no_crash() {
    let bundle = bundle();
    write(bundle.path(), "tests/noise", noise(8 << 20));
    let mut child = process::Command::new(BINARY)
        .args(["--bundle-dir".as_ref(), bundle.path().as_os_str()])
        .args(["--to", "-"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let line = "unpack: failed: WriteFailed: failed to write the archive: Broken pipe";
    assert!(stderr.contains(line), "{stderr}");
}

#[tokio::test]
async fn it_installs_itself_whole_and_over_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let ran = Run::new()
            .args(["--install"])
            .args([folder.path()])
            .run()
            .await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["unpack"]);
        let installed = folder.path().join("unpack");
        assert_eq!(
            fs::metadata(&installed).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert!(fs::read(&installed).unwrap() == fs::read(BINARY).unwrap());
    }
    let output = process::Command::new(folder.path().join("unpack"))
        .arg("--version")
        .output()
        .await
        .unwrap();
    assert_eq!(
        output.stdout,
        format!("unpack {}\n", env!("CARGO_PKG_VERSION")).into_bytes()
    );
    let ran = Run::new().args(["--install", "/none"]).run().await;
    ran.failed_to_stderr("failed to install into \"/none\"; check that it is a folder");
}

#[tokio::test]
async fn mistakes_in_arguments_end_with_2() {
    for args in [
        &["--nonsense"] as &[_],
        &[],
        &["--bundle-dir", "/"],
        &["--bundle-dir", "/", "--to", "ftp://h"],
    ] {
        let output = process::Command::new(BINARY)
            .args(args)
            .output()
            .await
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.starts_with("unpack: failed: InvalidArguments: ")
                && stderr.ends_with("; see unpack --help\n"),
            "{stderr}"
        );
    }
    let output = process::Command::new(BINARY)
        .arg("--help")
        .output()
        .await
        .unwrap();
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("--bundle-dir DIR")
    );
}
