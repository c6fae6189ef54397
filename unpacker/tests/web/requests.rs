//! Requests to servers that fail, redirect, or send too much, too little or too slowly.

use crate::*;

/// Sends a request with credentials to server A, and reads at most 1000 bytes of the answer.
///
/// Settings: those of [`timeouts`], a method, which comes with a body, `repeatable`, `bare` for no credentials, `withheld`,
/// `unverified`, and `tls-a` and `tls-b` for servers with TLS.
async fn outcome([script_a, script_b, settings]: &[Cell; 3]) -> String {
    let (port_a, port_b) = (Port::take(), Port::take());
    let (host_a, host_b) = (port_a.host(), port_b.host());
    let local = host_a.replace("127.0.0.1", "localhost");
    let script = |cell: &Cell| {
        let hosts = cell.with("a", &*host_a).with("b", &*host_b);
        hosts.with("local", &*local).script()
    };
    let ca = LazyCell::new(TestCa::default);
    let tls = |word| {
        let is_set = settings.has(word);
        is_set.then(|| ca.server(&["127.0.0.1"], |_| {}))
    };
    let has_server = script_a.raw() != "unreachable";
    let server_a = has_server.then(|| port_a.serve(tls("tls-a"), script(script_a)));
    let server_b = port_b.serve(tls("tls-b"), script(script_b));

    let secure = if settings.has("tls-a") { "s" } else { "" };
    let url = format!("http{secure}://{host_a}/?token=sesame");
    let mut request = Request::get(url.parse().unwrap());
    if !settings.has("bare") {
        request.authorization = Some(Secret::from(BASIC.to_owned()));
        let cookie = "session=sesame".parse().unwrap();
        request.headers.insert("cookie", cookie);
    }
    let accept = "application/gzip".parse().unwrap();
    request.headers.insert("accept", accept);
    for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD"] {
        if settings.has(method) {
            request.method = method.parse::<Method>().unwrap();
            request.body = Some("content".into());
        }
    }
    request.idempotent = settings.has("repeatable");
    let mut trust = Trust::default();
    if settings.raw().contains("tls-") {
        trust.roots = ca.pem();
    }
    if settings.has("unverified") {
        trust.verify = Verify::Never;
    }
    let mut client = client(&trust, &timeouts(settings));
    if settings.has("withheld") {
        client = client.with_server_messages(Quotes::Withheld);
    }

    let start = Instant::now();
    let result = match sent(&client, &request).await {
        Ok((url, body)) if url == request.url => body,
        Ok((url, body)) => format!("{body} at {url}").trim().to_owned(),
        Err(error) => described(&error),
    };
    assert!(start.elapsed() < brisk().total, "too slow: {result}");
    let mut traces = server_a.map_or_else(String::new, |server| trace(&server.seen()));
    if server_b.connections() > 0 {
        traces = [traces, trace(&server_b.seen())].join("; B ");
    }
    let text = format!("{traces} -> {result}").replace(&local, "local");
    let text = text.replace(&host_a, "a").replace(&host_b, "b");
    text.trim().to_owned()
}

/// Name, server A, server B, settings, outcome.
async fn check(rows: &str) {
    let values = Values::default()
        .with("x", "x")
        .with("zero", [0])
        .with("chunked", "Transfer-Encoding: chunked")
        .with("much", "much ado ")
        .with("excerpt", "much ado ".repeat(22) + "m");
    table::check(rows, &values, outcome).await;
}

