//! Credentials: users of token requests, and recipients of passwords.

use crate::*;

/// Rules of a registry that accepts only the token `good` of the service at `{service}`.
const GUARDED: &str = "!authorization: Bearer good => 401; WWW-Authenticate: Bearer realm=\"https://{service}/token?account=x\",service=\"tests\",scope=\"repository:other:push\"";

fn identity(host: &str, token: &str) -> String {
    format!(r#"{{"auths": {{"{host}": {{"identitytoken": "{token}"}}}}}}"#)
}

/// Pulls: requests to the service, `Authorization` of those to the registry, and the outcome.
async fn pulled([rules, service, login]: &[Cell; 3]) -> String {
    let port = Port::take();
    let values = rules.values().clone().with("service", port.host());
    let service = Registry::on(port, service.script());
    let rules = match rules.raw() {
        "" => GUARDED,
        rules => rules,
    };
    let registry = Registry::with_rules(Store::small(), rules, &values);
    let host = registry.0.host();
    let config = match login.raw() {
        "owner" => docker_config(&[(&host, OWNER)]),
        "identity" => identity(&host, "open/sesame"),
        _ => "{}".to_owned(),
    };
    let result = registry.pulled(&with(Registry::access(), &config)).await;
    for secret in [OWNER.password, "sesame", "word"] {
        assert!(!result.replace("password", "").contains(secret), "{result}");
    }
    let requested = counted(&service.0.seen(), |request| {
        let login = request.header("authorization").unwrap_or_default();
        let login = login.split_once(' ').map_or("", |(kind, _)| kind);
        let body = String::from_utf8_lossy(&request.body);
        let line = format!("{} {} {login}{body}", request.method, request.target);
        line.trim().to_owned()
    });
    let sent = counted(&registry.0.seen(), |request| {
        request.header("authorization").unwrap_or("none").to_owned()
    });
    format!("{requested}; {sent} -> {result}")
}

#[tokio::test]
async fn tokens_are_requested_once_and_checked() {
    let plain = ScriptedServer::follow(r#"200 << {"token": "good"}"#);
    let values = Values::default()
        .with("plain", plain.host())
        .with("get", "GET /token?account=x&scope=repository%3Aapp%3Apull&service=tests Basic")
        .with("post", "POST /token?account=x scope=repository%3Aapp%3Apull&service=tests&grant_type=refresh_token&client_id=rukpak&refresh_token=open%2Fsesame")
        .with("x", vec![b'x'; 0x10000]);
    let rows = r#"
        # rules of the registry unless it wants the token "good", token service, login
        one token      | | 200 << {"token": "good", "expires_in": 300} | owner | {get}; none, 3 x Bearer good -> manifests/a.yaml=kind: A
        identity token | | 200 << {"access_token": "good"} | identity | {post}; none, 3 x Bearer good -> manifests/a.yaml=kind: A
        renewed        | {top} & !authorization: Bearer number2 => 401; WWW-Authenticate: Bearer realm="https://{service}/token"
          && !authorization: => 401; WWW-Authenticate: Bearer realm="https://{service}/token"
          | 200 << {"access_token": "number1", "expires_in": 3600} then 200 << {"access_token": "number2", "expires_in": 3600} |
          | 2 x GET /token?scope=repository%3Aapp%3Apull; none, 3 x Bearer number1, Bearer number2 -> manifests/a.yaml=kind: A
        always refused | GET => 401; WWW-Authenticate: Bearer realm="https://{service}/token" | 200 << {"token": "t"} |
          | GET *; none, Bearer t -> Unauthorized, *requires credentials for app*
        redirected, identity | | 307; Location: https://127.0.0.1:1/token | identity | {post}; none -> *another server*
        endless        | | 200; Transfer-Encoding: chunked ~ repeat 10000\r\n{x}\r\n | owner | {get}; none -> LimitExceeded*
        too large      | | 200; Content-Length: 9999999999 << {"token": " ~ repeat {x} | owner | {get}; none -> LimitExceeded*
        no JSON        | | 200 << no | owner | {get}; none -> *returned an invalid response*
        no token       | | 200 << {} | owner | {get}; none -> *returned no token*
        line break     | | 200 << {"token": "a\\r\\nHost: evil"} | owner | {get}; none -> *a token with invalid characters*
        wrong token    | | 200 << {"token": "other"} | owner | {get}; none, Bearer other -> *does not allow user "owner" to pull from app*
        unauthorized   | | 401 | owner | {get}; none -> *rejected the credentials of user "owner"*
        failure        | | 500 | owner | {get}; none -> *get a token*
        echo           | | 418 I'm a teapot << {body} | identity | {post}; none -> *418*
        echo of a failure | | 500 << {body} | identity | {post}; none -> *500*
        plain service  | GET => 401; WWW-Authenticate: Bearer realm="http://{plain}/token" | 404 | owner | ; none -> TokenRefused*unencrypted*
        file           | GET => 401; WWW-Authenticate: Bearer realm="file:///etc/passwd" | 404 | owner | ; none -> TokenRefused*neither*
        credentials in the URL | GET => 401; WWW-Authenticate: Bearer realm="https://name:word@127.0.0.1/" | 404 | owner
          | ; none -> TokenRefused*contains credentials*
        no URL         | GET => 401; WWW-Authenticate: Bearer realm="no url" | 404 | owner | ; none -> TokenRefused*is not a URL*
        unknown scheme, anonymous | GET => 401; WWW-Authenticate: Negotiate | 404 | | ; none -> *requires credentials*
        unknown scheme | GET => 401; WWW-Authenticate: Negotiate | 404 | owner | ; none -> *unsupported authentication scheme*
        basic, anonymous | GET => 401; WWW-Authenticate: Basic realm=x | 404 | | ; none -> *requires credentials*
        basic          | GET => 401; WWW-Authenticate: Basic realm=x | 404 | owner
          | ; none, Basic * -> *rejected the credentials of user "owner"*
    "#;
    table::check(rows, &values, pulled).await;
    assert_eq!(plain.connections(), 0);
}

#[tokio::test]
async fn tokens_are_not_shared_between_users() {
    let (owner, other) = (OWNER.basic(), r#"200 << {"token": "other"}"#);
    let rules = format!("{owner} => 200 << {{\"token\": \"good\"}} && {other}");
    let service = Registry::start(&rules);
    let values = Values::default().with("service", service.0.host());
    let registry = Registry::with_rules(Store::small(), GUARDED, &values);
    let host = registry.0.host();
    let access = |user| with(Registry::access(), &docker_config(&[(&host, user)]));
    let (owner, tenant, anonymous) = (access(OWNER), access(TENANT), Registry::access());
    let image = registry.image("app:v1");
    let users = [&owner, &tenant, &anonymous, &owner];
    for (access, allowed) in users.into_iter().zip([true, false, false, true]) {
        assert_eq!(pull(&image, access).await.is_ok(), allowed);
    }
    let together = [&tenant, &owner, &anonymous].map(|access| pull(&image, access));
    assert_rows!(matches!(futures::future::join_all(together).await[..], [Err(_), Ok(_), Err(_)]) => true);
    assert_eq!(service.0.seen().len(), 7, "each user requests a token");
}
