//! Answers to requests.

use super::*;

const ALL: &str = "/catalogs/operators/api/v1/all";
const METAS: &str = "/catalogs/operators/api/v1/metas";

// parity: http-1
#[tokio::test]
async fn blobs_have_one_line_each_in_catalog_order() {
    let site = Site::with(&catalog()).await;
    let all = site.all().await;
    assert!(!all.header("last-modified").is_empty());
    assert_rows! {
        all.status => StatusCode::OK;
        all.header("content-type") => "application/jsonl";
        all.header("content-length") => all.body.len().to_string();
        all.header("vary") => "Accept-Encoding";
        all.names().join(", ") => "olm.package etcd, olm.channel stable, olm.bundle etcd.v0, olm.bundle etcd.v1, \
            olm.package vault, olm.channel stable, olm.bundle vault.v2, olm.bundle vault.v3";
        // As Go's encoder writes it: sorted keys, no white space.
        all.text().lines().nth(1) => Some(r#"{"a":"<&>","name":"stable","package":"etcd","schema":"olm.channel","z":1}"#);
    }
    // A HEAD request has the same headers and no body.
    let head = answer(site.request(Method::HEAD, ALL)).await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    for name in "content-length content-type last-modified accept-ranges vary".split(' ') {
        assert_eq!(head.header(name), all.header(name), "{name}");
    }
}

// parity: http-1
#[tokio::test]
async fn unchanged_content_is_not_sent_again() {
    let site = Site::with(&catalog()).await;
    for path in [ALL, METAS, &format!("{METAS}?schema=olm.bundle")] {
        let first = answer(site.get(path)).await;
        let since = first.header("last-modified").to_owned();
        let second = answer(site.get(path).header("if-modified-since", &since)).await;
        assert_rows!((second.status, second.header("last-modified")) => (StatusCode::NOT_MODIFIED, &*since), "{path}");
        assert_eq!(second.body, b"", "{path}");
        let old = "Sat, 01 Jan 2000 00:00:00 GMT";
        let failed = answer(site.get(path).header("if-unmodified-since", old)).await;
        assert_eq!(failed.status, StatusCode::PRECONDITION_FAILED, "{path}");
    }
    // Even within the same second.
    let since = site.all().await.header("last-modified").to_owned();
    site.put("operators", &large("next"));
    let next = answer(site.get(ALL).header("if-modified-since", &since)).await;
    assert_eq!(next.status, StatusCode::OK);
    assert_eq!(next.names(), ["custom next"]);
}

// parity: http-1
#[tokio::test]
async fn range_applies_only_to_the_whole_catalog() {
    let site = Site::with(&large("text")).await;
    let all = site.all().await;
    assert_eq!(all.header("accept-ranges"), "bytes");
    let length = all.body.len();
    let range = async |range: &str| {
        let request = site.get(ALL).header("range", range);
        answer(request.header("accept-encoding", "gzip")).await
    };
    let part = range("bytes=10-19").await;
    let beyond = range(&format!("bytes={length}-")).await;
    let metas = answer(site.get(METAS).header("range", "bytes=0-1")).await;
    assert_rows! {
        part.status => StatusCode::PARTIAL_CONTENT;
        part.header("content-range") => format!("bytes 10-19/{length}");
        ["content-length", "content-encoding"].map(|name| part.header(name)) => ["10", ""];
        part.body => all.body[10..20];
        beyond.status => StatusCode::RANGE_NOT_SATISFIABLE;
        beyond.header("content-range") => format!("bytes */{length}");
        (metas.status, metas.body.len()) => (StatusCode::OK, length);
    }
}

// parity: http-1
#[tokio::test]
async fn only_large_responses_are_compressed_on_request() {
    let site = Site::with(&format!("{}\n{}", large("text"), "{\"schema\": \"small\"}")).await;
    for (query, encodings, compressed) in [
        ("", "gzip", true),
        ("", "identity", false),
        ("?schema=custom", "gzip", true),
        ("?schema=small", "gzip", false),
    ] {
        let path = format!("{METAS}{query}");
        let plain = answer(site.get(&path)).await;
        let packed = answer(site.get(&path).header("accept-encoding", encodings)).await;
        assert_rows!(packed.header("content-encoding") == "gzip" => compressed, "{query} {encodings}");
        if compressed {
            assert!(packed.body.len() < plain.body.len() / 10);
            assert_rows!(std::io::read_to_string(flate2::read::GzDecoder::new(packed.body.as_slice())).unwrap() => plain.text());
        } else {
            assert_eq!(packed.body, plain.body);
        }
    }
}

// parity: http-2, complaint-19
#[tokio::test]
async fn metas_match_every_parameter() {
    let site = Site::with(&catalog()).await;
    for (query, names) in tests::rows![
        "?schema=olm.package" => &["olm.package etcd", "olm.package vault"][..];
        "?schema=olm.bundle&package=vault" => &["olm.bundle vault.v2", "olm.bundle vault.v3"];
        // The blob of a package has no package field.
        "?package=etcd" => &["olm.channel stable", "olm.bundle etcd.v0", "olm.bundle etcd.v1"];
        "?schema=olm.package&name=etcd" => &["olm.package etcd"];
        "?name=stable" => &["olm.channel stable", "olm.channel stable"];
        "?schema=olm.bundle&package=etcd&name=etcd.v1" => &["olm.bundle etcd.v1"];
        "?name=ETCD.v1" => &[];
        "?schema=olm" => &[];
        "?package=etcd&name=vault.v2" => &[];
    ] {
        let found = answer(site.get(&format!("{METAS}{query}"))).await;
        assert_eq!(found.status, StatusCode::OK, "{query}");
        assert_eq!(found.names(), names, "{query}");
    }
    let all = site.all().await;
    for query in ["", "?", "?schema=", "?name=&package="] {
        assert_rows!(answer(site.get(&format!("{METAS}{query}"))).await.body => all.body, "{query}");
    }
}

/// More ranges than the index retains, and names that are not read.
#[tokio::test]
async fn many_scattered_lines_are_complete() {
    let long = "n".repeat(1 << 20);
    let blob = |line: &String| {
        let (schema, name) = line.split_once(' ').unwrap();
        format!("{{\"schema\": \"{schema}\", \"name\": \"{name}\"}}\n")
    };
    let lines = (0..20_001).map(|at| format!("{} n{at}", ["odd", "even"][at % 2]));
    let lines: Vec<String> = lines.collect();
    let text = blob(&format!("even {long}")) + &testing::list(&lines, blob);
    let site = Site::with(&text).await;
    for (query, pattern) in tests::rows![
        "schema=odd" => "odd n*";
        "schema=even" => "even n*";
        "name=n20000" => "odd n20000";
        "schema=odd&name=n1" => "odd n1";
    ] {
        let url = format!("{METAS}?{query}");
        let found = answer(site.get(&url)).await;
        let mut expected = lines.clone();
        expected.retain(|line| tests::table::matches(pattern, line));
        let mut names = found.names();
        names.retain(|name| !name.ends_with(&long));
        assert!(names == expected, "{query}: {} lines", names.len());
        assert_eq!(found.header("content-length"), found.body.len().to_string());
        assert_rows!(answer(site.request(Method::HEAD, &url)).await.header("content-length") => found.body.len().to_string());
    }
}

// parity: http-2
#[tokio::test]
async fn hostile_queries_get_an_answer() {
    let site = Site::with(&catalog()).await;
    let many = "schema=x&".repeat(3000) + "name=y";
    for (queries, status) in tests::rows![
        &[
            &*many, &"package=%00%ff&".repeat(100), "schema=%zz&name=%", "name=../../../etc/passwd", "schema=olm.bundle&&&&",
            "schema", "name=x;schema=y",
        ][..] => 200;
        &["=", &"a=1&".repeat(5000)] => 400;
    ] {
        for query in queries {
            assert_rows!(answer(site.get(&format!("{METAS}?{query}"))).await.status.as_u16() => status, "{query:.60}");
        }
    }
    // A head that is too long ends the connection, or is rejected; the service continues.
    let endless = format!("{METAS}?name={}", "x".repeat(1 << 20));
    if let Ok(found) = site.get(&endless).send().await {
        assert!(found.status().is_client_error(), "{found:?}");
    }
    assert_eq!(site.all().await.status, StatusCode::OK);
}

// parity: http-1, http-2
#[tokio::test]
async fn errors_have_a_readable_body() {
    let site = Site::with(&catalog()).await;
    for (path, status, text) in tests::rows![
        "/catalogs/other/api/v1/all", 404 => "404 Not Found\n";
        "/catalogs/other/api/v1/metas", 404 => "404 Not Found\n";
        "/catalogs/Operators/api/v1/all", 400 => "invalid catalog name: ";
        "/catalogs/..%2f..%2fetc/api/v1/all", 400 => "invalid catalog name: ";
        "/catalogs/%ff/api/v1/all", 400 => "invalid catalog name: ";
        "/catalogs/operators/api/v1/metas?limit=1", 400 => "400 Bad Request\n";
        "/catalogs/operators/api/v1/graphql", 404 => "404 page not found\n";
        "/catalogs/operators/api/v2/all", 404 => "404 page not found\n";
        "/", 404 => "404 page not found\n";
    ] {
        let found = answer(site.get(path)).await;
        assert_eq!(found.status.as_u16(), status, "{path}");
        assert!(found.text().starts_with(text), "{path}: {}", found.text());
        assert_eq!(found.header("content-type"), "text/plain; charset=utf-8");
    }
    for path in [ALL, METAS] {
        let found = answer(site.request(Method::POST, path).body("x")).await;
        assert_eq!(found.status.as_u16(), 405);
        assert_eq!(found.header("allow"), "GET, HEAD");
        assert_eq!(found.text(), "405 Method Not Allowed\n");
    }
    site.shelf.remove("operators").unwrap();
    assert_eq!(site.all().await.status, StatusCode::NOT_FOUND);
}
