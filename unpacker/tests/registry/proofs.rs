//! How we prove who we are, and to whom not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tests::{OWNER, TENANT, docker_config};

use crate::{
    images::{Registry, Store},
    outcome, pull,
    server::{Answer, Seen},
    trusting, with,
};

/// What a registry with a token service says to who has no good token.
fn challenge(realm: &str) -> Answer {
    let value =
        format!("Bearer realm=\"{realm}\",service=\"tests\",scope=\"repository:other:push\"");
    Answer::new("401 Unauthorized", &[("WWW-Authenticate", &value)], b"")
}

/// A registry that takes only the token `good`, and the service that gives tokens.
async fn guarded(
    token: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) -> (Registry, Registry, String) {
    let service = Registry::start(token).await;
    let realm = service.server.url("/token?account=x");
    let registry = Registry::but(Store::small(), move |seen| {
        (seen.header("authorization") != Some("Bearer good")).then(|| challenge(&realm))
    })
    .await;
    let roots = registry.authority.pem() + &service.authority.pem();
    (registry, service, roots)
}

/// What comes of pulling with the owner's password from a registry whose service answers so.
async fn with_token(answer: Answer) -> Result<String, String> {
    let (registry, _service, roots) = guarded(move |_| answer.clone()).await;
    let config = docker_config(&[(&registry.server.address.to_string(), OWNER)]);
    outcome(pull(&registry.image("app:v1"), &with(trusting(roots), &config)).await)
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_for_nothing_but_what_is_needed() {
    let (registry, service, roots) =
        guarded(|_| Answer::ok(br#"{"token": "good", "expires_in": 300}"#)).await;
    let config = docker_config(&[(&registry.server.address.to_string(), OWNER)]);
    let files = outcome(pull(&registry.image("app:v1"), &with(trusting(roots), &config)).await);
    assert_eq!(files.unwrap(), "manifests/a.yaml=kind: A");
    let seen = service.server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0].target,
        "/token?account=x&scope=repository%3Aapp%3Apull&service=tests"
    );
    assert!(
        seen[0]
            .header("authorization")
            .unwrap()
            .starts_with("Basic ")
    );
    let sent: Vec<_> = registry
        .server
        .seen()
        .iter()
        .map(|seen| seen.header("authorization").map(str::to_owned))
        .collect();
    assert!(
        sent.iter()
            .all(|sent| sent.as_deref().is_none_or(|sent| sent == "Bearer good")),
        "{sent:?}"
    );
}

#[tokio::test]
async fn a_token_that_ends_before_the_pull_does_is_renewed() {
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    let service = Registry::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        Answer::ok(
            format!(r#"{{"access_token": "number{number}", "expires_in": 3600}}"#).as_bytes(),
        )
    })
    .await;
    let realm = service.server.url("/token");
    let store = Store::small();
    let top = store.top();
    // Layers want a token that is newer than what manifests are given for.
    let registry = Registry::but(store, move |seen| {
        let least = if seen.target.ends_with(&top) {
            "Bearer number2"
        } else {
            "Bearer number1"
        };
        (seen.header("authorization").unwrap_or_default() < least).then(|| challenge(&realm))
    })
    .await;
    let roots = registry.authority.pem() + &service.authority.pem();
    let files = outcome(pull(&registry.image("app:v1"), &trusting(roots)).await);
    assert_eq!(files.unwrap(), "manifests/a.yaml=kind: A");
    assert_eq!(given.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_registry_that_refuses_every_token_is_asked_twice_and_not_more() {
    let service = Registry::start(|_| Answer::ok(br#"{"token": "t"}"#)).await;
    let realm = service.server.url("/token");
    let registry = Registry::start(move |_| challenge(&realm)).await;
    let roots = registry.authority.pem() + &service.authority.pem();
    let error = outcome(pull(&registry.image("app:v1"), &trusting(roots)).await).unwrap_err();
    assert!(
        error.starts_with("Unauthorized: ") && error.contains("needs credentials for app"),
        "{error}"
    );
    assert_eq!(registry.server.seen().len(), 2);
}

#[tokio::test]
async fn tokens_that_are_none_are_refused() {
    let json = br#"{"token": ""#;
    let huge = Answer::Endless(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        [b"10000\r\n", vec![b'x'; 0x10000].as_slice(), b"\r\n"].concat(),
    );
    let stated = Answer::Endless(
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n",
            &json[..],
        ]
        .concat(),
        vec![b'x'; 1000],
    );
    for (answer, problem) in [
        (huge, "LimitExceeded"),
        (stated, "LimitExceeded"),
        (Answer::ok(b"no"), "something else than a token"),
        (Answer::ok(b"{}"), "without a token"),
        (
            Answer::ok(br#"{"token": "a\r\nHost: evil"}"#),
            "cannot be sent",
        ),
        (
            Answer::ok(br#"{"token": "word"}"#),
            "does not let user \"owner\" pull from app",
        ),
        (
            Answer::new("401 Unauthorized", &[], b""),
            "does not accept the credentials of user \"owner\"",
        ),
        (Answer::new("500 Oops", &[], b""), "get a token"),
    ] {
        let error = with_token(answer).await.unwrap_err();
        assert!(error.contains(problem), "{problem:?} is not in: {error}");
        assert!(!error.contains(OWNER.password), "{error}");
    }
}

#[tokio::test]
async fn a_service_that_would_see_credentials_unencrypted_is_not_asked() {
    let listener = crate::server::Server::plain(|_| Answer::ok(br#"{"token": "good"}"#)).await;
    for (realm, problem) in [
        (listener.url("/token"), "unencrypted"),
        ("file:///etc/passwd".to_owned(), "neither"),
        ("https://name:word@127.0.0.1/".to_owned(), "has credentials"),
        ("no url".to_owned(), "is no URL"),
    ] {
        let registry = Registry::start(move |_| challenge(&realm)).await;
        let config = docker_config(&[(&registry.server.address.to_string(), OWNER)]);
        let error =
            outcome(pull(&registry.image("app:v1"), &with(registry.access(), &config)).await)
                .unwrap_err();
        assert!(
            error.starts_with("TokenRefused") && error.contains(problem),
            "{error}"
        );
        assert!(!error.contains("word"), "{error}");
    }
    assert!(listener.seen().is_empty());
}

#[tokio::test]
async fn an_identity_token_is_exchanged_and_follows_no_redirect() {
    let identity =
        |host: &str| format!(r#"{{"auths": {{"{host}": {{"identitytoken": "sesame"}}}}}}"#);
    let (registry, service, roots) = guarded(|_| Answer::ok(br#"{"access_token": "good"}"#)).await;
    let access = with(
        trusting(roots),
        &identity(&registry.server.address.to_string()),
    );
    let files = outcome(pull(&registry.image("app:v1"), &access).await);
    assert_eq!(files.unwrap(), "manifests/a.yaml=kind: A");
    let seen = service.server.seen();
    assert_eq!(seen[0].method, "POST");
    assert_eq!(
        String::from_utf8_lossy(&seen[0].body),
        "scope=repository%3Aapp%3Apull&service=tests&grant_type=refresh_token&client_id=rukpak&refresh_token=sesame"
    );

    let thief = Registry::start(|_| Answer::ok(br#"{"access_token": "good"}"#)).await;
    let target = thief.server.url("/token");
    let (registry, _service, roots) = guarded(move |_| Answer::redirect(307, &target)).await;
    let roots = roots + &thief.authority.pem();
    let access = with(
        trusting(roots),
        &identity(&registry.server.address.to_string()),
    );
    let error = outcome(pull(&registry.image("app:v1"), &access).await).unwrap_err();
    assert!(
        error.contains("another server") && !error.contains("sesame"),
        "{error}"
    );
    assert!(thief.server.seen().is_empty());
}

#[tokio::test]
async fn a_service_that_echoes_an_identity_token_is_not_quoted() {
    for (status, part) in [("418 I'm a teapot", "418"), ("500 Oops", "500")] {
        let (registry, _service, roots) =
            guarded(move |seen| Answer::new(status, &[], &seen.body)).await;
        let host = registry.server.address.to_string();
        let config = format!(r#"{{"auths": {{"{host}": {{"identitytoken": "open/sesame"}}}}}}"#);
        let access = with(trusting(roots), &config);
        let error = outcome(pull(&registry.image("app:v1"), &access).await).unwrap_err();
        assert!(error.contains(part) && !error.contains("sesame"), "{error}");
    }
}

#[tokio::test]
async fn no_tenant_is_served_with_what_another_was_given() {
    let (registry, service, roots) = guarded(|seen| {
        let login = seen.header("authorization").unwrap_or_default().to_owned();
        let good = login == "Basic b3duZXI6Y29ycmVjdCBob3JzZSBiYXR0ZXJ5";
        let token = if good { "good" } else { "other" };
        Answer::ok(format!(r#"{{"token": "{token}"}}"#).as_bytes())
    })
    .await;
    let host = registry.server.address.to_string();
    let access = |user| with(trusting(roots.clone()), &docker_config(&[(&host, user)]));
    let image = registry.image("app:v1");
    for (access, allowed) in [
        (access(OWNER), true),
        (access(TENANT), false),
        (trusting(roots.clone()), false),
        (access(OWNER), true),
    ] {
        assert_eq!(pull(&image, &access).await.is_ok(), allowed);
    }
    let (owner, tenant, nobody) = (access(OWNER), access(TENANT), trusting(roots));
    let together = tokio::join!(
        pull(&image, &tenant),
        pull(&image, &owner),
        pull(&image, &nobody)
    );
    assert!(together.0.is_err() && together.1.is_ok() && together.2.is_err());
    assert_eq!(
        service.server.seen().len(),
        7,
        "everybody asks for themselves"
    );
}

#[tokio::test]
async fn challenges_that_cannot_be_met_are_explained() {
    for (header, config, problem) in [
        ("Negotiate", false, "needs credentials"),
        ("Negotiate", true, "a way that is not known here"),
        ("Basic realm=x", false, "needs credentials"),
        (
            "Basic realm=x",
            true,
            "does not accept the credentials of user \"owner\"",
        ),
        ("Bearer", true, "a way that is not known here"),
        ("\"", true, "a way that is not known here"),
    ] {
        let registry =
            Registry::start(move |_| Answer::new("401 No", &[("WWW-Authenticate", header)], b""))
                .await;
        let login = docker_config(&[(&registry.server.address.to_string(), OWNER)]);
        let access = if config {
            with(registry.access(), &login)
        } else {
            registry.access()
        };
        let error = outcome(pull(&registry.image("app:v1"), &access).await).unwrap_err();
        assert!(error.contains(problem), "{header}: {error}");
    }
}
