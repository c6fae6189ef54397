//! Servers that prove who they are, and those that do not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rcgen::date_time_ymd;
use rustls::ServerConfig;
use unpacker::{
    access::{Trust, Verify},
    web::{Client, Error, Proxies, Request},
};

use crate::{
    brisk,
    certificates::Authority,
    chain,
    server::{Answer, Server},
};

/// The content, or the reason and the message, and the number of connections it took.
async fn outcome(trust: &Trust, config: ServerConfig) -> (Result<String, Error>, usize) {
    let server = Server::tls(config, |_| Answer::ok(b"content")).await;
    let client = Client::with_proxies(trust, &brisk(), &Proxies::default()).unwrap();
    let request = Request::get(server.url("/b?token=word").parse().unwrap());
    let outcome = match client.send(&request).await {
        Ok(response) => Ok(String::from_utf8(response.bytes(10).await.unwrap().to_vec()).unwrap()),
        Err(error) => Err(error),
    };
    (outcome, server.connections())
}

#[tokio::test]
async fn a_private_authority_is_believed_when_its_certificate_is_given() {
    let authority = Authority::new();
    let config = authority.server(&["127.0.0.1"]);
    let (outcome, _) = outcome(&authority.trust(), config).await;
    assert_eq!(outcome.unwrap(), "content");
}

#[tokio::test]
async fn several_authorities_can_be_believed() {
    let (one, two) = (Authority::new(), Authority::new());
    let trust = Trust {
        roots: format!("# one\n{}\n# two\n{}", one.pem(), two.pem()),
        ..Trust::default()
    };
    for authority in [one, two] {
        let (outcome, _) = outcome(&trust, authority.server(&["127.0.0.1"])).await;
        assert_eq!(outcome.unwrap(), "content");
    }
}

#[tokio::test]
async fn bad_certificates_are_refused_at_once_and_the_remedy_is_named() {
    let (authority, other) = (Authority::new(), Authority::named("other"));
    let past = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    };
    let future = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(4000, 1, 1);
        params.not_after = date_time_ymd(4001, 1, 1);
    };
    let client_only = |params: &mut rcgen::CertificateParams| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    };
    let names = ["127.0.0.1"];
    for (name, config, expected) in [
        ("unknown", other.server(&names), "--cacert"),
        ("of a namesake", Authority::new().server(&names), "--cacert"),
        (
            "of another host",
            authority.server(&["example.com"]),
            "is for another name",
        ),
        (
            "expired",
            authority.server_with(&names, past),
            "has expired",
        ),
        (
            "of the future",
            authority.server_with(&names, future),
            "is not valid yet",
        ),
        (
            "for clients",
            authority.server_with(&names, client_only),
            "cannot be accepted",
        ),
        (
            "of the authority",
            authority.server_itself(),
            "have the authority issue one",
        ),
    ] {
        let (outcome, connections) = outcome(&authority.trust(), config).await;
        let error = outcome.unwrap_err();
        let text = chain(&error);
        assert!(matches!(error, Error::Untrusted { .. }), "{name}: {text}");
        assert!(
            text.contains(expected) && !text.contains("word"),
            "{name}: {text}"
        );
        assert_eq!(
            (error.reason(), error.is_terminal()),
            ("CertificateUntrusted", true)
        );
        assert_eq!(connections, 1, "{name}");
    }
}

#[tokio::test]
async fn a_server_is_unknown_when_no_authority_is_given() {
    let config = Authority::new().server(&["127.0.0.1"]);
    let (outcome, _) = outcome(&Trust::default(), config).await;
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("--cacert") && text.contains("--tls-verify=false"),
        "{text}"
    );
}

#[tokio::test]
async fn any_certificate_will_do_for_those_who_do_not_check() {
    let authority = Authority::new();
    let past = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    };
    let trust = Trust {
        verify: Verify::Never,
        ..Trust::default()
    };
    for config in [
        authority.server(&["127.0.0.1"]),
        authority.server(&["example.com"]),
        authority.server_with(&["127.0.0.1"], past),
        authority.server_itself(),
    ] {
        assert_eq!(outcome(&trust, config).await.0.unwrap(), "content");
    }
}

#[tokio::test]
async fn a_server_of_plain_http_is_recognised() {
    for verify in [Verify::Always, Verify::Never] {
        // A server that answers whatever bytes come first, as good ones do.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let answering = tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                stream.read_u8().await.unwrap();
                let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
            }
        });
        let trust = Trust {
            verify,
            ..Trust::default()
        };
        let client = Client::with_proxies(&trust, &brisk(), &Proxies::default()).unwrap();
        let request = Request::get(format!("https://{address}/").parse().unwrap());
        let error = client.send(&request).await.unwrap_err();
        assert!(matches!(error, Error::NotTls { .. }), "{}", chain(&error));
        assert!(error.to_string().contains("plain HTTP"), "{error}");
        assert_eq!(connections.load(Ordering::Relaxed), 1);
        answering.abort();
    }
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_an_error() {
    let pem = Authority::new().pem();
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let cut = pem.split_at(pem.len() / 2).0.to_owned();
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for roots in [
        "certificate",
        &key,
        &cut,
        bad,
        &format!("{pem}{bad}"),
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ] {
        let trust = Trust {
            roots: roots.to_owned(),
            ..Trust::default()
        };
        let error = Client::with_proxies(&trust, &brisk(), &Proxies::default()).unwrap_err();
        let text = chain(&error);
        assert!(matches!(error, Error::Roots { .. }), "{text}");
        assert!(
            text.starts_with("the certificates of --cacert cannot be read: "),
            "{text}"
        );
    }
}
