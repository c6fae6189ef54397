//! Servers that fail, for a moment or for good.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use http::Method;
use unpacker::web::{Error, Patience, Request};

use crate::{
    brisk, chain, client, get,
    server::{Answer, Server},
};

/// Fails so often with an answer, and then gives content.
async fn failing(times: usize, answer: Answer) -> Server {
    let asked = AtomicUsize::new(0);
    Server::plain(move |_| {
        if asked.fetch_add(1, Ordering::Relaxed) < times {
            answer.clone()
        } else {
            Answer::ok(b"content")
        }
    })
    .await
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let closed = Answer::Bytes(Vec::new());
    let half = Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec());
    let wait = |status| Answer::new(status, &[("Retry-After", "0")], b"busy");
    for (name, answer) in [
        ("408", wait("408 Request Timeout")),
        ("429", wait("429 Too Many Requests")),
        ("502", wait("502 Bad Gateway")),
        ("503", Answer::new("503 Service Unavailable", &[], b"busy")),
        ("504", wait("504 Gateway Timeout")),
        ("no answer", closed),
        ("half an answer", half),
    ] {
        let server = failing(2, answer).await;
        let response = get(&server.url("/")).await.unwrap();
        assert_eq!(response.bytes(10).await.unwrap(), "content", "{name}");
        assert_eq!(server.seen().len(), 3, "{name}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_not_tried_again() {
    for status in [
        "400 No", "401 No", "403 No", "404 No", "410 No", "500 No", "501 No",
    ] {
        let server = failing(1, Answer::new(status, &[], b"")).await;
        let response = get(&server.url("/")).await.unwrap();
        assert_eq!(response.status.as_str(), &status[..3]);
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_storm_of_429_ends() {
    let answer = Answer::new(
        "429 Too Many Requests",
        &[("Retry-After", "0")],
        b"slow down",
    );
    let server = failing(usize::MAX, answer).await;
    let response = get(&server.url("/")).await.unwrap();
    assert_eq!(response.status, 429);
    assert_eq!(server.seen().len(), 5);
    let error = response.into_error().await;
    assert_eq!(error.reason(), "TooManyRequests");
    assert!(!error.is_terminal());
    assert!(error.to_string().contains("(slow down)"), "{error}");
}

#[tokio::test]
async fn tries_are_counted_over_redirects() {
    let server = Server::plain(|seen| match seen.target.as_str() {
        "/" => Answer::redirect(302, "/busy"),
        _ => Answer::new("503 Busy", &[], b""),
    })
    .await;
    let response = get(&server.url("/")).await.unwrap();
    assert_eq!((response.status.as_u16(), server.seen().len()), (503, 5));
}

#[tokio::test]
async fn a_wait_that_there_is_no_time_for_is_not_begun() {
    let answer = Answer::new("503 Busy", &[("Retry-After", "3600")], b"");
    let server = failing(1, answer).await;
    let begin = Instant::now();
    let response = get(&server.url("/")).await.unwrap();
    assert_eq!((response.status.as_u16(), server.seen().len()), (503, 1));
    assert!(begin.elapsed() < brisk().total);
}

#[tokio::test]
async fn what_may_have_been_done_is_not_done_again() {
    for (method, repeatable, requests) in [
        (Method::POST, false, 1),
        (Method::PATCH, false, 1),
        (Method::DELETE, false, 1),
        (Method::PUT, false, 5),
        (Method::HEAD, false, 5),
        (Method::POST, true, 5),
    ] {
        let server = failing(usize::MAX, Answer::new("503 Busy", &[], b"")).await;
        let mut request = Request::new(method.clone(), server.url("/").parse().unwrap());
        request.body = Some("content".into());
        request.repeatable = repeatable;
        let response = client(&brisk()).send(&request).await.unwrap();
        assert_eq!(response.status, 503);
        let seen = server.seen();
        assert_eq!(seen.len(), requests, "{method}");
        assert!(seen.iter().all(|seen| seen.body == b"content"));
    }
}

#[tokio::test]
async fn nobody_who_listens_is_told_with_the_number_of_tries() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let error = get(&format!("http://{address}/b?token=word"))
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "failed to reach http://{address}/b in 5 tries; check the address, the network and the proxy settings: \
             Connection refused (os error 111)"
        )
    );
    assert_eq!(
        (error.reason(), error.is_terminal()),
        ("ConnectionFailed", false)
    );
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let patience = Patience {
        idle: Duration::from_millis(50),
        tries: 3,
        ..brisk()
    };
    let server = failing(usize::MAX, Answer::Stall(Vec::new())).await;
    let request = Request::get(server.url("/").parse().unwrap());
    let error = client(&patience).send(&request).await.unwrap_err();
    assert!(matches!(error, Error::Idle { .. }), "{error}");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_server_that_takes_its_time_with_a_large_upload_is_not_silent() {
    let patience = Patience {
        idle: Duration::from_millis(800),
        ..brisk()
    };
    let server = failing(0, Answer::ok(b"")).await;
    let mut request = Request::new(Method::PUT, server.url("/").parse().unwrap());
    request.body = Some(vec![7; 96 << 20].into());
    let begin = Instant::now();
    let response = client(&patience).send(&request).await.unwrap();
    assert!(
        begin.elapsed() > patience.idle,
        "the upload was too fast to show anything"
    );
    assert_eq!((response.status.as_u16(), server.seen().len()), (200, 1));
    let seen = &server.seen()[0];
    assert_eq!(seen.header("transfer-encoding"), None);
    assert_eq!(seen.body.len(), 96 << 20);
}

#[tokio::test]
async fn patience_without_end_is_no_problem() {
    let patience = Patience {
        connect: Duration::MAX,
        idle: Duration::MAX,
        total: Duration::MAX,
        tries: u32::MAX,
        ..brisk()
    };
    let server = failing(2, Answer::new("503 Busy", &[], b"")).await;
    let request = Request::get(server.url("/").parse().unwrap());
    let response = client(&patience).send(&request).await.unwrap();
    assert_eq!(response.bytes(10).await.unwrap(), "content");
}

#[tokio::test]
async fn a_head_that_drips_is_given_up() {
    let patience = Patience {
        total: Duration::from_millis(200),
        ..brisk()
    };
    let server = failing(usize::MAX, Answer::Drip(b"HTTP/1.1 200 OK\r\nX: ".to_vec())).await;
    let request = Request::get(server.url("/").parse().unwrap());
    let error = client(&patience).send(&request).await.unwrap_err();
    assert!(matches!(error, Error::Slow { .. }), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let head = b"HTTP/1.1 200 OK\r\n".to_vec();
    let server = failing(
        usize::MAX,
        Answer::Endless(head, b"X: xxxxxxxxxxxxxxxx\r\n".repeat(100)),
    )
    .await;
    let error = get(&server.url("/")).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_refused() {
    let server = failing(
        usize::MAX,
        Answer::Bytes(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
    )
    .await;
    let error = get(&server.url("/")).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}
