//! Kills of the provisioner at random moments: no object is lost, and none is left over.
//!
//! During the kills, instances are installed, upgraded, rolled back (by `spec.rollbackTo`, and because a version fails)
//! and removed. `RUKPAK_SEED` repeats the moments of a run, `RUKPAK_KILLS` sets their number.

use std::{collections::BTreeMap, env, time::Duration};

use kube::Api;
use manifests::api::bundle_instance::{BundleInstance, BundleInstanceStatus, Rollback};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::support::empty;
use super::{KILLS_WITH_CONTENT, KILLS_WITHOUT_CONTENT};
use crate::support::{
    FAILING, Line, Options, Play, Provisioner, World, condition, eventually, merge, storage,
    wait_deleted,
};

/// Longest time between two kills, in milliseconds: a little more than an installation takes.
const MAX_DELAY_MS: u64 = 900;

fn number(variable: &str) -> Option<u64> {
    Some(env::var(variable).ok()?.parse().expect(variable))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declared {
    Nothing,
    Version(usize),
    /// A version, through `spec.rollbackTo`.
    Pinned(usize),
    /// A version; the template names one that fails and is rolled back.
    Failed(usize),
}

impl Declared {
    /// Returns the state after a change. Before a state was reached, a rollback leads to an unknown version, and one
    /// that is under way may still create a revision.
    fn next(self, random: &mut fastrand::Rng, is_reached: bool) -> Self {
        let any = random.usize(1..=2);
        match self {
            Self::Version(version) => match random.u8(0..5) {
                0 => Self::Nothing,
                1 if is_reached => Self::Failed(version),
                2 if is_reached => Self::Pinned(3 - version),
                _ => Self::Version(3 - version),
            },
            Self::Pinned(_) | Self::Failed(_) if !is_reached || random.u8(0..3) == 0 => {
                Self::Nothing
            }
            Self::Nothing | Self::Pinned(_) | Self::Failed(_) => Self::Version(any),
        }
    }

    /// Reports whether the objects are rendered from content.
    fn needs_content(self) -> bool {
        matches!(self, Self::Version(_) | Self::Failed(_))
    }
}

fn newest_revision(status: &BundleInstanceStatus) -> i64 {
    let newest = status.revisions.last();
    newest.map_or(0, |newest| newest.number)
}

struct Subject {
    play: Play,
    line: Line,
    is_cut: bool,
    declared: Declared,
    before: i64,
    revisions: [Option<i64>; 2],
    uids: BTreeMap<String, String>,
}

impl Subject {
    async fn new(world: &World, prefix: &str) -> Self {
        let registry = world.registry.host();
        let line = Line::new(registry).await;
        let play = Play::new(world, prefix).await;
        Self {
            play: play.behind(registry, &line.host()),
            line,
            is_cut: false,
            declared: Declared::Nothing,
            before: 0,
            revisions: [None; 2],
            uids: BTreeMap::new(),
        }
    }

    /// Returns the number of the newest revision; 0 if none exists.
    async fn newest(&self, world: &World) -> i64 {
        let instances: Api<BundleInstance> = world.api();
        let found = instances.get_opt(&self.play.name).await.unwrap();
        let status = found.and_then(|instance| instance.status);
        newest_revision(&status.unwrap_or_default())
    }

    async fn declare(&mut self, world: &World, mut now: Declared) {
        if let Declared::Pinned(version) = now
            && self.revisions[version - 1].is_none()
        {
            now = Declared::Version(version);
        }
        if now.needs_content() && self.is_cut {
            self.line.restore().await;
            self.is_cut = false;
        }
        if self.declared == Declared::Nothing {
            // A terminating instance must be deleted before.
            wait_deleted::<BundleInstance>(world.api(), &self.play.name).await;
            self.revisions = [None; 2];
            self.uids.clear();
        }
        self.before = self.newest(world).await;
        let play = &self.play;
        match (self.declared, now) {
            (Declared::Nothing, Declared::Version(version)) => {
                play.install_with(world, version, |spec| {
                    spec.rollback = Rollback::OnFailure;
                    spec.revision_history_limit = Some(10);
                })
                .await;
            }
            (_, Declared::Nothing) => play.remove(world).await,
            (_, Declared::Version(version)) => play.upgrade(world, version).await,
            (_, Declared::Failed(_)) => play.upgrade(world, FAILING).await,
            (_, Declared::Pinned(version)) => {
                let number = self.revisions[version - 1].unwrap();
                let patch = json!({"spec": {"rollbackTo": number}});
                merge::<BundleInstance>(&world.api(), &play.name, &patch).await;
            }
        }
        self.declared = now;
    }

    /// Cuts the line to the registry once the objects are recorded.
    async fn cut(&mut self, world: &World) {
        if self.is_cut || !self.declared.needs_content() {
            return;
        }
        let api: Api<BundleInstance> = world.api();
        let (name, before) = (&self.play.name, self.before);
        eventually(&format!("{name} is recorded"), async || {
            let instance = api.get(name).await.map_err(|error| error.to_string())?;
            let status = instance.status.unwrap_or_default();
            let newest = newest_revision(&status);
            // The objects may be those that are installed.
            let generation = instance.metadata.generation;
            let reports = |type_, reason: &str, part: &str| {
                condition(&status.conditions, type_).is_some_and(|condition| {
                    condition.reason == reason
                        && condition.observed_generation == generation
                        && condition.message.contains(part)
                })
            };
            let bundle = status.installed_bundle_name.as_deref();
            let is_over = bundle.is_some_and(|bundle| {
                reports("HasValidBundle", "UnpackSuccessful", bundle)
                    && reports("Installed", "InstallationSucceeded", bundle)
            });
            (newest > before || is_over)
                .then_some(())
                .ok_or_else(|| format!("{before}, {status:#?}"))
        })
        .await;
        self.line.cut();
        self.is_cut = true;
    }

    /// Waits until the cluster matches the declaration. No object that all versions have was created again.
    async fn reached(&mut self, world: &World) {
        let (version, reason) = match self.declared {
            Declared::Nothing => return self.play.wait_deleted(world).await,
            Declared::Version(version) => (version, "InstallationSucceeded"),
            Declared::Pinned(version) | Declared::Failed(version) => (version, "RolledBack"),
        };
        self.play.settled_as(world, version, reason).await;
        self.revisions[version - 1] = Some(self.newest(world).await);
        let uids = self.play.uids(world).await;
        if !self.uids.is_empty() {
            assert_eq!(uids, self.uids, "objects were created again");
        }
        self.uids = uids;
    }
}

/// Kills a working provisioner that many times. In between, the content store is kept; or else it is deleted, and the
/// registry is unreachable from the moment at which objects are recorded.
async fn survives(prefix: &str, kills: u64, is_kept: bool) {
    let seed = number("RUKPAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{prefix}: {kills} kills, RUKPAK_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (cluster, audit, _turn) = empty().await;
    let store = storage();
    let start = || {
        let storage = is_kept.then(|| store.path().to_owned());
        Provisioner::launch(cluster, tests::with!(Options, storage))
    };
    let world = World::bare(cluster);
    let subject = || Subject::new(&world, prefix);
    let mut subjects = [subject().await, subject().await, subject().await];
    let mut slowest = Duration::ZERO;
    let mark = audit.mark();
    let mut provisioner = start();
    let mut is_reached = true;
    for kill in 0..kills {
        // Sometimes, nothing is changed between two kills.
        if is_reached || random.bool() {
            for subject in &mut subjects {
                let now = subject.declared.next(&mut random, is_reached);
                subject.declare(&world, now).await;
            }
        }
        sleep(Duration::from_millis(random.u64(0..MAX_DELAY_MS))).await;
        provisioner.kill().await;
        provisioner = start();
        let began = Instant::now();
        if !is_kept {
            for subject in &mut subjects {
                subject.cut(&world).await;
            }
        }
        // Sometimes, the process is killed again before the cluster matches the declaration.
        is_reached = random.u8(0..3) != 0;
        if is_reached {
            for subject in &mut subjects {
                subject.reached(&world).await;
            }
            slowest = slowest.max(began.elapsed());
        }
        if kill % 10 == 9 {
            let count = kill + 1;
            eprintln!("{prefix}: {count} kills, slowest {slowest:.1?}");
        }
    }
    for subject in &mut subjects {
        subject.reached(&world).await;
        if subject.declared != Declared::Nothing {
            subject.play.uninstall(&world).await;
        }
    }
    let requests = audit.since(&mark);
    let (count, time) = (requests.all.len(), requests.time);
    eprintln!("{prefix}: {count} requests in {time:.0?}");
}

// parity: rukpak-30
#[tokio::test]
async fn killed_at_random_moments_it_converges_with_its_content() {
    let kills = number("RUKPAK_KILLS").unwrap_or(KILLS_WITH_CONTENT);
    survives("kept", kills, true).await;
}

#[tokio::test]
async fn killed_at_random_moments_it_converges_without_its_content() {
    let kills = number("RUKPAK_KILLS").unwrap_or(KILLS_WITHOUT_CONTENT);
    survives("lost", kills, false).await;
}
