//! Archives behind URLs, and what lies on this machine.

use std::fs;

use tests::{Authority, FileServer, OWNER, TENANT};

use super::{Desk, says};

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
