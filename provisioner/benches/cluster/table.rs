//! Figures as Markdown.

use std::time::Duration;

use crate::{
    Fifty, Figures,
    change::{Change, Phase},
    process::Memory,
    repair::Repairs,
    scale::Scale,
};

pub(crate) fn print(
    all: &[Figures],
    scale: Option<&Scale>,
    changes: &[Change],
    load: &[String; 2],
) {
    println!(
        "Load of the machine before and after: {} and {}.\n",
        load[0], load[1]
    );
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
        let row = |what: &str, phase: &Phase| {
            println!(
                "| {what}, {count} instances | {} | {} | {} |",
                milliseconds(phase.took / count),
                milliseconds(phase.cpu / count),
                ratio(phase.calls.count(), change.instances)
            );
        };
        row("created", &change.create);
        row("changed", &change.update);
        row("found after a restart", &change.restart);
        row("deleted", &change.delete);
    }
}

fn paired(all: &[Figures]) {
    let names: Vec<&str> = all.iter().map(|figures| figures.contender.name()).collect();
    println!(
        "| | {} |\n| --- |{}",
        names.join(" | "),
        " ---: |".repeat(all.len())
    );
    row("a small bundle, creation to Installed", all, |it| {
        spread(&it.small)
    });
    let fifty = |name: &str, text: fn(&Fifty) -> String| {
        row(name, all, |it| it.fifty.as_ref().map(text));
    };
    fifty("fifty bundles at once, until settled", |it| {
        format!("{:.1} s", it.settled.as_secs_f64())
    });
    fifty("of them Installed", |it| {
        format!("{} of {}", it.installed, it.bundles)
    });
    fifty("API calls for them", |it| it.calls.count().to_string());
    fifty("objects in the cluster then", |it| it.objects.to_string());
    fifty("API calls for each object", |it| {
        ratio(it.calls.count(), it.objects)
    });
    fifty("processor time", |it| {
        format!("{:.1} s", it.cpu.as_secs_f64())
    });
    row("memory at the start", all, |it| Some(memory(it.memory)));
    fifty("memory with all of them", |it| memory(it.memory));
    row("a deleted object back", all, |it| {
        spread(&it.repairs.deleted)
    });
    row("a changed field repaired", all, |it| {
        spread(&it.repairs.changed)
    });
    row("repairs that did not come in 30 s", all, |it| {
        let Repairs {
            deleted,
            changed,
            never,
        } = &it.repairs;
        let repaired = deleted.len() + changed.len();
        (repaired > 0).then(|| format!("{never} of {}", repaired + never))
    });
    row("API calls in a minute at rest", all, |it| {
        let calls = it.rest.as_ref()?;
        let lease = calls.of(|what| what.ends_with(" leases"));
        let rest = calls.count() - lease;
        Some(match lease {
            0 => rest.to_string(),
            _ => format!("{rest}, and {lease} for the Lease"),
        })
    });
    println!();
}

fn row(name: &str, all: &[Figures], cell: impl Fn(&Figures) -> Option<String>) {
    let cells: Vec<Option<String>> = all.iter().map(cell).collect();
    if cells.iter().any(Option::is_some) {
        let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

fn thousand(scale: &Scale) {
    println!("| 1,000 instances of 20 objects | |\n| --- | ---: |");
    let mut before = 0;
    for (count, each) in &scale.steps {
        println!(
            "| each of instances {} to {count}, all created at once | {} |",
            before + 1,
            milliseconds(*each)
        );
        before = *count;
    }
    let lists = scale.rest.of(|what| what.starts_with("list "));
    let lease = scale.rest.of(|what| what.ends_with(" leases"));
    let rows = [
        (
            "processor time for all",
            format!("{:.1} s", scale.cpu.as_secs_f64()),
        ),
        ("memory then", memory(scale.memory)),
        (
            "in etcd: BundleInstances, Bundles, recorded revisions",
            [
                scale.recorded.instances,
                scale.recorded.bundles,
                scale.recorded.secrets,
            ]
            .map(|bytes| format!("{} kB", bytes / 1000))
            .join(", "),
        ),
        (
            "API calls in a minute at rest",
            format!("{}, and {lease} for the Lease", scale.rest.count() - lease),
        ),
        ("list calls among them", lists.to_string()),
        (
            "restart with all of them: ready after",
            format!("{:.2} s", scale.ready.as_secs_f64()),
        ),
        (
            "every instance looked at after",
            format!("{:.2} s", scale.looked.as_secs_f64()),
        ),
        ("memory after the restart", memory(scale.memory_again)),
        (
            "API calls of the restart",
            scale.calls_again.count().to_string(),
        ),
    ];
    for (name, value) in rows {
        println!("| {name} | {value} |");
    }
    eprintln!(
        "at rest:\n{}restarted:\n{}",
        scale.rest.lines(),
        scale.calls_again.lines()
    );
}

/// Median, and the 99th of a hundred.
fn spread(times: &[Duration]) -> Option<String> {
    let mut sorted = times.to_vec();
    sorted.sort();
    let at =
        |part: usize| sorted.get((sorted.len() * part / 100).min(sorted.len().saturating_sub(1)));
    let (median, most) = (at(50)?, at(99)?);
    Some(format!(
        "{}, at most {}",
        milliseconds(*median),
        milliseconds(*most)
    ))
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
    let megabytes = |bytes: u64| bytes / 1_000_000;
    format!(
        "{} MB (peak {} MB)",
        megabytes(memory.now),
        megabytes(memory.peak)
    )
}

#[expect(clippy::cast_precision_loss)] // small numbers
fn ratio(one: usize, other: usize) -> String {
    format!("{:.2}", one as f64 / other.max(1) as f64)
}
