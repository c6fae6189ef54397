//! Pushing to and pulling from real registries: for everybody, with passwords, with tokens, with TLS.

use manifests::content::{Builder, Content, Limits};
use tests::{
    Auth, Authority, Cell, OWNER, Registry, TENANT, TokenServer, Values, docker_config, table,
};
use unpacker::{
    Access, image,
    registry::{BundleImage, push},
};

use crate::{chain, outcome, plain, pull, source, trusting, with};

pub(crate) const FILES: [(&str, &str); 4] = tests::rows![
    "manifests/csv.yaml" => "kind: CSV";
    "metadata/annotations.yaml" => "annotations:\n  operators.operatorframework.io.bundle.manifests.v1: manifests/\n";
    "root.txt" => "not part of it";
    "tests/scorecard.yaml" => "kind: Test";
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

/// Pushes as the owner, and pulls as others: repository, user, outcome.
async fn check(rows: &str, registry: &Registry, access: &Access) {
    let mut wrong = OWNER;
    wrong.password = "hunter2";
    let login = |user| with(access.clone(), &registry.docker_config(user));
    table::check(
        rows,
        &Values::default(),
        async |[repository, user]: &[Cell; 2]| {
            let image = registry.image(&format!("{}:v1", repository.raw()));
            pushed(&image, &login(OWNER)).await.unwrap();
            let access = match user.raw() {
                "owner" => login(OWNER),
                "tenant" => login(TENANT),
                "wrong" => login(wrong),
                _ => access.clone(),
            };
            let found = outcome(pull(&image, &access).await);
            for user in [OWNER, TENANT, wrong] {
                assert!(!found.contains(user.password), "{found}");
            }
            found
        },
    )
    .await;
}

#[tokio::test]
async fn pushed_images_are_pulled_by_tag_and_by_digest() {
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
async fn missing_images_and_plain_http_are_explained() {
    let registry = Registry::plain();
    let image = registry.image("org/bundle:v1");
    pushed(&image, &plain()).await.unwrap();
    let pinned = format!("org/bundle@sha256:{}", "0".repeat(64));
    for name in ["org/bundle:v2", "org/none:v1", &pinned] {
        let found = outcome(pull(&registry.image(name), &plain()).await);
        assert!(
            found.starts_with("NotFound, ") && found.contains("does not exist"),
            "{found}"
        );
    }
    let none = source(&registry.image("org/none:v1"));
    let error = image::resolve(&none, &plain()).await.unwrap_err();
    assert_eq!(error.reason(), "NotFound");
    assert!(chain(&error).contains("does not exist"), "{error}");

    let found = outcome(pull(&image, &trusting(String::new())).await);
    assert!(found.contains("--tls-verify=false"), "{found}");
}

#[tokio::test]
async fn passwords_open_a_registry_and_wrong_ones_are_explained() {
    let rows = "
        owner     | org/a | owner  | manifests/csv.yaml=*
        tenant    | org/b | tenant | manifests/csv.yaml=*
        anonymous | org/c |        | Unauthorized, *: the registry 127.0.0.1*needs credentials for org/c*
        wrong     | org/d | wrong  | *does not accept the credentials of user \"owner\"; check the pull secret*
    ";
    check(rows, &Registry::start(Auth::Basic, None), &plain()).await;
}

#[tokio::test]
async fn tokens_are_granted_for_single_repositories() {
    let authority = Authority::new("registry");
    let tokens = TokenServer::start(Some(&authority));
    let registry = Registry::start(Auth::Token(&tokens), Some(&authority));
    let access = trusting(authority.pem());
    let rows = "
        public            | public/a |        | manifests/csv.yaml=*
        anonymous         | tenant/a |        | *needs credentials for tenant/a*
        tenant            | tenant/b | tenant | manifests/csv.yaml=*
        tenant of another | owner/a  | tenant | *does not let user \"tenant\" pull from owner/a*
        owner             | owner/b  | owner  | manifests/csv.yaml=*
        wrong             | public/b | wrong  | *does not accept the credentials of user \"owner\"*
    ";
    check(rows, &registry, &access).await;
    let tenant = with(access, &registry.docker_config(TENANT));
    let denied = pushed(&registry.image("tenant/a:v2"), &tenant)
        .await
        .unwrap_err();
    assert!(
        denied.contains("does not let user \"tenant\" push to tenant/a"),
        "{denied}"
    );
    for grant in tokens.granted() {
        let (repository, _) = grant.scope.rsplit_once(':').unwrap();
        let is_single = repository.starts_with("repository:") && !repository.contains('*');
        assert!(is_single, "{grant:?}");
    }
}

#[tokio::test]
async fn credentials_of_the_longest_prefix_are_used() {
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
async fn private_authority_must_be_known() {
    let authority = Authority::new("registry");
    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let image = registry.image("org/bundle:v1");
    pushed(&image, &trusting(authority.pem())).await.unwrap();
    pull(&image, &plain()).await.unwrap();
    let stranger = Authority::new("somebody else");
    for roots in [String::new(), stranger.pem()] {
        let found = outcome(pull(&image, &trusting(roots)).await);
        assert!(
            found.starts_with("CertificateUntrusted") && found.contains("--cacert"),
            "{found}"
        );
    }
    pull(&image, &trusting(stranger.pem() + &authority.pem()))
        .await
        .unwrap();
}
