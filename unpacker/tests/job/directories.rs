//! Directories of bundles as in container images.

use crate::*;

fn inflate(archive: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    GzDecoder::new(archive).read_to_end(&mut tar).unwrap();
    tar
}

/// Returns a run whose archive is written to standard output.
fn piped(bundle: &Path, args: &[&str]) -> process::Child {
    let mut command = Run::from_to(bundle, "-").args(args).command;
    command.spawn().unwrap()
}

#[tokio::test]
async fn standard_output_equals_the_packed_archive() {
    let bundle = bundle();
    let long = format!("tests/{}/{}", "long".repeat(30), "name".repeat(30));
    write(bundle.path(), &long, "x");
    write(bundle.path(), "tests/run.sh", "#!/bin/sh\n");
    write(bundle.path(), "tests/empty", "");
    let script = bundle.path().join("tests/run.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o750)).unwrap();
    let ran = Run::from_to(bundle.path(), "-").run().await;
    ran.succeeded();
    let (expected, digest) = tar(&content(bundle.path()));
    assert!(inflate(&ran.stdout) == expected, "the same bytes");
    assert_has(&ran.stderr, &digest.to_string());
}

#[tokio::test]
async fn only_selected_files_within_the_limits_are_sent() {
    // The root of the machine has no directories of a bundle.
    assert!(!Path::new("/manifests").exists() && !Path::new("/metadata").exists());
    let (bundle, other) = (bundle(), tempfile::tempdir().unwrap());
    write(other.path(), "other/file", "x");
    let values = Values::default()
        .with("bundle", bundle.path().to_str().unwrap())
        .with("other", other.path().to_str().unwrap());
    let rows = r#"
        # directory, arguments, paths or message
        one directory   | {bundle} | --only etc | etc/shadow
        two directories | {bundle} | --only etc --only=manifests/deep | etc/shadow manifests/deep/er.yaml
        one file        | {bundle} | --only manifests/csv.yaml | manifests/csv.yaml
        all             | {bundle} | --all | etc/shadow manifests/csv.yaml manifests/deep.yaml manifests/deep/er.yaml metadata/annotations.yaml
        nothing         | {other} | | NothingSelected: *(selected: manifests, metadata, tests); check*
        no directory    | /none | | ReadFailed: failed to pack "/none": *
        root            | / | --only manifests
          | NothingSelected: no file found in "/" (selected: manifests); check that the image is a bundle*
        total           | {bundle} | --max-size 40 | LimitExceeded: *content is larger than the limit of 40 bytes*
        file            | {bundle} | --max-file-size 12 | LimitExceeded: *file "manifests/csv.yaml" is larger than the limit of 12 bytes*
        entries         | {bundle} | --max-entries 3 | LimitExceeded: *more than 3 entries*
        path            | {bundle} | --max-path-length 12 | LimitExceeded: *limit of 12 bytes*
        depth           | {bundle} | --max-path-depth 2 | LimitExceeded: *limit of 2 directories*
    "#;
    table::check(rows, &values, async |[directory, args]: &[Cell; 2]| {
        let run = Run::from_to(Path::new(&directory.text()), "-").args(args.words());
        let ran = run.run().await;
        if ran.code == Some(0) {
            ran.succeeded();
            let unpacked = unpacker::stream(ran.stdout.as_slice(), &Options::default()).unwrap();
            let paths = unpacked.content.files().map(|(path, _)| path);
            return paths.collect::<Vec<_>>().join(" ");
        }
        assert_eq!(ran.stdout, b"");
        // The root of the machine is never read entirely.
        assert!(ran.took < Duration::from_secs(5), "{ran:?}");
        ran.failure()
    })
    .await;
}

#[tokio::test]
async fn links_sockets_fifos_and_devices_are_sent_without_content() {
    let bundle = bundle();
    let root = bundle.path();
    symlink(".", root.join("manifests/loop")).unwrap();
    symlink("loop2", root.join("manifests/loop2")).unwrap();
    symlink("/etc/passwd", root.join("manifests/outside")).unwrap();
    symlink("/etc", root.join("tests")).unwrap();
    symlink("nowhere", root.join("metadata/dangling")).unwrap();
    let _socket = UnixListener::bind(root.join("manifests/socket")).unwrap();
    let made = |name: &str, args: &[&str]| {
        let mut mknod = std::process::Command::new("mknod");
        let made = mknod.arg(root.join(name)).args(args).status();
        made.unwrap().success()
    };
    assert!(made("manifests/fifo", &["p"]));
    // Only root can create a device.
    let special = 2 + u32::from(made("manifests/device", &["c", "1", "5"]));
    let ran = Run::from_to(root, "-").run().await;
    ran.succeeded();
    let counted =
        format!("not regular files: 5 symbolic links, {special} special files (manifests/");
    assert_has(&ran.stderr, &counted);
    let local = content(root);
    let sent = unpacker::stream(ran.stdout.as_slice(), &Options::default()).unwrap();
    assert!(sent.content.irregular().eq(local.irregular()));
    assert_eq!(tar(&sent.content), tar(&local));
    // The claims describe only the content.
    assert_has(&ran.stderr, &tar(&local).1.to_string());
    assert_ne!(inflate(&ran.stdout), tar(&local).0);
}

#[tokio::test]
async fn unreadable_files_are_reported_before_the_upload() {
    let (bundle, bin) = (bundle(), tempfile::tempdir().unwrap());
    let root = bundle.path();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    // Makes both accessible to another user.
    set(root, 0o755).unwrap();
    set(bin.path(), 0o755).unwrap();
    assert_rows!(Run::new().args(["--install"]).args([bin.path()]).run().await.code => Some(0));
    let own = fs::metadata("/proc/self").unwrap().uid();
    let user = if own == 0 { 65534 } else { own };
    for (path, mode) in [
        ("manifests/csv.yaml", 0o600),
        ("manifests/deep", 0o700),
        ("manifests/deep", 0o644),
    ] {
        let closed = root.join(path);
        let before = fs::metadata(&closed).unwrap().mode();
        set(&closed, if own == 0 { mode } else { 0 }).unwrap();
        let mut command = process::Command::new(bin.path().join("unpack"));
        if own == 0 {
            command.uid(user).gid(user);
        }
        command.arg("--bundle-dir").arg(root).args(["--to", "-"]);
        let (code, stdout, stderr) = printed(command.output().await.unwrap());
        set(&closed, before).unwrap();
        assert_eq!((code, stdout), (Some(1), vec![]), "{stderr}");
        let start = format!("unpack: failed: FileUnreadable: \"{}", closed.display());
        assert!(stderr.starts_with(&start), "{stderr}");
        let remedy = format!(
            "is not readable by user {user}; make it readable in the image (chmod a+r, and a+rx for directories), or \
             run the Job as a user that can read it"
        );
        assert_has(&stderr, &remedy);
    }
}

// parity: rukpak-15
#[tokio::test]
async fn memory_is_bounded_and_changed_files_break_the_archive() {
    let bundle = bundle();
    for number in 0..6 {
        let path = format!("tests/noise{number}");
        write(bundle.path(), &path, noise(1, 8 << 20));
    }
    let mut child = piped(bundle.path(), &["--max-size", "1Gi"]);
    let mut stdout = child.stdout.take().unwrap();
    let mut archive = vec![0; 32 << 20];
    stdout.read_exact(&mut archive).await.unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 24 << 10, "{peak} KiB");

    // The run blocks on the pipe before it reads the last file.
    write(bundle.path(), "tests/noise5", noise(1, 9 << 20));
    stdout.read_to_end(&mut archive).await.unwrap();
    let (code, _, stderr) = printed(child.wait_with_output().await.unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    let expected = "failed to read \"tests/noise5\"; check that it still exists and is readable: the file size changed while \
                    the file was read";
    assert_has(&stderr, expected);
    let options = with!(Options::default() => limits.total: 1 << 30);
    let error = unpacker::stream(archive.as_slice(), &options).unwrap_err();
    assert_eq!(error.reason(), "ArchiveTruncated", "{error}");
}

#[tokio::test]
async fn closed_output_is_an_error() {
    let bundle = large(8);
    let mut child = piped(bundle.path(), &[]);
    drop(child.stdout.take());
    let (code, _, stderr) = printed(child.wait_with_output().await.unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    let line = "unpack: failed: WriteFailed: failed to write the archive: Broken pipe";
    assert_has(&stderr, line);
}

#[tokio::test]
async fn binary_installs_itself_whole_and_over_an_older_one() {
    let directory = tempfile::tempdir().unwrap();
    let installed = directory.path().join("unpack");
    for _ in 0..2 {
        assert_rows!(Run::new().args(["--install"]).args([directory.path()]).run().await.code => Some(0));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&installed).unwrap().mode() & 0o777, 0o755);
        assert!(fs::read(&installed).unwrap() == fs::read(BINARY).unwrap());
    }
    let printed = process::Command::new(installed).arg("--version").output();
    assert_rows!(printed.await.unwrap().stdout => format!("unpack {}\n", env!("CARGO_PKG_VERSION")).into_bytes());
    let ran = Run::new().args(["--install", "/none"]).run().await;
    let message = "failed to install into \"/none\"; check that it is a directory";
    assert_rows!((ran.code, ran.stderr.contains(message)) => (Some(1), true), "{ran:?}");
}

#[tokio::test]
async fn wrong_arguments_exit_with_2() {
    for args in "--nonsense||--bundle-dir /|--bundle-dir / --to ftp://h".split('|') {
        let ran = Run::new().args(args.split_whitespace()).run().await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let log = &ran.stderr;
        assert!(log.starts_with("unpack: failed: InvalidArguments: "));
        assert!(log.ends_with("; see unpack --help\n"), "{log}");
    }
    let help = Run::new().args(["--help"]).run().await.stdout;
    assert_has(String::from_utf8_lossy(&help), "--bundle-dir DIR");
}
