//! Bodies that are too long, too short or too slow, and how they are read.

use std::{io::Read as _, time::Duration};

use futures::StreamExt as _;
use unpacker::{
    access::{Quotes, Secret},
    web::{Error, Patience, Request, reader},
};

use crate::{
    brisk, chain, client, get,
    server::{Answer, Server},
};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn head(length: u64) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

/// What comes of reading at most 1000 bytes of an answer.
async fn outcome(answer: Answer, patience: &Patience) -> Result<Vec<u8>, Error> {
    let server = Server::plain(move |_| answer.clone()).await;
    let request = Request::get(server.url("/").parse().unwrap());
    let response = client(patience).send(&request).await?;
    Ok(response.bytes(1000).await?.to_vec())
}

#[tokio::test]
async fn bodies_are_taken_as_they_come() {
    let compressed = [("Content-Encoding", "gzip")];
    let chunks = format!("{CHUNKED}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    for (answer, expected) in [
        (Answer::ok(b""), ""),
        (Answer::ok(b"abc"), "abc"),
        (Answer::new("200 OK", &compressed, b"not gzip"), "not gzip"),
        (Answer::Bytes(chunks.into_bytes()), "abcde"),
        (Answer::Bytes(b"HTTP/1.1 200 OK\r\n\r\nabc".to_vec()), "abc"),
        (Answer::ok(&[b'x'; 1000]), &"x".repeat(1000)),
        // What comes behind the stated length belongs to nobody.
        (
            Answer::new("200 OK", &[("Content-Length", "2")], b"abcdef"),
            "ab",
        ),
    ] {
        assert_eq!(
            outcome(answer, &brisk()).await.unwrap(),
            expected.as_bytes()
        );
    }
}

#[tokio::test]
async fn a_body_that_states_too_large_a_size_is_not_read() {
    let error = outcome(Answer::Stall(head(1001)), &brisk())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit: 1000, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_body_without_end_is_refused() {
    let chunk = b"4\r\nabcd\r\n".repeat(100);
    let open = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    for answer in [
        Answer::Endless(CHUNKED.into(), chunk),
        Answer::Endless(open, vec![0; 4096]),
    ] {
        let error = outcome(answer, &brisk()).await.unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { limit: 1000, .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_body_that_drips_is_given_up() {
    let patience = Patience {
        total: Duration::from_millis(300),
        ..brisk()
    };
    let error = outcome(Answer::Drip(head(1000)), &patience)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Slow { .. }), "{error}");
    assert!(!error.is_terminal());
    assert!(error.to_string().contains("longer than 0.3 s"), "{error}");
}

#[tokio::test]
async fn a_body_that_stops_is_given_up() {
    let patience = Patience {
        idle: Duration::from_millis(100),
        ..brisk()
    };
    let answer = Answer::Stall([head(1000).as_slice(), b"abc"].concat());
    let error = outcome(answer, &patience).await.unwrap_err();
    assert!(matches!(error, Error::Idle { .. }), "{error}");
}

#[tokio::test]
async fn a_body_shorter_than_stated_is_no_body() {
    for (answer, read) in [
        (Answer::new("200 OK", &[("Content-Length", "9")], b"abc"), 3),
        (
            Answer::Bytes(format!("{CHUNKED}3\r\nabc\r\n").into_bytes()),
            3,
        ),
        (Answer::Bytes(format!("{CHUNKED}9\r\nabc").into_bytes()), 3),
        (
            Answer::Bytes(format!("{CHUNKED}nine\r\nabc").into_bytes()),
            0,
        ),
    ] {
        let error = outcome(answer, &brisk()).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("broke off after {read} bytes")),
            "{error}"
        );
        assert!(!error.is_terminal());
    }
}

