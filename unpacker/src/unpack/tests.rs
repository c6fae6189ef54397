use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::AtomicUsize,
    time::{Duration, Instant},
};

use manifests::content::{Builder, Irregular, Kind};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::*;
use crate::{
    Digest, Limits,
    registry::Mirrors,
    store::Budget,
    trust::{Basic, Ssh, Verify},
};

/// A source that waits for a permit before each fetch and counts fetches.
#[derive(Clone)]
struct Origin {
    counts: Arc<[AtomicUsize; 2]>,
    gate: Arc<Semaphore>,
}

impl Origin {
    fn new() -> Self {
        Self {
            counts: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    async fn fetch(self, request: Arc<FetchRequest>, size: usize) -> Result<Fetched> {
        self.counts[0].fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.counts[1].fetch_add(1, Ordering::SeqCst);
        request.progress.set_total(size as u64);
        request.progress.add(size as u64);
        fetched(&request, &vec![b'x'; size], None)
    }

    fn start(&self, store: &Store, request: &Arc<FetchRequest>, size: usize) -> FetchTask {
        let (store, request, origin) = (store.clone(), Arc::clone(request), self.clone());
        tokio::spawn(async move {
            find_or_fetch(&store, request, move |request| origin.fetch(request, size)).await
        })
    }

    /// Returns the numbers of started and finished fetches.
    fn counts(&self) -> (usize, usize) {
        let [begun, ended] = [0, 1].map(|at: usize| self.counts[at].load(Ordering::SeqCst));
        (begun, ended)
    }

    /// Fetches without waiting for a permit.
    async fn fetched(&self, store: &Store, request: &Arc<FetchRequest>, size: usize) -> Pinned {
        self.gate.add_permits(1);
        self.start(store, request, size).await.unwrap().unwrap()
    }
}

type Change = fn(&mut Access, &mut Options);
type FetchTask = tokio::task::JoinHandle<Result<Pinned>>;

fn request(text: &str, password: Option<&str>, limits: Limits) -> Arc<FetchRequest> {
    let basic = password.map(|password| Basic {
        username: "tenant".to_owned(),
        password: password.to_owned().into(),
    });
    Arc::new(FetchRequest {
        source: Source::parse(text, |_| false).unwrap(),
        access: with!(Access, basic),
        options: with!(Options, limits),
        progress: Progress::default(),
    })
}

fn fetched(request: &FetchRequest, bytes: &[u8], link: Option<&str>) -> Result<Fetched> {
    let mut files = Builder::new(request.options.limits);
    files.add("manifests/csv.yaml", 0o644, &mut &*bytes)?;
    if let Some(link) = link {
        files.record(link, Irregular::new(Kind::Symlink))?;
    }
    Ok(Fetched {
        resolved: request.source.clone(),
        digest: None,
        tree: crate::Tree::from_content(files.finish()),
        unselected: 0,
        labels: BTreeMap::new(),
    })
}

fn pinned(password: Option<&str>) -> Arc<FetchRequest> {
    let text = format!("https://example.com/b.tgz#{}", Digest::sha256(b""));
    request(&text, password, Limits::default())
}

fn open() -> (TempDir, Store, Origin) {
    let (directory, disk, memory) = (tempfile::tempdir().unwrap(), 1 << 30, 0);
    let store = Store::open(directory.path(), Budget { disk, memory }).unwrap();
    (directory, store, Origin::new())
}

fn count(directory: &Path) -> usize {
    directory.read_dir().unwrap().count()
}

async fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "the condition is not met");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn bundle_with_a_link_is_rejected_or_recorded_with_it() {
    let (_directory, store, _) = open();
    // A bundle with a link at a path, or an outage.
    let fetch = |link: Option<&'static str>| {
        find_or_fetch(&store, pinned(None), move |request| async move {
            fetched(&request, b"x", Some(link.ok_or(crate::Error::Empty)?))
        })
    };
    let error = fetch(Some("manifests/link")).await.unwrap_err();
    assert_rows!((error.reason(), error.is_terminal(), store.digests().unwrap()) => ("EntryRefused", true, vec![]));
    // The second request does not contact the source.
    for link in [Some("docs/link"), None] {
        assert_eq!(fetch(link).await.unwrap().skipped.paths, ["docs/link"]);
    }
}

