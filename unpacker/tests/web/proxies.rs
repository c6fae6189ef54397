//! Requests through a proxy, and around it.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use unpacker::{
    access::Trust,
    web::{Client, Error, Proxies, Request},
};

use crate::{
    brisk,
    certificates::Authority,
    chain,
    server::{Answer, Seen, Server, read},
};

/// Lets everything through to one server, whatever name is asked for, if a password is given.
struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward(stream, server, Arc::clone(&log)));
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn url(&self, password: &str) -> String {
        format!("http://name:{password}@{}", self.address)
    }
}

async fn forward(stream: TcpStream, server: SocketAddr, log: Arc<Mutex<Vec<Seen>>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let request = read(&mut stream).await?;
    log.lock().unwrap().push(request.clone());
    // name:p@ss
    if request.header("proxy-authorization") != Some("Basic bmFtZTpwQHNz") {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
        return stream.write_all(refusal).await.ok();
    }
    let mut to = TcpStream::connect(server).await.ok()?;
    if request.method == "CONNECT" {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    } else {
        let Seen { method, target, .. } = request;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        to.write_all(head.as_bytes()).await.ok()?;
    }
    copy_bidirectional(&mut stream, &mut to).await.ok()?;
    Some(())
}

/// The proxies that an environment with these variables names.
fn environment(variables: &[(&str, &str)]) -> Proxies {
    let value = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Proxies::new(value)
}

async fn body(trust: &Trust, proxies: &Proxies, url: &str) -> Result<bytes::Bytes, Error> {
    let client = Client::with_proxies(trust, &brisk(), proxies).unwrap();
    let request = Request::get(url.parse().unwrap());
    let response = client.send(&request).await?;
    if response.status == 200 {
        response.bytes(100).await
    } else {
        Err(response.into_error().await)
    }
}

#[tokio::test]
async fn plain_requests_go_through_the_proxy_with_its_password() {
    let server = Server::plain(|_| Answer::ok(b"content")).await;
    let proxy = Proxy::to(server.address).await;
    let proxies = environment(&[("HTTP_PROXY", &proxy.url("p%40ss"))]);
    let url = "http://bundles.example/b.tgz?x";
    let body = body(&Trust::default(), &proxies, url).await.unwrap();
    assert_eq!(body, "content");
    assert_eq!(proxy.seen()[0].target, url);
}