#[tokio::test]
async fn bodies_are_bounded_and_whole() {
    check(r"
        empty                  | 200 | | | GET / ->
        whole                  | 200 << abc | | | GET / -> abc
        not decompressed       | 200; Content-Encoding: gzip << not gzip | | | GET / -> not gzip
        chunks                 | 200; {chunked} << 3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n | | | GET / -> abcde
        no length              | 200; Content-Length: - << abc | | | GET / -> abc
        largest                | 200 << {x*1000} | | | GET / -> {x*1000}
        more than the length   | 200; Content-Length: 2 << abcdef | | | GET / -> ab
        too large by its head  | 200; Content-Length: 1001 ~ stall | | | GET / -> LimitExceeded, terminal: *a/ is larger than the limit of 1000 bytes; check the address
        endless chunks         | 200; {chunked} ~ repeat 4\r\nabcd\r\n | | | GET / -> LimitExceeded, terminal: *limit of 1000 bytes; check the address
        endless                | 200; Content-Length: - ~ repeat {zero*4096} | | | GET / -> LimitExceeded, terminal: *limit of 1000 bytes; check the address
        drip                   | 200; Content-Length: 1000 ~ drip | | total=500 | GET / -> TimedOut, transient: *longer than 0.5 s*
        stop                   | 200; Content-Length: 1000 << abc ~ stall | | idle=100 | GET / -> TimedOut, transient: *sent nothing for 0.1 s*
        shorter than stated    | 200; Content-Length: 9 << abc | | | GET / -> ConnectionBroken, transient: *interrupted after 3 bytes*
        no last chunk          | 200; {chunked} << 3\r\nabc\r\n | | | GET / -> ConnectionBroken, transient: *interrupted after 3 bytes*
        chunk cut short        | 200; {chunked} << 9\r\nabc | | | GET / -> ConnectionBroken, transient: *interrupted after 3 bytes*
        chunk without a size   | 200; {chunked} << nine\r\nabc | | | GET / -> ConnectionBroken, transient: *interrupted after 0 bytes*
        two lengths            | 200; Content-Length: 2; Content-Length: 3 << abc | | | *GET / -> ConnectionFailed, transient: *
    ").await;
}

#[tokio::test]
async fn unexpected_status_is_reported_with_excerpt_and_remedy() {
    check(r#"
        page        | 404 << \n<!DOCTYPE html><html><body>Not found</body></html> | |
          | GET / -> NotFound, terminal: GET http://a/: unexpected status "404 Not Found"; check the address; it may require credentials
        controls    | 403 << no\x1b[31m way\r\n\0 | |
          | GET / -> Unauthorized, terminal: GET http://a/: unexpected status "403 Forbidden" (no [31m way); check that these credentials have read access
        credentials | 401 << unknown: Basic bmFtZTpzZXNhbWU=, name:sesame | |
          | GET / -> Unauthorized, terminal: GET http://a/: unexpected status "401 Unauthorized" (unknown: …, …); provide valid credentials
        empty       | 500 Oops | |
          | GET / -> UnexpectedStatus, transient: GET http://a/: unexpected status "500 Internal Server Error"; server error; try again later
        endless     | 500; Content-Length: - ~ repeat {much*50} | | | GET / -> *"500 Internal Server Error" ({excerpt}…);*
        withheld    | 403 << the vault is closed | | withheld
          | GET / -> Unauthorized, terminal: GET http://a/: unexpected status "403 Forbidden"; check that these credentials have read access
    "#).await;
}

#[tokio::test]
async fn transient_failures_are_retried_and_others_are_not() {
    check(r#"
        408            | 2 x 408; Retry-After: 0 << busy then 200 << content | | | 3 x GET / -> content
        429            | 2 x 429; Retry-After: 0 << busy then 200 << content | | | 3 x GET / -> content
        502            | 2 x 502; Retry-After: 0 << busy then 200 << content | | | 3 x GET / -> content
        503            | 2 x 503 << busy then 200 << content | | | 3 x GET / -> content
        504            | 2 x 504; Retry-After: 0 << busy then 200 << content | | | 3 x GET / -> content
        no answer      | 2 x nothing then 200 << content | | | 3 x GET / -> content
        half an answer | 2 x << HTTP/1.1 200 OK\r\nContent-Le then 200 << content | | | 3 x GET / -> content
        400 | 400 then 200 | | | GET / -> UnexpectedStatus, terminal: *"400 Bad Request"*
        410 | 410 then 200 | | | GET / -> NotFound, terminal: *"410 Gone"*
        501 | 501 then 200 | | | GET / -> UnexpectedStatus, transient: *"501 Not Implemented"*
        always 429     | 429; Retry-After: 0 << slow down | | | 5 x GET / -> TooManyRequests, transient: *(slow down)*
        redirected     | /busy => 503 && 302; Location: /busy | | | GET /, 4 x GET /busy -> *"503 Service Unavailable"*
        too long a wait | 503; Retry-After: 3600 then 200 | | | GET / -> *"503 Service Unavailable"*
        POST           | 503 | | POST   | POST / content -> *"503 Service Unavailable"*
        PATCH          | 503 | | PATCH  | PATCH / content -> *"503 Service Unavailable"*
        DELETE         | 503 | | DELETE | DELETE / content -> *"503 Service Unavailable"*
        PUT            | 503 | | PUT    | 5 x PUT / content -> *"503 Service Unavailable"*
        HEAD           | 503 | | HEAD   | 5 x HEAD / content -> *"503 Service Unavailable"*
        repeatable     | 503 | | POST repeatable | 5 x POST / content -> *"503 Service Unavailable"*
        no server      | unreachable | | | -> ConnectionFailed, transient: failed to reach http://a/ in 5 attempts; check the address, the network and the proxy settings: Connection refused (os error 111)
        silence        | nothing ~ stall | | idle=400 attempts=3 | 3 x GET / -> TimedOut, transient: *sent nothing for 0.4 s*
        no limits      | 2 x 503 then 200 << content | | endless | 3 x GET / -> content
        head that drips | << HTTP/1.1 200 OK\r\nX: ~ drip | | total=500 | GET / -> TimedOut, transient: *longer than 0.5 s*
        endless head   | << HTTP/1.1 200 OK\r\n ~ repeat X: xxxxxxxxxxxxxxxx\r\n | | | *GET / -> ConnectionFailed, transient: *
        no HTTP        | << SSH-2.0-OpenSSH_9.6\r\n | | | *GET / -> ConnectionFailed, transient: *
    "#).await;
}

#[tokio::test]
async fn redirects_get_credentials_only_on_the_same_server() {
    check(r#"
        same server     | /moved => 200 << here && 302; Location: /moved | | | GET /, GET /moved -> here at http://a/moved
        301 elsewhere   | 301; Location: http://{b}/blob?x=1 | 200 << here | | GET /; B GET /blob?x=1 bare -> here at http://b/blob?x=1
        302 elsewhere   | 302; Location: http://{b}/blob?x=1 | 200 << here | | GET /; B GET /blob?x=1 bare -> here at http://b/blob?x=1
        303 elsewhere   | 303; Location: http://{b}/blob?x=1 | 200 << here | | GET /; B GET /blob?x=1 bare -> here at http://b/blob?x=1
        307 elsewhere   | 307; Location: http://{b}/blob?x=1 | 200 << here | | GET /; B GET /blob?x=1 bare -> here at http://b/blob?x=1
        308 elsewhere   | 308; Location: http://{b}/blob?x=1 | 200 << here | | GET /; B GET /blob?x=1 bare -> here at http://b/blob?x=1
        other name      | /moved => 200 && 302; Location: http://{local}/moved | | | GET /, GET /moved bare -> at http://local/moved
        to https        | 301; Location: https://{b}/ | 200 | tls-b | GET /; B GET / bare -> at https://b/
        detour          | /log => 200 && 302; Location: http://{b}/ | 302; Location: http://{a}/log | | GET /, GET /log bare; B GET / bare -> at http://a/log
        in the Location | /moved => 200 && 302; Location: http://name:other@{host}/moved | | bare | GET / bare, GET /moved bare -> at http://a/moved
        circle          | 302; Location: /again?token=sesame | | | GET /, 5 x GET /again -> RedirectRefused, terminal: *more than 5 times*
        to http         | 302; Location: http://{b}/?token=sesame | 200 | tls-a | GET / -> RedirectRefused, terminal: *not encrypted*
        to http, unverified | 302; Location: http://{b}/?token=sesame | 200 | tls-a unverified | GET / -> RedirectRefused, terminal: *not encrypted*
        file            | 302; Location: file:///etc/passwd | | | GET / -> RedirectRefused, terminal: *"file"*
        ftp             | 302; Location: ftp://h/b.tgz | | | GET / -> RedirectRefused, terminal: *"ftp"*
        data            | 302; Location: data:,x | | | GET / -> RedirectRefused, terminal: *"data"*
        gopher          | 302; Location: gopher://h:25/ | | | GET / -> RedirectRefused, terminal: *"gopher"*
        no host         | 302; Location: https:// | | | GET / -> RedirectRefused, terminal: *an invalid URL*
        half an address | 302; Location: http://[::1 | | | GET / -> RedirectRefused, terminal: *an invalid URL*
        no Location     | 302 | | | GET / -> RedirectRefused, terminal: *without a target*
        PUT 307         | /moved => 200 && 307; Location: /moved | | PUT | PUT / content, PUT /moved content -> at http://a/moved
        POST 308        | /moved => 200 && 308; Location: /moved | | POST | POST / content, POST /moved content -> at http://a/moved
        POST 307 elsewhere | 307; Location: http://{b}/token | 200 | POST
          | POST / content -> RedirectRefused, terminal: *another server*
        POST 303        | /moved => 200 && 303; Location: /moved | | POST | POST / content, GET /moved -> at http://a/moved
        POST 302        | /moved => 200 && 302; Location: /moved | | POST | POST / content -> RedirectRefused, terminal: *followed only for reads*
        PUT 301         | /moved => 200 && 301; Location: /moved | | PUT | PUT / content -> RedirectRefused, terminal: *followed only for reads*
    "#).await;
}

#[tokio::test]
async fn slow_upload_does_not_time_out() {
    let timeouts = with!(Timeouts, idle: Duration::from_millis(800); ..brisk());
    let server = ScriptedServer::follow("200 ~ slowly");
    let request = with!(Request::new(Method::PUT, server.url("/").parse().unwrap()) => body: Some(vec![7; 96 << 20].into()));
    let start = Instant::now();
    let client = client(&Trust::default(), &timeouts);
    let response = client.send(&request).await.unwrap();
    // A faster upload would not exceed the idle timeout.
    assert!(start.elapsed() > timeouts.idle);
    let requests = server.seen();
    assert_eq!((response.status.as_u16(), requests.len()), (200, 1));
    assert_rows!((requests[0].header("transfer-encoding"), requests[0].body.len()) => (None, 96 << 20));
}
