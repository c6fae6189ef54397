//! Pushing to and pulling from real registries: for everybody, with passwords, with tokens, with TLS.

use manifests::content::{Builder, Content, Limits};
use tests::{Auth, Authority, OWNER, Registry, TENANT, TokenServer, User, docker_config};
use unpacker::{
    Access, Error, image,
    registry::{BundleImage, push},
};

use crate::{chain, outcome, plain, pull, source, trusting, with};

pub(crate) const FILES: [(&str, &str); 4] = [
    ("manifests/csv.yaml", "kind: CSV"),
    (
        "metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.manifests.v1: manifests/\n",
    ),
    ("root.txt", "not part of it"),
    ("tests/scorecard.yaml", "kind: Test"),
];

pub(crate) fn bundle() -> Content {
    let mut files = Builder::new(Limits::default());
    for (path, text) in FILES {
        files.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    files.finish()
}

pub(crate) async fn pushed(image: &str, access: &Access) -> Result<String, String> {
    let bundle = BundleImage::new(&bundle()).unwrap();
    let digest = push(&image.parse().unwrap(), &bundle, access).await;
    digest
        .map(|digest| digest.to_string())
        .map_err(|error| chain(&error))
}

fn explained(result: Result<impl Sized, Error>) -> String {
    let error = result.map(drop).unwrap_err();
    format!("{}: {}", error.reason(), chain(&error))
}

/// Pushes as the owner, and pulls as others.
async fn check(
    registry: &Registry,
    access: &Access,
    allowed: &[(Option<User>, &str, Result<(), &str>)],
) {
    let login = |user: Option<User>| match user {
        Some(user) => with(access.clone(), &registry.docker_config(user)),
        None => access.clone(),
    };
    for (user, repository, expected) in allowed {
        let image = registry.image(&format!("{repository}:v1"));
        pushed(&image, &login(Some(OWNER))).await.unwrap();
        let result = pull(&image, &login(*user)).await;
        match expected {
            Ok(()) => {
                result.unwrap();
            }
            Err(problem) => {
                let error = explained(result);
                assert!(
                    error.contains(problem),
                    "{user:?}: {problem:?} is not in: {error}"
                );
                assert!(!error.contains(OWNER.password) && !error.contains(TENANT.password));
            }
        }
    }
}

#[tokio::test]
async fn what_is_pushed_can_be_pulled_by_tag_and_by_digest() {
    let registry = Registry::plain();
    let image = registry.image("org/bundle:v1");
    let digest = pushed(&image, &plain()).await.unwrap();
    assert_eq!(
        pushed(&image, &plain()).await.unwrap(),
        digest,
        "the same folder is the same image"
    );
    let pinned = registry.image(&format!("org/bundle@{digest}"));
    for reference in [&image, &pinned, &format!("{image}@{digest}")] {
        let fetched = pull(reference, &plain()).await.unwrap();
        assert_eq!(fetched.resolved.to_string(), pinned);
        assert_eq!(fetched.digest.unwrap().to_string(), digest);
        assert_eq!(fetched.unselected, 1, "root.txt is no part of a bundle");
        let content = fetched.tree.into_content().unwrap();
        let files: Vec<_> = content
            .files()
            .map(|(path, file)| (path, std::str::from_utf8(&file.bytes).unwrap()))
            .collect();
        assert_eq!(files, [FILES[0], FILES[1], FILES[3]]);
    }
    let resolved = image::resolve(&source(&image), &plain()).await.unwrap();
    assert_eq!(resolved.reference.to_string(), pinned);
    assert_eq!(
        image::resolve(&resolved, &Access::default()).await.unwrap(),
        resolved,
        "nobody is asked again"
    );
}

#[tokio::test]
async fn what_does_not_exist_is_named() {
    let registry = Registry::plain();
    pushed(&registry.image("org/bundle:v1"), &plain())
        .await
        .unwrap();
    let digest = format!("@sha256:{}", "0".repeat(64));
    for name in [
        "org/bundle:v2",
        "org/none:v1",
        &format!("org/bundle{digest}"),
    ] {
        let image = registry.image(name);
        for error in [
            explained(pull(&image, &plain()).await),
            explained(image::resolve(&source(&registry.image("org/none:v1")), &plain()).await),
        ] {
            assert!(
                error.starts_with("NotFound: ") && error.contains("does not exist"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn plain_http_is_spoken_only_when_asked_for() {
    let registry = Registry::plain();
    let image = registry.image("org/bundle:v1");
    pushed(&image, &plain()).await.unwrap();
    let error = explained(pull(&image, &trusting(String::new())).await);
    assert!(error.contains("--tls-verify=false"), "{error}");
}

#[tokio::test]
async fn passwords_open_a_registry_and_wrong_ones_are_explained() {
    let registry = Registry::start(Auth::Basic, None);
    let mut wrong = OWNER;
    wrong.password = "hunter2";
    check(
        &registry,
        &plain(),
        &[
            (Some(OWNER), "org/a", Ok(())),
            (Some(TENANT), "org/a", Ok(())),
            (None, "org/a", Err("Unauthorized: the registry 127.0.0.1")),
            (None, "org/a", Err("needs credentials for org/a")),
            (
                Some(wrong),
                "org/a",
                Err("does not accept the credentials of user \"owner\"; check the pull secret"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn tokens_open_what_they_are_for() {
    let authority = Authority::new("registry");
    let tokens = TokenServer::start(Some(&authority));
    let registry = Registry::start(Auth::Token(&tokens), Some(&authority));
    let mut wrong = OWNER;
    wrong.password = "hunter2";
    check(
        &registry,
        &trusting(authority.pem()),
        &[
            (None, "public/a", Ok(())),
            (None, "tenant/a", Err("needs credentials for tenant/a")),
            (Some(TENANT), "tenant/a", Ok(())),
            (
                Some(TENANT),
                "owner/a",
                Err("does not let user \"tenant\" pull from owner/a"),
            ),
            (Some(OWNER), "owner/a", Ok(())),
            (
                Some(wrong),
                "public/a",
                Err("does not accept the credentials of user \"owner\""),
            ),
        ],
    )
    .await;
    let denied = pushed(
        &registry.image("tenant/a:v2"),
        &with(trusting(authority.pem()), &registry.docker_config(TENANT)),
    )
    .await;
    assert!(
        denied
            .unwrap_err()
            .contains("does not let user \"tenant\" push to tenant/a")
    );
    for grant in tokens.granted() {
        let (repository, _) = grant.scope.rsplit_once(':').unwrap();
        assert!(
            repository.starts_with("repository:") && !repository.contains('*'),
            "{grant:?}"
        );
    }
}

#[tokio::test]
async fn the_credentials_of_the_longest_prefix_are_used() {
    let tokens = TokenServer::start(None);
    let registry = Registry::start(Auth::Token(&tokens), None);
    let tenant = format!("{}/tenant", registry.host());
    let access = with(
        plain(),
        &docker_config(&[(registry.host(), OWNER), (&tenant, TENANT)]),
    );
    let owner = with(plain(), &registry.docker_config(OWNER));
    for name in ["tenant/a", "owner/a"] {
        let image = registry.image(&format!("{name}:v1"));
        pushed(&image, &owner).await.unwrap();
        pull(&image, &access).await.unwrap();
        let last = tokens.granted().pop().unwrap();
        assert_eq!(
            (last.user.as_str(), last.scope),
            (
                name.split('/').next().unwrap(),
                format!("repository:{name}:pull")
            )
        );
    }
}

#[tokio::test]
async fn a_private_authority_must_be_known() {
    let authority = Authority::new("registry");
    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let image = registry.image("org/bundle:v1");
    pushed(&image, &trusting(authority.pem())).await.unwrap();
    pull(&image, &plain()).await.unwrap();
    let stranger = Authority::new("somebody else");
    for roots in [String::new(), stranger.pem()] {
        let error = explained(pull(&image, &trusting(roots)).await);
        assert!(
            error.starts_with("CertificateUntrusted") && error.contains("--cacert"),
            "{error}"
        );
    }
    assert!(outcome(pull(&image, &trusting(stranger.pem() + &authority.pem())).await).is_ok());
}