#[tokio::test]
async fn encrypted_requests_go_through_a_tunnel_to_the_server_that_was_asked_for() {
    let authority = Authority::new();
    let config = authority.server(&["bundles.example"]);
    let server = Server::tls(config, |_| Answer::ok(b"content")).await;
    let proxy = Proxy::to(server.address).await;
    let proxies = environment(&[("ALL_PROXY", &proxy.url("p%40ss"))]);
    let url = "https://bundles.example/b.tgz";
    let got = body(&authority.trust(), &proxies, url).await.unwrap();
    assert_eq!(got, "content");
    let seen = proxy.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].target.as_str()),
        ("CONNECT", "bundles.example:443")
    );
    assert_eq!(server.seen()[0].header("proxy-authorization"), None);

    // The proxy is no one to vouch for the server.
    let error = body(&authority.trust(), &proxies, "https://other.example/").await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn a_proxy_that_wants_another_password_is_not_asked_again() {
    let server = Server::plain(|_| Answer::ok(b"content")).await;
    for (url, reason) in [
        ("http://bundles.example/", "UnexpectedStatus"),
        ("https://bundles.example/", "ProxyRefused"),
    ] {
        let proxy = Proxy::to(server.address).await;
        let proxies = environment(&[("ALL_PROXY", &proxy.url("word"))]);
        let error = body(&Trust::default(), &proxies, url).await.unwrap_err();
        let text = format!("{} {error:?}", chain(&error));
        assert_eq!(error.reason(), reason, "{text}");
        assert!(text.contains("credentials"), "{text}");
        assert!(!text.contains("word") && !text.contains("d29yZA"), "{text}");
        assert_eq!(proxy.seen().len(), 1);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_proxy_that_lets_nobody_through_is_told_and_not_asked_again() {
    let refusal = Answer::new("403 Forbidden", &[], b"not from here");
    let proxy = Server::plain(move |_| refusal.clone()).await;
    let proxies = environment(&[("HTTPS_PROXY", &proxy.url(""))]);
    let url = "https://bundles.example/";
    let error = body(&Trust::default(), &proxies, url).await.unwrap_err();
    assert_eq!(error.reason(), "ProxyRefused", "{}", chain(&error));
    assert!(error.to_string().contains("the proxy refuses"), "{error}");
    assert_eq!(proxy.seen().len(), 1);
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_stops_only_what_goes_through_it() {
    let server = Server::plain(|_| Answer::ok(b"content")).await;
    let any = format!("http://0.0.0.0:{}/", server.address.port());
    for (variable, no_proxy, url, passes) in [
        ("HTTPS_PROXY", "", any.as_str(), true),
        ("ALL_PROXY", "0.0.0.0", &any, true),
        ("ALL_PROXY", "", &server.url("/"), true),
        ("ALL_PROXY", "", &any, false),
    ] {
        let proxies = [(variable, "socks5://127.0.0.1:1"), ("NO_PROXY", no_proxy)];
        let before = server.connections();
        let outcome = body(&Trust::default(), &environment(&proxies), url).await;
        assert_eq!(server.connections() > before, passes, "{variable} {url}");
        match outcome {
            Ok(body) => assert_eq!(body, "content"),
            Err(error) => {
                assert!(
                    !passes && error.to_string().contains("ALL_PROXY"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn hosts_in_no_proxy_and_this_machine_are_reached_directly() {
    let server = Server::plain(|_| Answer::ok(b"content")).await;
    let proxy = Proxy::to(server.address).await;
    let port = server.address.port();
    // An address of this machine that does not look like one.
    let any = format!("http://0.0.0.0:{port}/");
    for (no_proxy, url, through) in [
        ("", any.as_str(), true),
        ("0.0.0.0", &any, false),
        ("0.0.0.0/8", &any, false),
        ("*", &any, false),
        ("", &server.url("/"), false),
        ("", &server.url_by_name("/"), false),
    ] {
        let before = proxy.seen().len();
        let proxies = [
            ("HTTP_PROXY", &*proxy.url("p%40ss")),
            ("NO_PROXY", no_proxy),
        ];
        let body = body(&Trust::default(), &environment(&proxies), url).await;
        assert_eq!(body.unwrap(), "content");
        assert_eq!(proxy.seen().len() > before, through, "{no_proxy:?} {url}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_told() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://name:word@{}", free.local_addr().unwrap());
    drop(free);
    let proxies = environment(&[("HTTP_PROXY", &proxy)]);
    let error = body(&Trust::default(), &proxies, "http://h.example/")
        .await
        .unwrap_err();
    let text = format!("{} {error:?}", chain(&error));
    assert!(text.contains("the proxy settings"), "{text}");
    assert!(!text.contains("word"), "{text}");
}

/// The environment belongs to a whole process, so this test runs itself in another one.
#[tokio::test]
async fn the_environment_names_the_proxies() {
    if std::env::var_os("ASK_THROUGH_THE_ENVIRONMENT").is_some() {
        let client = Client::new(&Trust::default(), &brisk()).unwrap();
        let request = Request::get("http://bundles.example/".parse().unwrap());
        let response = client.send(&request).await.unwrap();
        assert_eq!(response.bytes(10).await.unwrap(), "content");
        return;
    }
    let server = Server::plain(|_| Answer::ok(b"content")).await;
    let proxy = Proxy::to(server.address).await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "proxies::the_environment_names_the_proxies"])
        .env("ASK_THROUGH_THE_ENVIRONMENT", "1")
        .env("http_proxy", proxy.url("p%40ss"))
        .env_remove("HTTP_PROXY")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    let output = tokio::task::spawn_blocking(move || child.output().unwrap());
    let output = output.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert_eq!(proxy.seen().len(), 1);
}
