//! Archives behind URLs, and what lies on this machine.

use std::fs;

use tests::{Authority, FileServer, OWNER, TENANT};

use super::Desk;

#[test]
fn archives_are_fetched_over_http_and_https() {
    let desk = Desk::new();
    let authority = Authority::default();
    let ca = desk.file("ca.pem", &authority.pem());
    desk.place.tar("tide.tgz", "czf", "tide", ".");
    let content = fs::read(desk.place.path("tide.tgz")).unwrap();
    let plain = FileServer::start(None, None);
    let url = plain.add("tide.tgz", content.clone());
    let resolved = desk.resolves(&url, "", &[]);
    let digest = resolved.strip_prefix(&format!("{url}#sha256:")).unwrap();
    assert_eq!(desk.resolves(&resolved, "", &[]), resolved);
    let wrong = format!("{url}#sha256:{}", "0".repeat(64));
    desk.refuses(&wrong, "", &[digest]);
    desk.refuses(&url.replace("tide", "wave"), "", &["wave.tgz", "404"]);

    let guarded = FileServer::start(Some(TENANT), Some(&authority));
    let url = guarded.add("a/tide.tar.gz", content);
    let word = desk.file("word", TENANT.password);
    desk.guarded(&url, &guarded.host(), &ca, &word, "401");
    let other = format!(
        "--cacert {ca} --username {} --password-file {word}",
        OWNER.name
    );
    desk.refuses(&url, &other, &["401"]);
}
