//! Servers that send us elsewhere.

use http::Method;
use unpacker::{
    access::{Secret, Trust, Verify},
    web::{Client, Error, Proxies, Request},
};

use crate::{
    brisk,
    certificates::Authority,
    chain, client, get,
    server::{Answer, Server},
};

const CREDENTIALS: &str = "Basic bmFtZTp3b3Jk";

/// Asks for `/` with credentials in all places where there can be some.
fn request(url: &str) -> Request {
    let mut request = Request::get(url.parse().unwrap());
    request.authorization = Some(Secret::from(CREDENTIALS.to_owned()));
    let headers = [("cookie", "session=word"), ("accept", "application/gzip")];
    for (name, value) in headers {
        request.headers.insert(name, value.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn credentials_follow_a_redirect_on_the_same_server() {
    let server = Server::plain(|seen| match seen.target.as_str() {
        "/" => Answer::redirect(302, "/moved"),
        _ => Answer::ok(b"here"),
    })
    .await;
    let response = client(&brisk())
        .send(&request(&server.url("/")))
        .await
        .unwrap();
    assert_eq!(response.url.path(), "/moved");
    assert_eq!(response.bytes(10).await.unwrap(), "here");
    let seen = server.seen();
    assert_eq!(seen[1].header("authorization"), Some(CREDENTIALS));
    assert_eq!(seen[1].header("cookie"), Some("session=word"));
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_port_whatever_the_status() {
    for status in [301, 302, 303, 307, 308] {
        let other = Server::plain(|_| Answer::ok(b"here")).await;
        let elsewhere = other.url("/blob?signature=1");
        let server = Server::plain(move |_| Answer::redirect(status, &elsewhere)).await;
        let response = client(&brisk())
            .send(&request(&server.url("/")))
            .await
            .unwrap();
        assert_eq!(response.bytes(10).await.unwrap(), "here");
        assert_eq!(server.seen()[0].header("authorization"), Some(CREDENTIALS));
        let seen = &other.seen()[0];
        assert_eq!(seen.target, "/blob?signature=1");
        assert_eq!(
            (seen.header("authorization"), seen.header("cookie")),
            (None, None),
            "{status}"
        );
        assert_eq!(seen.header("accept"), Some("application/gzip"));
    }
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_name_of_the_same_machine() {
    let server = Server::plain(|seen| {
        let (_, port) = seen.header("host").unwrap().split_once(':').unwrap();
        match seen.target.as_str() {
            "/" => Answer::redirect(302, &format!("http://localhost:{port}/moved")),
            _ => Answer::ok(b""),
        }
    })
    .await;
    client(&brisk())
        .send(&request(&server.url("/")))
        .await
        .unwrap();
    assert_eq!(server.seen()[1].header("authorization"), None);
}

#[tokio::test]
async fn credentials_are_not_sent_from_plain_http_to_https() {
    let authority = Authority::new();
    let other = Server::tls(authority.server(&["127.0.0.1"]), |_| Answer::ok(b"")).await;
    let elsewhere = other.url("/");
    let server = Server::plain(move |_| Answer::redirect(301, &elsewhere)).await;
    let client = Client::with_proxies(&authority.trust(), &brisk(), &Proxies::default()).unwrap();
    client.send(&request(&server.url("/"))).await.unwrap();
    assert_eq!(other.seen()[0].header("authorization"), None);
}

#[tokio::test]
async fn credentials_do_not_come_back_by_a_detour() {
    let (sender, back) = std::sync::mpsc::channel::<String>();
    let back = std::sync::Mutex::new(back);
    let other =
        Server::plain(move |_| Answer::redirect(302, &back.lock().unwrap().recv().unwrap())).await;
    let elsewhere = other.url("/");
    let server = Server::plain(move |seen| match seen.target.as_str() {
        "/" => Answer::redirect(302, &elsewhere),
        _ => Answer::ok(b""),
    })
    .await;
    sender.send(server.url("/log-what-you-get")).unwrap();
    client(&brisk())
        .send(&request(&server.url("/")))
        .await
        .unwrap();
    let seen = server.seen();
    assert_eq!(seen[1].target, "/log-what-you-get");
    assert_eq!(seen[1].header("authorization"), None);
}

#[tokio::test]
async fn credentials_in_a_location_are_not_used() {
    let server = Server::plain(|seen| match seen.target.as_str() {
        "/" => {
            let host = seen.header("host").unwrap();
            Answer::redirect(302, &format!("http://name:word@{host}/moved"))
        }
        _ => Answer::ok(b""),
    })
    .await;
    let response = get(&server.url("/")).await.unwrap();
    assert_eq!(response.url.username(), "");
    assert_eq!(server.seen()[1].header("authorization"), None);
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let server = Server::plain(|_| Answer::redirect(302, "/again?token=word")).await;
    let error = get(&server.url("/")).await.unwrap_err();
    assert!(matches!(error, Error::Redirect { .. }) && error.is_terminal());
    assert!(error.to_string().contains("after 5 redirects"), "{error}");
    assert!(!error.to_string().contains("word"), "{error}");
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn https_does_not_become_plain_http() {
    for verify in [Verify::Always, Verify::Never] {
        let authority = Authority::new();
        let plain = Server::plain(|_| Answer::ok(b"")).await;
        let elsewhere = plain.url("/b?signature=word");
        let server = Server::tls(authority.server(&["127.0.0.1"]), move |_| {
            Answer::redirect(302, &elsewhere)
        })
        .await;
        let trust = Trust {
            verify,
            ..authority.trust()
        };
        let client = Client::with_proxies(&trust, &brisk(), &Proxies::default()).unwrap();
        let request = Request::get(server.url("/").parse().unwrap());
        let error = client.send(&request).await.unwrap_err().to_string();
        assert!(error.contains("not encrypted"), "{error}");
        assert!(!error.contains("word"), "{error}");
        assert_eq!(plain.connections(), 0);
    }
}

#[tokio::test]
async fn redirects_to_what_is_no_server_are_refused() {
    for (location, problem) in [
        ("file:///etc/passwd", "\"file\""),
        ("ftp://h/b.tgz", "\"ftp\""),
        ("data:,x", "\"data\""),
        ("gopher://h:25/", "\"gopher\""),
        ("https://", "no URL"),
        ("http://[::1", "no URL"),
    ] {
        let server = Server::plain(move |_| Answer::redirect(302, location)).await;
        let error = get(&server.url("/")).await.unwrap_err();
        assert!(matches!(error, Error::Redirect { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{location}: {error}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_must_say_where_to() {
    let server = Server::plain(|_| Answer::new("302 Found", &[], b"")).await;
    let error = get(&server.url("/")).await.unwrap_err().to_string();
    assert!(error.contains("without saying where"), "{error}");
}

#[tokio::test]
async fn what_is_sent_is_sent_again_only_where_the_status_asks_for_it() {
    for (method, status, expected) in [
        (Method::PUT, 307, Some(("PUT", "content"))),
        (Method::POST, 308, Some(("POST", "content"))),
        (Method::POST, 303, Some(("GET", ""))),
        (Method::POST, 302, None),
        (Method::PUT, 301, None),
    ] {
        let server = Server::plain(move |seen| match seen.target.as_str() {
            "/" => Answer::redirect(status, "/moved"),
            _ => Answer::ok(b""),
        })
        .await;
        let mut request = Request::new(method.clone(), server.url("/").parse().unwrap());
        request.body = Some("content".into());
        let sent = client(&brisk()).send(&request).await;
        let seen = server.seen();
        let second = seen.get(1).map(|seen| {
            (
                seen.method.as_str(),
                std::str::from_utf8(&seen.body).unwrap(),
            )
        });
        assert_eq!(second, expected, "{method} {status}");
        assert_eq!(sent.is_ok(), expected.is_some());
        if let Err(error) = sent {
            assert!(chain(&error).contains("only reading may follow"), "{error}");
        }
    }
}
