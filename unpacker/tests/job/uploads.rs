//! What is in an upload, what it says it is, and what of it is there already.

use unpacker::{
    Digest, Limits,
    wire::{Demand, Terms},
};

use crate::{
    claims::{gzip, small, uploads},
    receiver::Receiver,
    senders::Sender,
};

#[tokio::test]
async fn an_archive_without_files_is_refused() {
    let (strict, kind) = (
        Receiver::new().await,
        Receiver::with(uploads(), None, []).await,
    );
    let empty = [0; 1024];
    let message = "there are no files in the upload";
    for (sender, receiver) in [
        (Sender::new(gzip(&empty)), &kind),
        (Sender::claiming(gzip(&empty), &empty), &kind),
        (Sender::claiming(gzip(&empty), &empty), &strict),
    ] {
        sender
            .refused(receiver, 422, "NothingUploaded", message)
            .await;
    }
}

#[tokio::test]
async fn content_that_was_damaged_on_disk_is_replaced_by_what_is_sent_again() {
    let tar = small();
    for terms in [Terms::default(), uploads()] {
        let receiver = Receiver::with(terms.clone(), None, []).await;
        let sender = || match terms.demand {
            Demand::Claims => Sender::claiming(gzip(&tar), &tar),
            Demand::Nothing => Sender::new(gzip(&tar)),
        };
        assert_eq!(sender().send(&receiver).await.unwrap().0, 201);
        let digest = Digest::of(&tar);
        let file = format!("content/{}.tar", digest.hex());
        let mut bytes = tar.clone();
        bytes[600] ^= 1;
        std::fs::write(receiver.folder.path().join(file), bytes).unwrap();
        assert_eq!(sender().send(&receiver).await.unwrap().0, 201);
        receiver.store.get(&digest, &Limits::default()).unwrap();
        assert_eq!(receiver.kept(), (1, 0));
    }
}

#[tokio::test]
async fn content_with_another_digest_than_expected_is_not_stored() {
    let tar = small();
    let digest = Digest::of(&tar);
    let other = Digest::of(b"other");
    for terms in [Terms::default(), uploads()] {
        let expecting = |expected| Terms {
            expected: Some(expected),
            ..terms.clone()
        };
        let sender = || match terms.demand {
            Demand::Claims => Sender::claiming(gzip(&tar), &tar),
            Demand::Nothing => Sender::new(gzip(&tar)),
        };
        let receiver = Receiver::with(expecting(other), None, []).await;
        let message =
            format!("the content has the digest {digest}, and the Bundle accepts only {other}");
        sender()
            .refused(&receiver, 422, "DigestMismatch", &message)
            .await;
        // A claim does not replace the expected digest, true or not.
        sender()
            .header("rukpak-content-digest", &digest.to_string())
            .refused(&receiver, 422, "DigestMismatch", &message)
            .await;
        receiver.settled((0, 0)).await;

        let receiver = Receiver::with(expecting(digest), None, []).await;
        assert_eq!(sender().send(&receiver).await.unwrap().0, 201);
        assert_eq!(receiver.kept(), (1, 0));
    }
}

#[tokio::test]
async fn a_media_type_may_have_parameters() {
    let (receiver, tar) = (Receiver::new().await, small());
    for kind in [
        "application/gzip; charset=binary",
        "Application/X-Gzip ;a=b",
        "application/octet-stream;",
    ] {
        let sender = Sender::claiming(gzip(&tar), &tar).header("Content-Type", kind);
        let (status, body) = sender.send(&receiver).await.unwrap();
        assert!(status < 300, "{kind}: {body}");
    }
    let kind = "application/zip; of=application/gzip";
    let sender = Sender::claiming(gzip(&tar), &tar).header("Content-Type", kind);
    let message = "the upload is application/zip";
    sender
        .refused(&receiver, 415, "UnsupportedMediaType", message)
        .await;
}
