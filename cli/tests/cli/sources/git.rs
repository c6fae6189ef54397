//! Git repositories over https and ssh.

use tests::{Authority, GitServer, OWNER, Repository, Sshd, TENANT};

use super::{Desk, says};

/// The bundle at the root of `main`, in a folder of `nested`, behind the tag `v1`; something else on top of `main`.
struct History {
    first: String,
    second: String,
    nested: String,
}

fn fill(desk: &Desk, repository: &Repository) -> History {
    let first = repository.commit("main", &desk.place.path("tide"));
    repository.git(&["tag", "-a", "-m", "The first", "v1", &first]);
    desk.place.write("other/README.md", "Nothing yet\n");
    let second = repository.commit("main", &desk.place.path("other"));
    desk.place
        .write("whole/README.md", "The bundle is in deploy/tide\n");
    std::fs::create_dir_all(desk.place.path("whole/deploy")).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([
            desk.place.path("tide"),
            desk.place.path("whole/deploy/tide"),
        ])
        .status();
    assert!(copied.unwrap().success());
    let nested = repository.commit("nested", &desk.place.path("whole"));
    History {
        first,
        second,
        nested,
    }
}

/// What can be named of a repository, over whatever it is served.
fn everything_resolves(desk: &Desk, url: &str, history: &History, access: &[&str]) {
    let History {
        first,
        second,
        nested,
    } = history;
    for (fragment, resolved) in [
        ("#v1", first.clone()),
        ("#refs/tags/v1", first.clone()),
        (&format!("#{first}"), first.clone()),
        ("#nested:deploy/tide", format!("{nested}:deploy/tide")),
        (
            "#refs/heads/nested:deploy/tide",
            format!("{nested}:deploy/tide"),
        ),
    ] {
        let found = desk.resolves(&format!("git+{url}{fragment}"), access, &[]);
        assert_eq!(found, format!("git+{url}#{resolved}"), "{fragment}");
    }
    let head = desk
        .run(&[&["unpack", &format!("git+{url}")][..], access].concat())
        .exits(0);
    says(&head.out, &[second], &[]);
    for (fragment, part) in [
        ("#v9", "v9"),
        ("#main:deploy", "deploy"),
        (&format!("#{}", "0".repeat(40)), "00000000"),
    ] {
        says(
            &desk.fails(&format!("git+{url}{fragment}"), access, &[]),
            &[part],
            &[],
        );
    }
}

#[test]
fn https_with_a_private_authority_and_a_password() {
    let desk = Desk::new();
    let authority = Authority::default();
    let server = GitServer::start(Some(TENANT), Some(&authority));
    let history = fill(&desk, &server.repository("tide.git"));
    let url = server.url("tide.git");
    let ca = desk.file("ca.pem", &authority.pem());
    let word = desk.file("word", TENANT.password);
    let user = ["--username", TENANT.name, "--password-file", &word];
    let access = [&["--cacert", &ca][..], &user].concat();
    everything_resolves(&desk, &url, &history, &access);

    let source = format!("git+{url}#v1");
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
fn http_without_anything() {
    let desk = Desk::new();
    let server = GitServer::start(None, None);
    let history = fill(&desk, &server.repository("tide.git"));
    everything_resolves(&desk, &server.url("tide.git"), &history, &[]);
    let source = format!("git+{}", server.url("wave.git"));
    says(&desk.fails(&source, &[], &[]), &["wave.git"], &[]);
}

#[test]
fn ssh_with_a_key_and_known_hosts() {
    let desk = Desk::new();
    let server = Sshd::start();
    let history = fill(&desk, &server.repository("tide.git"));
    let url = server.url("tide.git");
    let key = desk.file("key", &server.key());
    let stranger = desk.file("stranger", &server.strange_key());
    let known = desk.file("known", &server.known_hosts());
    let mistaken = desk.file("mistaken", &server.mistaken_hosts());
    let access = ["--ssh-key", key.as_str(), "--known-hosts", &known];
    everything_resolves(&desk, &url, &history, &access);

    let source = format!("git+{url}#v1");
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
