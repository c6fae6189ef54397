//! Uploads that break off, stop half way, or never end.

use std::time::Duration;

use unpacker::{Format, wire::Terms};

use crate::{
    bundle, content,
    receiver::{Receiver, brisk},
    senders::{End, Sender},
    sending::noise,
    tar, write,
};

/// A sender of a few MiB, and how many bytes of it make half.
fn sender() -> (Sender, usize) {
    let bundle = bundle();
    write(bundle.path(), "tests/noise", noise(6 << 20));
    let content = content(bundle.path());
    let mut body = Vec::new();
    unpacker::pack(&content, Format::TarGz, &mut body).unwrap();
    let half = body.len() / 2;
    (Sender::claiming(body, &tar(&content).0), half)
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_wherever_it_does() {
    let receiver = Receiver::with(brisk(), None, []).await;
    let (sender, half) = sender();
    for length in [0, 1, 1000, half, sender.body.len()] {
        let mut cut = sender.clone().end(End::Cut);
        cut.body.truncate(length);
        // Whoever has gone gets no answer, or one that says so.
        if let Some((status, body)) = cut.send(&receiver).await {
            assert_eq!(status, 400, "{body}");
        }
        receiver.settled((0, 0)).await;
    }
}

#[tokio::test]
async fn an_upload_that_stops_half_way_is_refused_and_leaves_nothing() {
    let receiver = Receiver::with(brisk(), None, []).await;
    let (sender, half) = sender();
    for length in [0, 1000, half, sender.body.len()] {
        let mut stopped = sender.clone().end(End::Stop);
        stopped.body.truncate(length);
        let message = "nothing came for 300ms; send it again from the start";
        stopped
            .refused(&receiver, 408, "UploadStalled", message)
            .await;
    }
}

#[tokio::test]
async fn an_upload_that_never_ends_is_refused_at_the_limit_of_bytes() {
    let mut terms = brisk();
    terms.options.limits.total = 1 << 20;
    terms.options.limits.entries = 100;
    let receiver = Receiver::with(terms, None, []).await;
    // Gzip members without content: nothing is ever inflated.
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast())
        .finish()
        .unwrap();
    let members = empty.repeat(5000);
    let sender = Sender::new(members).end(End::Endless);
    sender
        .refused(&receiver, 413, "LimitExceeded", "more than ")
        .await;
}

#[tokio::test]
async fn an_upload_that_drips_for_ever_is_refused_when_its_time_is_up() {
    let terms = Terms {
        idle: Duration::from_secs(5),
        total: Duration::from_secs(1),
        ..Terms::default()
    };
    let receiver = Receiver::with(terms, None, []).await;
    let (mut sender, half) = sender();
    sender.body.truncate(half);
    let sender = sender.end(End::Stop);
    let message = "the upload was not complete after 1s";
    sender
        .refused(&receiver, 408, "UploadTooSlow", message)
        .await;
}

#[tokio::test]
async fn many_uploads_that_hang_do_not_keep_others_out() {
    let terms = Terms {
        idle: Duration::from_secs(30),
        ..brisk()
    };
    let receiver = Receiver::with(terms, None, []).await;
    let (whole, half) = sender();
    let mut stopped = whole.clone().end(End::Stop);
    stopped.body.truncate(half);
    let hanging = async {
        let many = (0..16).map(|_| stopped.clone().send(&receiver));
        futures::future::join_all(many).await
    };
    tokio::select! {
        _ = hanging => panic!("they hang for half a minute"),
        answer = whole.send(&receiver) => assert_eq!(answer.unwrap().0, 201),
    }
    receiver.settled((1, 0)).await;
}
