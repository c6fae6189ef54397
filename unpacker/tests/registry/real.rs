//! Pushes to and pulls from real registries: anonymous, with passwords, with tokens, with TLS.

use crate::*;
use tests::Registry;

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
    match push(&image.parse().unwrap(), &bundle, access).await {
        Ok(digest) => Ok(digest.to_string()),
        Err(error) => Err(chain(&error)),
    }
}

/// Pushes as the owner, and pulls as other users: repository, user, outcome. `prefixes` is the tenant, and below `owner/` the
/// owner.
async fn check(rows: &str, registry: &Registry, access: &Access) {
    let wrong = with!(OWNER => password: "hunter2");
    let login = |user| with(access.clone(), &registry.docker_config(user));
    let longer = format!("{}/owner", registry.host());
    let prefixes = docker_config(&[(registry.host(), TENANT), (&*longer, OWNER)]);
    let run = async |[repository, user]: &[Cell; 2]| {
        let image = registry.image(&format!("{}:v1", repository.raw()));
        pushed(&image, &login(OWNER)).await.unwrap();
        let access = match user.raw() {
            "owner" => login(OWNER),
            "tenant" => login(TENANT),
            "wrong" => login(wrong),
            "prefixes" => with(access.clone(), &prefixes),
            _ => access.clone(),
        };
        let found = outcome(pull(&image, &access).await);
        assert_rows!([OWNER, TENANT, wrong].map(|user| found.contains(user.password)) => [false; 3], "{found}");
        found
    };
    table::check(rows, &Values::default(), run).await;
}

#[tokio::test]
async fn pushed_images_are_pulled_by_tag_and_by_digest() {
    let registry = Registry::plain();
    let image = registry.image("org/bundle:v1");
    let digest = pushed(&image, &plain()).await.unwrap();
    // The same directory gives the same image.
    assert_eq!(pushed(&image, &plain()).await.unwrap(), digest);
    let pinned = registry.image(&format!("org/bundle@{digest}"));
    for reference in [&image, &pinned, &format!("{image}@{digest}")] {
        let fetched = pull(reference, &plain()).await.unwrap();
        assert_eq!(fetched.resolved.to_string(), pinned);
        assert_eq!(fetched.digest.unwrap().to_string(), digest);
        // A bundle does not include root.txt.
        assert_eq!(fetched.unselected, 1);
        let content = fetched.tree.into_content().unwrap();
        let files = content.files();
        let files = files.map(|(path, file)| (path, std::str::from_utf8(&file.bytes).unwrap()));
        assert!(files.eq([FILES[0], FILES[1], FILES[3]]));
    }
    let resolved = image::resolve(&source(&image), &plain()).await.unwrap();
    assert_eq!(resolved.reference.to_string(), pinned);
    // The registry is not contacted again.
    assert_rows!(image::resolve(&resolved, &Access::default()).await.unwrap() => resolved);
}

#[tokio::test]
async fn missing_images_and_plain_http_are_explained() {
    let registry = Registry::plain();
    let image = registry.image("org/bundle:v1");
    pushed(&image, &plain()).await.unwrap();
    let pinned = format!("org/bundle@sha256:{}", "0".repeat(64));
    for name in ["org/bundle:v2", "org/none:v1", &pinned] {
        let image = registry.image(name);
        let pulled = pull(&image, &plain()).await.unwrap_err();
        let resolved = image::resolve(&source(&image), &plain()).await.err();
        assert_eq!(resolved.is_none(), name == pinned, "{name}");
        for error in resolved.into_iter().chain([pulled]) {
            assert_rows!((error.reason(), chain(&error).contains("does not exist")) => ("NotFound", true), "{error}");
        }
    }
    let found = outcome(pull(&image, &trusting(String::new())).await);
    assert_has(&found, "--tls-verify=false");
}

#[tokio::test]
async fn passwords_open_a_registry_and_wrong_ones_are_explained() {
    let rows = "
        owner     | org/a | owner  | manifests/csv.yaml=*
        tenant    | org/b | tenant | manifests/csv.yaml=*
        anonymous | org/c |        | Unauthorized, *: registry 127.0.0.1*requires credentials for org/c*
        wrong     | org/d | wrong  | *rejected the credentials of user \"owner\"; check the pull secret*
    ";
    check(rows, &Registry::start(Auth::Basic, None), &plain()).await;
}

#[tokio::test]
async fn tokens_are_granted_for_single_repositories() {
    let ca = TestCa::new("registry");
    let tokens = TokenServer::start(Some(&ca));
    let registry = Registry::start(Auth::Token(&tokens), Some(&ca));
    let access = trusting(ca.pem());
    let rows = "
        public            | public/a |        | manifests/csv.yaml=*
        anonymous         | tenant/a |        | *requires credentials for tenant/a*
        tenant            | tenant/b | tenant | manifests/csv.yaml=*
        tenant of another | owner/a  | tenant | *does not allow user \"tenant\" to pull from owner/a*
        owner             | owner/b  | owner  | manifests/csv.yaml=*
        wrong             | public/b | wrong  | *rejected the credentials of user \"owner\"*
        of the registry   | tenant/c | prefixes | manifests/csv.yaml=*
        of a longer prefix | owner/c | prefixes | manifests/csv.yaml=*
    ";
    check(rows, &registry, &access).await;
    pull(&registry.image("public/a:v1"), &plain())
        .await
        .unwrap();
    let tenant = with(access, &registry.docker_config(TENANT));
    let denied = pushed(&registry.image("tenant/a:v2"), &tenant).await;
    let problem = "does not allow user \"tenant\" to push to tenant/a";
    assert_has(denied.unwrap_err(), problem);
    let scopes = tokens.scopes();
    assert!(!scopes.is_empty());
    for scope in scopes {
        assert_rows!(scope.starts_with("repository:") && !scope.contains('*') => true, "{scope}");
    }
}
