use std::io;

use http::{Method, StatusCode};
use url::Url;

use super::*;
use crate::{
    Digest, Source, git, git::Problem, http_archive::Error as HttpError, http_client,
    http_client::RedactedUrl, oci, oci::Document, registry::Error as RegistryError, trust::Quotes,
};
use manifests::error::chain;

/// Text that is chosen by a server.
const REMOTE: &str = "REMOTE";

fn remote() -> String {
    REMOTE.to_owned()
}

/// Returns the URL of a redirect as `http_client::Client` reports it in errors.
fn redirected() -> RedactedUrl {
    let url = Url::parse("https://internal.example.com/REMOTE").unwrap();
    RedactedUrl::from(&url).with_written(Some("https://example.com/a (redirected)".into()))
}

fn cause() -> Box<dyn std::error::Error + Send + Sync> {
    REMOTE.into()
}

fn web_errors() -> Vec<(http_client::Error, &'static str)> {
    use crate::http_client::Error as E;
    let status = |code: u16| E::Status {
        method: Method::GET,
        url: redirected(),
        status: StatusCode::from_u16(code).unwrap(),
        excerpt: REMOTE.into(),
    };
    Vec::from(::tests::rows![
        status(404)
            => "GET https://example.com/a (redirected): unexpected status \"404 Not Found\"; check the address; it may \
                require credentials";
        status(503)
            => "GET https://example.com/a (redirected): unexpected status \"503 Service Unavailable\"; server error; \
             try again later";
        status(418) => "GET https://example.com/a (redirected): the server rejected the request; check the address and the \
         requirements of the server";
        E::Redirect { url: redirected(), problem: format!("to https://{REMOTE}, which is not encrypted") }
            => "https://example.com/a (redirected) redirects to a URL that is not followed; use the final URL";
        E::Untrusted { url: redirected(), problem: http_client::CertificateProblem::Name, source: Some(cause()) }
            => "the certificate of https://example.com/a (redirected) is for another name; use a name in the \
                certificate, or reissue it for this name";
        E::TooLarge { url: redirected(), limit: 5 }
            => "the response of https://example.com/a (redirected) is larger than the limit of 5 bytes; check the address";
    ])
}

