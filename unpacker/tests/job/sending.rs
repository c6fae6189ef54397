//! Handing a folder over as it should go, and after all.

use std::time::Duration;

use unpacker::Limits;

use crate::{
    bundle,
    command::Run,
    content,
    receiver::{Day, Receiver},
    tar, write,
};

#[tokio::test]
async fn a_folder_arrives_as_the_same_content_and_twice_is_once() {
    let (bundle, receiver) = (bundle(), Receiver::new().await);
    let wanted = content(bundle.path());
    let (tar, digest) = tar(&wanted);
    for how in ["stored", "known already"] {
        let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
        ran.succeeded();
        let line = format!("{how}: {digest}, {} bytes of tar", tar.len());
        assert!(ran.stderr.contains(&line), "{}", ran.stderr);
        let stored = receiver.store.get(&digest, &Limits::default()).unwrap();
        assert_eq!(*stored, wanted);
        assert_eq!(receiver.kept(), (1, 0));
    }
    let head = &receiver.seen()[0];
    for (name, value) in [
        ("content-type", "application/gzip"),
        ("transfer-encoding", "chunked"),
        (
            "trailer",
            "Content-Digest, Rukpak-Content-Digest, Rukpak-Content-Size",
        ),
    ] {
        assert_eq!(head[name], value);
    }
    assert!(!head.contains_key("authorization"));
}

#[tokio::test]
async fn the_token_is_sent_and_read_again_for_each_try() {
    let bundle = bundle();
    let token = bundle.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let busy = Day::Answer("503", "Retry-After: 2", String::new());
    let receiver = Receiver::after([busy]).await;
    let run = Run::from_to(bundle.path(), &receiver.url())
        .args(["--token-file".as_ref(), token.as_os_str()]);
    let run = tokio::spawn(run.run());
    while receiver.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    // Within the two seconds that the receiver asks for.
    std::fs::write(&token, "second\n").unwrap();
    run.await.unwrap();
    let tokens = receiver.seen();
    let tokens: Vec<_> = tokens
        .iter()
        .map(|head| head["authorization"].to_str().unwrap())
        .collect();
    assert_eq!(tokens, ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn what_passes_is_waited_for() {
    let no = || String::new();
    for (days, said) in [
        (
            vec![
                Day::Answer("503", "", no()),
                Day::Answer("502", "", "busy".to_owned()),
            ],
            "503 Service Unavailable",
        ),
        (
            vec![Day::Answer("429", "Retry-After: 1", no())],
            "answer 429",
        ),
        (vec![Day::Answer("408", "", no())], "answer 408"),
        (vec![Day::Cut(100_000)], "broke"),
        (vec![Day::Cut(1)], "broke"),
        (
            vec![Day::Torn("201 Created"), Day::Torn("400 Bad")],
            "broke",
        ),
        (vec![Day::Hasty("503 Busy", no())], "try 1 of 6 failed"),
    ] {
        let bundle = bundle();
        write(bundle.path(), "tests/noise", noise(4 << 20));
        let tries = days.len() + 1;
        let receiver = Receiver::after(days).await;
        let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
        assert_eq!((ran.code, ran.message.as_str()), (Some(0), ""), "{ran:?}");
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), tries + 1, "{}", ran.stderr);
        assert_eq!(receiver.kept(), (1, 0));
    }
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_gets_it() {
    let bundle = bundle();
    let busy = Day::Answer("503", "Retry-After: 2", String::new());
    let receiver = Receiver::after([busy]).await;
    let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
    ran_after(&ran, Duration::from_secs(2));
}

fn ran_after(ran: &crate::command::Ran, wait: Duration) {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.took >= wait, "{ran:?}");
}

/// Bytes that no compression makes smaller.
pub(crate) fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}
