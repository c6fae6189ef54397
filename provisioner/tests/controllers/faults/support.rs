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

/// User agent prefix of the provisioner's requests.
const AGENT: &str = "provisioner/";

/// A cluster, and a provisioner for it alone.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) audit: Audit,
    pub(crate) cluster: &'static Cluster,
    _lease: Lease,
}

/// The audit log of the API server.
pub(crate) struct Audit {
    log: PathBuf,
}

/// A position in the audit log.
pub(crate) struct Mark {
    offset: u64,
    at: Instant,
}

/// The requests of an interval.
pub(crate) struct Requests {
    pub(crate) all: Vec<Request>,
    pub(crate) time: Duration,
}

/// A request of a provisioner.
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) uri: String,
    /// Process that sent the request.
    pub(crate) agent: String,
}

/// Sets up the stage for one test.
pub(crate) async fn stage(options: Options) -> Stage {
    begin(empty().await, options).await
}

async fn begin((cluster, audit, lease): Empty, options: Options) -> Stage {
    let provisioner = Provisioner::start(cluster, options).await;
    Stage {
        world: World::with_provisioner(cluster, provisioner),
        audit,
        cluster,
        _lease: lease,
    }
}

/// Sets up the stage with a line between the provisioner and the API server.
pub(crate) async fn stage_behind_line() -> (Stage, Line) {
    let empty = empty().await;
    let (line, kubeconfig) = Line::of_kubeconfig(empty.0).await;
    let options = Options {
        kubeconfig: Some(kubeconfig),
        ..Options::default()
    };
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

/// Prints the time since `since`.
pub(crate) fn took(description: &str, since: Instant) {
    eprintln!("{description}: {:.1} s", since.elapsed().as_secs_f64());
}

impl Stage {
    /// Returns the provisioner.
    pub(crate) async fn provisioner(&self) -> &Provisioner {
        self.world.provisioner().await
    }
}

impl Audit {
    /// Returns the current position in the audit log.
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
            let agent = event["userAgent"].as_str()?;
            agent.starts_with(AGENT).then(|| Request {
                verb: event["verb"].as_str().unwrap_or_default().to_owned(),
                uri: event["requestURI"].as_str().unwrap_or_default().to_owned(),
                agent: agent.to_owned(),
            })
        };
        Requests {
            all: text.lines().filter_map(request).collect(),
            time: mark.at.elapsed(),
        }
    }
}

impl Requests {
    /// Returns the number of writes, without Events.
    pub(crate) fn writes(&self) -> usize {
        let reads = ["get", "list", "watch"];
        let writes = |request: &&Request| {
            !reads.contains(&request.verb.as_str()) && !request.uri.contains("/events")
        };
        self.all.iter().filter(writes).count()
    }

    /// Panics if more requests than `most` were sent; a loop without a delay sends hundreds per second.
    pub(crate) fn at_most(&self, most: usize, when: &str) {
        eprintln!(
            "{when}: {} requests in {:.1} s",
            self.all.len(),
            self.time.as_secs_f64()
        );
        assert!(self.all.len() <= most, "{when}: more than {most}:\n{self}");
    }
}

impl std::fmt::Display for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for it in &self.all {
            let path = it.uri.split('?').next().unwrap_or_default();
            *counts.entry((&it.verb, path)).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for ((verb, path), count) in counts.into_iter().take(40) {
            writeln!(f, "{count:6} {verb} {path}")?;
        }
        Ok(())
    }
}
