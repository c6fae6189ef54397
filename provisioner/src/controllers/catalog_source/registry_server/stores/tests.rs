use std::{
    io::Read,
    sync::atomic::{AtomicUsize, Ordering},
};

use catalog::registry::{Client, ClientLimits};

use super::{super::CatalogListener, *};
use crate::runtime::metrics::Metrics;

#[derive(Debug)]
struct One(String);

impl FileSource for One {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.json".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + 'a>> {
        Ok(Box::new(self.0.as_bytes()))
    }
}

fn one(package: &str) -> One {
    let bundle = format!("{package}.v1.0.0");
    One(format!(
        r#"{{"schema":"olm.package","name":"{package}","defaultChannel":"stable"}}
           {{"schema":"olm.channel","package":"{package}","name":"stable","entries":[{{"name":"{bundle}"}}]}}
           {{"schema":"olm.bundle","package":"{package}","name":"{bundle}","image":"example.com/a:1",
             "properties":[{{"type":"olm.package","value":{{"packageName":"{package}","version":"1.0.0"}}}}]}}"#
    ))
}

fn opened(dir: &Path) -> CatalogStores {
    CatalogStores::new(dir, Arc::new(Metrics::new()))
}

type BuildResult = Result<Arc<ServedStore>, Error>;

async fn get(stores: &CatalogStores, package: &str) -> BuildResult {
    get_within(stores, package, None).await
}

async fn get_within(stores: &CatalogStores, package: &str, room: Option<u64>) -> BuildResult {
    let (files, digest) = (one(package), Digest::sha256(package.as_bytes()));
    stores.get(digest, room, || Ok(Box::new(files))).await
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir.join(DIRECTORY)).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

// parity: serve-1
#[tokio::test]
async fn store_is_built_once_for_all_catalogs() {
    let dir = tempfile::tempdir().unwrap();
    let stores = opened(dir.path());
    let built = Arc::new(AtomicUsize::new(0));
    let all = (0..50).map(|_| {
        let built = Arc::clone(&built);
        stores.get(Digest::sha256(b"tide"), None, move || {
            built.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(one("tide")))
        })
    });
    let all: Vec<_> = futures::future::join_all(all).await;
    let all: Vec<Arc<ServedStore>> = all.into_iter().map(Result::unwrap).collect();
    assert_eq!(built.load(Ordering::SeqCst), 1);
    assert!(all.iter().all(|store| Arc::ptr_eq(store, &all[0])));
    let other = get(&stores, "moon").await.unwrap();
    assert_ne!(other.digest(), all[0].digest());
    // The first store is unused: its file is deleted when the next one is built.
    drop(all);
    let third = get(&stores, "star").await.unwrap();
    assert_rows!(names(dir.path()) => [other.digest(), third.digest()].map(name).into());
}

#[tokio::test]
async fn files_of_a_former_process_are_reused() {
    let dir = tempfile::tempdir().unwrap();
    let first = get(&opened(dir.path()), "tide").await.unwrap();
    let file = dir.path().join(DIRECTORY).join(name(first.digest()));
    let written = |dir: &Path| {
        let entry = fs::read_dir(dir).unwrap().next().unwrap().unwrap();
        entry.metadata().unwrap().modified().unwrap()
    };
    let before = written(&file);
    let stores = opened(dir.path());
    let other = get(&stores, "moon").await.unwrap();
    let again = get(&stores, "tide").await.unwrap();
    assert_eq!(written(&file), before, "it is not built a second time");
    drop((other, again));
    // After a long time, unrequested stores are deleted.
    let unused = with!(stores.unused() => also_earlier: true);
    unused.remove(&dir.path().join(DIRECTORY));
    assert!(names(dir.path()).is_empty());
}

#[tokio::test]
async fn failed_store_is_reported_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let stores = opened(dir.path());
    let digest = Digest::sha256(b"tide");
    let failed = stores.get(digest, None, || Err(Error::Tar(io::Error::other("a worm"))));
    let error = failed.await.unwrap_err();
    ::tests::assert_has(manifests::error::chain(&error), "a worm");
    assert!(get(&stores, "tide").await.is_ok());
    // A corrupt file is built again.
    let stores = opened(dir.path());
    let place = dir.path().join(DIRECTORY).join(name(digest));
    let file = fs::read_dir(place).unwrap().next().unwrap().unwrap();
    fs::write(file.path(), "nonsense").unwrap();
    assert!(get(&stores, "tide").await.is_ok());
}

#[tokio::test]
async fn oversized_store_is_not_built() {
    let dir = tempfile::tempdir().unwrap();
    let stores = opened(dir.path());
    let size = get(&stores, "tide").await.unwrap().size();
    // Each of them has this size.
    assert_rows!(get_within(&stores, "moon", Some(size - 1)).await.unwrap_err().store_limit() => Some(size - 1));
    assert_rows!(fs::read_dir(dir.path().join(DIRECTORY).join(name(Digest::sha256(b"moon")))).unwrap().count() => 0);
    assert!(get_within(&stores, "moon", Some(size)).await.is_ok());
}

async fn connected(port: u16) -> Client {
    let address = format!("127.0.0.1:{port}");
    let client = Client::connect(&address, ClientLimits::default());
    client.await.unwrap()
}

async fn packages(port: u16) -> Vec<String> {
    connected(port).await.list_packages().await.unwrap()
}

// parity: serve-4
#[tokio::test]
async fn replaced_catalog_is_served_without_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let stores = opened(dir.path());
    let tide = get(&stores, "tide").await.unwrap();
    let moon = get(&stores, "moon").await.unwrap();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut listening = CatalogListener::new(socket).unwrap();
    let port = listening.port();
    listening.serve(Arc::clone(&tide)).unwrap();
    assert!(listening.is_serving(&tide) && !listening.is_serving(&moon));
    assert_eq!(packages(port).await, ["tide"]);

    let old = connected(port).await;
    let lost = old.disconnected();
    // A client that queries continuously always gets an answer; after the switch, the new one.
    let asking = tokio::spawn(async move {
        let mut answers = Vec::new();
        while answers.last().is_none_or(|answer| *answer == ["tide"]) {
            answers.push(packages(port).await);
        }
        answers
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    listening.serve(Arc::clone(&moon)).unwrap();
    let answers = asking.await.unwrap();
    assert_rows!(answers.last().unwrap() => &["moon"], "after {}", answers.len());
    // Connected clients must reconnect.
    let timeouts = Duration::from_secs(10);
    tokio::time::timeout(timeouts, lost).await.unwrap();
    drop(listening);
    let end = async {
        let address = ("127.0.0.1", port);
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(timeouts, end).await.unwrap();
}
