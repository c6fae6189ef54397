//! Registries: with and without TLS, for everybody or not.

use tests::{Auth, Authority, OWNER, Registry, TENANT, TokenServer, docker_config};

use super::{Desk, says};

const PLAIN: &[&str] = &["--tls-verify=false"];

#[test]
fn a_tag_resolves_to_the_digest_that_was_pushed() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let image = registry.image("org/tide:v1");
    let pushed = desk.push(&image, PLAIN, &[]);
    assert!(
        pushed.starts_with(&registry.image("org/tide@sha256:")),
        "{pushed}"
    );
    assert_eq!(desk.resolves(&image, PLAIN, &[]), pushed);
    assert_eq!(desk.resolves(&pushed, PLAIN, &[]), pushed);
    assert_eq!(
        desk.resolves(&format!("docker://{image}"), PLAIN, &[]),
        pushed
    );
}

#[test]
fn the_same_bundle_gives_the_same_image_from_a_folder_and_from_archives() {
    let desk = Desk::new();
    let registry = Registry::plain();
    desk.place.tar("tide.tgz", "czf", ".", "tide");
    let digest = |bundle: &str, name: &str| {
        let image = registry.image(name);
        let run = desk
            .run(&["push", bundle, &image, "-o", "json", PLAIN[0]])
            .exits(0);
        run.json()["digest"].as_str().unwrap().to_owned()
    };
    let first = digest("tide", "one:v1");
    assert_eq!(digest("tide", "one:v1"), first, "pushed again");
    assert_eq!(digest("tide", "another:v2"), first);
    assert_eq!(digest("tide.tgz", "archive:v1"), first);
    let dry = desk
        .run(&["push", "tide", "registry.invalid/x:v1", "--dry-run"])
        .exits(0);
    assert!(dry.out.contains(&first), "{dry:?}");
    desk.place.write(
        "tide/manifests/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n",
    );
    assert_ne!(digest("tide", "one:v1"), first);
}

#[test]
fn plain_http_is_spoken_only_when_asked_for() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let image = registry.image("tide:v1");
    desk.push(&image, PLAIN, &[]);
    says(
        &desk.fails(&image, &[], &[]),
        &[registry.host(), "--tls-verify=false"],
        &[],
    );
}

#[test]
fn what_is_not_there_is_named() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let pushed = desk.push(&registry.image("org/tide:v1"), PLAIN, &[]);
    let digest = pushed.rsplit_once('@').unwrap().1;
    for (image, parts) in [
        ("org/tide:v2".to_owned(), ["org/tide:v2", "v2"]),
        ("org/wave:v1".to_owned(), ["org/wave:v1", "org/wave"]),
        (format!("org/wave@{digest}"), ["org/wave", digest]),
    ] {
        says(
            &desk.fails(&registry.image(&image), PLAIN, &[]),
            &parts,
            &[],
        );
    }
}

#[test]
fn a_private_authority_is_believed_when_it_is_named() {
    let desk = Desk::new();
    let authority = Authority::default();
    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let image = registry.image("tide:v1");
    let ca = desk.file("ca.pem", &authority.pem());
    let other = desk.file("other.pem", &Authority::new("another").pem());
    let trusting = ["--cacert", &ca];
    let pushed = desk.push(&image, &trusting, &[]);

    assert_eq!(desk.resolves(&image, &trusting, &[]), pushed);
    assert_eq!(
        desk.resolves(&image, &["--cacert", &other, "--cacert", &ca], &[]),
        pushed
    );
    assert_eq!(desk.resolves(&image, PLAIN, &[]), pushed);
    assert_eq!(
        desk.resolves(&image, &[], &[("SSL_CERT_FILE", &ca)]),
        pushed,
        "the system's own"
    );

    for access in [&[][..], &["--cacert", &other]] {
        says(
            &desk.fails(&image, access, &[]),
            &[registry.host(), "--cacert"],
            &[],
        );
    }
    let none = desk.file("none.pem", "no certificate\n");
    desk.fails(&image, &["--cacert", &none], &[]);
}

#[test]
fn tokens_are_fetched_for_what_is_asked_for() {
    let desk = Desk::new();
    let authority = Authority::default();
    let ca = desk.file("ca.pem", &authority.pem());
    let tokens = TokenServer::start(Some(&authority));
    let registry = Registry::start(Auth::Token(&tokens), Some(&authority));
    let trusting = ["--cacert", ca.as_str()];
    let login = |user, file: &str| desk.file(file, &docker_config(&[(registry.host(), user)]));
    let (owner, tenant) = (login(OWNER, "owner.json"), login(TENANT, "tenant.json"));
    let with = |file| [trusting[0], trusting[1], "--authfile", file];

    for name in ["public/tide:v1", "tenant/tide:v1", "private/tide:v1"] {
        desk.push(&registry.image(name), &with(&owner), &[]);
    }
    for (name, file, may) in [
        ("public/tide:v1", None, true),
        ("public/tide:v1", Some(&tenant), true),
        ("tenant/tide:v1", None, false),
        ("tenant/tide:v1", Some(&tenant), true),
        ("private/tide:v1", Some(&tenant), false),
        ("private/tide:v1", Some(&owner), true),
    ] {
        let image = registry.image(name);
        let access = file.map_or(trusting.to_vec(), |file| with(file).to_vec());
        if may {
            desk.resolves(&image, &access, &[]);
        } else {
            says(
                &desk.fails(&image, &access, &[]),
                &[name.split(':').next().unwrap()],
                &[TENANT.password],
            );
        }
    }
    let image = registry.image("tenant/tide:v2");
    let refused = desk
        .run(&[&["push", "tide", &image][..], &with(&tenant)].concat())
        .exits(1);
    says(&refused.err, &["tenant/tide"], &[TENANT.password]);

    let granted = tokens.granted();
    assert!(
        granted.iter().all(|grant| grant.scope.ends_with(":pull")
            || grant.user == "owner"
            || grant.scope.contains("tenant/tide")),
        "more was asked for than was needed: {granted:?}"
    );
}
