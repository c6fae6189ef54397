//! Connections on bad days: cut, slow, sent elsewhere, and told to come back later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tests::{OWNER, docker_config};
use unpacker::{Access, Options, fetch::Progress, image, web::Patience};

use crate::{
    images::{Registry, Store, layer, noise},
    outcome, pull,
    server::{Answer, Seen},
    source, with,
};

/// An image whose only layer is large enough to be cut.
fn large() -> (Store, Vec<u8>) {
    let content = noise(7, 300_000);
    let layer = layer(&[("manifests/a.bin", &content)]);
    (Store::image(std::slice::from_ref(&layer)), layer)
}

fn head(length: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

/// A registry whose layer comes through as this says; it is told which time it is asked.
async fn through(
    store: Store,
    answer: impl Fn(&Seen, usize) -> Option<Answer> + Send + Sync + 'static,
) -> Registry {
    let (top, times) = (store.top(), AtomicUsize::new(0));
    Registry::but(store, move |seen| {
        let is_layer = seen.target.ends_with(&top);
        let time = || times.fetch_add(1, Ordering::SeqCst) + 1;
        is_layer.then(|| answer(seen, time())).flatten()
    })
    .await
}

fn start(range: &str) -> usize {
    range
        .strip_prefix("bytes=")
        .unwrap()
        .strip_suffix('-')
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_cut_transfer_is_taken_up_where_it_broke_off_if_the_registry_can() {
    let (store, bytes) = large();
    let whole = bytes.len();
    let registry = through(store, move |seen, time| {
        let Some(range) = seen.header("range") else {
            assert_eq!(time, 1, "the rest is asked for");
            return Some(Answer::Bytes([head(whole), bytes[..100_000].to_vec()].concat()));
        };
        let from = start(range);
        let length = whole - from;
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{whole}\r\nContent-Length: {length}\r\n\r\n",
            whole - 1
        );
        let to = if time == 2 { from + 50_000 } else { whole };
        Some(Answer::Bytes([head.as_bytes(), &bytes[from..to]].concat()))
    })
    .await;
    let (options, progress) = (Options::default(), Progress::default());
    let image = source(&registry.image("app:v1"));
    let fetched = image::fetch(&image, &registry.access(), &options, &progress)
        .await
        .unwrap();
    assert_eq!(
        fetched
            .tree
            .into_content()
            .unwrap()
            .read("manifests/a.bin")
            .unwrap(),
        &noise(7, 300_000)
    );
    assert_eq!(progress.done(), whole as u64, "nothing is fetched twice");
    assert_eq!(progress.total(), whole as u64);
}

#[tokio::test]
async fn a_cut_transfer_starts_over_where_the_registry_knows_no_ranges() {
    let (store, bytes) = large();
    let registry = through(store, move |_, time| {
        let sent = if time < 3 {
            &bytes[..100_000 * time]
        } else {
            &bytes
        };
        Some(Answer::Bytes([head(bytes.len()), sent.to_vec()].concat()))
    })
    .await;
    let fetched = pull(&registry.image("app:v1"), &registry.access())
        .await
        .unwrap();
    assert_eq!(
        fetched
            .tree
            .into_content()
            .unwrap()
            .read("manifests/a.bin")
            .unwrap(),
        &noise(7, 300_000)
    );
}

#[tokio::test]
async fn other_bytes_after_a_cut_are_noticed() {
    let (store, bytes) = large();
    let registry = through(store, move |seen, _| {
        Some(match seen.header("range") {
            None => Answer::Bytes([head(bytes.len()), bytes[..100_000].to_vec()].concat()),
            Some(range) => {
                let length = bytes.len() - start(range);
                let head = format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\nContent-Length: {length}\r\n\r\n");
                Answer::Bytes([head.into_bytes(), bytes[..length].to_vec()].concat())
            }
        })
    })
    .await;
    let error = outcome(pull(&registry.image("app:v1"), &registry.access()).await).unwrap_err();
    assert!(error.contains("another part of it came"), "{error}");
}

#[tokio::test]
async fn a_transfer_that_always_breaks_off_is_given_up() {
    let (store, bytes) = large();
    let registry = through(store, move |seen, _| {
        let from = seen.header("range").map_or(0, start);
        let whole = bytes.len();
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Range: bytes {from}-{}/{whole}\r\nContent-Length: {}\r\n\r\n",
            if from > 0 {
                "206 Partial Content"
            } else {
                "200 OK"
            },
            whole - 1,
            whole - from
        );
        Some(Answer::Bytes(
            [head.as_bytes(), &bytes[from..from + 10]].concat(),
        ))
    })
    .await;
    let access = registry.access();
    let top = registry.image("app:v1");
    let error = pull(&top, &access).await.unwrap_err();
    assert_eq!(error.reason(), "ConnectionBroken");
    assert!(!error.is_terminal());
    assert!(registry.asked("/blobs/") <= 1 + access.patience.tries as usize);
}

