//! User documentation: each command in a `console` block runs against real servers, and its output must match the page.
//! Host names on the page are mapped to servers of the tests.

use std::{fs, process::Command};

use tests::{
    Auth, Buildah, FileServer, GitServer, Names, OWNER, Page, Registry, Sshd, TENANT, TestCa,
    TokenServer, docker_config, root,
};

use crate::bundle::Workspace;

fn copy(workspace: &Workspace, from: &str, to: &str) {
    let (from, to) = (root().join(from), workspace.path(to));
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

fn play(workspace: &Workspace, names: &Names, page: &'static str, min: usize) {
    Page::read(page, "console").play(min, names, |command| run(workspace, command));
}

/// Runs a command and returns its output. It fails if, and only if, it prints an error.
fn run(workspace: &Workspace, command: &str) -> String {
    let mut shell = workspace.shell(&format!("exec 2>&1; {command}"));
    shell.env("SSL_CERT_FILE", workspace.path("system.pem"));
    let output = shell.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    tests::assert_rows!(output.status.success() => !text.lines().any(|line| line.starts_with("error:")), "{command}: {text}");
    text
}

#[test]
fn page_about_sources_shows_what_happens() {
    let workspace = Workspace::new();
    copy(&workspace, "examples/bundles/tidewatch", "tidewatch");

    // The system trusts only the public CA.
    let (public, private) = (TestCa::new("public"), TestCa::new("private"));
    workspace.write("system.pem", public.pem());
    workspace.write("company-ca.pem", private.pem());
    let tokens = TokenServer::start(Some(&public));
    let registry = Registry::start(Auth::Token(&tokens), Some(&public));
    let company = Registry::start(Auth::Basic, Some(&private));
    let local = Registry::plain();
    let logins = [(registry.host(), OWNER), (company.host(), OWNER)];
    workspace.write("home/.docker/config.json", docker_config(&logins));

    let git = GitServer::start(None, Some(&public));
    let sshd = Sshd::start();
    workspace.write("checkout/README.md", "Tidewatch\n");
    let checkout = workspace.path("checkout");
    copy(&workspace, "examples/bundles/tidewatch", "checkout/bundle");
    let name = "tidewatch.git";
    for repository in [git.repository(name), sshd.repository(name)] {
        repository.git(&["tag", "v1.4.0", &repository.commit("main", &checkout)]);
    }
    // The first key that the server accepts is used.
    workspace.write("home/.ssh/id_ed25519", sshd.strange_key());
    workspace.write("home/.ssh/id_rsa", sshd.key());
    workspace.write("home/.ssh/known_hosts", sshd.known_hosts());

    let files = FileServer::start(Some(TENANT), Some(&public));
    workspace.ok("unpack tidewatch -o served.tgz");
    let served = fs::read(workspace.path("served.tgz")).unwrap();
    files.add("tidewatch.tgz", served);
    workspace.write("password", format!("{}\n", TENANT.password));

    let mirror = format!(
        "[[registry]]\nlocation = \"quay.example.com\"\n[[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n",
        local.host()
    );
    workspace.write("mirrors.conf", mirror);

    let buildah = Buildah::new();
    let file = "FROM scratch\nCOPY . /\n";
    let image = buildah.build(file, &workspace.path("tidewatch"), &[]);
    let at = |name: &str| workspace.path(name).to_str().unwrap().to_owned();
    buildah.push(&image, &format!("oci:{}:v1.4.0", at("layout")), &[]);
    let archive = format!("docker-archive:{}:tidewatch:v1.4.0", at("saved.tar"));
    buildah.push(&image, &archive, &[]);

    let ssh = sshd.url("");
    let ssh = ssh.trim_start_matches("ssh://").trim_end_matches('/');
    let names = Names(vec![
        ("git@git.example.com", ssh.to_owned()),
        ("git.example.com", git.host()),
        ("registry.example.com", registry.host().to_owned()),
        ("registry.company.internal", company.host().to_owned()),
        ("localhost:5000", local.host().to_owned()),
        ("downloads.example.com", files.host()),
    ]);
    let push = "rukpak push tidewatch registry.company.internal/org/tidewatch:v1.4.0 --cacert company-ca.pem";
    let printed = run(&workspace, &names.to_actual(push));
    assert!(!printed.contains("error:"), "{printed}");
    play(&workspace, &names, "docs/sources.md", 11);
}

#[test]
fn pages_about_catalogs_show_what_happens() {
    for (page, min) in [
        ("docs/catalogs.md", 17),
        ("docs/catalog-create.md", 9),
        ("docs/catalog-image-templates.md", 2),
        ("docs/catalogsource.md", 5),
        ("docs/max-openshift-version.md", 6),
    ] {
        let workspace = Workspace::new();
        copy(&workspace, "examples", "examples");
        play(&workspace, &Names::default(), page, min);
    }
}
