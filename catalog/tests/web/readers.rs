//! Readers that come while a catalog is replaced, that stall, and that go away.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::*;

/// More than the buffers of two ends hold.
fn heavy(text: &str) -> String {
    let blobs = (0..200).map(|number| {
        format!(
            "{{\"schema\": \"{text}\", \"name\": \"{number}\", \"text\": \"{}\"}}\n",
            text.repeat(100_000)
        )
    });
    blobs.collect()
}

// parity: http-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_while_it_is_replaced_sees_the_old_or_the_new_and_no_mixture() {
    let site = Site::with(&large("a")).await;
    let versions = ["a", "b"].map(|text| {
        site.put("operators", &large(text));
        text
    });
    let url = format!(
        "http://{}/catalogs/operators/api/v1/metas?schema=custom",
        site.address
    );
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (client, url) = (site.client.clone(), url.clone());
            tokio::spawn(async move {
                let mut seen = std::collections::BTreeSet::new();
                for _ in 0..100 {
                    let found = answer(client.get(&url)).await;
                    assert_eq!(found.status, StatusCode::OK);
                    let names = found.names();
                    assert_eq!(names.len(), 1);
                    let text = names[0].strip_prefix("custom ").unwrap().to_owned();
                    assert!(found.text().contains(&text.repeat(5000)));
                    seen.insert(text);
                }
                seen
            })
        })
        .collect();
    for round in 0..60 {
        site.put("operators", &large(versions[round % 2]));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut seen = std::collections::BTreeSet::new();
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
    let mut slow = TcpStream::connect(site.address).await.unwrap();
    let request =
        "GET /catalogs/operators/api/v1/all HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1000];
    slow.read_exact(&mut first).await.unwrap();
    site.put("operators", &large("b"));
    assert_eq!(site.all().await.names(), ["custom b"]);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    let head = first
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap()
        + 4;
    assert_eq!(first.len() - head + rest.len(), length);
    assert!(!rest.windows(9).any(|bytes| bytes == b"bbbbbbbbb"));
}

#[tokio::test]
async fn who_stalls_or_goes_away_holds_nobody_up() {
    let site = Site::with(&heavy("a")).await;
    let request = "GET /catalogs/operators/api/v1/all HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut stalled = Vec::new();
    for number in 0..50 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let text = if number % 2 == 0 {
            request
        } else {
            "GET /catalogs/oper"
        };
        stream.write_all(text.as_bytes()).await.unwrap();
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
    stream
        .write_all(b"GET /catalogs/operators/api/v1/all HTTP/1.1\r\nHost: ")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection is still there");
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(10 << 20));
    // The server may close before it has read all of it.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(site.all().await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_end_waits_for_those_who_are_being_answered() {
    let mut site = Site::with(&heavy("a")).await;
    let length = site.all().await.body.len();
    let mut slow = TcpStream::connect(site.address).await.unwrap();
    let request = "GET /catalogs/operators/api/v1/all HTTP/1.1\r\nHost: h\r\n\r\n";
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1000];
    slow.read_exact(&mut first).await.unwrap();
    drop(site.stop.take());
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    let head = first
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap()
        + 4;
    assert_eq!(first.len() - head + rest.len(), length);
    timeout(Duration::from_secs(10), site.task)
        .await
        .unwrap()
        .unwrap();
}
