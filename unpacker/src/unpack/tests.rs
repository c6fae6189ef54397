use std::time::{Duration, Instant};
use std::{collections::BTreeMap, path::Path, sync::atomic::AtomicUsize};

use manifests::content::{Builder, Irregular, Kind};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::*;
use crate::access::{Basic, Ssh, Verify};
use crate::{Limits, registry::Mirrors, store::Budget};

/// A source that waits before each fetch, and counts.
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

    async fn fetch(self, wanted: Arc<FetchRequest>, size: usize) -> Result<Fetched> {
        self.counts[0].fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.counts[1].fetch_add(1, Ordering::SeqCst);
        wanted.progress.set_total(size as u64);
        wanted.progress.add(size as u64);
        fetched(&wanted, &vec![b'x'; size], None)
    }

    /// Begins a fetch like any other's, on a task of its own.
    fn ask(&self, store: &Store, wanted: &Arc<FetchRequest>, size: usize) -> Asked {
        let (store, wanted, origin) = (store.clone(), Arc::clone(wanted), self.clone());
        tokio::spawn(async move {
            find_or_fetch(&store, wanted, move |wanted| origin.fetch(wanted, size)).await
        })
    }

    /// The numbers of fetches that began, and that came to their end.
    fn counts(&self) -> (usize, usize) {
        let [begun, ended] = [0, 1].map(|at: usize| self.counts[at].load(Ordering::SeqCst));
        (begun, ended)
    }

    /// A fetch that need not wait.
    async fn fetched(&self, store: &Store, wanted: &Arc<FetchRequest>, size: usize) -> Pinned {
        self.gate.add_permits(1);
        self.ask(store, wanted, size).await.unwrap().unwrap()
    }
}

type Change<'a> = &'a dyn Fn(&mut Access, &mut Options);
type Asked = tokio::task::JoinHandle<Result<Pinned>>;

fn wanted(text: &str, password: Option<&str>, limits: Limits) -> Arc<FetchRequest> {
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

/// A bundle with a file, and with a link at a path.
fn fetched(wanted: &FetchRequest, bytes: &[u8], link: Option<&str>) -> Result<Fetched> {
    let mut files = Builder::new(wanted.options.limits);
    files.add("manifests/csv.yaml", 0o644, &mut &*bytes)?;
    if let Some(link) = link {
        files.record(link, Irregular::new(Kind::Symlink))?;
    }
    Ok(Fetched {
        resolved: wanted.source.clone(),
        digest: None,
        tree: crate::Tree::from_content(files.finish()),
        unselected: 0,
        labels: BTreeMap::new(),
    })
}

fn pinned(password: Option<&str>) -> Arc<FetchRequest> {
    let text = format!("https://example.com/b.tgz#{}", Digest::of(b""));
    wanted(&text, password, Limits::default())
}

fn open() -> (TempDir, Store, Origin) {
    let (folder, disk, memory) = (tempfile::tempdir().unwrap(), 1 << 30, 0);
    let store = Store::open(folder.path(), Budget { disk, memory }).unwrap();
    (folder, store, Origin::new())
}

fn count(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

async fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < deadline, "it never came to that");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_bundle_with_a_link_is_rejected_or_known_with_it() {
    let (_folder, store, _) = open();
    // A bundle with a link at a path, or an outage.
    let ask = |link: Option<&'static str>| {
        find_or_fetch(&store, pinned(None), move |wanted| async move {
            fetched(&wanted, b"x", Some(link.ok_or(crate::Error::Empty)?))
        })
    };
    let error = ask(Some("manifests/link")).await.unwrap_err();
    assert_rows!((error.reason(), error.is_terminal()) => ("EntryRefused", true));
    assert_eq!(store.digests().unwrap(), []);
    // The second time, the source is not asked.
    for link in [Some("docs/link"), None] {
        assert_eq!(ask(link).await.unwrap().skipped.paths, ["docs/link"]);
    }
}