fn git_problems() -> Vec<(Problem, &'static str)> {
    let (text, others) = (remote, || vec![remote()]);
    Vec::from(::tests::rows![
        Problem::NotFound { said: text() }
            => "not found, or not visible with these credentials; check the URL and the credentials";
        Problem::Refused { said: text() } => "the server rejected the request; check the URL, or contact the server administrator";
        Problem::AbortedByServer { said: text() } => "the server aborted the request; try again, or contact the server administrator";
        Problem::NotGit { found: "unexpected content type".to_owned(), media_type: remote() }
            => "not a git server: unexpected content type; check that \"git clone\" accepts this URL";
        Problem::NoReference { kind: "branch", name: "main".to_owned(), others: others() }
            => "branch \"main\" not found; check the name";
        Problem::NoHead { others: others() } => "HEAD does not point to a commit; check the name";
        Problem::NoDirectory { directory: "a".to_owned(), commit: remote(), problem: "the path does not exist", others: others() }
            => "failed to get subdirectory \"a\": the path does not exist; check the name";
        Problem::TagOfOther { name: remote(), kind: "tree" }
            => "the reference is a tag of a tree, not of a commit; use another tag";
        Problem::Submodule { path: remote() }
            => "a directory is a submodule, and submodules are not fetched; keep the files in this repository, or use \
                the repository of the submodule";
        Problem::Name { path: remote(), problem: "is too long" } => "a path is too long; rename it in the repository";
        Problem::Missing { id: remote() }
            => "an object is missing from the response of the server; try again, or check the repository with \"git fsck\"";
        Problem::HostUnknown { host: "example.com".to_owned(), fingerprint: "SHA256:f".to_owned(), line: remote() }
            => "example.com is not in known_hosts; if SHA256:f is the fingerprint of its key, add that key to the file of \
             --known-hosts (in a cluster: to ssh-knownhosts)";
        Problem::Ssh { host: "example.com".to_owned(), source: Some(cause()) }
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
        document(r#"{"schemaVersion": "REMOTE"}"#)
            => "the manifest is malformed; check that the reference names an image";
        document(r#"{"mediaType": "REMOTE"}"#)
            => "the document is neither a manifest nor an index; check that the reference names an image";
        document(layer) => "layer 1 is of another type, not a file system; publish the bundle as an image";
        document(digest) => "the manifest refers to a blob by an unsupported digest; push the image again with a current tool";
        oci::select(&labels).unwrap_err()
            => "label operators.operatorframework.io.bundle.manifests.v1 names a path, which is not a directory in an image; \
             build the image with another value";
        E::NoPlatform { wanted: "linux/s390x".to_owned(), known: Some(remote()) }
            => "the index has no image for \"linux/s390x\"; choose another platform";
    ])
}

fn registry_errors() -> Vec<(RegistryError, String)> {
    use RegistryError as E;
    let image = || "example.com/a:v1".to_owned();
    let web = || web_errors().swap_remove(0);
    let (source, message) = web();
    let cause = E::Web {
        action: "ask".to_owned(),
        source: web().0,
    };
    let mut errors = Vec::from(::tests::rows![
        E::Realm { registry: "example.com".to_owned(), realm: Some(remote()), problem: "is not a URL" }
            => "registry example.com uses a token service, which is not a URL; ask its owner to correct the \
                configuration"
                .to_owned();
        E::Digest { what: image(), expected: Some(remote()), found: Some(remote()) }
            => "digest mismatch for example.com/a:v1; push it again"
                .to_owned();
        E::Web { action: "reach example.com".to_owned(), source } => format!("failed to reach example.com: {message}");
        E::Interrupted { what: image(), tries: 2, read: 3, source: web().0 } => format!(
            "transfer of example.com/a:v1 interrupted after 3 bytes, on attempt 2; try again later, or over a better connection: {message}"
        );
        E::AllEndpointsFailed { image: image(), failures: vec![("mirror.example.com/a".to_owned(), cause)] }
            => format!("failed to pull example.com/a:v1 from 1 endpoints: mirror.example.com/a: failed to ask: {message}");
    ]);
    errors.extend(oci_errors().into_iter().map(|(source, message)| {
        let image = image();
        let expected = format!("failed to unpack {image}: {message}");
        (
            E::Document {
                what: image,
                source,
            },
            expected,
        )
    }));
    errors
}

/// Returns errors with a remote text, and each message without it.
fn errors() -> Vec<(Error, String)> {
    let url = Url::parse("https://example.com/a.tgz").unwrap();
    let pinned = Digest::sha256(b"pinned");
    let body = HttpError::Digest {
        url: (&url).into(),
        expected: pinned.into(),
        actual: Some(Digest::sha256(REMOTE.as_bytes()).into()),
        source: Some(Error::Name { path: remote() }.into()),
    };
    let message = format!(
        "https://example.com/a.tgz provides other content, but is pinned to {pinned}; find out why it changed, and pin \
         the new digest if it is correct"
    );
    let (inner, inner_message) = web_errors().swap_remove(0);
    let broken = HttpError::Unpack {
        url: (&url).into(),
        source: Box::new(inner.into()),
    };
    let broken_message = format!("failed to unpack https://example.com/a.tgz: {inner_message}");
    let mut errors = vec![(body.into(), message), (broken.into(), broken_message)];
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
        let digest = Digest::sha256(REMOTE.as_bytes()).to_string();
        assert!(whole.contains(REMOTE) || whole.contains(&digest), "{whole}");
        // Errors for a local user stay whole.
        let error = Quotes::Shown.apply::<Source>(Err(error)).unwrap_err();
        assert_eq!(chain(&error), whole);
        let kind = (error.reason(), error.is_terminal());
        let left = error.withheld();
        assert_eq!(chain(&left), expected);
        assert_eq!((left.reason(), left.is_terminal()), kind, "{expected}");
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
    for error in errors {
        let whole = chain(&error);
        assert_eq!(chain(&error.withheld()), whole);
    }
}