#[tokio::test]
async fn an_endless_layer_is_cut_at_its_announced_size() {
    let (store, bytes) = large();
    let endless = Answer::Endless(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        [b"10000\r\n", noise(1, 0x10000).as_slice(), b"\r\n"].concat(),
    );
    let stated = Answer::Endless(head(1 << 40), noise(1, 0x10000));
    let honest_at_first = Answer::Endless(
        [
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
                bytes.len()
            )
            .into_bytes(),
            bytes,
            b"\r\n".to_vec(),
        ]
        .concat(),
        b"1\r\n0\r\n".to_vec(),
    );
    for answer in [endless, stated, honest_at_first] {
        let registry = through(store.clone(), move |_, _| Some(answer.clone())).await;
        let error = outcome(pull(&registry.image("app:v1"), &registry.access()).await).unwrap_err();
        assert!(
            error.contains("ContentMismatch") && error.contains("more than"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_layer_that_ends_early_without_a_cut_is_too_short() {
    let (store, bytes) = large();
    let registry = through(store, move |_, _| Some(Answer::ok(&bytes[..1000]))).await;
    let error = outcome(pull(&registry.image("app:v1"), &registry.access()).await).unwrap_err();
    assert!(
        error.contains("ContentMismatch") && error.contains("fewer than"),
        "{error}"
    );
}

#[tokio::test]
async fn a_layer_that_drips_is_not_waited_for_beyond_patience() {
    let (store, bytes) = large();
    let registry = through(store, move |_, _| Some(Answer::Drip(head(bytes.len())))).await;
    let access = Access {
        patience: Patience {
            total: Duration::from_secs(2),
            ..registry.access().patience
        },
        ..registry.access()
    };
    let begun = Instant::now();
    let error = pull(&registry.image("app:v1"), &access).await.unwrap_err();
    assert!(!error.is_terminal(), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn credentials_stay_with_the_registry_when_it_sends_us_elsewhere() {
    let (store, bytes) = large();
    let elsewhere = Arc::new(Registry::start(move |_| Answer::ok(&bytes)).await);
    let target = elsewhere.server.url("/bucket/blob?signature=word");
    let top = store.top();
    let registry = Registry::but(store, move |seen| match seen.header("authorization") {
        None => Some(Answer::new(
            "401 Unauthorized",
            &[("WWW-Authenticate", "Basic realm=x")],
            b"",
        )),
        Some(_) => seen
            .target
            .ends_with(&top)
            .then(|| Answer::redirect(307, &target)),
    })
    .await;
    let mut access = with(
        registry.access(),
        &docker_config(&[(&registry.server.address.to_string(), OWNER)]),
    );
    access.trust.roots.push_str(&elsewhere.authority.pem());
    let fetched = pull(&registry.image("app:v1"), &access).await.unwrap();
    assert_eq!(fetched.tree.len(), 1);
    let seen = elsewhere.server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("authorization"), None);
    assert!(
        registry
            .server
            .seen()
            .iter()
            .any(|seen| seen.header("authorization").is_some())
    );
}

#[tokio::test]
async fn who_asks_too_often_comes_back_later_and_not_for_ever() {
    let busy = || {
        Answer::new(
            "429 Too Many Requests",
            &[("Retry-After", "0")],
            b"slow down",
        )
    };
    let registry = through(Store::small(), move |_, time| (time < 3).then(busy)).await;
    let files = outcome(pull(&registry.image("app:v1"), &registry.access()).await);
    assert_eq!(files.unwrap(), "manifests/a.yaml=kind: A");

    let registry = Registry::start(move |_| busy()).await;
    let access = registry.access();
    let error = pull(&registry.image("app:v1"), &access).await.unwrap_err();
    assert_eq!(error.reason(), "TooManyRequests");
    assert!(!error.is_terminal());
    assert_eq!(registry.server.seen().len(), access.patience.tries as usize);
}

#[tokio::test]
async fn many_layers_are_fetched_together_and_read_from_the_top() {
    let layers: Vec<_> = (0..12u64)
        .map(|number| {
            let own = format!("manifests/{number:02}.bin");
            let content = noise(number + 1, 400_000);
            layer(&[
                (own.as_str(), content.as_slice()),
                ("manifests/shared.yaml", number.to_string().as_bytes()),
            ])
        })
        .collect();
    let registry = Registry::but(Store::image(&layers), |_| None).await;
    let fetched = pull(&registry.image("app:v1"), &registry.access())
        .await
        .unwrap();
    let content = fetched.tree.into_content().unwrap();
    assert_eq!(content.len(), 13);
    assert_eq!(content.read("manifests/shared.yaml").unwrap(), "11");
    for number in 0..12 {
        let bytes = content.read(&format!("manifests/{number:02}.bin")).unwrap();
        assert_eq!(bytes, &noise(number + 1, 400_000));
    }
}
