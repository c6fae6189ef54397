//! Figures as Markdown.

use std::time::Duration;

use crate::Figures;
use crate::api_requests::Calls;
use crate::change::Change;
use crate::process::Memory;
use crate::repair::Repairs;
use crate::scale::Scale;

pub(crate) fn print(all: &[Figures], scale: Option<&Scale>, changes: &[Change], load: &[String]) {
    let load = load.join(" and ");
    println!("Load of the machine before and after: {load}.\n");
    if !all.is_empty() {
        paired(all);
    }
    if let Some(scale) = scale {
        thousand(scale);
    }
    if !changes.is_empty() {
        many(changes);
    }
}

fn many(changes: &[Change]) {
    println!("| each instance | time | processor time | requests |\n| --- | ---: | ---: | ---: |");
    for change in changes {
        let count = u32::try_from(change.instances).unwrap();
        for (label, phase) in [
            ("created", &change.create),
            ("changed", &change.update),
            ("found after a restart", &change.restart),
            ("deleted", &change.delete),
        ] {
            let [took, cpu] = [phase.took, phase.cpu].map(|all| milliseconds(all / count));
            let calls = ratio(phase.calls.count(), change.instances);
            println!("| {label}, {count} instances | {took} | {cpu} | {calls} |");
        }
    }
}

type Cell = fn(&Figures) -> Option<String>;

fn paired(all: &[Figures]) {
    let names: Vec<&str> = all.iter().map(|figures| figures.contender.name()).collect();
    let alignment = " ---: |".repeat(all.len());
    println!("| | {} |\n| --- |{alignment}", names.join(" | "));
    let rows: [(&str, Cell); 13] = ::tests::rows![
        "a small bundle, creation to Installed" => |found| spread(&found.small);
        "fifty bundles at once, until settled" => |found| found.fifty.as_ref().map(|fifty| seconds(fifty.settled));
        "of them Installed" => |found| found.fifty.as_ref().map(|fifty| format!("{} of {}", fifty.installed, fifty.bundles));
        "API calls for them" => |found| found.fifty.as_ref().map(|fifty| fifty.calls.count().to_string());
        "objects in the cluster then" => |found| found.fifty.as_ref().map(|fifty| fifty.objects.to_string());
        "API calls for each object" => |found| found.fifty.as_ref().map(|fifty| ratio(fifty.calls.count(), fifty.objects));
        "processor time" => |found| found.fifty.as_ref().map(|fifty| seconds(fifty.cpu));
        "memory at the start" => |found| Some(memory(found.memory));
        "memory with all of them" => |found| found.fifty.as_ref().map(|fifty| memory(fifty.memory));
        "a deleted object back" => |found| spread(&found.repairs.deleted);
        "a changed field repaired" => |found| spread(&found.repairs.changed);
        "repairs that did not come in 30 s" => |found| unrepaired(&found.repairs);
        "API calls in a minute at rest" => |found| found.rest.as_ref().map(at_rest);
    ];
    for (name, cell) in rows {
        let cells: Vec<Option<String>> = all.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
            println!("| {name} | {} |", cells.join(" | "));
        }
    }
    println!();
}

fn unrepaired(repairs: &Repairs) -> Option<String> {
    let (never, repaired) = (repairs.never, repairs.deleted.len() + repairs.changed.len());
    (repaired > 0).then(|| format!("{never} of {}", repaired + never))
}

fn at_rest(calls: &Calls) -> String {
    let lease = calls.count_if(|label| label.ends_with(" leases"));
    match (calls.count() - lease, lease) {
        (rest, 0) => rest.to_string(),
        (rest, _) => format!("{rest}, and {lease} for the Lease"),
    }
}

fn thousand(scale: &Scale) {
    println!("| 1,000 instances of 20 objects | |\n| --- | ---: |");
    let mut first = 1;
    for (count, each) in &scale.steps {
        let each = milliseconds(*each);
        println!("| each of instances {first} to {count}, all created at once | {each} |");
        first = count + 1;
    }
    let lists = scale.rest.count_if(|label| label.starts_with("list "));
    let recorded = &scale.recorded;
    let recorded = [recorded.instances, recorded.bundles, recorded.secrets];
    let recorded = recorded.map(|bytes| format!("{} kB", bytes / 1000));
    for (name, value) in ::tests::rows![
        "processor time for all" => seconds(scale.cpu);
        "memory then" => memory(scale.memory);
        "in etcd: BundleInstances, Bundles, recorded revisions" => recorded.join(", ");
        "API calls in a minute at rest" => at_rest(&scale.rest);
        "list calls among them" => lists.to_string();
        "restart with all of them: ready after" => format!("{:.2} s", scale.ready.as_secs_f64());
        "every instance looked at after" => format!("{:.2} s", scale.reconciled.as_secs_f64());
        "memory after the restart" => memory(scale.memory_again);
        "API calls of the restart" => scale.calls_again.count().to_string();
    ] {
        println!("| {name} | {value} |");
    }
    let (rest, again) = (scale.rest.lines(), scale.calls_again.lines());
    eprintln!("at rest:\n{rest}restarted:\n{again}");
}

fn spread(times: &[Duration]) -> Option<String> {
    let mut sorted = times.to_vec();
    sorted.sort();
    let at =
        |part: usize| sorted.get((sorted.len() * part / 100).min(sorted.len().saturating_sub(1)));
    let (median, most) = (at(50)?, at(99)?);
    let [median, most] = [median, most].map(|time| milliseconds(*time));
    Some(format!("{median}, at most {most}"))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 10.0 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{milliseconds:.0} ms")
    }
}

fn memory(memory: Memory) -> String {
    let [now, peak] = [memory.now, memory.peak].map(|bytes| bytes / 1_000_000);
    format!("{now} MB (peak {peak} MB)")
}

#[expect(clippy::cast_precision_loss)] // small numbers
fn ratio(one: usize, other: usize) -> String {
    format!("{:.2}", one as f64 / other.max(1) as f64)
}
