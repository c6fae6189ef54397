//! Archives behind URLs, and what lies on this machine.

use std::{fs, io::Write as _, process::Stdio};

use tests::{Authority, FileServer, OWNER, TENANT};

use super::{Desk, says};
use crate::bundle::Run;

fn archive(desk: &Desk) -> Vec<u8> {
    desk.place.tar("tide.tgz", "czf", "tide", ".");
    fs::read(desk.place.path("tide.tgz")).unwrap()
}

#[test]
fn archives_are_fetched_over_http_and_https() {
    let desk = Desk::new();
    let authority = Authority::default();
    let ca = desk.file("ca.pem", &authority.pem());
    let content = archive(&desk);
    let plain = FileServer::start(None, None);
    let url = plain.add("tide.tgz", content.clone());
    let resolved = desk.resolves(&url, &[], &[]);
    let (_, sha256) = resolved.split_once('#').unwrap();
    assert!(
        resolved.starts_with(&url) && sha256.starts_with("sha256:"),
        "{resolved}"
    );
    assert_eq!(desk.resolves(&resolved, &[], &[]), resolved);
    let wrong = format!("{url}#sha256:{}", "0".repeat(64));
    says(
        &desk.fails(&wrong, &[], &[]),
        &[sha256.trim_start_matches("sha256:")],
        &[],
    );
    says(
        &desk.fails(&url.replace("tide", "wave"), &[], &[]),
        &["wave.tgz", "404"],
        &[],
    );

    let guarded = FileServer::start(Some(TENANT), Some(&authority));
    let url = guarded.add("a/tide.tar.gz", content);
    let word = desk.file("word", TENANT.password);
    let user = ["--username", TENANT.name, "--password-file", &word];
    desk.resolves(&url, &[&["--cacert", &ca][..], &user].concat(), &[]);
    desk.resolves(&url, &[&["--tls-verify=false"][..], &user].concat(), &[]);
    says(
        &desk.fails(&url, &user, &[]),
        &[&guarded.host(), "--cacert"],
        &[TENANT.password],
    );
    says(
        &desk.fails(&url, &["--cacert", &ca], &[]),
        &[&guarded.host(), "401"],
        &[],
    );
    let other = [
        "--cacert",
        &ca,
        "--username",
        OWNER.name,
        "--password-file",
        &word,
    ];
    says(&desk.fails(&url, &other, &[]), &["401"], &[TENANT.password]);
}

#[test]
fn folders_and_archives_are_the_same_bundle() {
    let desk = Desk::new();
    archive(&desk);
    desk.place.tar("tide.tar", "cf", "tide", ".");
    desk.place.tar("folder.tgz", "czf", ".", "tide");
    for source in ["./tide", "tide.tgz", "tide.tar", "folder.tgz"] {
        assert_eq!(desk.resolves(source, &[], &[]), source);
    }
    let standard_input = |args: &[&str]| -> Run {
        let mut child = desk
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let content = fs::read(desk.place.path("tide.tgz")).unwrap();
        child.stdin.take().unwrap().write_all(&content).unwrap();
        child.wait_with_output().unwrap().into()
    };
    let unpacked = standard_input(&["unpack", "-", "--format", "json"])
        .exits(0)
        .json();
    let folder = desk
        .run(&["unpack", "tide", "--format", "json"])
        .exits(0)
        .json();
    assert_eq!(unpacked["digest"], folder["digest"]);
}

#[test]
fn what_was_unpacked_is_the_same_bundle() {
    let desk = Desk::new();
    let content = archive(&desk);
    let server = FileServer::start(None, None);
    let url = server.add("tide.tgz", content);
    for output in ["out", "out.tgz", "out.tar"] {
        desk.run(&["unpack", &url, "-o", output]).exits(0);
        desk.resolves(&format!("./{output}"), &[], &[]);
    }
    let packed = desk
        .command()
        .args(["unpack", &url, "-o", "-"])
        .output()
        .unwrap();
    fs::write(desk.place.path("piped.tgz"), packed.stdout).unwrap();
    desk.resolves("./piped.tgz", &[], &[]);
    assert_eq!(
        fs::read(desk.place.path("piped.tgz")).unwrap(),
        fs::read(desk.place.path("out.tgz")).unwrap()
    );
}