#[tokio::test]
async fn an_answer_with_two_lengths_is_refused() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc";
    assert!(
        outcome(Answer::Bytes(answer.to_vec()), &brisk())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn bodies_are_read_where_blocking_is_allowed() {
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let answer = Answer::ok(&content);
    let server = Server::plain(move |_| answer.clone()).await;
    let mut reader = reader(get(&server.url("/")).await.unwrap().into_body());
    let read = tokio::task::spawn_blocking(move || {
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        read
    });
    assert!(read.await.unwrap() == content);
}

#[tokio::test]
async fn a_reader_tells_a_broken_body_from_a_whole_one() {
    let server = Server::plain(|_| Answer::new("200 OK", &[("Content-Length", "9")], b"abc")).await;
    let mut reader = reader(get(&server.url("/")).await.unwrap().into_body());
    let read = tokio::task::spawn_blocking(move || reader.read_to_end(&mut Vec::new()));
    let error = read.await.unwrap().unwrap_err();
    let error = error.downcast::<Error>().unwrap();
    assert!(matches!(error, Error::Broken { read: 3, .. }), "{error}");
}

#[test]
fn a_reader_whose_runtime_has_gone_has_not_reached_the_end() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let part = || Ok::<_, Error>(bytes::Bytes::from_static(b"abc"));
    let body = futures::stream::once(async move { part() }).chain(futures::stream::pending());
    let mut reader = runtime.block_on(async { reader(Box::pin(body)) });
    reader.read_exact(&mut [0; 3]).unwrap();
    drop(runtime);
    let error = reader.read(&mut [0; 3]).unwrap_err();
    assert!(error.to_string().contains("given up"), "{error}");
}

#[tokio::test]
async fn a_reader_that_is_dropped_ends_the_transfer() {
    let (sender, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    let body = futures::stream::unfold(sender, async |sender| {
        let part = bytes::Bytes::from_static(&[0; 1024]);
        tokio::task::yield_now().await;
        Some((Ok::<_, Error>(part), sender))
    });
    drop(reader(Box::pin(body)));
    // Closed as soon as the body, which holds the other end, has been dropped.
    let closed = tokio::time::timeout(Duration::from_secs(10), ended.recv());
    assert_eq!(closed.await.unwrap(), None);
}

#[tokio::test]
async fn unwelcome_answers_are_told_with_their_beginning_and_what_to_do() {
    let page = b"\n<!DOCTYPE html><html><body>Not found</body></html>";
    for (answer, expected) in [
        (
            Answer::new("404 Not Found", &[], page),
            ": unexpected status \"404 Not Found\"; check the address; it may also be hidden from who has no credentials",
        ),
        (
            Answer::new("403 Forbidden", &[], b"no\x1b[31m way\r\n\0"),
            ": unexpected status \"403 Forbidden\" (no [31m way); check that these credentials may read it",
        ),
        (
            Answer::new(
                "401 Unauthorized",
                &[],
                b"unknown: Basic bmFtZTp3b3Jk, name:word",
            ),
            ": unexpected status \"401 Unauthorized\" (unknown: …, …); check the credentials, or pass some",
        ),
        (
            Answer::new("500 Oops", &[], b""),
            ": unexpected status \"500 Internal Server Error\"; the server has a problem; try again later",
        ),
    ] {
        let server = Server::plain(move |_| answer.clone()).await;
        let mut request = Request::get(server.url("/b?signature=word").parse().unwrap());
        request.authorization = Some(Secret::from("Basic bmFtZTp3b3Jk".to_owned()));
        let response = client(&brisk()).send(&request).await.unwrap();
        let error = response.into_error().await;
        assert_eq!(chain(&error), format!("GET {}{expected}", server.url("/b")));
    }
}

#[tokio::test]
async fn a_client_for_strangers_tells_the_status_and_nothing_that_the_server_says() {
    let server = Server::plain(|_| Answer::new("403 Forbidden", &[], b"the vault is closed")).await;
    let client = client(&brisk()).quoting(Quotes::Withheld);
    let request = Request::get(server.url("/").parse().unwrap());
    let error = client.send(&request).await.unwrap().into_error().await;
    let text = chain(&error);
    assert!(
        text.contains("unexpected status \"403 Forbidden\";"),
        "{text}"
    );
    assert!(!text.contains("vault"), "{text}");
}

#[tokio::test]
async fn an_excerpt_is_short_even_of_a_body_without_end() {
    let answer = Answer::Endless(
        b"HTTP/1.1 500 Oops\r\n\r\n".to_vec(),
        b"much ado ".repeat(50),
    );
    let server = Server::plain(move |_| answer.clone()).await;
    let excerpt = get(&server.url("/")).await.unwrap().excerpt().await;
    assert_eq!(excerpt.chars().count(), 200);
    assert!(excerpt.ends_with('…'), "{excerpt}");
}
