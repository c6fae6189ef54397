//! Requests with and without a proxy.

use crate::*;

/// A proxy that connects clients with its password, `p@sesame`, to the server at `{upstream}`.
const PROXY: &str = "!proxy-authorization: Basic bmFtZTpwQHNlc2FtZQ== => 407 && CONNECT => 200; Content-Length: - ~ tunnel && nothing ~ pass without proxy-authorization";

fn environment(variables: &str) -> Proxies {
    Proxies::new(|name| {
        let mut variables = variables.split_whitespace();
        let value = variables.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.map(str::to_owned)
    })
}

/// Requests a URL, and returns the numbers of connections to the proxy and the server, and the content or the error.
async fn outcome([variables, url, script]: &[Cell; 3]) -> String {
    let ca = TestCa::default();
    let is_tls = url.raw().starts_with("https://bundles");
    let tls = is_tls.then(|| ca.server(&["bundles.example"], |_| {}));
    let server = Port::take().serve(tls, Script::new("200 << content", &Values::default()));
    let script = match script.raw() {
        "" => Script::new(PROXY, &Values::default().with("upstream", server.host())),
        _ => script.script(),
    };
    let proxy = ScriptedServer::start(script);
    let (proxy_host, port) = (proxy.host(), server.address.port().to_string());
    let place = |cell: &Cell| {
        let cell = cell.with("proxy", &*proxy_host).with("port", &*port);
        let login = format!("=http://name:p%40sesame@{proxy_host}");
        cell.text().replace("=PROXY", &login)
    };
    let proxies = environment(&place(variables));
    let client = Client::with_proxies(&trust(&ca), &brisk(), &proxies).unwrap();
    let request = Request::get(place(url).parse().unwrap());
    let result = sent(&client, &request).await;
    let result = result.map_or_else(|error| described(&error), |(_, body)| body);
    let mut requests = server.seen().into_iter();
    assert!(requests.all(|request| request.header("proxy-authorization").is_none()));
    let received = proxy.seen().into_iter();
    let received = received.map(|request| format!("{} {}, ", request.method, request.target));
    let received = received.collect::<String>().replace(&port, "PORT");
    format!("{received}{}: {result}", server.connections())
}

#[tokio::test]
async fn proxies_of_the_environment_are_used() {
    let rows = "
        # variables, URL, script of the proxy, requests to the proxy and connections to the server
        plain      | HTTP_PROXY=PROXY | http://bundles.example/b.tgz?x | | GET http://bundles.example/b.tgz?x, 1: content
        tunnel     | ALL_PROXY=PROXY | https://bundles.example/b.tgz | | CONNECT bundles.example:443, 1: content
        other name | ALL_PROXY=PROXY | https://bundles-2.example/ | | CONNECT bundles-2.example:443, 1: CertificateUntrusted, terminal: *
        wrong password | ALL_PROXY=http://name:sesame@{proxy} | http://bundles.example/ |
          | GET http://bundles.example/, 0: UnexpectedStatus, terminal: *credentials*
        wrong password, tunnel | ALL_PROXY=http://name:sesame@{proxy} | https://bundles.example/ |
          | CONNECT bundles.example:443, 0: ProxyRefused, transient: *credentials*
        forbidden  | HTTPS_PROXY=http://{proxy} | https://bundles.example/ | 403 << not from here
          | CONNECT bundles.example:443, 0: ProxyRefused, transient: the proxy rejected*
        unsupported              | ALL_PROXY=socks5://127.0.0.1:1 | http://0.0.0.0:{port}/ | | 0: ClientInvalid, terminal: *ALL_PROXY*
        any address | HTTP_PROXY=PROXY | http://0.0.0.0:{port}/ | | GET http://0.0.0.0:PORT/, 1: content
        NO_PROXY   | HTTP_PROXY=PROXY NO_PROXY=0.0.0.0 | http://0.0.0.0:{port}/ | | 1: content
        unreachable | HTTP_PROXY=http://name:sesame@127.0.0.1:1 | http://h.example/ | | 0: ConnectionFailed, transient: *the proxy settings*
    ";
    table::check(rows, &Values::default(), outcome).await;
}

/// The environment belongs to the process, so this test runs itself in another one.
#[tokio::test]
async fn client_reads_proxies_from_the_environment() {
    if std::env::var_os("ASK_THROUGH_THE_ENVIRONMENT").is_some() {
        let client = Client::new(&Trust::default(), &brisk()).unwrap();
        let request = Request::get("http://bundles.example/".parse().unwrap());
        assert_rows!(client.send(&request).await.unwrap().bytes(10).await.unwrap() => "content");
        return;
    }
    let proxy = ScriptedServer::follow("200 << content");
    let mut child = Command::new(std::env::current_exe().unwrap());
    let test = "proxies::client_reads_proxies_from_the_environment";
    child.args(["--exact", test]);
    for name in ["HTTP_PROXY", "NO_PROXY", "no_proxy"] {
        child.env_remove(name);
    }
    child.env("ASK_THROUGH_THE_ENVIRONMENT", "1");
    child.env("http_proxy", proxy.url(""));
    let output = tokio::task::spawn_blocking(move || child.output().unwrap());
    let output = output.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_rows!(output.status.success() && text.contains("1 passed") => true, "{text}");
    assert_eq!(proxy.seen().len(), 1);
}
