//! Deliveries to receivers that answer, reject, stall, break off or are unreachable, and the end of a Job.

use crate::*;

/// Starts a proxy in front of a receiver that follows a script.
fn front(script: &str, receiver: &Receiver) -> ScriptedServer {
    let values = Values::default().with("upstream", &*receiver.host);
    ScriptedServer::start(Script::new(script, &values))
}

/// Returns the number of requests, and the termination message or the log.
///
/// Settings: `MIB=COUNT` for a larger bundle, `file=COUNT` and `total=COUNT` for limits of the receiver, and arguments.
async fn outcome([script, settings]: &[Cell; 2]) -> String {
    let (mut terms, mut args, mut mebibytes) = (ReceiveOptions::default(), Vec::new(), 0);
    for word in settings.words() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "MIB" => mebibytes = value.parse().unwrap(),
            "file" => terms.options.limits.file = value.parse().unwrap(),
            "total" => terms.options.limits.total = value.parse().unwrap(),
            _ => args.push(word),
        }
    }
    let bundle = large(mebibytes);
    let receiver = Receiver::new(terms, None).await;
    let script = script.with("upstream", &*receiver.host);
    let port = Port::take();
    let (host, url) = (port.host(), format!("http://{}/content/x", port.host()));
    let server = (script.raw() != "unreachable").then(|| port.serve(None, script.script()));
    let ran = Run::from_to(bundle.path(), &url).args(args).run().await;
    let requests = server.map_or(0, |server| server.seen().len());
    let result = if ran.code == Some(0) {
        assert_eq!((ran.message.as_str(), receiver.file_counts()), ("", (1, 0)));
        format!("{} lines {}", ran.stderr.lines().count(), ran.stderr)
    } else {
        assert!(ran.took < Duration::from_secs(20), "{ran:?}");
        let message = ran.failure();
        assert_eq!(receiver.file_counts(), (0, 0), "{message}");
        assert!(message.len() <= 4096 && !message.contains(char::is_control));
        message
    };
    format!("{requests}: {}", result.replace(&host, "HOST"))
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_retried_or_end_with_a_reason() {
    let problem = |reason: &str, message: &str| {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        serde_json::to_string(&Problem { reason, message }).unwrap()
    };
    let deleted = "bundle \"x\" was deleted; nothing to do";
    let hostile = "é\n\u{1b}[31m\u{202e}\u{2066}\u{2028}".repeat(2000);
    let values = Values::default()
        .with("deleted", problem("BundleGone", deleted))
        .with("no-more", problem("TooLarge", "no more"))
        .with("long", problem("Long", &hostile))
        .with("full", problem("StoreFull", "the disk is full"));
    let rows = r#"
        # script, settings, number of requests, and the message or the lines that are printed
        busy twice       | 503 then 502 << busy then nothing ~ pass | MIB=4 | 3: 4 lines *503 Service Unavailable*
        too many         | 429; Retry-After: 1 then nothing ~ pass | MIB=4 | 2: 3 lines *status 429*
        request timeout  | 408 then nothing ~ pass | MIB=4 | 2: 3 lines *status 408*
        cut              | nothing ~ read 100000 then nothing ~ pass | MIB=4 | 2: 3 lines *was lost*
        cut at once      | nothing ~ read 1 then nothing ~ pass | MIB=4 | 2: 3 lines *was lost*
        torn answers     | << HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"dig then << HTTP/1.1 400 Bad\r\nContent-Length: 100\r\n\r\n{"dig then nothing ~ pass
          | MIB=4 | 3: 4 lines *was lost*
        hasty answer     | 503 ~ read 0 then nothing ~ pass | MIB=4 | 2: 3 lines *attempt 1 of 6 failed*
        rejected         | 404 << {deleted} | | 1: BundleGone: bundle "x" was deleted; nothing to do (status 404 of HOST*
        file too large   | nothing ~ pass | file=12 | 1: LimitExceeded: *file "manifests/csv.yaml" is larger than the limit of 12 bytes*
        seen early       | nothing ~ pass | MIB=15 total=1048576 | 1: LimitExceeded: *content is larger than the limit of 1048576 bytes*
        reset            | 413 Too Large << {no-more} ~ read 0 | MIB=15 | *: TooLarge: no more*
        long message     | 400 << {long} | | 1: Long: é  [31m   é*
        page             | 200 << <html>Welcome</html> | | 1: UnexpectedAnswer: *200 OK without the digest*
        other digest     | 201 << {"digest":"sha256:00","size":1} | | 1: UnexpectedAnswer: *the reported digest sha256:00 differs from the sent digest sha256:*
        no content       | 204 | | 1: UnexpectedAnswer: *204 No Content*
        redirect         | 302; Location: http://127.0.0.1:1/ | | 1: UnexpectedAnswer: *redirects are not followed*
        redirect of PUT  | 307; Location: /elsewhere | | 1: UnexpectedAnswer: *redirects are not followed*
        not found        | 404 << 404 page\nnot found | | 1: UploadRefused: *404 Not Found 404 page not found*
        unauthorized     | 401 | | 1: UploadRefused: *401 Unauthorized*
        always busy      | 503 << {full} | --tries 2 | 2: ReceiverUnavailable: gave up (attempts: 2, seconds: *is unavailable: the disk is full (status 503)
        no receiver      | unreachable | --tries 1 | 0: ConnectFailed: *failed to connect to HOST: *
        silent           | nothing ~ stall | MIB=15 --idle-timeout 1 --tries 2 | *: ConnectionBroken: gave up (attempts: 2, seconds: *no data was transferred to or from * for 1s*
        deaf             | nothing ~ read 0 ~ stall | MIB=15 --idle-timeout 1 --tries 2 | *: ConnectionBroken: gave up (attempts: 2, seconds: *no data was transferred to or from * for 1s*
        silent for too long | nothing ~ stall | MIB=15 --timeout 1 | *: TimedOut: gave up (attempts: 1, seconds: 1)*
        deaf for too long | nothing ~ read 0 ~ stall | MIB=15 --timeout 1 | *: TimedOut: gave up (attempts: 1, seconds: 1)*
    "#;
    table::check(rows, &values, outcome).await;
}

#[tokio::test]
async fn bundles_arrive_as_they_are_and_are_stored_once() {
    let bundle = bundle();
    let receiver = Receiver::new(ReceiveOptions::default(), None).await;
    let server = front("nothing ~ pass", &receiver);
    let expected = content(bundle.path());
    let (tar, digest) = tar(&expected);
    for result in ["stored", "already stored"] {
        let run = Run::from_to(bundle.path(), &server.url("/content/x"));
        let ran = run.run().await;
        ran.succeeded();
        let line = format!("{result}: {digest}, {} bytes of tar", tar.len());
        assert_has(&ran.stderr, &line);
        assert_rows!(*receiver.store.get(&digest, &Limits::default()).unwrap() => expected);
        assert_eq!(receiver.file_counts(), (1, 0));
    }
    let head = &server.seen()[0];
    let trailer = "Content-Digest, Rukpak-Content-Digest, Rukpak-Content-Size";
    assert_rows!(["content-type", "transfer-encoding", "trailer", "authorization"].map(|name| head.header(name))
        => [Some("application/gzip"), Some("chunked"), Some(trailer), None]);
}

// parity: rukpak-23
#[tokio::test]
async fn token_is_sent_and_read_again_for_each_try() {
    let bundle = bundle();
    let receiver = Receiver::new(ReceiveOptions::default(), None).await;
    let token = bundle.path().join("token");
    fs::write(&token, "first\n").unwrap();
    let server = front("503; Retry-After: 2 then nothing ~ pass", &receiver);
    let run = Run::from_to(bundle.path(), &server.url("/content/x"))
        .args(["--token-file".as_ref(), token.as_os_str()]);
    let run = tokio::spawn(run.run());
    while server.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    // Within the two seconds of the receiver's Retry-After.
    fs::write(&token, "second\n").unwrap();
    let ran = run.await.unwrap();
    assert_rows!((ran.code, ran.took >= Duration::from_secs(2)) => (Some(0), true), "{ran:?}");
    let token = |request: &Received| request.header("authorization").unwrap().to_owned();
    assert_rows!(server.seen().iter().map(token).collect::<Vec<_>>() => ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn malformed_tokens_are_reported_and_good_ones_are_not() {
    let bundle = bundle();
    let server = ScriptedServer::follow("401");
    let once = || Run::from_to(bundle.path(), &server.url("/")).args(["--tries", "1"]);
    let ran = once().args(["--token-file", "/none/token"]).run().await;
    let message = "failed to read the token in \"/none/token\"; check --token-file";
    ran.failed("InvalidConfiguration", message);
    let ran = once().file("--token-file", "\n").run().await;
    ran.failed("InvalidConfiguration", "the file is empty");
    assert_eq!(server.connections(), 0);

    let ran = once().file("--token-file", "word").run().await;
    assert_rows!(server.seen().pop().unwrap().header("authorization") => Some("Bearer word"));
    assert!(!ran.stderr.contains("word"), "{}", ran.stderr);
    ran.failed("UploadRefused", "401");
}

#[tokio::test]
async fn sigterm_ends_a_delivery_at_once_with_a_message() {
    let (bundle, server) = (bundle(), ScriptedServer::follow("nothing ~ stall"));
    let message = bundle.path().join("termination");
    let run = Run::from_to(bundle.path(), &server.url("/content/x"));
    let mut run = run.args([Path::new("--termination-message"), &message]);
    let mut child = run.command.spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.next_line().await.unwrap().unwrap();
    assert_rows!(started.starts_with("unpack: sending 4 files of ") => true, "{started}");
    let pid = child.id().unwrap().to_string();
    assert_rows!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success() => true);
    assert_rows!(tokio::time::timeout(Duration::from_secs(5), child.wait()).await.unwrap().unwrap().code() => Some(143));
    assert_rows!(fs::read_to_string(message).unwrap() => "Stopped: stopped by SIGTERM");
}