// Between the look into the store and the fetch, the fetch of another caller ends.
#[tokio::test]
async fn a_fetch_that_has_just_ended_is_not_repeated() {
    let (_folder, store, origin) = open();
    origin.gate.add_permits(1);
    let other = origin.clone();
    let late = find_or_fetch(&store, pinned(None), move |wanted| {
        other.fetch(wanted, 1000)
    });
    let mut late = std::pin::pin!(late);
    assert!(futures::poll!(late.as_mut()).is_pending());
    tokio::time::sleep(Duration::from_millis(100)).await;
    origin.fetched(&store, &pinned(None), 1000).await;
    late.await.unwrap();
    assert_eq!(origin.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_who_want_the_same_share_one_fetch_and_find_it_afterwards() {
    let (folder, store, origin) = open();
    let asked = [(); 8].map(|()| pinned(None));
    let asked = asked.map(|wanted| (origin.ask(&store, &wanted, 1000), wanted));
    // All of them have come to the one fetch.
    until(|| store.fetches().waiting() == 8).await;
    origin.gate.add_permits(1);
    for (outcome, wanted) in asked {
        assert!(outcome.await.unwrap().unwrap().skipped.is_empty());
        assert_rows!((wanted.progress.done(), wanted.progress.total()) => (1000, 1000));
    }
    assert_eq!(origin.counts(), (1, 1));
    let found = origin.ask(&store, &pinned(None), 1000).await;
    let digest = found.unwrap().unwrap().digest;
    assert_eq!((origin.counts(), store.stats().written), ((1, 1), 1));
    // What was damaged is fetched again.
    let file = folder.path().join(format!("content/{}.tar", digest.hex()));
    std::fs::write(file, "x").unwrap();
    store.get(&digest, &Limits::default()).unwrap_err();
    origin.fetched(&store, &pinned(None), 1000).await;
    store.get(&digest, &Limits::default()).unwrap();
    assert_eq!(origin.counts(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn others_credentials_and_limits_and_sources_that_change_are_fetched_for_themselves() {
    let (folder, store, origin) = open();
    let mut fetches = 0;
    for (wanted, is_fetched) in ::tests::rows![
        pinned(Some("mine")) => true;
        pinned(Some("mine")) => false;
        pinned(Some("wrong")) => true;
        pinned(None) => true;
        pinned(None) => false;
        wanted("https://example.com/b", None, Limits::default()) => true;
        wanted("https://example.com/b", None, Limits::default()) => true;
        wanted("./b", None, Limits::default()) => true;
        wanted("./b", None, Limits::default()) => true;
    ] {
        fetches += usize::from(is_fetched);
        let digest = origin.fetched(&store, &wanted, 1000).await.digest;
        assert_eq!(origin.counts().0, fetches, "{wanted:?}");
        store.get(&digest, &Limits::default()).unwrap();
    }
    // All of it was the same content.
    assert_rows!((store.stats().written, count(&folder.path().join("content"))) => (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_asks_on_the_same_terms_shares_a_fetch() {
    let lax = |access: &mut Access, _: &mut Options| access.trust.verify = Verify::Never;
    let roots = |access: &mut Access, _: &mut Options| access.trust.roots = "another".to_owned();
    let hasty = |access: &mut Access, _: &mut Options| access.patience.tries = 1;
    let mirrored = |access: &mut Access, _: &mut Options| {
        let text = "[[registry]]\nprefix = \"quay.io\"\nlocation = \"quay.io\"\ninsecure = true";
        access.mirrors = Mirrors::from_registries_conf(text).unwrap();
    };
    let known = |access: &mut Access, _: &mut Options| {
        access.ssh = Some(with!(Ssh, known_hosts: "h KEY".to_owned()));
    };
    let layers = |_: &mut Access, options: &mut Options| options.image.layers = 1;
    let spool = |_: &mut Access, options: &mut Options| options.spool = Some("elsewhere".into());
    let changes: [(&str, Change<'_>, bool); 9] = [
        ("https://h/b.tgz", &|_, _| {}, true),
        ("https://h/b.tgz", &lax, false),
        ("https://h/b.tgz", &roots, false),
        ("https://h/b.tgz", &hasty, false),
        ("https://h/b.tgz", &known, true),
        ("https://h/b.tgz", &spool, true),
        ("git+ssh://h/r", &known, false),
        ("quay.io/org/app:v1", &mirrored, false),
        ("quay.io/org/app:v1", &layers, false),
    ];
    for (number, (text, change, shares)) in changes.into_iter().enumerate() {
        let (_folder, store, origin) = open();
        let ours = wanted(text, None, Limits::default());
        let mut other = Arc::into_inner(wanted(text, None, Limits::default())).unwrap();
        change(&mut other.access, &mut other.options);
        let asked = [ours, Arc::new(other)].map(|wanted| origin.ask(&store, &wanted, 10));
        until(|| store.fetches().waiting() == 2).await;
        origin.gate.add_permits(2);
        for outcome in asked {
            outcome.await.unwrap().unwrap();
        }
        assert_eq!(origin.counts().0 == 1, shares, "{number}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_to_all_who_wait_and_not_remembered() {
    let (_folder, store, origin) = open();
    let small = with!(Limits, total: 10);
    let text = format!("https://example.com/b.tgz#{}", Digest::of(b""));
    let asked = [0, 1].map(|_| origin.ask(&store, &wanted(&text, None, small), 1000));
    let roomy = origin.ask(&store, &pinned(None), 1000);
    until(|| store.fetches().waiting() == 3).await;
    origin.gate.add_permits(2);
    for outcome in asked {
        let error = outcome.await.unwrap().unwrap_err();
        assert_rows!((error.reason(), error.is_terminal()) => ("LimitExceeded", true));
    }
    roomy.await.unwrap().unwrap();
    assert_eq!((origin.counts(), store.fetches().waiting()), ((2, 2), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_takes_nothing_from_the_others_and_the_last_one_ends_the_fetch() {
    let (_folder, store, origin) = open();
    let first = origin.ask(&store, &pinned(None), 1000);
    until(|| origin.counts() == (1, 0)).await;
    let second = origin.ask(&store, &pinned(None), 1000);
    until(|| store.fetches().waiting() == 2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    origin.gate.add_permits(1);
    second.await.unwrap().unwrap();
    assert_eq!(origin.counts(), (1, 1));

    let alone = origin.ask(&store, &pinned(Some("x")), 1000);
    until(|| origin.counts() == (2, 1)).await;
    alone.abort();
    assert!(alone.await.unwrap_err().is_cancelled());
    assert_eq!(store.fetches().waiting(), 0);
    // The next one begins anew.
    origin.fetched(&store, &pinned(Some("x")), 1000).await;
    assert_eq!(origin.counts(), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_while_it_is_written_leaves_nothing_behind() {
    let (folder, store, origin) = open();
    let wanted = wanted("https://h/b", None, Limits::default());
    origin.gate.add_permits(1);
    // The store's lock in other hands: writing cannot begin before it is given back.
    let state = std::fs::File::open(folder.path().join("state")).unwrap();
    state.lock().unwrap();
    let asked = origin.ask(&store, &wanted, 8 << 20);
    until(|| origin.counts() == (1, 1)).await;
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    state.unlock().unwrap();
    until(|| count(&folder.path().join("tmp")) == 0 && store.stats().disk == 0).await;
    assert_rows!((count(&folder.path().join("content")), store.stats().written) => (0, 0));
    origin.fetched(&store, &wanted, 8 << 20).await;
}
