//! Uploads: claims and content, true, false and malformed, whole and in part.

use crate::*;

fn small() -> Vec<u8> {
    tar(&content(bundle().path())).0
}

/// Reads `kind` (claims are optional), `limit` (content of a mebibyte), `idle=MS`, `total=MS` and `expects-other`.
fn terms(settings: &Cell) -> ReceiveOptions {
    let mut terms = ReceiveOptions::default();
    for word in settings.words() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let milliseconds = || Duration::from_millis(value.parse().unwrap());
        let limits = &mut terms.options.limits;
        match name {
            "kind" => terms.demand = RequiredHeaders::Optional,
            "limit" => {
                (limits.total, limits.file, limits.entries) = (1 << 20, 1 << 20, 100);
            }
            "idle" => terms.idle = milliseconds(),
            "total" => terms.total = milliseconds(),
            "expects-other" => terms.expected = Some(Digest::sha256(b"other")),
            "expects-it" => terms.expected = Some(Digest::sha256(&small())),
            _ => {}
        }
    }
    terms
}

fn described(status: u16, body: &str) -> String {
    if status < 300 {
        let accepted: Accepted = serde_json::from_str(body).unwrap();
        return format!("{status} {} {}", accepted.digest, accepted.size);
    }
    let problem: Problem = serde_json::from_str(body).unwrap();
    format!("{status} {}: {}", problem.reason, problem.message)
}

/// Uploads a body. A rejected upload must leave no file, an accepted one exactly one content.
///
/// Settings: those of [`terms`]; `both` repeats the upload with optional claims; `stored` and `damaged` use a store that has
/// the content of `{tar}`, whole or damaged; `bare` sends a body without claims. Otherwise the claims are true for `{tar}`.
async fn outcome([settings, body, changes]: &[Cell; 3]) -> String {
    let terms = terms(settings);
    let answer = upload(terms.clone(), settings, body, changes).await;
    if settings.has("both") {
        assert_rows!(upload(ReceiveOptions { demand: RequiredHeaders::Optional, ..terms }, settings, body, changes).await => answer);
    }
    answer
}

async fn upload(terms: ReceiveOptions, settings: &Cell, body: &Cell, changes: &Cell) -> String {
    let receiver = Receiver::new(terms, None).await;
    let tar = body.values().get("tar");
    let digest = Digest::sha256(tar);
    if settings.has("stored") || settings.has("damaged") {
        assert_rows!(Sender::claiming(gzip(tar), tar).send(&receiver).await.unwrap().0 => 201);
    }
    if settings.has("damaged") {
        let file = format!("content/{}.tar", digest.hex());
        let damaged = [&tar[..600], b"!", &tar[601..]].concat();
        fs::write(receiver.directory.path().join(file), damaged).unwrap();
    }
    let before = receiver.file_counts();
    let mut sender = Sender::claiming(body.bytes(), tar);
    if settings.has("bare") {
        sender = Sender::new(body.bytes());
    }
    let sender = sender.changed(changes);
    match sender.clone().send(&receiver).await {
        Some((status, text)) if status < 300 => {
            receiver.settled((1, 0)).await;
            receiver.store.get(&digest, &Limits::default()).unwrap();
            described(status, &text)
        }
        Some((status, text)) => {
            receiver.settled(before).await;
            described(status, &text)
        }
        // A client that closes the connection may get no response.
        None if sender.end == End::Cut => {
            receiver.settled(before).await;
            "400".to_owned()
        }
        None => "no answer".to_owned(),
    }
}

