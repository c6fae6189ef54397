//! Git repositories over https and ssh.

use tests::{Authority, GitServer, OWNER, Repository, Sshd, TENANT};

use super::Desk;

/// Commits the bundle, behind the tag `v1`; the source with that tag, and what it resolves to.
fn tagged(desk: &Desk, repository: &Repository, url: &str) -> (String, String) {
    let commit = repository.commit("main", &desk.place.path("tide"));
    repository.git(&["tag", "-a", "-m", "The first", "v1", &commit]);
    (format!("git+{url}#v1"), format!("git+{url}#{commit}"))
}

#[test]
fn https_with_a_private_authority_and_a_password() {
    let desk = Desk::new();
    let authority = Authority::default();
    let server = GitServer::start(Some(TENANT), Some(&authority));
    let url = server.url("tide.git");
    let (source, resolved) = tagged(&desk, &server.repository("tide.git"), &url);
    let ca = desk.file("ca.pem", &authority.pem());
    let word = desk.file("word", TENANT.password);
    let found = desk.guarded(&source, &server.host(), &ca, &word, "--username");
    assert_eq!(found, resolved);
    let other = format!(
        "--cacert {ca} --username {} --password-file {word}",
        OWNER.name
    );
    desk.refuses(&source, &other, &[&server.host()]);
}

#[test]
fn ssh_with_a_key_and_known_hosts() {
    let desk = Desk::new();
    let server = Sshd::start();
    let (repository, url) = (server.repository("tide.git"), server.url("tide.git"));
    let (source, resolved) = tagged(&desk, &repository, &url);
    let key = desk.file("key", &server.key());
    let stranger = desk.file("stranger", &server.strange_key());
    let known = desk.file("known", &server.known_hosts());
    let mistaken = desk.file("mistaken", &server.mistaken_hosts());
    let access = format!("--ssh-key {key} --known-hosts {known}");
    assert_eq!(desk.resolves(&source, &access, &[]), resolved);
    let insecure = format!("--ssh-key {key} --tls-verify=false");
    desk.resolves(&source, &insecure, &[]);
    let host = server.host();
    for access in [
        format!("--ssh-key {stranger} --known-hosts {known}"),
        format!("--ssh-key {key} --known-hosts {mistaken}"),
        format!("--ssh-key {key}"),
    ] {
        desk.refuses(&source, &access, &[host.split(':').next().unwrap()]);
    }

    desk.file("home/.ssh/id_ed25519", &server.key());
    desk.file("home/.ssh/known_hosts", &server.known_hosts());
    desk.resolves(&source, "", &[]);
    // The first key that the server takes is used.
    desk.file("home/.ssh/id_ed25519", &server.strange_key());
    desk.refuses(&source, "", &["refuses this key"]);
    desk.file("home/.ssh/id_rsa", &server.key());
    desk.resolves(&source, "", &[]);
}
