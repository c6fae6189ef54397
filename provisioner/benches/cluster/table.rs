//! Figures as Markdown.

use std::time::Duration;

use crate::api_requests::Calls;
use crate::repair::Repairs;

/// The names and the figures of rows. The figure of the first row is the column's head; those without a measurement are empty.
pub(crate) type Figures = [(&'static str, String); 14];

pub(crate) fn print(all: &[Figures], scale: &[(String, String)], changes: &[String], load: &str) {
    println!("Load of the machine before and after: {load}.\n");
    if let [first, ..] = all {
        for (at, (name, _)) in first.iter().enumerate() {
            let cells: Vec<&str> = all.iter().map(|column| column[at].1.as_str()).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                println!("| {name} | {} |", cells.join(" | "));
            }
            if at == 0 {
                println!("| --- |{}", " ---: |".repeat(all.len()));
            }
        }
        println!();
    }
    if !scale.is_empty() {
        println!("| 1,000 instances of 20 objects | |\n| --- | ---: |");
    }
    for (name, figure) in scale {
        println!("| {name} | {figure} |");
    }
    if !changes.is_empty() {
        println!(
            "| each instance | time | processor time | requests |\n| --- | ---: | ---: | ---: |"
        );
    }
    for row in changes {
        println!("{row}");
    }
}

pub(crate) fn unrepaired(repairs: &Repairs) -> String {
    let times: Vec<_> = repairs.deleted.iter().chain(&repairs.changed).collect();
    let never = times.iter().filter(|time| time.is_none()).count();
    match times.len() {
        0 => String::new(),
        count => format!("{never} of {count}"),
    }
}

pub(crate) fn at_rest(calls: &Calls) -> String {
    let lease = calls.count_if(|label| label.ends_with(" leases"));
    match (calls.count() - lease, lease) {
        (rest, 0) => rest.to_string(),
        (rest, _) => format!("{rest}, and {lease} for the Lease"),
    }
}

pub(crate) fn spread<'a>(times: impl Iterator<Item = &'a Duration>) -> String {
    let mut sorted: Vec<&Duration> = times.collect();
    sorted.sort();
    let at = |part: usize| sorted.get(sorted.len() * part / 100);
    let (Some(median), Some(most)) = (at(50), at(99)) else {
        return String::new();
    };
    let [median, most] = [median, most].map(|time| milliseconds(**time));
    format!("{median}, at most {most}")
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

pub(crate) fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 10.0 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{milliseconds:.0} ms")
    }
}

#[expect(clippy::cast_precision_loss)] // small numbers
pub(crate) fn ratio(one: usize, other: usize) -> String {
    format!("{:.2}", one as f64 / other.max(1) as f64)
}
