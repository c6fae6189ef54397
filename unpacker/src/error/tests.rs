use std::io;

use http::{Method, StatusCode};
use url::Url;

use super::*;
use crate::{
    Source, git, git::Problem, http_archive::Error as HttpError, http_client,
    http_client::RedactedUrl, oci, oci::Document, registry::Error as RegistryError, trust::Quotes,
};
use manifests::error::chain;

/// Text that is chosen by a server.
const REMOTE: &str = "REMOTE";

/// Returns the URL of a redirect as `http_client::Client` reports it in errors.
fn redirected() -> RedactedUrl {
    let url = Url::parse("https://internal.example.com/REMOTE").unwrap();
    RedactedUrl::from(&url).with_written(Some("https://example.com/a (redirected)".into()))
}

fn web_errors() -> Vec<(http_client::Error, &'static str)> {
    use crate::http_client::Error as E;
    let not_found = E::Status {
        method: Method::GET,
        url: redirected(),
        status: StatusCode::NOT_FOUND,
        excerpt: REMOTE.into(),
    };
    Vec::from(::tests::rows![
        not_found
            => "GET https://example.com/a (redirected): unexpected status \"404 Not Found\"; check the address; it may \
                require credentials";
        E::Untrusted { url: redirected(), problem: http_client::CertificateProblem::Name, source: Some(REMOTE.into()) }
            => "the certificate of https://example.com/a (redirected) is for another name; use a name in the \
                certificate, or reissue it for this name";
        E::TooLarge { url: redirected(), limit: 5 }
            => "the response of https://example.com/a (redirected) is larger than the limit of 5 bytes; check the address";
    ])
}

fn git_problems() -> Vec<(Problem, &'static str)> {
    Vec::from(::tests::rows![
        Problem::NoHead { others: vec![REMOTE.into()] } => "HEAD does not point to a commit; check the name";
        Problem::NoDirectory {
            directory: "a".to_owned(), commit: REMOTE.into(), problem: "the path does not exist", others: vec![REMOTE.into()],
        }
            => "failed to get subdirectory \"a\": the path does not exist; check the name";
        Problem::TagOfOther { name: REMOTE.into(), kind: "tree" }
            => "the reference is a tag of a tree, not of a commit; use another tag";
        Problem::Submodule { path: REMOTE.into() }
            => "a directory is a submodule, and submodules are not fetched; keep the files in this repository, or use \
                the repository of the submodule";
        Problem::Name { path: REMOTE.into(), problem: "is too long" } => "a path is too long; rename it in the repository";
        Problem::Missing { id: REMOTE.into() }
            => "an object is missing from the response of the server; try again, or check the repository with \"git fsck\"";
        Problem::HostUnknown { host: "example.com".to_owned(), fingerprint: "SHA256:f".to_owned(), line: REMOTE.into() }
            => "example.com is not in known_hosts; if SHA256:f is the fingerprint of its key, add that key to the file of \
             --known-hosts (in a cluster: to ssh-knownhosts)";
        Problem::Ssh { host: "example.com".to_owned(), source: Some(REMOTE.into()) }
            => "failed to communicate with example.com over ssh; try again, or check that an ssh server listens there";
    ])
}

fn oci_errors() -> Vec<(oci::Error, &'static str)> {
    use oci::Error as E;
    let document = |text: &str| Document::read(text.as_bytes(), None).unwrap_err();
    let layer = r#"{"config": {"digest": "sha256:0", "size": 1, "mediaType": "REMOTE"}, "layers": [
        {"digest": "sha256:0", "size": 1, "mediaType": "REMOTE"}]}"#;
    let digest = r#"{"manifests": [{"digest": "REMOTE", "size": 1, "mediaType": ""}]}"#;
    let label = "operators.operatorframework.io.bundle.manifests.v1";
    let labels = [(label.to_owned(), "../REMOTE".to_owned())].into();
    Vec::from(::tests::rows![
        document(layer) => "layer 1 is of another type, not a file system; publish the bundle as an image";
        document(digest) => "the manifest refers to a blob by an unsupported digest; push the image again with a current tool";
        oci::select(&labels).unwrap_err()
            => "label operators.operatorframework.io.bundle.manifests.v1 names a path, which is not a directory in an image; \
             build the image with another value";
        E::NoPlatform { wanted: "linux/s390x".to_owned(), known: Some(REMOTE.into()) }
            => "the index has no image for \"linux/s390x\"; choose another platform";
    ])
}