// The fetch of another caller ends between the lookup in the store and the fetch.
#[tokio::test]
async fn a_fetch_that_has_just_ended_is_not_repeated() {
    let (_directory, store, origin) = open();
    origin.gate.add_permits(1);
    let other = origin.clone();
    let fetch = move |request| other.fetch(request, 1000);
    let late = find_or_fetch(&store, pinned(None), fetch);
    let mut late = std::pin::pin!(late);
    assert!(futures::poll!(late.as_mut()).is_pending());
    tokio::time::sleep(Duration::from_millis(100)).await;
    origin.fetched(&store, &pinned(None), 1000).await;
    late.await.unwrap();
    assert_eq!(origin.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_share_one_fetch_and_find_its_content() {
    let (directory, store, origin) = open();
    let requests = [(); 8].map(|()| pinned(None));
    let tasks = requests.map(|request| (origin.start(&store, &request, 1000), request));
    // All requests wait for one fetch.
    until(|| store.fetches().waiting() == 8).await;
    origin.gate.add_permits(1);
    for (outcome, request) in tasks {
        assert!(outcome.await.unwrap().unwrap().skipped.is_empty());
        assert_rows!((request.progress.done(), request.progress.total()) => (1000, 1000));
    }
    assert_eq!(origin.counts(), (1, 1));
    let found = origin.start(&store, &pinned(None), 1000).await;
    let digest = found.unwrap().unwrap().digest;
    assert_eq!((origin.counts(), store.stats().written), ((1, 1), 1));
    // Damaged content is fetched again.
    let file = format!("content/{}.tar", digest.hex());
    std::fs::write(directory.path().join(file), "x").unwrap();
    store.get(&digest, &Limits::default()).unwrap_err();
    origin.fetched(&store, &pinned(None), 1000).await;
    store.get(&digest, &Limits::default()).unwrap();
    assert_eq!(origin.counts(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_credentials_and_unpinned_sources_are_fetched_again() {
    let (directory, store, origin) = open();
    let mut fetches = 0;
    for (request, is_fetched) in ::tests::rows![
        pinned(Some("mine")) => true;
        pinned(Some("mine")) => false;
        pinned(Some("wrong")) => true;
        pinned(None) => true;
        request("https://example.com/b", None, Limits::default()) => true;
        request("https://example.com/b", None, Limits::default()) => true;
    ] {
        fetches += usize::from(is_fetched);
        let digest = origin.fetched(&store, &request, 1000).await.digest;
        assert_eq!(origin.counts().0, fetches, "{request:?}");
        store.get(&digest, &Limits::default()).unwrap();
    }
    // All fetches had the same content.
    assert_rows!((store.stats().written, count(&directory.path().join("content"))) => (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_on_equal_terms_share_a_fetch() {
    const INSECURE: &str =
        "[[registry]]\nprefix = \"quay.io\"\nlocation = \"quay.io\"\ninsecure = true";
    let changes: [(&str, Change, bool); 9] = ::tests::rows![
        "https://h/b.tgz", |_, _| {} => true;
        "https://h/b.tgz", |access, _| access.trust.verify = Verify::Never => false;
        "https://h/b.tgz", |access, _| access.trust.roots = "another".to_owned() => false;
        "https://h/b.tgz", |access, _| access.timeouts.attempts = 1 => false;
        "https://h/b.tgz", |access, _| access.ssh = Some(with!(Ssh, known_hosts: "h KEY".to_owned())) => true;
        "https://h/b.tgz", |_, options| options.spool = Some("elsewhere".into()) => true;
        "git+ssh://h/r", |access, _| access.ssh = Some(with!(Ssh, known_hosts: "h KEY".to_owned())) => false;
        "quay.io/org/app:v1", |access, _| access.mirrors = Mirrors::from_registries_conf(INSECURE).unwrap() => false;
        "quay.io/org/app:v1", |_, options| options.image.layers = 1 => false;
    ];
    for (number, (text, change, shares)) in changes.into_iter().enumerate() {
        let (_directory, store, origin) = open();
        let own = request(text, None, Limits::default());
        let mut other = Arc::into_inner(request(text, None, Limits::default())).unwrap();
        change(&mut other.access, &mut other.options);
        let tasks = [own, Arc::new(other)].map(|request| origin.start(&store, &request, 10));
        until(|| store.fetches().waiting() == 2).await;
        origin.gate.add_permits(2);
        for outcome in tasks {
            outcome.await.unwrap().unwrap();
        }
        assert_eq!(origin.counts().0 == 1, shares, "{number}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_reaches_all_waiting_requests_and_is_not_cached() {
    let (_directory, store, origin) = open();
    let small = with!(Limits, total: 10);
    let text = format!("https://example.com/b.tgz#{}", Digest::sha256(b""));
    let tasks = [0, 1].map(|_| origin.start(&store, &request(&text, None, small), 1000));
    let larger = origin.start(&store, &pinned(None), 1000);
    until(|| store.fetches().waiting() == 3).await;
    origin.gate.add_permits(2);
    for outcome in tasks {
        let error = outcome.await.unwrap().unwrap_err();
        assert_rows!((error.reason(), error.is_terminal()) => ("LimitExceeded", true));
    }
    larger.await.unwrap().unwrap();
    assert_eq!((origin.counts(), store.fetches().waiting()), ((2, 2), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn fetch_ends_only_when_its_last_request_is_cancelled() {
    let (_directory, store, origin) = open();
    let first = origin.start(&store, &pinned(None), 1000);
    until(|| origin.counts() == (1, 0)).await;
    let second = origin.start(&store, &pinned(None), 1000);
    until(|| store.fetches().waiting() == 2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    origin.gate.add_permits(1);
    second.await.unwrap().unwrap();
    assert_eq!(origin.counts(), (1, 1));

    let alone = origin.start(&store, &pinned(Some("x")), 1000);
    until(|| origin.counts() == (2, 1)).await;
    alone.abort();
    assert!(alone.await.unwrap_err().is_cancelled());
    assert_eq!(store.fetches().waiting(), 0);
    // The next request starts another fetch.
    origin.fetched(&store, &pinned(Some("x")), 1000).await;
    assert_eq!(origin.counts(), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_during_a_write_leaves_no_files() {
    let (directory, store, origin) = open();
    let request = request("https://h/b", None, Limits::default());
    origin.gate.add_permits(1);
    // The test holds the lock of the store: writing cannot start before it is released.
    let state = std::fs::File::open(directory.path().join("state")).unwrap();
    state.lock().unwrap();
    let task = origin.start(&store, &request, 8 << 20);
    until(|| origin.counts() == (1, 1)).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    state.unlock().unwrap();
    until(|| count(&directory.path().join("tmp")) == 0 && store.stats().disk == 0).await;
    assert_rows!((count(&directory.path().join("content")), store.stats().written) => (0, 0));
    origin.fetched(&store, &request, 8 << 20).await;
}
