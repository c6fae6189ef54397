//! Slow, broken and redirected connections, and busy registries.

use crate::*;

/// Returns a layer that is large enough to be truncated, and the content of its file.
fn large() -> (Vec<u8>, Vec<u8>) {
    let content = noise(7, 300_000);
    (layer(&[("manifests/a.bin", &content)]), content)
}

#[tokio::test]
async fn registry_without_tls_is_accessed_over_http() {
    for handshake in [
        "400 << no TLS here",
        // Neither protocol works at first.
        "<< nothing then 400 << no TLS here",
    ] {
        let store = Store::small();
        let rules = format!("GET /v2/\\r\\n => << nothing && RAW => {handshake}");
        let answer = move |request: &Received| store.answer(request);
        let script = Script::before(&rules, &Values::default(), answer);
        let server = ScriptedServer::start(script);
        let image = format!("{}/app:v1", server.host());
        assert_rows!(outcome(pull(&image, &plain()).await) => "manifests/a.yaml=kind: A", "{handshake}");
    }
}

#[tokio::test]
async fn transfers_are_resumed_retried_and_bounded() {
    let (bytes, content) = large();
    let whole = bytes.len();
    let values = Values::default()
        .with("layer", &*bytes)
        .with("whole", whole.to_string())
        .with("last", (whole - 1).to_string())
        .with("rest", (whole - 100_000).to_string())
        .with("rest-3", (whole - 150_000).to_string())
        .with("part-1", &bytes[..100_000])
        .with("part-2", &bytes[100_000..150_000])
        .with("part-3", &bytes[150_000..])
        .with("parts", &bytes[..200_000])
        .with("wrong", &bytes[..whole - 100_000])
        .with("start", &bytes[..1000])
        .with("length", format!("{whole:x}"))
        .with("noise", noise(1, 0x10000))
        .with("spaces", vec![b' '; 0x10000])
        .with("chunked", "Transfer-Encoding: chunked")
        .with("manifest", format!("Content-Type: {MANIFEST}"));
    let rows = r"
        # rules beside an honest registry, times in milliseconds, requests for the layer and outcome
        resumed       | {top} & range: bytes=100000- => 206; Content-Range: bytes 100000-{last}/{whole}; Content-Length: {rest} << {part-2} && {top} & range: bytes=150000- => 206; Content-Range: bytes 150000-{last}/{whole}; Content-Length: {rest-3} << {part-3}
          && {top} => 200; Content-Length: {whole} << {part-1} | | 3: the file, {whole}/{whole}
        no ranges     | {top} => 200; Content-Length: {whole} << {part-1} then 200; Content-Length: {whole} << {parts} then 200 << {layer} | | 3: the file, *
        wrong range   | {top} & range: => 206; Content-Range: bytes 0-9/10; Content-Length: {rest} << {wrong}
          && {top} => 200; Content-Length: {whole} << {part-1} | | *: *sent another range*
        always cut    | STEPS{top} => 200; Content-Length: {whole} << 0123456789 | | 4: ConnectionBroken, transient: *
        endless       | {top} => 200; {chunked} ~ repeat 10000\r\n{noise}\r\n | | *: ContentMismatch*more than*
        endless, stated | {top} => 200; Content-Length: 1099511627776 ~ repeat {noise} | | *: ContentMismatch*more than*
        endless end   | {top} => 200; {chunked} << {length}\r\n{layer}\r\n ~ repeat 1\r\n0\r\n | | *: ContentMismatch*more than*
        too short     | {top} => 200 << {start} | | 1: ContentMismatch*fewer than*
        drip          | {top} => 200; Content-Length: {whole} ~ drip | 2000 | 1: *, transient: *took longer than 2 s*
        busy          | {top} => 2 x 429; Retry-After: 0 << slow down then 200 << {layer} | | 3: the file, {whole}/{whole}
        always busy   | GET => 429; Retry-After: 0 << slow down | | 0: TooManyRequests, transient: *
        large manifest | /manifests/ => 200; {manifest}; Content-Length: 100000000 ~ repeat {spaces} | | 0: LimitExceeded*larger than 4194304 bytes*
        endless manifest | /manifests/ => 200; {manifest}; {chunked} ~ repeat 10000\r\n{spaces}\r\n | | 0: LimitExceeded*larger than 4194304 bytes*
    ";
    let steps = [10, 20, 30, 40].map(|from| {
        let head = format!("206; Content-Range: bytes {from}-{{last}}/{{whole}}");
        let length = format!("Content-Length: {}", whole - from);
        format!("{{top}} & range: bytes={from}- => {head}; {length} << 0123456789 && ")
    });
    let rows = rows.replace("STEPS", &steps.concat());
    table::check(&rows, &values, async |[rules, time]: &[Cell; 2]| {
        let store = Store::image(std::slice::from_ref(&bytes));
        let registry = Registry::with_rules(store, rules.raw(), rules.values());
        let mut access = Registry::access();
        if !time.raw().is_empty() {
            access.timeouts.total = Duration::from_millis(time.raw().parse().unwrap());
        }
        let (options, progress, start) = (Options::default(), Progress::default(), Instant::now());
        let image = source(&registry.image("app:v1"));
        let result = match image::fetch(&image, &access, &options, &progress).await {
            Ok(fetched) => {
                assert_rows!(fetched.tree.into_content().unwrap().read("manifests/a.bin").unwrap() => &content);
                format!("the file, {}/{}", progress.done(), progress.total())
            }
            Err(error) => outcome(Err(error)),
        };
        let took = start.elapsed();
        assert!(took < Duration::from_secs(15), "{took:?}");
        if rules.raw().starts_with("GET => 429") {
            assert_eq!(registry.0.seen().len(), access.timeouts.attempts as usize);
        }
        format!("{}: {result}", registry.request_count("GET", &digest(&bytes)))
    })
    .await;
}

