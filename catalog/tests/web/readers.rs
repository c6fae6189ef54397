//! Readers during the replacement of a catalog, readers that stall, and readers that disconnect.

use std::{collections::BTreeSet, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::*;

/// Larger than the socket buffers of both ends.
fn heavy(text: &str) -> String {
    let blob =
        |number| json!({"schema": text, "name": format!("{number}"), "text": text.repeat(100_000)});
    testing::list(0..200, |number| format!("{}\n", blob(number)))
}

const GET_ALL: &str = "GET /catalogs/operators/api/v1/all HTTP/1.1\r\nHost: h\r\n";

/// Sends a request and reads the first bytes of the response.
async fn begun(site: &Site, request: &str) -> (TcpStream, [u8; 1000]) {
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1000];
    stream.read_exact(&mut first).await.unwrap();
    (stream, first)
}

/// Reads the remaining response, whose body has a known length.
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
async fn readers_get_the_old_or_the_new_content() {
    let site = Site::with(&large("a")).await;
    let request = site.get("/catalogs/operators/api/v1/metas?schema=custom");
    let read = async |request: RequestBuilder| {
        let mut contents = BTreeSet::new();
        for _ in 0..100 {
            let found = answer(request.try_clone().unwrap()).await;
            assert_eq!(found.status, StatusCode::OK);
            let names = found.names();
            assert_eq!(names.len(), 1);
            let text = names[0].strip_prefix("custom ").unwrap().to_owned();
            assert!(found.text().contains(&text.repeat(5000)));
            contents.insert(text);
        }
        contents
    };
    let readers = [(); 4].map(|()| tokio::spawn(read(request.try_clone().unwrap())));
    for round in 0..60 {
        site.put("operators", &large(["a", "b"][round % 2]));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut contents = BTreeSet::new();
    for reader in readers {
        contents.extend(reader.await.unwrap());
    }
    assert_eq!(contents.len(), 2, "no reader saw a change: {contents:?}");
}

// parity: http-3
#[tokio::test]
async fn started_response_keeps_the_old_content() {
    let site = Site::with(&heavy("a")).await;
    let length = site.all().await.body.len();
    let slow = begun(&site, &format!("{GET_ALL}Connection: close\r\n\r\n")).await;
    site.put("operators", &large("b"));
    assert_eq!(site.all().await.names(), ["custom b"]);
    let rest = ended(slow, length).await;
    assert!(!rest.windows(9).any(|bytes| bytes == b"bbbbbbbbb"));
}

#[tokio::test]
async fn stalled_clients_do_not_block_others() {
    let site = Site::with(&heavy("a")).await;
    let mut stalled = Vec::new();
    for text in [&*format!("{GET_ALL}\r\n"), "GET /catalogs/oper"].repeat(25) {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    stalled.truncate(25);
    for _ in 0..3 {
        assert_rows!(timeout(Duration::from_secs(30), site.all()).await.unwrap().names().len() => 200);
    }
}

#[tokio::test]
async fn endless_request_head_times_out() {
    let site = Site::with(&catalog()).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(10 << 20));
    for head in [&GET_ALL[..GET_ALL.len() - 3], &long] {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the connection is still there: {head:.50}");
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{head:.50}");
    }
    assert_eq!(site.all().await.status, StatusCode::OK);
}

#[tokio::test]
async fn shutdown_waits_for_running_responses() {
    let mut site = Site::with(&heavy("a")).await;
    let length = site.all().await.body.len();
    let slow = begun(&site, &format!("{GET_ALL}\r\n")).await;
    drop(site.stop.take());
    ended(slow, length).await;
    let served = timeout(Duration::from_secs(10), site.task).await;
    served.unwrap().unwrap();
}
