//! Control planes that tests of one process use one after the other.
//!
//! A test that changes cluster-scoped objects (CRDs, roles, the release of an OpenShift cluster) takes a control
//! plane out of a pool: no other test works in the control plane until the [`Lease`] is dropped. The first tests start
//! the control planes, at most as many as the pool may have; later tests get one of them, as a new control plane: the
//! pool writes back to etcd what the new control plane held, and deletes everything else. That takes a tenth of a second,
//! a start takes five seconds of a processor. The control planes stop when the process ends.
//!
//! ```text
//!  test ── take() ──> free control plane? ── yes ──> restore ──> Lease ── drop ──> free
//!                                         └─ no ───> start, prepare, record ──> Lease
//! ```
//!
//! A control plane does not return to its pool after a test stopped or replaced one of its programs, or declared
//! admission policies or webhooks: the API server reads those from time to time, and does not report when.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use std::ops::Deref;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::ByteString;
use kube::api::PostParams;
use kube::core::Request;
use kube::discovery;
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

use crate::{Cluster, Controllers, Error, Options, Program, Result, control_plane, fake_node};

const RESTORE_TIMEOUT: Duration = Duration::from_secs(60);
const RESTORE_INTERVAL: Duration = Duration::from_millis(20);
/// The required number of consecutive scans without anything to delete: requests of a killed client may arrive after the
/// first scan.
const CLEAN_SCANS: usize = 2;
const MAX_CONCURRENT_WRITES: usize = 16;
const NAMESPACES: &str = "/registry/namespaces/";
const CRDS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
/// Resources that the API server reads with a delay that it does not report.
const ADMISSION: [&str; 4] = [
    "/registry/validatingadmissionpolic",
    "/registry/mutatingadmissionpolic",
    "/registry/validatingwebhookconfigurations/",
    "/registry/mutatingwebhookconfigurations/",
];

/// Control planes of one kind, each used by one test at a time.
#[derive(Debug)]
pub struct Pool {
    options: Options,
    places: Semaphore,
    free: Mutex<Vec<Plane>>,
}

/// A control plane for one test. Dropping the lease hands the control plane to the next test.
#[derive(Debug)]
pub struct Lease {
    pool: &'static Pool,
    plane: Option<Plane>,
    cluster: &'static Cluster,
    _permit: SemaphorePermit<'static>,
}

#[derive(Debug)]
struct Plane {
    cluster: &'static Cluster,
    snapshot: Snapshot,
}

/// The content of etcd when the control plane was new: for each key its value and the revision that wrote the value.
#[derive(Debug)]
struct Snapshot(HashMap<Vec<u8>, (ByteString, String)>);

#[derive(Deserialize)]
struct RangeResponse {
    #[serde(default)]
    kvs: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    key: ByteString,
    mod_revision: String,
    #[serde(default)]
    value: ByteString,
}

#[derive(Deserialize)]
struct WriteResponse {
    header: Header,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

impl Pool {
    /// Returns a pool of at most `max` control planes, none of which is started.
    pub const fn new(options: Options, max: usize) -> Self {
        Self {
            options,
            places: Semaphore::const_new(max),
            free: Mutex::new(Vec::new()),
        }
    }