#[tokio::test]
async fn credentials_are_not_sent_to_the_storage_of_a_registry() {
    let values = Values::default().with("layer", large().0);
    let storage = Registry::on(Port::take(), Script::new("200 << {layer}", &values));
    let values = values.with("storage", storage.0.host());
    let rules = "!authorization: => 401; WWW-Authenticate: Basic realm=x && {top} => 307; Location: https://{storage}/bucket/blob?signature=word";
    let registry = Registry::with_rules(Store::image(&[large().0]), rules, &values);
    let config = docker_config(&[(&registry.0.host(), OWNER)]);
    let found = registry.pulled(&with(Registry::access(), &config)).await;
    assert!(found.starts_with("manifests/a.bin="), "{found}");
    let has_credentials = |server: &ScriptedServer| {
        let has = |request: &Received| request.header("authorization").is_some();
        server.seen().iter().map(has).collect::<Vec<_>>()
    };
    assert_rows!((has_credentials(&storage.0), has_credentials(&registry.0).contains(&true)) => (vec![false], true));
}

#[tokio::test]
async fn many_layers_are_fetched_together_and_read_from_the_top() {
    let layers: [_; 12] = std::array::from_fn(|number| {
        let own = format!("manifests/{number:02}.bin");
        let (content, text) = (noise(number as u64 + 1, 400_000), number.to_string());
        let shared = ("manifests/shared.yaml", text.as_bytes());
        layer(&[(&*own, &*content), shared])
    });
    let registry = Registry::honest(Store::image(&layers));
    let fetched = pull(&registry.image("app:v1"), &Registry::access()).await;
    let content = fetched.unwrap().tree.into_content().unwrap();
    assert_eq!(content.len(), 13);
    assert_eq!(content.read("manifests/shared.yaml").unwrap(), "11");
    for number in 0..12 {
        assert_rows!(content.read(&format!("manifests/{number:02}.bin")).unwrap() => &noise(number + 1, 400_000));
    }
}

#[tokio::test]
async fn timeout_is_that_of_all_layers_together() {
    let own = |number| layer(&[(&*format!("manifests/{number}"), &noise(number, 100))]);
    let store = Store::image(&(0..12).map(own).collect::<Vec<_>>());
    let script = Script::from_fn(move |request| -> Answer {
        if request.target.contains("/blobs/") {
            thread::sleep(Duration::from_millis(300));
        }
        store.answer(request)
    });
    let registry = Registry::on(Port::take(), script);
    let image = Source::Image(source(&registry.image("app:v1")));
    let fetch = async |seconds| {
        let access = with!(Registry::access() => timeouts.total: Duration::from_secs(seconds));
        unpacker::fetch(&image, &access, &Options::default(), &Progress::default()).await
    };
    let error = fetch(1).await.unwrap_err();
    assert_eq!((error.reason(), error.is_terminal()), ("TimedOut", false));
    assert_has(&error, "--timeout");
    assert!(fetch(60).await.is_ok());
}
