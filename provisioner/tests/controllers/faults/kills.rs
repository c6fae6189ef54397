//! The provisioner is killed at random moments: nothing is lost, nothing is left over.
//!
//! `RUKPAK_SEED` repeats the moments of a run, `RUKPAK_KILLS` sets how many there are.

use std::{env, time::Duration};

use tokio::time::{Instant, sleep};

use super::stage::empty;
use crate::support::{Options, Play, Provisioner, World, storage};

/// The longest time between two kills: a little longer than an installation takes.
const LONGEST: u64 = 900;

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}

/// What an instance is declared to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declared {
    Version(usize),
    Nothing,
}

impl Declared {
    /// What a change leads to: to another version, or to none and back.
    fn next(self, random: &mut fastrand::Rng) -> Self {
        match self {
            Self::Nothing => Self::Version(random.usize(1..=2)),
            Self::Version(version) if random.bool() => Self::Version(3 - version),
            Self::Version(_) => Self::Nothing,
        }
    }
}

async fn declare(play: &Play, world: &World, before: Declared, now: Declared) {
    match (before, now) {
        (Declared::Nothing, Declared::Version(version)) => {
            // One that is still leaving has to be gone before.
            crate::support::gone::<manifests::api::instance::BundleInstance>(
                world.api(),
                &play.name,
            )
            .await;
            play.install(world, version).await;
        }
        (_, Declared::Version(version)) => play.upgrade(world, version).await,
        (_, Declared::Nothing) => play.remove(world).await,
    }
}

async fn is_as_declared(play: &Play, world: &World, declared: Declared) {
    match declared {
        Declared::Version(version) => play.settled(world, version).await,
        Declared::Nothing => play.gone(world).await,
    }
}

/// Kills a provisioner that many times while it works; of the content store nothing is left in between, or all.
async fn survives(prefix: &str, kills: u64, is_kept: bool) {
    let seed = number("RUKPAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{prefix}: {kills} kills, RUKPAK_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (cluster, audit, _turn) = empty().await;
    let store = storage();
    let start = || {
        let options = Options {
            storage: is_kept.then(|| store.path().to_owned()),
            ..Options::default()
        };
        Provisioner::launch(cluster, options)
    };
    let world = World::bare(cluster);
    let plays = [
        Play::new(&world, prefix).await,
        Play::new(&world, prefix).await,
        Play::new(&world, prefix).await,
    ];
    let mut declared = [Declared::Nothing; 3];
    let mut slowest = Duration::ZERO;
    let mark = audit.mark();
    let mut one = None;
    for kill in 0..kills {
        let provisioner = one.take().unwrap_or_else(start);
        for (play, declared) in plays.iter().zip(&mut declared) {
            let now = declared.next(&mut random);
            declare(play, &world, *declared, now).await;
            *declared = now;
        }
        sleep(Duration::from_millis(random.u64(0..LONGEST))).await;
        provisioner.signal("KILL").await;
        assert_eq!(provisioner.ended().await, 137);
        drop(provisioner);
        let again = start();
        let began = Instant::now();
        // Sometimes it is killed again before everything is as declared.
        if random.u8(0..3) != 0 {
            for (play, declared) in plays.iter().zip(declared) {
                is_as_declared(play, &world, declared).await;
            }
            slowest = slowest.max(began.elapsed());
        }
        one = Some(again);
        if kill % 10 == 9 {
            eprintln!(
                "{prefix}: {} kills, slowest {:.1} s",
                kill + 1,
                slowest.as_secs_f64()
            );
        }
    }
    let _last = one.take().unwrap_or_else(start);
    for (play, declared) in plays.iter().zip(declared) {
        is_as_declared(play, &world, declared).await;
        if declared != Declared::Nothing {
            play.remove(&world).await;
            play.gone(&world).await;
        }
    }
    let requests = audit.since(&mark);
    eprintln!(
        "{prefix}: {} requests in {:.0} s",
        requests.all.len(),
        requests.time.as_secs_f64()
    );
}

// parity: rukpak-30
#[tokio::test]
async fn killed_at_random_moments_it_converges_with_its_content() {
    survives("kept", number("RUKPAK_KILLS").unwrap_or(70), true).await;
}

#[tokio::test]
async fn killed_at_random_moments_it_converges_without_its_content() {
    survives("lost", number("RUKPAK_KILLS").unwrap_or(30), false).await;
}
