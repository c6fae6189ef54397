//! The servers of the tests, as clients see them that are not ours.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use tempfile::TempDir;
use tests::{
    Auth, Authority, Buildah, FileServer, GitServer, OWNER, Registry, Sshd, TENANT, TokenServer,
    User,
};

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    fs::write(folder.path().join("manifests/a.yaml"), text).unwrap();
    folder
}

/// Whether the command ends well, and all that it says.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Whether an image with one file can be pushed, and what is said.
fn push(image: &str, user: Option<User>, ca: Option<&str>) -> (bool, String) {
    let buildah = Buildah::new();
    let content = folder("kind: Test");
    let built = buildah.build("FROM scratch\nCOPY . /\n", content.path(), &[]);
    let certificates = tempfile::tempdir().unwrap();
    fs::write(certificates.path().join("ca.crt"), ca.unwrap_or_default()).unwrap();
    let mut command = buildah.command();
    command
        .arg("push")
        .arg("--cert-dir")
        .arg(certificates.path());
    command.arg(format!("--tls-verify={}", ca.is_some()));
    if let Some(user) = user {
        command.arg(format!("--creds={}:{}", user.name, user.password));
    }
    run(command.args([&built, &format!("docker://{image}")]))
}

#[test]
fn a_registry_lets_in_whom_it_should() {
    let authority = Authority::default();
    let tokens = TokenServer::start(None);
    for (name, registry, owner, nobody) in [
        ("anonymous", Registry::plain(), true, true),
        ("basic", Registry::start(Auth::Basic, None), true, false),
        (
            "tokens",
            Registry::start(Auth::Token(&tokens), None),
            true,
            false,
        ),
    ] {
        let image = registry.image("public/tide:v1");
        let (pushed, text) = push(&image, Some(OWNER), None);
        assert_eq!(pushed, owner, "{name}: {text}");
        let (pushed, text) = push(&image, None, None);
        assert_eq!(pushed, nobody, "{name}: {text}");
    }
    let granted = tokens.granted();
    assert!(
        granted
            .iter()
            .any(|grant| grant.user == "owner" && grant.actions == ["pull", "push"])
    );
    assert!(
        granted
            .iter()
            .any(|grant| grant.user.is_empty() && grant.actions == ["pull"])
    );

    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let (pushed, text) = push(&registry.image("tide"), None, Some(&authority.pem()));
    assert!(pushed, "{text}");
    let other = Authority::new("another authority").pem();
    let (pushed, text) = push(&registry.image("tide"), None, Some(&other));
    assert!(!pushed && text.contains("x509"), "{text}");
}

#[test]
fn a_registry_is_gone_with_its_folder_when_it_is_dropped() {
    let registry = Registry::plain();
    let (host, folder) = (registry.host().to_owned(), registry.folder());
    let folder = folder.parent().unwrap();
    assert!(folder.exists() && TcpStream::connect(&host).is_ok());
    drop(registry);
    assert!(!folder.exists() && TcpStream::connect(&host).is_err());
}

#[test]
fn git_clones_over_https_and_ssh() {
    let content = folder("kind: Test");
    let into = tempfile::tempdir().unwrap();
    let clone = |url: &str, name: &str| {
        let mut command = Command::new("git");
        command
            .args(["clone", "--quiet", url])
            .arg(into.path().join(name))
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
    };
    let authority = Authority::default();
    let ca = into.path().join("ca.pem");
    fs::write(&ca, authority.pem()).unwrap();
    let server = GitServer::start(Some(TENANT), Some(&authority));
    let first = server.repository("tide.git").commit("main", content.path());
    let url = server.url("tide.git");
    let login = format!("http.extraHeader=Authorization: {}", TENANT.basic());
    let known = run(clone(&url, "https")
        .env("GIT_SSL_CAINFO", &ca)
        .args(["-c", &login]));
    assert!(known.0, "{}", known.1);
    let (cloned, text) = run(clone(&url, "nobody").env("GIT_SSL_CAINFO", &ca));
    assert!(
        !cloned && text.contains("could not read Username"),
        "{text}"
    );

    let server = Sshd::start();
    assert_eq!(
        server.repository("tide.git").commit("main", content.path()),
        first
    );
    let url = server.url("tide.git");
    let attempt = |key: String, hosts: String, name: &str| {
        let file = |kind: &str, text: String| {
            let path = into.path().join(format!("{name}.{kind}"));
            fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (key, hosts) = (file("key", key), file("hosts", hosts));
        let ssh = format!(
            "ssh -F /dev/null -i {key} -o UserKnownHostsFile={hosts} -o StrictHostKeyChecking=yes -o BatchMode=yes"
        );
        run(clone(&url, name).env("GIT_SSH_COMMAND", ssh))
    };
    let (cloned, text) = attempt(server.key(), server.known_hosts(), "ssh");
    assert!(cloned, "{text}");
    let (cloned, text) = attempt(server.strange_key(), server.known_hosts(), "stranger");
    assert!(!cloned && text.contains("Permission denied"), "{text}");
    let (cloned, text) = attempt(server.key(), server.mistaken_hosts(), "mistaken");
    assert!(
        !cloned && text.contains("Host key verification failed"),
        "{text}"
    );
    for name in ["https", "ssh"] {
        let path = into.path().join(name).join("manifests/a.yaml");
        assert_eq!(fs::read_to_string(path).unwrap(), "kind: Test");
    }
}

#[test]
fn files_are_served_to_whom_they_are_meant_for() {
    let server = FileServer::start(Some(OWNER), None);
    server.add("tide.tgz", "content");
    let get = |login: &str| {
        let mut stream = TcpStream::connect(server.host()).unwrap();
        write!(
            stream,
            "GET /tide.tgz HTTP/1.0\r\nAuthorization: {login}\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = get(&OWNER.basic());
    assert!(
        answer.starts_with("HTTP/1.0 200") && answer.ends_with("content"),
        "{answer}"
    );
    assert!(get(&TENANT.basic()).starts_with("HTTP/1.0 401"));
}
