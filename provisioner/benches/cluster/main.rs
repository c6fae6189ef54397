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

use self::api_requests::Calls;
use self::bundles::Class;
use self::environment::Environment;
use self::process::Memory;
use self::repair::Repairs;
use self::subject::Contender;

/// The number of small bundles that are installed, one after the other.
const SMALL: usize = 9;
const NAMESPACE: &str = "installed";
/// The time without a change after which many bundles count as settled.
const QUIET_PERIOD: Duration = Duration::from_secs(15);

#[derive(Debug)]
struct Figures {
    contender: Contender,
    /// Memory when the provisioner became ready.
    memory: Memory,
    small: Vec<Duration>,
    repairs: Repairs,
    rest: Option<Calls>,
    fifty: Option<Fifty>,
}

#[derive(Debug)]
struct Fifty {
    settled: Duration,
    cpu: Duration,
    bundles: usize,
    installed: usize,
    calls: Calls,
    /// Number of objects in the cluster after that.
    objects: usize,
    memory: Memory,
}

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
    let mut scale = None;
    if is_requested("scale") {
        eprintln!("== a thousand instances");
        scale = Some(scale::measure().await);
    }
    // Takes longer than all other parts together.
    let mut changes = Vec::new();
    if arguments.iter().any(|word| word == "change") {
        changes = change::measure().await;
    }
    eprintln!("== {:.0?}", start.elapsed());
    table::print(&all, scale.as_ref(), &changes, &[load, self::load()]);
}

async fn measure(contender: Contender, is_requested: impl Fn(&str) -> bool) -> Figures {
    eprintln!("== {}", contender.name());
    let environment = Environment::new(contender).await;
    environment.namespace(NAMESPACE).await;
    sleep(Duration::from_secs(3)).await;
    let mut figures = Figures {
        contender,
        memory: environment.provisioner.process.memory(),
        small: Vec::new(),
        repairs: Repairs::default(),
        rest: None,
        fifty: None,
    };
    if is_requested("small") {
        let mark = environment.mark();
        for number in 0..SMALL {
            figures.small.push(small(&environment, number).await);
        }
        let calls = environment.calls(mark, jiff::Timestamp::now());
        eprintln!("small bundles: {:?}\n{}", figures.small, calls.lines());
    }
    if is_requested("repair") {
        figures.repairs = repair::measure(&environment).await;
        eprintln!("{:?}", figures.repairs);
    }
    if is_requested("fifty") {
        let fifty = fifty(&environment).await;
        let (count, settled, cpu) = (fifty.bundles, fifty.settled, fifty.cpu);
        eprintln!("{count} bundles in {settled:?}, {cpu:?} of processor time:");
        eprintln!("{}", fifty.calls.lines());
        figures.fifty = Some(fifty);
    }
    if is_requested("rest") {
        sleep(Duration::from_secs(10)).await;
        let rest = environment.calls_at_rest(Duration::from_secs(60)).await;
        eprintln!("a minute at rest:\n{}", rest.lines());
        figures.rest = Some(rest);
    }
    figures
}

async fn small(environment: &Environment, number: usize) -> Duration {
    let name = format!("small-{number}");
    let content = bundles::operator(&name);
    let bundle = environment.push(&name, Class::Registry, &content).await;
    let start = Instant::now();
    environment.declare(&bundle, NAMESPACE).await;
    let timed = environment.verdicts.wait_for(&name).await;
    assert!(timed.verdict.installed, "{name}: {}", timed.verdict.message);
    // Work after an installation must not slow down the next one.
    sleep(Duration::from_secs(1)).await;
    timed.at - start
}

async fn fifty(environment: &Environment) -> Fifty {
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
    let all = environment
        .verdicts
        .settled(before + bundles.len(), QUIET_PERIOD)
        .await;
    let timed: Vec<_> = bundles.iter().map(|one| (one, &all[&one.name])).collect();
    let last = timed.iter().max_by_key(|(_, timed)| timed.at).unwrap().1;
    let after = |(_, timed): &(_, &timeline::TimedVerdict)| (timed.at - start).as_secs_f64();
    let mut seconds: Vec<f64> = timed.iter().map(after).collect();
    seconds.sort_by(f64::total_cmp);
    eprintln!("verdicts after {seconds:.1?} s");
    let failed = timed.iter().filter(|(_, timed)| !timed.verdict.installed);
    let failed: Vec<_> = failed.collect();
    for (bundle, timed) in &failed {
        eprintln!("{}: {:.300}", bundle.name, timed.verdict.message);
    }
    Fifty {
        settled: last.at - start,
        cpu: environment.provisioner.process.cpu().saturating_sub(cpu),
        bundles: bundles.len(),
        installed: timed.len() - failed.len(),
        calls: environment.calls(mark, last.time),
        objects: environment.objects().await - objects,
        memory: environment.provisioner.process.memory(),
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
