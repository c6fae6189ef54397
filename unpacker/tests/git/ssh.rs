//! Fetches by ssh from OpenSSH's server.

use crate::*;

fn keygen(text: &str, args: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = Command::new("ssh-keygen");
    command.args(args).arg(Path::new(&path));
    assert!(command.output().unwrap().status.success(), "{command:?}");
    fs::read_to_string(&path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_known_hosts_are_contacted() {
    let server = Sshd::start();
    fill(&server.repository("repo.git"));
    let url = server.url("repo.git");
    let (known_hosts, mistaken_hosts) = (server.known_hosts(), server.mistaken_hosts());
    let good = "README=r bundle/manifests/a.yaml=two";
    let values = Values::default()
        .with("known", &*known_hosts)
        .with("mistaken", &*mistaken_hosts)
        .with("good", good);
    let rows = "
        known          | {known}               | {good}
        none           |                       | *is not in known_hosts; if SHA256:*
        mistaken       | {mistaken}            | *does not match known_hosts*
        revoked        | @revoked {known}      | *is revoked in known_hosts*
    ";
    table::check(rows, &values, async |[known_hosts]: &[Cell; 1]| {
        outcome(&url, "", &with_key(server.key(), known_hosts.text())).await
    })
    .await;
    // The line in the message is the one to add.
    let found = outcome(&url, "", &with_key(server.key(), String::new())).await;
    let (_, line) = found.split_once("to ssh-knownhosts): ").unwrap();
    assert_rows!(outcome(&url, "", &with_key(server.key(), line.to_owned())).await => good);
    assert_rows!(outcome(&url, "", &with!(with_key(server.key(), mistaken_hosts) => trust.verify: Verify::Never)).await => good);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_all_formats_of_ssh_keygen_are_read() {
    let server = Sshd::with("rsa", "AcceptEnv GIT_PROTOCOL");
    fill(&server.repository("repo.git"));
    let url = server.url("repo.git");
    let secret = "open sesame";
    let written = |format: &str, passphrase: &str| {
        let args = ["-q", "-p", "-P", "", "-N", passphrase, "-m", format, "-f"];
        keygen(&server.key(), &args)
    };
    let values = Values::default()
        .with("key", server.key())
        .with("strange", server.strange_key())
        .with("rfc4716-locked", written("RFC4716", secret))
        .with("pkcs8", written("PKCS8", ""))
        .with("pkcs8-locked", written("PKCS8", secret))
        .with("pem", written("PEM", ""))
        .with("pem-locked", written("PEM", secret));
    let rows = r"
        # key, passphrase
        own format          | {key}            |             | *two
        own, encrypted      | {rfc4716-locked} | open sesame | *two
        PKCS8               | {pkcs8}          |             | *two
        PKCS8, encrypted    | {pkcs8-locked}   | open sesame | *two
        PEM                 | {pem}            |             | *two
        PEM, encrypted      | {pem-locked}     | open sesame | *two
        no passphrase       | {rfc4716-locked} |             | *it is encrypted; pass its passphrase with --ssh-passphrase-file*
        wrong passphrase    | {rfc4716-locked} | wrong       | *and that the passphrase is correct*
        unknown             | {strange}        |             | *rejected the key for user*
        unknown, then known | {strange}\n{key}  |             | *two
        locked, then known  | {rfc4716-locked}{key} |        | *two
        unknown, then locked | {strange}{pem-locked} |       | *failed to read another key: it is encrypted; pass its passphrase*
        two unknown ones    | {strange*2}      |             | *rejected all 2 keys for user*
        no key              | no key           |             | *failed to read the private ssh key: check that it is complete*
        empty               |                  |             | *ssh needs a private key*
    ";
    table::check(rows, &values, async |[key, passphrase]: &[Cell; 2]| {
        let mut access = with_key(key.text(), server.known_hosts());
        if !passphrase.raw().is_empty() {
            access.ssh.as_mut().unwrap().passphrase = Some(passphrase.text().into());
        }
        let found = outcome(&url, "", &access).await;
        assert_rows!([secret, "BEGIN"].map(|part| found.contains(part)) => [false, false], "{found}");
        found
    })
    .await;
    let found = outcome(&url, "", &Access::default()).await;
    assert_has(&found, "ssh needs a private key");
}

#[tokio::test(flavor = "multi_thread")]
async fn path_with_quotes_and_commands_is_a_path() {
    let server = Sshd::start();
    let name = "it's $(touch pwned) `touch pwned`; touch pwned!.git";
    commit(&server.repository(name), "main", &[("a", "a")]);
    let access = with_key(server.key(), server.known_hosts());
    assert_rows!(outcome(&server.url(&name.replace(' ', "%20")), "", &access).await => "a=a");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_and_other_servers_are_reported_in_time() {
    let server = Sshd::start();
    let web = FileServer::start(None, None);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = Port::take().host();
    let access = with!(with_key(server.key(), server.known_hosts()) => timeouts.idle: Duration::from_millis(500));
    assert_each!(|host, expected| outcome(&format!("ssh://{host}/repo.git"), "", &access).await => has expected;
        web.host() => "over ssh";
        silent.local_addr().unwrap().to_string() => "sent nothing for 0.5 s";
        closed => "failed to reach";
    );
}
