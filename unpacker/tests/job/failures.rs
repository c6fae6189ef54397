//! What ends a Job, and what it says then.

use std::{process::Stdio, time::Duration};

use tokio::{io::AsyncBufReadExt as _, net::TcpListener, process::Command};
use unpacker::wire::{Problem, Terms};

use crate::{
    bundle,
    command::Run,
    receiver::{Day, Receiver},
    sending::noise,
    write,
};

fn problem(reason: &str, message: &str) -> String {
    serde_json::to_string(&Problem {
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
    .unwrap()
}

#[tokio::test]
async fn a_refusal_ends_the_job_with_the_reason_of_the_receiver() {
    let bundle = bundle();
    let body = problem("BundleGone", "bundle \"x\" was deleted; nothing to do");
    let receiver = Receiver::after([Day::Answer("404", "", body)]).await;
    let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
    ran.failed(
        "BundleGone",
        "bundle \"x\" was deleted; nothing to do (answer 404 of 127.0.0.1:",
    );
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn a_real_refusal_comes_through() {
    let bundle = bundle();
    let mut terms = Terms::default();
    terms.options.limits.file = 12;
    let receiver = Receiver::with(terms, None, []).await;
    let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
    ran.failed(
        "LimitExceeded",
        "file \"manifests/csv.yaml\" is larger than the limit of 12 bytes",
    );
    assert_eq!(receiver.kept(), (0, 0));
}

#[tokio::test]
async fn a_refusal_is_seen_while_there_is_much_left_to_send() {
    let bundle = bundle();
    write(bundle.path(), "tests/noise", noise(15 << 20));
    let mut terms = Terms::default();
    terms.options.limits.total = 1 << 20;
    let real = Receiver::with(terms, None, []).await;
    let ran = Run::from_to(bundle.path(), &real.url()).run().await;
    ran.failed(
        "LimitExceeded",
        "content is larger than the limit of 1048576 bytes",
    );

    // Not even a server that slams the door is taken for a broken connection for long.
    let slam = || Day::Hasty("413 Too Large", problem("TooLarge", "no more"));
    let hasty = Receiver::after([slam(), slam(), slam(), slam(), slam(), slam()]).await;
    let ran = Run::from_to(bundle.path(), &hasty.url()).run().await;
    ran.failed("TooLarge", "no more");
}

#[tokio::test]
async fn a_message_that_is_too_long_is_cut_between_characters_and_kept_on_one_line() {
    let bundle = bundle();
    let body = problem(
        "Long",
        &"é\n\u{1b}[31m\u{202e}\u{2066}\u{2028}".repeat(2000),
    );
    let receiver = Receiver::after([Day::Answer("400", "", body)]).await;
    let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
    ran.failed("Long", "é  [31m   é");
    assert!(ran.message.len() <= 4096, "{}", ran.message.len());
    assert!(ran.message.chars().all(|character| !character.is_control()));
}

#[tokio::test]
async fn what_is_no_receiver_is_told_from_one() {
    let bundle = bundle();
    for (status, headers, body, reason, message) in [
        (
            "200",
            "",
            "<html>Welcome</html>",
            "UnexpectedAnswer",
            "200 OK without the digest",
        ),
        (
            "201",
            "",
            r#"{"digest":"sha256:00","size":1}"#,
            "UnexpectedAnswer",
            "it says sha256:00 and we sent sha256:",
        ),
        ("204", "", "", "UnexpectedAnswer", "204 No Content"),
        (
            "302",
            "Location: http://127.0.0.1:1/",
            "",
            "UnexpectedAnswer",
            "redirects are not followed",
        ),
        (
            "307",
            "Location: /elsewhere",
            "",
            "UnexpectedAnswer",
            "redirects are not followed",
        ),
        (
            "404",
            "",
            "404 page\nnot found",
            "UploadRefused",
            "404 Not Found 404 page not found",
        ),
        ("401", "", "", "UploadRefused", "401 Unauthorized"),
    ] {
        let receiver = Receiver::after([Day::Answer(status, headers, body.to_owned())]).await;
        let ran = Run::from_to(bundle.path(), &receiver.url()).run().await;
        ran.failed(reason, message);
        assert_eq!(receiver.seen().len(), 1, "{status} is not tried again");
    }
}

#[tokio::test]
async fn tries_are_counted_and_the_last_failure_is_told() {
    let bundle = bundle();
    let busy = || Day::Answer("503", "", problem("StoreFull", "the disk is full"));
    let receiver = Receiver::after([busy(), busy(), busy()]).await;
    let ran = Run::from_to(bundle.path(), &receiver.url())
        .args(["--tries", "2"])
        .run()
        .await;
    ran.failed("ReceiverUnavailable", "gave up (tries: 2, seconds: ");
    ran.failed(
        "ReceiverUnavailable",
        "cannot take it now: the disk is full (answer 503)",
    );
    assert_eq!(receiver.seen().len(), 2);
}

#[tokio::test]
async fn nobody_there_is_told_with_the_address() {
    let bundle = bundle();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/");
    let ran = Run::from_to(bundle.path(), &url)
        .args(["--tries", "1"])
        .run()
        .await;
    ran.failed(
        "ConnectFailed",
        &format!("failed to connect to {address}: "),
    );
}

#[tokio::test]
async fn a_server_that_never_answers_or_never_reads_does_not_hold_the_job() {
    let bundle = bundle();
    write(bundle.path(), "tests/noise", noise(15 << 20));
    for day in [Day::Mute, Day::Deaf] {
        let receiver = Receiver::after([day.clone(), day.clone()]).await;
        let idle = ["--idle-timeout", "1", "--tries", "2"];
        let ran = Run::from_to(bundle.path(), &receiver.url())
            .args(idle)
            .run()
            .await;
        ran.failed(
            "ConnectionBroken",
            "neither takes nor says anything any more; waited 1s",
        );

        let receiver = Receiver::after([day]).await;
        let total = ["--timeout", "1"];
        let ran = Run::from_to(bundle.path(), &receiver.url())
            .args(total)
            .run()
            .await;
        ran.failed("TimedOut", "gave up (tries: 1, seconds: 1)");
        assert!(ran.took < Duration::from_secs(10), "{ran:?}");
    }
}

#[tokio::test]
async fn a_missing_or_empty_token_is_named() {
    let bundle = bundle();
    let receiver = Receiver::new().await;
    let once = || Run::from_to(bundle.path(), &receiver.url()).args(["--tries", "1"]);
    let ran = once().args(["--token-file", "/none/token"]).run().await;
    ran.failed(
        "InvalidConfiguration",
        "failed to read the token in \"/none/token\"; check --token-file",
    );
    let ran = once().file("--token-file", "\n").run().await;
    ran.failed("InvalidConfiguration", "it is empty");
    assert!(receiver.seen().is_empty());
}

#[tokio::test]
async fn a_token_is_in_no_message() {
    let bundle = bundle();
    let receiver = Receiver::after([Day::Answer("401", "", String::new())]).await;
    let ran = Run::from_to(bundle.path(), &receiver.url())
        .file("--token-file", "word")
        .run()
        .await;
    assert_eq!(receiver.seen()[0]["authorization"], "Bearer word");
    ran.failed("UploadRefused", "401");
    assert!(!ran.stderr.contains("word"), "{}", ran.stderr);
}

#[tokio::test]
async fn sigterm_ends_it_at_once_with_a_message() {
    let bundle = bundle();
    let receiver = Receiver::after([Day::Mute]).await;
    let message = bundle.path().join("termination");
    let mut child = Command::new(crate::command::BINARY)
        .args(["--bundle-dir".as_ref(), bundle.path().as_os_str()])
        .args(["--to", &receiver.url()])
        .args(["--termination-message".as_ref(), message.as_os_str()])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.next_line().await.unwrap().unwrap();
    assert!(
        started.starts_with("unpack: sending 4 files of "),
        "{started}"
    );
    let pid = child.id().unwrap().to_string();
    let killed = Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .await
        .unwrap();
    assert!(killed.success());
    let ended = tokio::time::timeout(Duration::from_secs(5), child.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(143));
    assert_eq!(
        std::fs::read_to_string(message).unwrap(),
        "Stopped: stopped by SIGTERM"
    );
}
