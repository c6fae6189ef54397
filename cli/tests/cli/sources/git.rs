//! Git repositories over https and ssh.

use tests::{Authority, GitServer, OWNER, Repository, Sshd, TENANT};

use super::{Desk, says};

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
    let user = ["--username", TENANT.name, "--password-file", &word];
    let access = [&["--cacert", &ca][..], &user].concat();
    assert_eq!(desk.resolves(&source, &access, &[]), resolved);
    desk.resolves(&source, &[&["--tls-verify=false"][..], &user].concat(), &[]);
    says(
        &desk.fails(&source, &user, &[]),
        &[&server.host(), "--cacert"],
        &[TENANT.password],
    );
    says(
        &desk.fails(&source, &["--cacert", &ca], &[]),
        &[&server.host(), "--username"],
        &[],
    );
    let wrong = [
        "--cacert",
        &ca,
        "--username",
        OWNER.name,
        "--password-file",
        &word,
    ];
    says(
        &desk.fails(&source, &wrong, &[]),
        &[&server.host()],
        &[TENANT.password],
    );
}

#[test]
fn ssh_with_a_key_and_known_hosts() {
    let desk = Desk::new();
    let server = Sshd::start();
    let (source, resolved) = tagged(
        &desk,
        &server.repository("tide.git"),
        &server.url("tide.git"),
    );
    let key = desk.file("key", &server.key());
    let stranger = desk.file("stranger", &server.strange_key());
    let known = desk.file("known", &server.known_hosts());
    let mistaken = desk.file("mistaken", &server.mistaken_hosts());
    let access = ["--ssh-key", key.as_str(), "--known-hosts", &known];
    assert_eq!(desk.resolves(&source, &access, &[]), resolved);
    let host = server.host();
    desk.resolves(&source, &["--ssh-key", &key, "--tls-verify=false"], &[]);
    for (key, known) in [
        (&stranger, Some(&known)),
        (&key, Some(&mistaken)),
        (&key, None),
    ] {
        let mut access = vec!["--ssh-key", key];
        access.extend(
            known
                .map(|known| ["--known-hosts", known.as_str()])
                .into_iter()
                .flatten(),
        );
        let message = desk.fails(&source, &access, &[]);
        says(
            &message,
            &[host.split(':').next().unwrap()],
            &["PRIVATE KEY"],
        );
    }

    desk.file("home/.ssh/id_ed25519", &server.key());
    desk.file("home/.ssh/known_hosts", &server.known_hosts());
    desk.resolves(&source, &[], &[]);
    // The first key that the server takes is used.
    desk.file("home/.ssh/id_ed25519", &server.strange_key());
    says(
        &desk.fails(&source, &[], &[]),
        &["refuses this key"],
        &["PRIVATE KEY"],
    );
    desk.file("home/.ssh/id_rsa", &server.key());
    desk.resolves(&source, &[], &[]);
}
