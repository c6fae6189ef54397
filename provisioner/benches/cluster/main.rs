//! Ours against rukpak's own provisioner, in the same run: each with a new control plane, both from the same registry.
//!
//! ```console
//! $ make bench-cluster                                          # all of it: about ten minutes
//! $ cargo bench -p provisioner --bench cluster -- ours          # without the peer
//! $ cargo bench -p provisioner --bench cluster -- ours scale    # one part: small, repair, rest, fifty, scale, change
//! ```
//!
//! Prints the tables of docs/performance.md, and on standard error what it does and what was asked of the apiserver.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench fails by panicking"
)]

mod bundles;
mod calls;
mod change;
mod contender;
mod place;
mod process;
mod repair;
mod scale;
mod table;
mod verdicts;

use std::time::{Duration, Instant};

use tokio::time::sleep;

use self::{
    bundles::Class, calls::Calls, contender::Contender, place::Place, process::Memory,
    repair::Repairs,
};

/// How many small bundles are installed, one after the other.
const SMALL: usize = 9;
/// Where bundles are installed.
const NAMESPACE: &str = "installed";
/// How long nothing has to change until many bundles count as settled.
const QUIET: Duration = Duration::from_secs(15);

/// What was found out about one of them.
#[derive(Debug)]
struct Figures {
    contender: Contender,
    /// When it was ready.
    memory: Memory,
    /// From creation to Installed.
    small: Vec<Duration>,
    repairs: Repairs,
    rest: Option<Calls>,
    fifty: Option<Fifty>,
}

/// Many bundles at once.
#[derive(Debug)]
struct Fifty {
    /// Until the last verdict.
    settled: Duration,
    cpu: Duration,
    bundles: usize,
    installed: usize,
    calls: Calls,
    /// In the cluster then.
    objects: usize,
    memory: Memory,
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parts = ["small", "repair", "rest", "fifty", "scale", "change"];
    let any = words.iter().any(|word| parts.contains(&word.as_str()));
    let wants = |part: &str| !any || words.iter().any(|word| word == part);
    let alone = words.iter().any(|word| word == "ours");
    if !alone {
        contender::peers();
    }
    let load = load();
    let start = Instant::now();
    let mut all = Vec::new();
    let paired = parts[..4].iter().any(|part| wants(part));
    for contender in [Contender::Ours, Contender::Peer] {
        if paired && !(alone && contender == Contender::Peer) {
            all.push(measure(contender, wants).await);
        }
    }
    let scale = if wants("scale") {
        eprintln!("== a thousand instances");
        Some(scale::measure().await)
    } else {
        None
    };
    // Takes longer than all the rest together.
    let changes = if words.iter().any(|word| word == "change") {
        change::measure().await
    } else {
        Vec::new()
    };
    eprintln!("== {:.0?}", start.elapsed());
    table::print(&all, scale.as_ref(), &changes, &[load, self::load()]);
}

async fn measure(contender: Contender, wants: impl Fn(&str) -> bool) -> Figures {
    eprintln!("== {}", contender.name());
    let place = Place::new(contender).await;
    place.namespace(NAMESPACE).await;
    sleep(Duration::from_secs(3)).await;
    let mut figures = Figures {
        contender,
        memory: place.provisioner.process.memory(),
        small: Vec::new(),
        repairs: Repairs::default(),
        rest: None,
        fifty: None,
    };
    if wants("small") {
        let mark = place.mark();
        for number in 0..SMALL {
            figures.small.push(small(&place, number).await);
        }
        let calls = place.calls(mark, jiff::Timestamp::now());
        eprintln!("small bundles: {:?}\n{}", figures.small, calls.lines());
    }
    if wants("repair") {
        figures.repairs = repair::measure(&place).await;
        eprintln!("{:?}", figures.repairs);
    }
    if wants("fifty") {
        let fifty = fifty(&place).await;
        eprintln!(
            "{} bundles in {:?}, {:?} of processor time:\n{}",
            fifty.bundles,
            fifty.settled,
            fifty.cpu,
            fifty.calls.lines()
        );
        figures.fifty = Some(fifty);
    }
    if wants("rest") {
        sleep(Duration::from_secs(10)).await;
        let rest = place.rest(Duration::from_secs(60)).await;
        eprintln!("a minute at rest:\n{}", rest.lines());
        figures.rest = Some(rest);
    }
    figures
}

async fn small(place: &Place, number: usize) -> Duration {
    let name = format!("small-{number}");
    let content = bundles::operator(&name);
    let bundle = place.push(&name, Class::Registry, &content).await;
    let start = Instant::now();
    place.declare(&bundle, NAMESPACE).await;
    let told = place.verdicts.of(&name).await;
    assert!(told.verdict.installed, "{name}: {}", told.verdict.message);
    // What follows an installation is not to be in the way of the next.
    sleep(Duration::from_secs(1)).await;
    told.at - start
}

async fn fifty(place: &Place) -> Fifty {
    let (contents, what) = bundles::fifty();
    eprintln!("{what}");
    let bundles = place.push_all(Class::Registry, contents).await;
    // As an administrator would: who shares a namespace shares the names in it.
    for bundle in &bundles {
        place.namespace(&bundle.name).await;
    }
    let before = place.verdicts.until(0).await.len();
    let objects = place.objects().await;
    let cpu = place.provisioner.process.cpu();
    let mark = place.mark();
    let start = Instant::now();
    let declare = async |bundle: &bundles::Bundle| {
        place.declare(bundle, &bundle.name).await;
    };
    futures::future::join_all(bundles.iter().map(declare)).await;
    let all = place.verdicts.settled(before + bundles.len(), QUIET).await;
    let told: Vec<_> = bundles.iter().map(|one| (one, &all[&one.name])).collect();
    let last = told.iter().max_by_key(|(_, told)| told.at).unwrap().1;
    let after = |(_, told): &(_, &verdicts::Told)| (told.at - start).as_secs_f64();
    let mut seconds: Vec<f64> = told.iter().map(after).collect();
    seconds.sort_by(f64::total_cmp);
    eprintln!("verdicts after {seconds:.1?} s");
    let failed = told.iter().filter(|(_, told)| !told.verdict.installed);
    let failed: Vec<_> = failed.collect();
    for (bundle, told) in &failed {
        let message: String = told.verdict.message.chars().take(300).collect();
        eprintln!("{}: {message}", bundle.name);
    }
    Fifty {
        settled: last.at - start,
        cpu: place.provisioner.process.cpu().saturating_sub(cpu),
        bundles: bundles.len(),
        installed: told.len() - failed.len(),
        calls: place.calls(mark, last.time),
        objects: place.objects().await - objects,
        memory: place.provisioner.process.memory(),
    }
}

/// How busy the machine is: processes that run or want to, in the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