fn entry(kind: u8, path: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.as_mut_bytes()[156] = kind;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn values() -> Values {
    let tar = small();
    let gz = gzip(&tar);
    let other = gzip(&[&tar[..1024], &[0; 1024]].concat());
    let claims = with!(DeclaredUpload, body: Some(Digest::sha256(&other)));
    let other_digest = claims.to_headers()["content-digest"].clone();
    let link = |kind, path| gzip(&[entry(kind, path, 0), vec![0; 1024]].concat());
    let accepted = format!("{} {}", Digest::sha256(&tar), tar.len());
    let zeros = [entry(b'0', "manifests/zeros", 1 << 33), vec![0; 8 << 20]].concat();
    let cut = [1, 2, gz.len() / 2, gz.len() - 1];
    let (bundle, mut shell) = (bundle(), std::process::Command::new("sh"));
    let command = "tar czf - --exclude=etc --transform='s,^\\.,bundle,' .";
    shell.args(["-c", command]).current_dir(bundle.path());
    let packed = shell.output().unwrap().stdout;
    let mut values = Values::default();
    for (length, number) in cut.into_iter().zip(1..) {
        values = values.with(&format!("cut-{number}"), &gz[..length]);
    }
    values
        .with("accepted", accepted)
        .with("digest", Digest::sha256(&tar).to_string())
        .with("other-expected", Digest::sha256(b"other").to_string())
        .with("packed-size", packed.len().to_string())
        .with("packed", packed)
        .with("other", other)
        .with("other-digest", other_digest.as_bytes())
        .with("zero", "0")
        .with("nothing", gzip(&[0; 1024]))
        .with("x", gzip(&[b'x'; 2000]))
        .with("bomb", gzip(&zeros))
        .with("empty-gz", gzip(b""))
        .with("path-out", link(b'0', "../../etc/passwd"))
        .with("absolute", link(b'0', "/etc/passwd"))
        .with("hard-link", link(b'1', "manifests/hard"))
        .with("link", link(b'2', "manifests/link"))
        .with("device", link(b'3', "metadata"))
        .with("gz", gz)
        .with("tar", tar)
}

// parity: rukpak-7
#[tokio::test]
async fn claims_are_verified() {
    let rows = r"
        # settings, body, changes, answer
        trailers        | | {gz} | | 201 {accepted}
        known already   | stored | {gz} | | 200 {accepted}
        damaged         | damaged | {gz} | | 201 {accepted}
        damaged, no claims | kind bare damaged | {gz} | | 201 {accepted}
        # A request of `curl -T` with a top directory.
        with a length   | kind bare | {packed} | Content-Length:{packed-size} Transfer-Encoding: | 201 {accepted}
        also headers    | | {gz} | headers | 201 {accepted}
        headers alone   | | {gz} | headers no-trailers | 201 {accepted}
        contradiction   | | {gz} | headers rukpak-content-size:1
          | 400 InvalidClaim: *rukpak-content-size differs between header and trailer*
        no body digest  | | {gz} | content-digest: | 400 ClaimMissing: *the upload ends without content-digest*
        no digest       | | {gz} | rukpak-content-digest: | 400 ClaimMissing: *the upload ends without rukpak-content-digest*
        no size         | | {gz} | rukpak-content-size: | 400 ClaimMissing: *the upload ends without rukpak-content-size*
        optional body digest | kind | {gz} | content-digest: | 201 {accepted}
        optional digest | kind | {gz} | rukpak-content-digest: | 201 {accepted}
        optional size   | kind | {gz} | rukpak-content-size: | 201 {accepted}
        no claims       | kind bare | {gz} | | 201 {accepted}
        wrong body digest | both | {gz} | content-digest:sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=: | 422 BodyDigestMismatch: *does not match the upload*
        wrong digest    | both | {gz} | rukpak-content-digest:sha256:{zero*64} | 422 DigestMismatch: *rukpak-content-digest does not match the upload: declared sha256:000*
        wrong size      | both | {gz} | rukpak-content-size:1 | 422 SizeMismatch: *rukpak-content-size does not match the upload: declared 1, received *
        malformed digest | both | {gz} | rukpak-content-digest:sha256:x | 400 InvalidClaim: *rukpak-content-digest is not sha256:*
        malformed size  | both | {gz} | rukpak-content-size:-1 | 400 InvalidClaim: *is not a number of bytes*
        malformed body digest | both | {gz} | content-digest:sha-256=:eHg=: | 400 InvalidClaim: *content-digest does not have the form sha-256=:*
        claim of another content | stored | {other} | content-digest:{other-digest} | 422 DigestMismatch: *restart it*
        expected        | expects-it | {gz} | | 201 {accepted}
        expected, no claims | kind bare expects-it | {gz} | | 201 {accepted}
        not expected    | expects-other | {gz} |
          | 422 DigestMismatch: *the content has the digest {digest}, but the Bundle accepts only {other-expected}*
        not expected, no claims | kind bare expects-other | {gz} |
          | 422 DigestMismatch: *the content has the digest {digest}, but the Bundle accepts only {other-expected}*
        # A claim does not replace the expected digest, true or not.
        not expected, claimed | expects-other | {gz} | Rukpak-Content-Digest:{digest}
          | 422 DigestMismatch: *the content has the digest {digest}, but the Bundle accepts only {other-expected}*
        not expected, claimed alone | kind bare expects-other | {gz} | Rukpak-Content-Digest:{digest}
          | 422 DigestMismatch: *the content has the digest {digest}, but the Bundle accepts only {other-expected}*
    ";
    table::check(rows, &values(), outcome).await;
}

// parity: rukpak-22
#[tokio::test]
async fn uploads_that_are_no_bundle_are_rejected_while_they_arrive() {
    let rows = r"
        # settings, body, changes, answer
        plain tar       | | {tar} | | 415 NotGzip: *not compressed with gzip; pack the bundle with \x22tar czf\x22*
        no byte         | bare | | | 422 ArchiveTruncated: *the archive is empty*
        one byte        | | {cut-1} | | 415 NotGzip: *
        two bytes       | | {cut-2} | | 422 ArchiveTruncated: *truncated*
        half            | | {cut-3} | | 422 ArchiveTruncated: *truncated*
        no last byte    | | {cut-4} | | 422 ArchiveTruncated: *truncated*
        garbage after it | | {gz}garbage without a header | | 422 ArchiveDamaged: *the archive is corrupt*
        twice           | | {gz}{gz} | | 422 ArchiveDamaged: *data follows the end marker*
        something else  | bare | {x} | | 422 UnknownFormat: *something else compressed with gzip*
        bomb            | limit bare | {bomb} | stop | 413 LimitExceeded: *larger than the limit of 1048576 bytes*
        path out        | kind bare | {path-out} | | 422 InvalidPath: *
        absolute path   | kind bare | {absolute} | | 422 InvalidPath: *
        hard link       | kind bare | {hard-link} | | 422 EntryRefused: *
        link            | kind bare | {link} | | 422 EntryRefused: *
        device          | kind bare | {device} | | 422 EntryRefused: *
        no files        | kind bare | {nothing} | | 422 NothingUploaded: *the upload contains no files*
        zip             | | {gz} | stop Content-Type:application/zip | 415 UnsupportedMediaType: *the upload is application/zip*
        form            | | {gz} | stop Content-Type:application/x-www-form-urlencoded | 415 UnsupportedMediaType: *Content-Type: application/gzip*
        brotli          | | {gz} | stop Content-Encoding:br | 415 UnsupportedMediaType: *additionally encoded with br*
        malformed header | | {gz} | stop Content-Digest:sha-256=nothing | 400 InvalidClaim: content-digest does not have the form sha-256=:<32 bytes in base64>:
        too long        | | {gz} | stop Content-Length:99999999999 Transfer-Encoding: | 413 LimitExceeded: *the upload has 99999999999 bytes*
        parameters      | | {gz} | Content-Type:application/gzip;_charset=binary | 201 {accepted}
        capitals        | | {gz} | Content-Type:Application/X-Gzip_;a=b | 201 {accepted}
        empty parameter | | {gz} | Content-Type:application/octet-stream; | 201 {accepted}
        misleading parameter | | {gz} | Content-Type:application/zip;_of=application/gzip | 415 UnsupportedMediaType: *the upload is application/zip*
        endless         | limit bare | {empty-gz*5000} | endless | 413 LimitExceeded: *more than *
    ";
    table::check(rows, &values(), outcome).await;
    let (empty, values) = ([0; 1024], values());
    let rows = "
        # claims of a tar without files
        no files, optional | kind | {nothing} | | 422 NothingUploaded: *the upload contains no files*
        no files, claims   |      | {nothing} | | 422 NothingUploaded: *the upload contains no files*
    ";
    table::check(rows, &values.with("tar", empty), outcome).await;
}

/// Returns the archive of a bundle of 6 MiB, and its tar.
fn large_upload() -> (Vec<u8>, Vec<u8>) {
    let content = content(large(6).path());
    let mut body = Vec::new();
    unpacker::pack(&content, unpacker::Format::TarGz, &mut body).unwrap();
    (body, tar(&content).0)
}

#[tokio::test]
async fn uploads_that_break_off_or_stall_leave_nothing() {
    let (body, tar) = large_upload();
    let values = Values::default()
        .with("byte", &body[..1])
        .with("start", &body[..1000])
        .with("half", &body[..body.len() / 2])
        .with("all", body)
        .with("tar", tar);
    let rows = "
        # settings, body, changes, answer
        cut at once     | |         | cut | 400*
        cut, one byte   | | {byte}  | cut | 400*
        cut             | | {start} | cut | 400*
        cut, half       | | {half}  | cut | 400*
        cut at the end  | | {all}   | cut | 400*
        stalled at once | idle=300 |         | stop | 408 UploadStalled: *upload stalled for 300ms; restart it*
        stalled         | idle=300 | {start} | stop | 408 UploadStalled: *upload stalled for 300ms; restart it*
        stalled, half   | idle=300 | {half}  | stop | 408 UploadStalled: *upload stalled for 300ms; restart it*
        stalled at the end | idle=300 | {all} | stop | 408 UploadStalled: *upload stalled for 300ms; restart it*
        too slow        | idle=5000 total=1000 | {half} | stop | 408 UploadTooSlow: *the upload was not complete after 1s*
    ";
    table::check(rows, &values, outcome).await;
}

#[tokio::test]
async fn hanging_uploads_do_not_block_others() {
    let (body, tar) = large_upload();
    let mut terms = ReceiveOptions::default();
    (terms.idle, terms.total) = (Duration::from_secs(30), Duration::from_secs(20));
    let receiver = Receiver::new(terms, None).await;
    let whole = Sender::claiming(body, &tar);
    let half = whole.body[..whole.body.len() / 2].to_vec();
    let stopped = with!(whole.clone() => end: End::Stop, body: half);
    let hanging =
        async { futures::future::join_all((0..16).map(|_| stopped.clone().send(&receiver))).await };
    tokio::select! {
        _ = hanging => panic!("they hang for longer than the whole upload takes"),
        answer = whole.send(&receiver) => assert_eq!(answer.unwrap().0, 201),
    }
    receiver.settled((1, 0)).await;
}
