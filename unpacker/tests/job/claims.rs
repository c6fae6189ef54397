//! What senders claim, and what they send instead of a tar.gz.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use unpacker::{
    Digest, Limits, Options,
    wire::{Accepted, Demand, Terms},
};

use crate::{bundle, content, receiver::Receiver, senders::Sender, tar};

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

pub(crate) fn small() -> Vec<u8> {
    tar(&content(bundle().path())).0
}

pub(crate) fn uploads() -> Terms {
    Terms {
        demand: Demand::Nothing,
        ..Terms::default()
    }
}

#[tokio::test]
async fn true_claims_are_answered_with_what_is_stored() {
    let (receiver, tar) = (Receiver::new().await, small());
    let accepted = Accepted {
        digest: Digest::of(&tar).to_string(),
        size: tar.len() as u64,
    };
    for status in [201, 200] {
        let sender = Sender::claiming(gzip(&tar), &tar);
        let (found, body) = sender.send(&receiver).await.unwrap();
        assert_eq!(
            (found, serde_json::from_str(&body).unwrap()),
            (status, accepted.clone())
        );
    }
    assert_eq!(receiver.kept(), (1, 0));
}

#[tokio::test]
async fn claims_may_be_headers_and_must_not_contradict_trailers() {
    let (receiver, tar) = (Receiver::new().await, small());
    let mut sender = Sender::claiming(gzip(&tar), &tar);
    sender.headers.append(&mut sender.trailers.clone());
    assert_eq!(sender.clone().send(&receiver).await.unwrap().0, 201);
    let mut early = sender.clone();
    early.trailers.clear();
    assert_eq!(early.send(&receiver).await.unwrap().0, 200);
    let sender = sender.trailer("rukpak-content-size", Some("1"));
    let message = "rukpak-content-size says one thing as a header and another as a trailer";
    sender
        .refused(&receiver, 400, "InvalidClaim", message)
        .await;
}