fn registry_errors() -> Vec<(RegistryError, String)> {
    use RegistryError as E;
    let image = || "example.com/a:v1".to_owned();
    let web = || web_errors().swap_remove(0).0;
    let (_, message) = web_errors().swap_remove(0);
    let cause = E::Web {
        action: "ask".to_owned(),
        source: web(),
    };
    let mut errors = Vec::from(::tests::rows![
        E::Web { action: "reach example.com".to_owned(), source: web() } => format!("failed to reach example.com: {message}");
        E::Interrupted { what: image(), tries: 2, read: 3, source: web() } => format!(
            "transfer of example.com/a:v1 interrupted after 3 bytes, on attempt 2; try again later, or over a better connection: {message}"
        );
        E::AllEndpointsFailed { image: image(), failures: vec![("mirror.example.com/a".to_owned(), cause)] }
            => format!("failed to pull example.com/a:v1 from 1 endpoints: mirror.example.com/a: failed to ask: {message}");
    ]);
    errors.extend(oci_errors().into_iter().map(|(source, message)| {
        let expected = format!("failed to unpack {}: {message}", image());
        let what = image();
        (E::Document { what, source }, expected)
    }));
    errors
}

/// Returns errors with a remote text, and each message without it.
fn errors() -> Vec<(Error, String)> {
    let url = Url::parse("https://example.com/a.tgz").unwrap();
    let (inner, inner_message) = web_errors().swap_remove(0);
    let broken = HttpError::Unpack {
        url: (&url).into(),
        source: Box::new(inner.into()),
    };
    let broken_message = format!("failed to unpack https://example.com/a.tgz: {inner_message}");
    let mut errors = vec![(broken.into(), broken_message)];
    for (error, message) in web_errors() {
        errors.push((error.into(), message.to_owned()));
    }
    let repository = "https://example.com/r.git";
    for (problem, message) in git_problems() {
        let message = format!("git repository {repository}: {message}");
        errors.push((git::Error::test(repository, problem).into(), message));
    }
    for (error, message) in registry_errors() {
        errors.push((error.into(), message));
    }
    errors
}

// parity: rukpak-12
#[test]
fn only_remote_texts_are_removed_from_errors() {
    for (error, expected) in errors() {
        let whole = chain(&error);
        assert!(whole.contains(REMOTE), "{whole}");
        // Errors for a local user are complete.
        let mut error = Quotes::Shown.apply::<Source>(Err(error)).unwrap_err();
        assert_eq!(chain(&error), whole);
        let kind = (error.reason(), error.is_terminal());
        error.withhold();
        assert_rows!((chain(&error), (error.reason(), error.is_terminal())) => (expected, kind));
    }
}

#[test]
fn errors_without_remote_texts_do_not_change() {
    let path = "manifests/\u{fffd}".to_owned();
    let image = "example.com/a:v1".to_owned();
    let problem = Problem::Connect {
        host: "example.com".to_owned(),
        source: io::Error::other("connection refused"),
    };
    let errors = [
        Error::Name { path },
        Error::Spool {
            directory: "/tmp".into(),
            source: io::Error::other("no space"),
        },
        git::Error::test("https://example.com/r.git", problem).into(),
        RegistryError::NotFound { what: image }.into(),
    ];
    for mut error in errors {
        let whole = chain(&error);
        error.withhold();
        assert_eq!(chain(&error), whole);
    }
}
