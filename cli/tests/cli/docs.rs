//! The pages for users: each command in a `console` block is run against real servers, and must print what the page
//! shows. `RUKPAK_DOCS=write` writes what was printed into the page instead.
//!
//! Names of hosts on the page stand for servers of the tests, in commands and in what they print. A line that is `…`
//! stands for any number of lines.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use tests::{
    Auth, Authority, Buildah, FileServer, GitServer, OWNER, Registry, Sshd, TENANT, TokenServer,
    docker_config,
};

use crate::bundle::{Place, binary};

/// The servers of the page, and the folder in which its commands are run.
struct Stage {
    place: Place,
    /// What a name on the page stands for. Names that hold others come first.
    names: Vec<(&'static str, String)>,
    _servers: Box<dyn std::any::Any>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

impl Stage {
    fn new() -> Self {
        let place = Place::new();
        let copied = Command::new("cp")
            .arg("-r")
            .arg(root().join("examples/bundles/tidewatch"))
            .arg(place.path("tidewatch"))
            .status();
        assert!(copied.unwrap().success());

        // The system knows the one authority and not the other.
        let (public, private) = (Authority::new("public"), Authority::new("private"));
        place.write("system.pem", public.pem());
        place.write("company-ca.pem", private.pem());
        let tokens = TokenServer::start(Some(&public));
        let registry = Registry::start(Auth::Token(&tokens), Some(&public));
        let company = Registry::start(Auth::Basic, Some(&private));
        let local = Registry::plain();
        let logins = [(registry.host(), OWNER), (company.host(), OWNER)];
        place.write("home/.docker/config.json", docker_config(&logins));

        let git = GitServer::start(None, Some(&public));
        let sshd = Sshd::start();
        place.write("checkout/README.md", "Tidewatch\n");
        let checkout = place.path("checkout");
        let copied = Command::new("cp")
            .arg("-r")
            .arg(place.path("tidewatch"))
            .arg(checkout.join("bundle"))
            .status();
        assert!(copied.unwrap().success());
        for repository in [
            git.repository("tidewatch.git"),
            sshd.repository("tidewatch.git"),
        ] {
            let commit = repository.commit("main", &checkout);
            repository.git(&["tag", "v1.4.0", &commit]);
        }
        place.write("home/.ssh/id_ed25519", sshd.key());
        place.write("home/.ssh/known_hosts", sshd.known_hosts());

        let files = FileServer::start(Some(TENANT), Some(&public));
        place
            .run(&["unpack", "tidewatch", "-o", "served.tgz"])
            .exits(0);
        let served = fs::read(place.path("served.tgz")).unwrap();
        files.add("tidewatch.tgz", served);
        place.write("password", format!("{}\n", TENANT.password));

        let mirror = format!(
            "[[registry]]\nlocation = \"quay.example.com\"\n[[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n",
            local.host()
        );
        place.write("mirrors.conf", mirror);

        let buildah = Buildah::new();
        let image = buildah.build("FROM scratch\nCOPY . /\n", &place.path("tidewatch"), &[]);
        let at = |name: &str| place.path(name).to_str().unwrap().to_owned();
        buildah.push(&image, &format!("oci:{}:v1.4.0", at("layout")), &[]);
        buildah.push(
            &image,
            &format!("docker-archive:{}:tidewatch:v1.4.0", at("saved.tar")),
            &[],
        );

        let ssh = sshd.url("");
        let ssh = ssh.trim_start_matches("ssh://").trim_end_matches('/');
        let names = vec![
            ("git@git.example.com", ssh.to_owned()),
            ("git.example.com", git.host()),
            ("registry.example.com", registry.host().to_owned()),
            ("registry.company.internal", company.host().to_owned()),
            ("localhost:5000", local.host().to_owned()),
            ("downloads.example.com", files.host()),
        ];
        let stage = Self {
            place,
            names,
            _servers: Box::new((tokens, registry, company, local, git, sshd, files)),
        };
        let (printed, went_well) = stage.run(
            "rukpak push tidewatch registry.company.internal/org/tidewatch:v1.4.0 --cacert company-ca.pem",
        );
        assert!(went_well, "{printed}");
        stage
    }

    /// A folder with the example's catalog, one that is broken, and the example's bundle; there is no server.
    fn catalogs() -> Self {
        let place = Place::new();
        place.write("catalog/tidewatch/catalog.yaml", crate::catalog::CATALOG);
        place.write(
            "broken/tidewatch.yaml",
            crate::catalog::CATALOG
                .replace("  replaces: tidewatch.v1.2.0\n", "")
                .replace("<1.4.0'", "<v1.4.0'"),
        );
        place.write("broken/half.json", "{\"schema\": \"olm.package\",\n");
        let copied = Command::new("cp")
            .arg("-r")
            .arg(root().join("examples/bundles/tidewatch"))
            .arg(place.path("bundle"))
            .status();
        assert!(copied.unwrap().success());
        let copied = Command::new("cp")
            .arg("-r")
            .arg(place.path("bundle"))
            .arg(place.path("older"))
            .status();
        assert!(copied.unwrap().success());
        let csv = "older/manifests/tidewatch.clusterserviceversion.yaml";
        place.write(csv, place.read(csv).replace("1.4.0", "1.2.0"));
        place.write(
            "template.yaml",
            "schema: olm.semver\nstable:\n  bundles:\n  - image: older\n  - image: bundle\n",
        );
        Self {
            place,
            names: Vec::new(),
            _servers: Box::new(()),
        }
    }

    /// Runs a command of the page and tells what it prints, and whether it went well.
    fn run(&self, command: &str) -> (String, bool) {
        let replace = |text: String, (name, host): &(&str, String)| text.replace(name, host);
        let command = self.names.iter().fold(command.to_owned(), replace);
        let folder = binary().parent().unwrap().to_str().unwrap().to_owned();
        let output = self
            .place
            .command(Path::new("sh"))
            .arg("-c")
            .arg(format!("exec 2>&1; {command}"))
            .env_clear()
            .env("HOME", self.place.path("home"))
            .env("PATH", format!("{folder}:{}", env::var("PATH").unwrap()))
            .env("SSL_CERT_FILE", self.place.path("system.pem"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let replace = |text: String, (name, host): &(&str, String)| text.replace(host, name);
        (
            self.names.iter().fold(text, replace),
            output.status.success(),
        )
    }
}

/// Whether a page's lines stand for those that were printed.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((line, rest)) => printed.first() == Some(line) && matches(rest, &printed[1..]),
    }
}

/// The page with what its commands really print.
fn play(page: &str, stage: &Stage) -> String {
    let mut lines = page.lines().peekable();
    let mut result = Vec::new();
    let mut is_console = false;
    while let Some(line) = lines.next() {
        result.push(line.to_owned());
        if line.starts_with("```") {
            is_console = line == "```console";
        }
        let Some(first) = line.strip_prefix("$ ").filter(|_| is_console) else {
            continue;
        };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            let more = lines.next().unwrap();
            result.push(more.to_owned());
            command = format!("{command}\n{more}");
        }
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ") && *line != "```") {
            shown.push(line);
        }
        let (printed, went_well) = stage.run(&command);
        let printed: Vec<&str> = printed.lines().collect();
        let has_error = printed.iter().any(|line| line.starts_with("error:"));
        assert_eq!(went_well, !has_error, "{command}: {printed:#?}");
        let kept = if matches(&shown, &printed) {
            shown
        } else {
            printed
        };
        result.extend(kept.into_iter().map(str::to_owned));
    }
    result.join("\n") + "\n"
}

/// The page shows what its commands print, or is made to.
fn check(name: &str, stage: &Stage, commands: usize) {
    let path = root().join(name);
    let page = fs::read_to_string(&path).unwrap();
    let played = play(&page, stage);
    if env::var("RUKPAK_DOCS").is_ok_and(|mode| mode == "write") {
        fs::write(&path, played).unwrap();
        return;
    }
    for (number, (shown, printed)) in page.lines().zip(played.lines()).enumerate() {
        let at = number + 1;
        assert_eq!(
            printed, shown,
            "{name}:{at}; RUKPAK_DOCS=write corrects the page"
        );
    }
    assert_eq!(played, page);
    assert!(
        page.matches("\n$ ").count() >= commands,
        "the page has hardly any command"
    );
}

#[test]
fn the_page_about_sources_shows_what_happens() {
    check("docs/sources.md", &Stage::new(), 11);
}

#[test]
fn the_page_about_catalogs_shows_what_happens() {
    check("docs/catalogs.md", &Stage::catalogs(), 10);
}

#[test]
fn dots_stand_for_any_number_of_lines() {
    for (shown, printed, fits) in [
        (&["a"][..], &["a"][..], true),
        (&["a"], &["b"], false),
        (&["…"], &[], true),
        (&["a", "…"], &["a", "b", "c"], true),
        (&["a", "…", "c"], &["a", "b", "c"], true),
        (&["a", "…", "d"], &["a", "b", "c"], false),
        (&["a"], &["a", "b"], false),
    ] {
        assert_eq!(matches(shown, printed), fits, "{shown:?} {printed:?}");
    }
}
