//! Over ssh, from OpenSSH's server.

use std::{fs, net::TcpListener, process::Command, time::Duration};

use tests::{FileServer, Sshd};
use unpacker::{
    Access,
    access::{Ssh, Trust, Verify},
    web::Patience,
};

use crate::shared::{commit, fill, outcome, source, with_key};

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_all_kinds_of_keys_and_both_versions_of_the_protocol_give_content() {
    for (kind, setting) in [
        ("ed25519", "AcceptEnv GIT_PROTOCOL"),
        ("rsa", "AcceptEnv GIT_PROTOCOL"),
        ("ecdsa", "AcceptEnv GIT_PROTOCOL"),
        ("ed25519", "AcceptEnv LANG"),
        ("rsa", "PubkeyAcceptedAlgorithms rsa-sha2-256"),
    ] {
        let server = Sshd::with(kind, setting);
        let repository = server.repository("repo.git");
        let (first, second) = fill(&repository);
        let access = with_key(server.key(), server.known_hosts());
        for (fragment, text) in [
            (":bundle", "two"),
            ("main:bundle", "two"),
            ("v1:bundle", "one"),
            ("again:bundle", "one"),
            (&format!("{first}:bundle"), "one"),
            (&format!("{second}:bundle"), "two"),
        ] {
            let found = outcome(&server.url("repo.git"), fragment, &access).await;
            assert_eq!(
                found,
                format!("manifests/a.yaml={text}"),
                "{kind}, {setting}: {fragment}"
            );
        }
        let git = source(&server.url("repo.git"), "dev");
        let resolved = unpacker::git::resolve(&git, &access).await.unwrap();
        assert_eq!(resolved, source(&server.url("repo.git"), &first));
        let missing = outcome(&server.url("none.git"), "", &access).await;
        assert!(
            missing.contains("it does not exist, or is hidden"),
            "{kind}, {setting}: {missing}"
        );
        let missing = outcome(&server.url("repo.git"), "mai", &access).await;
        assert!(
            missing.contains("no branch or tag \"mai\"; there is: main"),
            "{missing}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_host_that_is_known_is_told_anything() {
    let server = Sshd::start();
    fill(&server.repository("repo.git"));
    let url = server.url("repo.git");
    let known = server.known_hosts();
    let hashed = {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_hosts");
        fs::write(&path, &known).unwrap();
        let status = Command::new("ssh-keygen")
            .arg("-qHf")
            .arg(&path)
            .output()
            .unwrap()
            .status;
        assert!(status.success());
        fs::read_to_string(&path).unwrap()
    };
    assert!(hashed.starts_with("|1|"), "{hashed}");
    let good = "README=r bundle/manifests/a.yaml=two";
    let bare = |lines: &str| {
        let of = |line: &str| Some(format!("127.0.0.1 {}\n", line.split_once(' ')?.1));
        lines.lines().filter_map(of).collect::<String>()
    };
    for (known_hosts, expected) in [
        (known.clone(), good),
        (hashed, good),
        (known.replacen("[127.0.0.1]", "[127.0.0.*]", 1), good),
        (String::new(), "is not among the known hosts; if SHA256:"),
        (
            known.replacen("127.0.0.1", "127.0.0.2", 1),
            "is not among the known hosts",
        ),
        (
            // Of this host's port 22, where another server may listen.
            bare(&server.mistaken_hosts()),
            "is not among the known hosts; if SHA256:",
        ),
        (bare(&known), good),
        (
            format!("{}{}", bare(&known), server.mistaken_hosts()),
            "has not the key that the known hosts have for it",
        ),
        (
            server.mistaken_hosts(),
            "has not the key that the known hosts have for it",
        ),
        (format!("@revoked {known}"), "is marked as revoked"),
    ] {
        let found = outcome(&url, "", &with_key(server.key(), known_hosts)).await;
        assert!(found.contains(expected), "{found}");
    }
    // The line that the message offers is the one to add.
    let found = outcome(&url, "", &with_key(server.key(), String::new())).await;
    let (_, line) = found.split_once("to ssh-knownhosts): ").unwrap();
    assert_eq!(
        outcome(&url, "", &with_key(server.key(), line.to_owned())).await,
        good
    );
    let unchecked = Access {
        trust: Trust {
            verify: Verify::Never,
            ..Trust::default()
        },
        ..with_key(server.key(), server.mistaken_hosts())
    };
    assert_eq!(outcome(&url, "", &unchecked).await, good);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_read_in_the_formats_that_ssh_keygen_writes() {
    let server = Sshd::with("rsa", "AcceptEnv GIT_PROTOCOL");
    fill(&server.repository("repo.git"));
    let url = server.url("repo.git");
    let written = |format: &str, passphrase: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, server.key()).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let mut command = Command::new("ssh-keygen");
        command
            .args(["-q", "-p", "-P", "", "-N", passphrase, "-m", format, "-f"])
            .arg(&path);
        assert!(command.output().unwrap().status.success(), "{command:?}");
        fs::read_to_string(&path).unwrap()
    };
    let secret = "open sesame";
    for (key, passphrase, expected) in [
        (server.key(), None, "two"),
        (written("RFC4716", secret), Some(secret), "two"),
        (written("PKCS8", ""), None, "two"),
        (written("PKCS8", secret), Some(secret), "two"),
        (written("PEM", ""), None, "two"),
        (written("PEM", secret), Some(secret), "two"),
        (
            written("RFC4716", secret),
            None,
            "it is encrypted; pass its passphrase too, by --ssh-passphrase-file",
        ),
        (
            written("RFC4716", secret),
            Some("wrong"),
            "and that the passphrase is right",
        ),
        (server.strange_key(), None, "refuses this key for user"),
        (
            format!("{}\n{}", server.strange_key(), server.key()),
            None,
            "two",
        ),
        (
            format!("{}{}", written("RFC4716", secret), server.key()),
            None,
            "two",
        ),
        (
            format!("{}{}", server.strange_key(), written("PEM", secret)),
            None,
            "another key cannot be read: it is encrypted; pass its passphrase too",
        ),
        (
            server.strange_key().repeat(2),
            None,
            "refuses each of these 2 keys for user",
        ),
        (
            "no key".to_owned(),
            None,
            "the private ssh key cannot be read: check that it is complete",
        ),
        (String::new(), None, "ssh needs a private key"),
    ] {
        let beginning: String = key.chars().take(30).collect();
        let access = Access {
            ssh: Some(Ssh {
                key: key.into(),
                passphrase: passphrase.map(|text| text.to_owned().into()),
                known_hosts: server.known_hosts(),
            }),
            ..Access::default()
        };
        let found = outcome(&url, "", &access).await;
        assert!(
            found.contains(expected),
            "{beginning}, {passphrase:?}: {found}"
        );
        assert!(
            !found.contains(secret) && !found.contains("BEGIN"),
            "{found}"
        );
    }
    let found = outcome(&url, "", &Access::default()).await;
    assert!(found.contains("ssh needs a private key"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_with_quotes_and_orders_in_it_is_nothing_but_a_path() {
    let server = Sshd::start();
    let name = "it's $(touch pwned) `touch pwned`; touch pwned!.git";
    commit(&server.repository(name), "main", &[("a", "a")]);
    let access = with_key(server.key(), server.known_hosts());
    assert_eq!(
        outcome(&server.url(&name.replace(' ', "%20")), "", &access).await,
        "a=a"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_ssh_server_or_says_nothing_is_told_apart_in_time() {
    let server = Sshd::start();
    let web = FileServer::start(None, None);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let access = Access {
        patience: Patience {
            idle: Duration::from_millis(500),
            ..Patience::default()
        },
        ..with_key(server.key(), server.known_hosts())
    };
    for (host, expected) in [
        (web.host(), "by ssh"),
        (
            silent.local_addr().unwrap().to_string(),
            "sent nothing for 0.5 s",
        ),
        (gone, "failed to reach"),
    ] {
        let found = outcome(&format!("ssh://{host}/repo.git"), "", &access).await;
        assert!(found.contains(expected), "{found}");
    }
}
