//! Readers that come while a catalog is replaced, that stall, and that go away.

use std::{collections::BTreeSet, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::*;

/// More than the buffers of two ends hold.
fn heavy(text: &str) -> String {
    let blob =
        |number| json!({"schema": text, "name": format!("{number}"), "text": text.repeat(100_000)});
    testing::list(0..200, |number| format!("{}\n", blob(number)))
}

const GET_ALL: &str = "GET /catalogs/operators/api/v1/all HTTP/1.1\r\nHost: h\r\n";

/// Sends a request, and reads the first bytes of the answer.
async fn begun(site: &Site, request: &str) -> (TcpStream, [u8; 1000]) {
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1000];
    stream.read_exact(&mut first).await.unwrap();
    (stream, first)
}

/// Reads the rest of an answer, whose body has a length.
async fn ended((mut stream, first): (TcpStream, [u8; 1000]), length: usize) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    let mut starts = first.windows(4);
    let head = starts.position(|bytes| bytes == b"\r\n\r\n").unwrap();
    assert_eq!(first.len() - (head + 4) + rest.len(), length);
    rest
}

// parity: http-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_while_it_is_replaced_sees_the_old_or_the_new_and_no_mixture() {
    let site = Site::with(&large("a")).await;
    let request = site.get("/catalogs/operators/api/v1/metas?schema=custom");
    let read = async |request: RequestBuilder| {
        let mut seen = BTreeSet::new();
        for _ in 0..100 {
            let found = answer(request.try_clone().unwrap()).await;
            assert_eq!(found.status, StatusCode::OK);
            let names = found.names();
            assert_eq!(names.len(), 1);
            let text = names[0].strip_prefix("custom ").unwrap().to_owned();
            assert!(found.text().contains(&text.repeat(5000)));
            seen.insert(text);
        }
        seen
    };
    let readers = [(); 4].map(|()| tokio::spawn(read(request.try_clone().unwrap())));
    for round in 0..60 {
        site.put("operators", &large(["a", "b"][round % 2]));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut seen = BTreeSet::new();
    for reader in readers {
        seen.extend(reader.await.unwrap());
    }
    assert_eq!(seen.len(), 2, "nobody saw a change: {seen:?}");
}

// parity: http-3
#[tokio::test]
async fn who_has_begun_gets_the_old_content_to_its_end() {
    let site = Site::with(&heavy("a")).await;
    let length = site.all().await.body.len();
    let slow = begun(&site, &format!("{GET_ALL}Connection: close\r\n\r\n")).await;
    site.put("operators", &large("b"));
    assert_eq!(site.all().await.names(), ["custom b"]);
    let rest = ended(slow, length).await;
    assert!(!rest.windows(9).any(|bytes| bytes == b"bbbbbbbbb"));
}

#[tokio::test]
async fn who_stalls_or_goes_away_holds_nobody_up() {
    let site = Site::with(&heavy("a")).await;
    let texts = [&format!("{GET_ALL}\r\n"), "GET /catalogs/oper"];
    let mut stalled = Vec::new();
    for number in 0..50 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let text = texts[number % 2].as_bytes();
        stream.write_all(text).await.unwrap();
        stalled.push(stream);
    }
    stalled.truncate(25);
    for _ in 0..3 {
        let found = timeout(Duration::from_secs(30), site.all()).await.unwrap();
        assert_eq!(found.names().len(), 200);
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up_on() {
    let site = Site::with(&catalog()).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let begun = &GET_ALL.as_bytes()[..GET_ALL.len() - 3];
    stream.write_all(begun).await.unwrap();
    let mut answer = Vec::new();
    let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection is still there");
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(10 << 20));
    // The server may close before it has read all of it.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    let _ = ended.unwrap();
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(site.all().await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_end_waits_for_those_who_are_being_answered() {
    let mut site = Site::with(&heavy("a")).await;
    let length = site.all().await.body.len();
    let slow = begun(&site, &format!("{GET_ALL}\r\n")).await;
    drop(site.stop.take());
    ended(slow, length).await;
    let ended = timeout(Duration::from_secs(10), site.task).await;
    ended.unwrap().unwrap();
}