#[tokio::test]
async fn each_missing_claim_is_named_unless_none_is_demanded() {
    let (strict, kind) = (
        Receiver::new().await,
        Receiver::with(uploads(), None, []).await,
    );
    let tar = small();
    for name in [
        "content-digest",
        "rukpak-content-digest",
        "rukpak-content-size",
    ] {
        let sender = Sender::claiming(gzip(&tar), &tar).trailer(name, None);
        let message = format!("the upload ends without {name}");
        sender
            .clone()
            .refused(&strict, 400, "ClaimMissing", &message)
            .await;
        assert!(sender.send(&kind).await.unwrap().0 < 300);
    }
    assert_eq!(Sender::new(gzip(&tar)).send(&kind).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_lie_about_a_digest_or_a_size_is_found_whoever_demands_it() {
    let (strict, kind) = (
        Receiver::new().await,
        Receiver::with(uploads(), None, []).await,
    );
    let tar = small();
    let zeros = "0".repeat(64);
    for (name, value, status, reason, message) in [
        (
            "content-digest",
            "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
            422,
            "BodyDigestMismatch",
            "is what came",
        ),
        (
            "rukpak-content-digest",
            &format!("sha256:{zeros}"),
            422,
            "DigestMismatch",
            "rukpak-content-digest says sha256:000",
        ),
        (
            "rukpak-content-size",
            "1",
            422,
            "SizeMismatch",
            "rukpak-content-size says 1, and ",
        ),
        (
            "rukpak-content-digest",
            "sha256:x",
            400,
            "InvalidClaim",
            "rukpak-content-digest is not sha256:",
        ),
        (
            "rukpak-content-size",
            "-1",
            400,
            "InvalidClaim",
            "is not a number of bytes",
        ),
        (
            "content-digest",
            "sha-256=:eHg=:",
            400,
            "InvalidClaim",
            "content-digest is not sha-256=:",
        ),
    ] {
        for receiver in [&strict, &kind] {
            let sender = Sender::claiming(gzip(&tar), &tar).trailer(name, Some(value));
            sender.refused(receiver, status, reason, message).await;
        }
    }
}

#[tokio::test]
async fn a_claim_of_what_is_stored_already_does_not_let_something_else_in() {
    let (receiver, tar) = (Receiver::new().await, small());
    let stored = Sender::claiming(gzip(&tar), &tar);
    assert_eq!(stored.clone().send(&receiver).await.unwrap().0, 201);
    let mut other = stored;
    other.body = gzip(
        &tar[..1024]
            .iter()
            .chain([0; 1024].iter())
            .copied()
            .collect::<Vec<_>>(),
    );
    let claimed = unpacker::wire::Claims {
        body: Some(Digest::of(&other.body)),
        ..Default::default()
    };
    let digest = claimed.to_headers()["content-digest"]
        .to_str()
        .unwrap()
        .to_owned();
    let other = other.trailer("content-digest", Some(&digest));
    other
        .refused(&receiver, 422, "DigestMismatch", "send it again")
        .await;
}

#[tokio::test]
async fn a_plain_tar_is_refused() {
    let (receiver, tar) = (Receiver::new().await, small());
    let message = "not compressed with gzip; pack the bundle with \"tar czf\"";
    Sender::claiming(tar.clone(), &tar)
        .refused(&receiver, 415, "NotGzip", message)
        .await;
}

#[tokio::test]
async fn an_upload_without_a_byte_is_refused() {
    let receiver = Receiver::new().await;
    Sender::new(vec![])
        .refused(&receiver, 422, "ArchiveTruncated", "the archive is empty")
        .await;
}

#[tokio::test]
async fn a_gzip_that_was_cut_anywhere_is_refused_though_the_body_is_whole() {
    let (receiver, tar) = (Receiver::new().await, small());
    let whole = gzip(&tar);
    for length in [
        1,
        2,
        9,
        20,
        whole.len() / 2,
        whole.len() - 9,
        whole.len() - 1,
    ] {
        let sender = Sender::claiming(whole[..length].to_vec(), &tar);
        if length == 1 {
            sender.refused(&receiver, 415, "NotGzip", "").await;
        } else {
            sender
                .refused(&receiver, 422, "ArchiveTruncated", "cut short")
                .await;
        }
    }
}

#[tokio::test]
async fn garbage_behind_the_gzip_is_refused() {
    let (receiver, tar) = (Receiver::new().await, small());
    let body = [gzip(&tar), b"garbage that is no gzip".to_vec()].concat();
    Sender::claiming(body, &tar)
        .refused(&receiver, 422, "ArchiveDamaged", "the archive is damaged")
        .await;
    let body = [gzip(&tar), gzip(&tar)].concat();
    let message = "data follows the end marker";
    Sender::claiming(body, &tar)
        .refused(&receiver, 422, "ArchiveDamaged", message)
        .await;
}

#[tokio::test]
async fn something_else_in_gzip_is_refused() {
    let receiver = Receiver::new().await;
    let body = gzip(&[b'x'; 2000]);
    Sender::new(body)
        .refused(
            &receiver,
            422,
            "UnknownFormat",
            "something else compressed with gzip",
        )
        .await;
}

#[tokio::test]
async fn a_bomb_is_refused_while_it_comes() {
    let terms = Terms {
        options: Options {
            limits: Limits {
                total: 1 << 20,
                file: 1 << 20,
                ..Limits::default()
            },
            ..Options::default()
        },
        ..Terms::default()
    };
    let receiver = Receiver::with(terms, None, []).await;
    let mut header = tar::Header::new_gnu();
    header.set_path("manifests/zeros").unwrap();
    header.set_size(1 << 33);
    header.set_mode(0o644);
    header.set_cksum();
    let body = gzip(&[header.as_bytes().as_slice(), &vec![0; 8 << 20]].concat());
    let sender = Sender::new(body).end(crate::senders::End::Stop);
    sender
        .refused(
            &receiver,
            413,
            "LimitExceeded",
            "larger than the limit of 1048576 bytes",
        )
        .await;
}

#[tokio::test]
async fn a_link_out_of_the_bundle_and_a_path_out_of_it_do_not_get_in() {
    let receiver = Receiver::with(uploads(), None, []).await;
    let entry = |kind: u8, path: &str| {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.as_mut_bytes()[156] = kind;
        header.set_size(0);
        header.set_mode(0o644);
        header.set_cksum();
        gzip(&[header.as_bytes().as_slice(), &[0; 1024]].concat())
    };
    for (kind, path, reason) in [
        (b'0', "../../etc/passwd", "InvalidPath"),
        (b'0', "/etc/passwd", "InvalidPath"),
        (b'1', "manifests/hard", "EntryRefused"),
        (b'2', "manifests/link", "EntryRefused"),
        (b'3', "metadata", "EntryRefused"),
    ] {
        Sender::new(entry(kind, path))
            .refused(&receiver, 422, reason, "")
            .await;
    }
}

#[tokio::test]
async fn other_types_encodings_and_lengths_are_refused_by_the_head_alone() {
    let (receiver, tar) = (Receiver::new().await, small());
    let sender = || Sender::claiming(gzip(&tar), &tar).end(crate::senders::End::Stop);
    for (name, value, status, reason, message) in [
        (
            "Content-Type",
            "application/zip",
            415,
            "UnsupportedMediaType",
            "the upload is application/zip",
        ),
        (
            "Content-Type",
            "application/x-www-form-urlencoded",
            415,
            "UnsupportedMediaType",
            "Content-Type: application/gzip",
        ),
        (
            "Content-Encoding",
            "br",
            415,
            "UnsupportedMediaType",
            "encoded with br on top",
        ),
        (
            "Content-Digest",
            "sha-256=nothing",
            400,
            "InvalidClaim",
            "content-digest is not",
        ),
    ] {
        sender()
            .header(name, value)
            .refused(&receiver, status, reason, message)
            .await;
    }
    let mut huge = sender().header("Content-Length", "99999999999");
    huge.headers.retain(|(name, _)| name != "Transfer-Encoding");
    huge.refused(
        &receiver,
        413,
        "LimitExceeded",
        "the upload has 99999999999 bytes",
    )
    .await;
}

#[tokio::test]
async fn an_upload_may_have_a_length_and_lie_in_a_folder() {
    let receiver = Receiver::with(uploads(), None, []).await;
    let bundle = bundle();
    let packed = std::process::Command::new("tar")
        .args([
            "czf",
            "-",
            "--exclude=etc",
            "--transform=s,^\\.,bundle,",
            "-C",
        ])
        .arg(bundle.path())
        .arg(".")
        .output()
        .unwrap();
    let mut sender = Sender::new(vec![]);
    sender.headers = vec![("Content-Length".to_owned(), packed.stdout.len().to_string())];
    let (status, body) = put_with_length(&receiver, &packed.stdout).await;
    assert_eq!(status, 201, "{body}");
    let accepted: Accepted = serde_json::from_str(&body).unwrap();
    let (_, digest) = tar(&content(bundle.path()));
    assert_eq!(accepted.digest, digest.to_string());
}

/// As `curl -T` does.
async fn put_with_length(receiver: &Receiver, body: &[u8]) -> (u16, String) {
    let client = unpacker::web::Client::with_proxies(
        &unpacker::access::Trust::default(),
        &unpacker::web::Patience::default(),
        &unpacker::web::Proxies::default(),
    )
    .unwrap();
    let mut request = unpacker::web::Request::get(receiver.url().parse().unwrap());
    request.method = http::Method::PUT;
    request.body = Some(body.to_vec().into());
    let response = client.send(&request).await.unwrap();
    let status = response.status.as_u16();
    let body = response.bytes(1 << 16).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