    /// Takes a control plane in its initial state. Each started control plane is prepared once.
    pub async fn take(
        &'static self,
        prepare: impl AsyncFnOnce(&'static Cluster) -> Result<()>,
    ) -> Result<Lease> {
        let permit = self.places.acquire().await;
        let permit = permit.map_err(|_| Error::NotStarted("a pool that is closed"))?;
        let plane = loop {
            let free = self.free.lock().pop();
            let Some(mut free) = free else {
                break self.start(prepare).await?;
            };
            let is_restored = restore(&mut free).await.unwrap_or_else(|error| {
                eprintln!("cluster: failed to restore a control plane; starting another: {error}");
                false
            });
            if is_restored {
                break free;
            }
            discard(free.cluster).await;
        };
        Ok(Lease {
            pool: self,
            cluster: plane.cluster,
            plane: Some(plane),
            _permit: permit,
        })
    }

    async fn start(
        &self,
        prepare: impl AsyncFnOnce(&'static Cluster) -> Result<()>,
    ) -> Result<Plane> {
        let cluster = Cluster::start_with(&self.options).await?;
        let cluster: &'static Cluster = Box::leak(Box::new(cluster));
        system_namespaces(cluster).await?;
        prepare(cluster).await?;
        if self.options.controllers == Controllers::On {
            namespaces_are_complete(cluster).await?;
        }
        let entries = scan(&etcd(cluster)?, false).await?;
        let is_restored = |entry: &Entry| !is_left_alone(&entry.key.0);
        let entries = entries.into_iter().filter(is_restored);
        let values = entries.map(|entry| (entry.key.0, (entry.value, entry.mod_revision)));
        let snapshot = Snapshot(values.collect());
        Ok(Plane { cluster, snapshot })
    }
}

impl Lease {
    /// Returns the control plane, for fixtures that keep a reference beside the lease.
    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }
}

impl Deref for Lease {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.free.lock().extend(self.plane.take());
    }
}

/// Waits for the namespaces that the API server creates some time after it is ready.
async fn system_namespaces(cluster: &Cluster) -> Result<()> {
    let names = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let keys = names.map(|name| format!("{NAMESPACES}{name}"));
    keys_exist(cluster, |_| keys.to_vec()).await
}

/// Waits for the objects that the controllers create in each namespace. A snapshot without these objects could not be
/// restored: the controllers create them as often as the restore deletes them.
async fn namespaces_are_complete(cluster: &Cluster) -> Result<()> {
    keys_exist(cluster, |keys| {
        let namespaces = keys.iter().filter_map(|key| key.strip_prefix(NAMESPACES));
        let objects = |namespace| {
            [
                format!("/registry/configmaps/{namespace}/kube-root-ca.crt"),
                format!("/registry/serviceaccounts/{namespace}/default"),
            ]
        };
        namespaces.flat_map(objects).collect()
    })
    .await
}

/// Waits until the expected keys exist. `expected` receives the existing keys.
async fn keys_exist(
    cluster: &Cluster,
    expected: impl Fn(&BTreeSet<String>) -> Vec<String>,
) -> Result<()> {
    let etcd = etcd(cluster)?;
    let end = Instant::now() + RESTORE_TIMEOUT;
    loop {
        let entries = scan(&etcd, true).await?.into_iter();
        let keys = entries.map(|entry| String::from_utf8_lossy(&entry.key.0).into_owned());
        let keys: BTreeSet<String> = keys.collect();
        match expected(&keys).into_iter().find(|key| !keys.contains(key)) {
            None => return Ok(()),
            Some(key) if Instant::now() > end => return Err(timed_out(format!("{key} exists"))),
            Some(_) => sleep(RESTORE_INTERVAL).await,
        }
    }
}

/// Restores the initial state of a control plane. Returns false if that is not possible.
async fn restore(plane: &mut Plane) -> Result<bool> {
    let cluster = plane.cluster;
    if cluster.is_altered() {
        return Ok(false);
    }
    let etcd = etcd(cluster)?;
    let end = Instant::now() + RESTORE_TIMEOUT;
    let mut entries = scan(&etcd, true).await?;
    let is = |key: &[u8], prefix: &str| key.starts_with(prefix.as_bytes());
    if entries.iter().map(|entry| &entry.key.0).any(|key| {
        let is_admission = ADMISSION.iter().any(|prefix| is(key, prefix));
        is_admission && !plane.snapshot.0.contains_key(key)
    }) {
        return Ok(false);
    }
    let mut removed = Vec::new();
    write_back(&etcd, &mut plane.snapshot, &entries).await?;
    let mut clean_scans = 0;
    while clean_scans < CLEAN_SCANS {
        let keys = entries.into_iter().map(|entry| entry.key.0);
        let is_foreign = |key: &Vec<u8>| !is_left_alone(key) && !plane.snapshot.0.contains_key(key);
        let mut foreign: Vec<Vec<u8>> = keys.filter(is_foreign).collect();
        let is_clean = foreign.is_empty();
        clean_scans = if is_clean { clean_scans + 1 } else { 0 };
        if Instant::now() > end {
            let keys: Vec<_> = foreign.iter().map(|key| key.escape_ascii()).collect();
            return Err(timed_out(format!("{keys:?} are deleted")));
        }
        // Controllers create objects again in namespaces and of kinds that exist.
        foreign.sort_by_key(|key| (!is(key, NAMESPACES), !is(key, CRDS)));
        delete(&etcd, &foreign).await?;
        let crds = foreign.iter().filter_map(|key| {
            let name = key.strip_prefix(CRDS.as_bytes())?;
            std::str::from_utf8(name).ok().map(str::to_owned)
        });
        removed.extend(crds);
        sleep(RESTORE_INTERVAL).await;
        entries = scan(&etcd, true).await?;
    }
    let range = ["/registry/events/", "/registry/events0"].map(|key| ByteString(key.into()));
    let body = json!({"key": range[0], "range_end": range[1]});
    post::<WriteResponse>(&etcd, "kv/deleterange", &body).await?;
    let client = cluster.client()?;
    for name in &removed {
        while is_served(&client, name).await {
            if Instant::now() > end {
                return Err(timed_out(format!("discovery omits CRD {name}")));
            }
            sleep(RESTORE_INTERVAL).await;
        }
    }
    cluster.forget_kinds();
    Ok(true)
}

/// Writes the keys that a test changed or deleted.
async fn write_back(etcd: &Client, snapshot: &mut Snapshot, entries: &[Entry]) -> Result<()> {
    let revisions: HashMap<&[u8], &str> = entries
        .iter()
        .map(|entry| (entry.key.0.as_slice(), entry.mod_revision.as_str()))
        .collect();
    for (key, (value, revision)) in &mut snapshot.0 {
        if revisions.get(key.as_slice()) != Some(&revision.as_str()) {
            let body = json!({"key": ByteString(key.clone()), "value": value});
            let response: WriteResponse = post(etcd, "kv/put", &body).await?;
            *revision = response.header.revision;
        }
    }
    Ok(())
}

async fn delete(etcd: &Client, keys: &[Vec<u8>]) -> Result<()> {
    stream::iter(keys.iter().cloned())
        .map(|key| async move {
            let body = json!({"key": ByteString(key)});
            post::<WriteResponse>(etcd, "kv/deleterange", &body).await
        })
        .buffered(MAX_CONCURRENT_WRITES)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Reports whether the API server serves a CRD's kind, in any version.
async fn is_served(client: &Client, name: &str) -> bool {
    let Some((plural, group)) = name.split_once('.') else {
        return false;
    };
    let Ok(groups) = client.list_api_groups().await else {
        return true;
    };
    if groups.groups.iter().all(|other| other.name != group) {
        return false;
    }
    match discovery::group(client, group).await {
        Ok(group) => group.versions().any(|version| {
            let mut resources = group.versioned_resources(version).into_iter();
            resources.any(|(resource, _)| resource.plural == plural)
        }),
        Err(_) => true,
    }
}

/// Stops a control plane that no test can use again.
async fn discard(cluster: &Cluster) {
    for program in [Program::Controllers, Program::Apiserver, Program::Etcd] {
        // The process of a stopped program has ended.
        let _ = cluster.stop(program).await;
    }
}

/// Reports whether a component writes a key continuously: the API server, the controllers, the stand-in node.
fn is_left_alone(key: &[u8]) -> bool {
    let Ok(key) = std::str::from_utf8(key) else {
        return false;
    };
    let prefixes = [
        "/registry/configmaps/kube-",
        "/registry/events/",
        "/registry/leases/kube-",
        "/registry/masterleases/",
        "/registry/secrets/kube-",
        "/registry/serviceaccounts/kube-",
    ];
    // Once started, the stand-in node reports until the process ends.
    let is_stand_in = key.strip_prefix("/registry/minions/") == Some(fake_node::NAME);
    is_stand_in || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

pub(crate) fn etcd(cluster: &Cluster) -> Result<Client> {
    let url = format!("http://{}", cluster.etcd()?);
    let url = url.parse().map_err(|_| Error::NotStarted("etcd"))?;
    control_plane::client(&Config::new(url))
}

async fn scan(etcd: &Client, keys_only: bool) -> Result<Vec<Entry>> {
    let [key, end] = ["/registry/", "/registry0"].map(|key| ByteString(key.into()));
    let body = json!({"key": key, "range_end": end, "keys_only": keys_only});
    let response: RangeResponse = post(etcd, "kv/range", &body).await?;
    Ok(response.kvs)
}

/// Calls a method of etcd's JSON API.
pub(crate) async fn post<T: DeserializeOwned>(
    etcd: &Client,
    method: &str,
    body: &Value,
) -> Result<T> {
    let path = format!("/v3/{method}");
    let request = Request::new(&path).create(&PostParams::default(), body.to_string().into());
    let response = match request {
        Ok(request) => etcd.request(request).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    response.map_err(Error::api(format!("call {method} of etcd")))
}

fn timed_out(expectation: String) -> Error {
    Error::timeout(expectation, RESTORE_TIMEOUT, String::new())
}
