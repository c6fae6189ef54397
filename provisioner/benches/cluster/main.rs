//! Compares this provisioner with rukpak's in the same run: each with a new control plane, both with the same registry.
//!
//! ```console
//! $ make bench-cluster                                          # everything: about ten minutes
//! $ cargo bench -p provisioner --bench cluster -- ours          # without the peer
//! $ cargo bench -p provisioner --bench cluster -- ours scale    # one part: small, repair, rest, fifty, scale, change
//! ```
//!
//! Prints the tables of docs/performance.md; progress and the requests to the API server go to standard error.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench fails by panicking"
)]

mod api_requests;
mod bundles;
mod change;
mod environment;
mod process;
mod repair;
mod scale;
mod subject;
mod table;
mod timeline;

use std::time::{Duration, Instant};

use tokio::time::sleep;

use self::bundles::Class;
use self::environment::Environment;
use self::repair::Repairs;
use self::subject::Contender;
use self::table::{Figures, at_rest, ratio, seconds, spread, unrepaired};

/// The number of small bundles that are installed, one after the other.
const SMALL: usize = 9;
const NAMESPACE: &str = "installed";

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts = ["small", "repair", "rest", "fifty", "scale", "change"];
    let any = arguments.iter().any(|word| parts.contains(&word.as_str()));
    let is_requested = |part: &str| !any || arguments.iter().any(|word| word == part);
    let alone = arguments.iter().any(|word| word == "ours");
    if !alone {
        subject::peers();
    }
    let load = load();
    let start = Instant::now();
    let mut all = Vec::new();
    let paired = parts[..4].iter().any(|part| is_requested(part));
    for contender in [Contender::Ours, Contender::Peer] {
        if paired && !(alone && contender == Contender::Peer) {
            all.push(measure(contender, is_requested).await);
        }
    }
    let mut scale = Vec::new();
    if is_requested("scale") {
        eprintln!("== a thousand instances");
        scale = scale::measure().await;
    }
    // Takes longer than all other parts together.
    let mut changes = Vec::new();
    if arguments.iter().any(|word| word == "change") {
        changes = change::measure().await;
    }
    eprintln!("== {:.0?}", start.elapsed());
    let load = format!("{load} and {}", self::load());
    table::print(&all, &scale, &changes, &load);
}

async fn measure(contender: Contender, is_requested: impl Fn(&str) -> bool) -> Figures {
    eprintln!("== {}", contender.name());
    let environment = Environment::new(contender).await;
    environment.namespace(NAMESPACE).await;
    sleep(Duration::from_secs(3)).await;
    let at_start = environment.provisioner.process.memory();
    let mut small_times = Vec::new();
    if is_requested("small") {
        let mark = environment.mark();
        for number in 0..SMALL {
            small_times.push(small(&environment, number).await);
        }
        let calls = environment.calls(mark, jiff::Timestamp::now());
        eprintln!("small bundles: {small_times:?}\n{}", calls.lines());
    }
    let mut repairs = Repairs::default();
    if is_requested("repair") {
        repairs = repair::measure(&environment).await;
        eprintln!("{repairs:?}");
    }
    let mut of_fifty = <[String; 7]>::default();
    if is_requested("fifty") {
        of_fifty = fifty(&environment).await;
    }
    let mut rest = String::new();
    if is_requested("rest") {
        sleep(Duration::from_secs(10)).await;
        let calls = environment.calls_at_rest(Duration::from_secs(60)).await;
        eprintln!("a minute at rest:\n{}", calls.lines());
        rest = at_rest(&calls);
    }
    let [settled, installed, calls, objects, calls_each, cpu, at_end] = of_fifty;
    ::tests::rows![
        "" => contender.name().to_owned();
        "a small bundle, creation to Installed" => spread(small_times.iter());
        "fifty bundles at once, until settled" => settled;
        "of them Installed" => installed;
        "API calls for them" => calls;
        "objects in the cluster then" => objects;
        "API calls for each object" => calls_each;
        "processor time" => cpu;
        "memory at the start" => at_start;
        "memory with all of them" => at_end;
        "a deleted object back" => spread(repairs.deleted.iter().flatten());
        "a changed field repaired" => spread(repairs.changed.iter().flatten());
        "repairs that did not come in 30 s" => unrepaired(&repairs);
        "API calls in a minute at rest" => rest;
    ]
}

async fn small(environment: &Environment, number: usize) -> Duration {
    let name = format!("small-{number}");
    let content = bundles::operator(&name);
    let bundle = environment.push(&name, Class::Registry, &content).await;
    let start = Instant::now();
    environment.declare(&bundle, NAMESPACE).await;
    let timed = environment.verdicts.wait_for(&name).await;
    assert_eq!(timed.verdict, Ok(()), "{name}");
    // Work after an installation must not slow down the next one.
    sleep(Duration::from_secs(1)).await;
    timed.at - start
}

/// Returns the figures of many bundles at once.
async fn fifty(environment: &Environment) -> [String; 7] {
    let (contents, description) = bundles::fifty();
    eprintln!("{description}");
    let bundles = environment.push_all(Class::Registry, contents).await;
    // As an admin does: bundles in one namespace share the names of objects.
    for bundle in &bundles {
        environment.namespace(&bundle.name).await;
    }
    let before = environment.verdicts.until(0).await.len();
    let objects = environment.objects().await;
    let cpu = environment.provisioner.process.cpu();
    let mark = environment.mark();
    let start = Instant::now();
    let declared = bundles.iter();
    let declared = declared.map(|bundle| environment.declare(bundle, &bundle.name));
    futures::future::join_all(declared).await;
    let all = environment.verdicts.settled(before + bundles.len()).await;
    let timed: Vec<_> = bundles.iter().map(|one| (one, &all[&one.name])).collect();
    let last = timed.iter().max_by_key(|(_, timed)| timed.at).unwrap().1;
    let after = |(_, timed): &(_, &timeline::TimedVerdict)| (timed.at - start).as_secs_f64();
    let mut times: Vec<f64> = timed.iter().map(after).collect();
    times.sort_by(f64::total_cmp);
    eprintln!("verdicts after {times:.1?} s");
    let mut installed = bundles.len();
    for (bundle, timed) in &timed {
        if let Err(message) = &timed.verdict {
            installed -= 1;
            eprintln!("{}: {message:.300}", bundle.name);
        }
    }
    let (count, settled) = (bundles.len(), last.at - start);
    let cpu = environment.provisioner.process.cpu().saturating_sub(cpu);
    let calls = environment.calls(mark, last.time);
    let objects = environment.objects().await - objects;
    let lines = calls.lines();
    eprintln!("{count} bundles in {settled:?}, {cpu:?} of processor time:\n{lines}");
    [
        seconds(settled),
        format!("{installed} of {count}"),
        calls.count().to_string(),
        objects.to_string(),
        ratio(calls.count(), objects),
        seconds(cpu),
        environment.provisioner.process.memory(),
    ]
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
