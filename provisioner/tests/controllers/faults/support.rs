//! A control plane for faults, and the API server's audit log of the provisioner's requests.

#![allow(dead_code, reason = "not every test needs everything")]

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    time::Duration,
};

use cluster::{AUDIT_LOG, Cluster, Lease};
use serde_json::Value;
use tokio::time::Instant;

use crate::support::{self, Line, Options, Provisioner, World, config_map, image, plain};

/// A cluster, and a provisioner for it alone.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) audit: Audit,
    _lease: Lease,
}

pub(crate) struct Audit {
    log: PathBuf,
}

pub(crate) struct Mark {
    offset: u64,
    at: Instant,
}

pub(crate) struct Requests {
    pub(crate) all: Vec<Request>,
    pub(crate) time: Duration,
}

pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) uri: String,
    pub(crate) agent: String,
}

impl Request {
    pub(crate) fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }
}

pub(crate) async fn stage(options: Options) -> Stage {
    begin(empty().await, options).await
}

async fn begin((cluster, audit, lease): Empty, options: Options) -> Stage {
    let provisioner = Provisioner::start(cluster, options).await;
    Stage {
        world: World::with_provisioner(cluster, provisioner),
        audit,
        _lease: lease,
    }
}

/// Sets up the stage with a line between the provisioner and the API server.
pub(crate) async fn stage_behind_line() -> (Stage, Line) {
    let empty = empty().await;
    let (line, kubeconfig) = Line::of_kubeconfig(empty.0).await;
    let options = tests::with!(Options, kubeconfig: Some(kubeconfig));
    (begin(empty, options).await, line)
}

/// A control plane without a provisioner.
type Empty = (&'static Cluster, Audit, Lease);

pub(crate) async fn empty() -> Empty {
    let lease = support::with_controllers().await;
    let log = lease.dir().unwrap().join(AUDIT_LOG);
    (lease.cluster(), Audit { log }, lease)
}

/// Creates an instance with this number of ConfigMaps with the text 1, in the namespace of its name.
pub(crate) async fn install_maps(world: &World, name: &str, count: usize) {
    let map = |number| config_map(name, &format!("map-{number}"), "1");
    let objects: Vec<Value> = (0..count).map(map).collect();
    let pushed = world.push(&format!("{name}:v1"), &plain(&objects)).await;
    world.instance(name, "plain", image(&pushed)).await;
}

pub(crate) fn took(description: &str, since: Instant) {
    eprintln!("{description}: {:.1?}", since.elapsed());
}

impl Audit {
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            offset: std::fs::metadata(&self.log).unwrap().len(),
            at: Instant::now(),
        }
    }

    /// Returns the requests of provisioners since a mark.
    pub(crate) fn since(&self, mark: &Mark) -> Requests {
        let mut log = File::open(&self.log).unwrap();
        log.seek(SeekFrom::Start(mark.offset)).unwrap();
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        let request = |line: &str| {
            let event: Value = serde_json::from_str(line).ok()?;
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            let agent = text("userAgent");
            agent.starts_with("provisioner/").then(|| Request {
                verb: text("verb"),
                uri: text("requestURI"),
                agent,
            })
        };
        Requests {
            all: text.lines().filter_map(request).collect(),
            time: mark.at.elapsed(),
        }
    }
}

impl Requests {
    pub(crate) fn writes(&self) -> usize {
        let writes = self.all.iter().filter(|request| request.is_write());
        let uris = writes.map(|write| &write.uri);
        uris.filter(|uri| !uri.contains("/events")).count()
    }

    /// Panics if more requests than `most` were sent; a loop without a delay sends hundreds per second.
    pub(crate) fn at_most(&self, most: usize, when: &str) {
        let (count, time) = (self.all.len(), self.time);
        eprintln!("{when}: {count} requests in {time:.1?}");
        assert!(count <= most, "{when}: more than {most}:\n{self}");
    }
}

impl std::fmt::Display for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for request in &self.all {
            let path = request.uri.split('?').next().unwrap_or_default();
            *counts.entry((&request.verb, path)).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for ((verb, path), count) in counts.into_iter().take(40) {
            writeln!(f, "{count:6} {verb} {path}")?;
        }
        Ok(())
    }
}
