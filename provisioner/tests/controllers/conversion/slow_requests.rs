//! Requests to the webhook that never end. Every client in the cluster can send them.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{StreamExt as _, stream};
use reqwest::{Body, Certificate};
use tokio::task::JoinSet;

use super::*;

/// Number of stalled connections at any time.
const STALLED: usize = 24;
/// Bytes that each of them has sent: few, or more than most requests have.
const SENT: [usize; 2] = [1, 512 << 10];

/// Sends a part of a request, and then waits until the connection is closed; then again.
async fn stall(client: reqwest::Client, url: String, size: usize, begun: Arc<AtomicUsize>) {
    loop {
        let begun = Arc::clone(&begun);
        let part = stream::once(async move {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok::<_, io::Error>(vec![b' '; size])
        });
        let body = Body::wrap_stream(part.chain(stream::pending()));
        // It never succeeds.
        let _ = client.post(&url).body(body).send().await;
    }
}

pub(super) async fn stalled_requests_do_not_delay_others(
    address: SocketAddr,
    ca: &[u8],
    new: &Api<DynamicObject>,
) {
    let begun = Arc::new(AtomicUsize::new(0));
    let mut stalled = JoinSet::new();
    let ca = Certificate::from_pem_bundle(ca).unwrap();
    let client = reqwest::Client::builder().tls_certs_only(ca).no_proxy();
    let client = client.http1_only().build().unwrap();
    for size in SENT.into_iter().cycle().take(STALLED) {
        let (client, url) = (client.clone(), format!("https://{address}/convert"));
        stalled.spawn(stall(client, url, size, Arc::clone(&begun)));
    }
    let begun = async || begun.load(Ordering::Relaxed);
    until("all of them stall", begun, |begun| *begun >= STALLED).await;
    for _ in 0..3 {
        new.get("after").await.unwrap();
    }
    assert_eq!(stalled.len(), STALLED);
    assert!(stalled.try_join_next().is_none(), "they continue");
    stalled.shutdown().await;
}
