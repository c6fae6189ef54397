//! Content on disk: written once, replaced atomically, kept across restarts.

use std::path::Path;

use super::*;
use crate::testing::has;

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn written(put: PutOutcome) -> http::WriteSummary {
    match put {
        PutOutcome::Written(written) => written,
        PutOutcome::Unchanged => panic!("unchanged"),
    }
}

#[tokio::test]
async fn content_is_stored_once_and_removed_with_its_last_use() {
    let site = Site::start().await;
    let shelf = site.dir.path().join("shelf");
    let contents = shelf.join("contents");
    let source = tempfile::tempdir().unwrap();
    let file = source.path().join("a.yaml");
    fs::write(&file, "schema: a\nname: one\n---\nschema: b\n").unwrap();
    let digest = format!("sha256:{}", "ab".repeat(32));
    let put = |name: &str, digest: &str| {
        let source = Source::Directory(source.path());
        site.shelf
            .put(name, Some(digest), source, &Limits::default())
    };
    let first = written(put("one", &digest).unwrap());
    assert_eq!((first.blobs, first.faults.len()), (2, 0));
    // The source is not read again.
    fs::write(&file, "schema: c\n").unwrap();
    assert_eq!(put("two", &digest).unwrap(), PutOutcome::Unchanged);
    assert_eq!(put("one", &digest).unwrap(), PutOutcome::Unchanged);
    assert_eq!(files(&contents), ["ab".repeat(32)]);
    assert_eq!(site.shelf.names(), ["one", "two"]);

    let other = format!("sha256:{}", "cd".repeat(32));
    written(put("one", &other).unwrap());
    assert_eq!(files(&contents).len(), 2, "the other name still shows it");
    site.shelf.remove("two").unwrap();
    assert_eq!(files(&contents), ["cd".repeat(32)]);
    assert_eq!(files(&shelf.join("unfinished")), [""; 0]);

    for name in ["..", "a/b", "", "A"] {
        let problem = put(name, &digest).unwrap_err();
        has(problem, "is not a valid catalog name");
    }
    has(put("a", "sha256:x").unwrap_err(), "is not a content digest");
}

#[tokio::test]
async fn unreadable_parts_are_skipped_and_failures_change_nothing() {
    let site = Site::with(&catalog()).await;
    let before = site.all().await.body;
    let few = with!(Limits, documents: 2);
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("a.json"), catalog()).unwrap();
    let put = |dir: &Path, limits| {
        let source = Source::Directory(dir);
        site.shelf.put("operators", None, source, limits)
    };
    let error = put(source.path(), &few).unwrap_err();
    assert!(matches!(error, http::Error::Catalog(_)), "{error}");
    assert!(put(&source.path().join("absent"), &few).is_err());
    assert_eq!(site.all().await.body, before);

    let broken = "{\"name\": \"no schema\"}\n{\"schema\": \"x\"}";
    fs::write(source.path().join("b.json"), broken).unwrap();
    let written = written(put(source.path(), &Limits::default()).unwrap());
    let faults: Vec<&str> = written.faults.iter().map(|fault| &*fault.file).collect();
    assert_eq!((written.blobs, &*faults), (9, &["b.json"][..]));
    assert_eq!(site.all().await.names().len(), 9);
}

// parity: http-4
#[tokio::test]
async fn restart_keeps_content_and_removes_partial_files() {
    let mut site = Site::with(&catalog()).await;
    let before = site.all().await;
    let dir = site.dir.path().join("shelf");
    let unfinished = dir.join("unfinished/another");
    fs::write(&unfinished, "half").unwrap();
    let error = ContentStore::open(&dir).unwrap_err();
    has(error, "used by another process");
    assert!(unfinished.exists());
    drop(site.stop.take());
    site.task.await.unwrap();
    drop(site.shelf);
    fs::write(dir.join("unfinished/half"), "half").unwrap();
    // A truncated content, a record without content, and foreign files.
    let (torn, lost) = ("ef".repeat(32), "aa".repeat(32));
    fs::write(dir.join("contents").join(&torn), "torn").unwrap();
    for (name, text) in tests::rows![
        "torn" => format!("{torn} 1");
        "lost" => format!("{lost} 1");
        "odd" => "x".repeat(10_000);
        "Odd" => format!("{torn} 1");
    ] {
        fs::write(dir.join("names").join(name), text).unwrap();
    }
    let shelf = ContentStore::open(&dir).unwrap();
    assert_eq!(files(&dir.join("unfinished")), [""; 0]);
    assert_eq!(files(&dir.join("contents")).len(), 1);
    assert_eq!(shelf.names(), ["operators"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(http::serve(listener, shelf, std::future::pending()));
    let url = format!("http://{address}/catalogs/operators/api/v1/all");
    let again = answer(site.client.get(url)).await;
    assert_eq!(again.body, before.body);
    assert_rows!(again.header("last-modified") => before.header("last-modified"));
}

#[tokio::test]
async fn damaged_index_is_a_server_error() {
    let site = Site::with(&catalog()).await;
    let whole = site.all().await;
    let contents = site.dir.path().join("shelf/contents");
    let path = contents.join(&files(&contents)[0]);
    let bytes = fs::read(&path).unwrap();
    let mut failures = 0;
    for at in whole.body.len()..bytes.len() - 32 {
        let mut damaged = bytes.clone();
        damaged[at] = 0xff;
        // In place, because the file is open.
        fs::write(&path, damaged).unwrap();
        let found = answer(site.get("/catalogs/operators/api/v1/metas?schema=olm.bundle")).await;
        if found.status != StatusCode::OK {
            failures += 1;
            assert_eq!(found.status, StatusCode::INTERNAL_SERVER_ERROR, "{at}");
            assert_eq!(found.text(), "500 Internal Server Error\n");
        }
    }
    assert!(failures > 0);
    fs::write(&path, bytes).unwrap();
    assert_eq!(site.all().await.body, whole.body);
}
