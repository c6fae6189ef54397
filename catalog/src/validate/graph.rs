//! Replaces chain of a channel: from a single head to every bundle that no other bundle skips.

use std::collections::{HashMap, HashSet};

use super::join;
use crate::model::{Channel, Entry};

/// Checks the chain of a channel. The error is its first problem.
pub(super) fn check(channel: &Channel) -> Result<(), String> {
    let heads = channel.heads();
    let head = match heads.as_slice() {
        [] => return Err("no channel head found in graph".into()),
        [head] => *head,
        several => {
            let names = several.iter().map(|entry| entry.name.as_str());
            return Err(format!(
                "multiple channel heads found in graph: {}",
                join(names, ", ")
            ));
        }
    };
    let entries: HashMap<&str, &Entry> = channel
        .entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    let skipped: HashSet<&str> = channel
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().map(String::as_str))
        .collect();
    let mut chain = vec![head.name.as_str()];
    let mut visited: HashSet<&str> = chain.iter().copied().collect();
    let mut at = head;
    while let Some(next) = at.replaces.as_deref() {
        if skipped.contains(next) {
            break;
        }
        if !visited.insert(next) {
            let from = chain.iter().position(|name| *name == next).unwrap_or(0);
            let cycle = chain.iter().skip(from).copied().chain([next]);
            return Err(format!(
                "detected cycle in replaces chain of upgrade graph: {}",
                join(cycle, " -> ")
            ));
        }
        chain.push(next);
        let Some(entry) = entries.get(next) else {
            break;
        };
        at = entry;
    }
    let mut stranded: Vec<&str> = entries
        .into_keys()
        .filter(|name| !visited.contains(name) && !skipped.contains(name))
        .collect();
    if stranded.is_empty() {
        return Ok(());
    }
    stranded.sort_unstable();
    Err(format!(
        "channel contains one or more stranded bundles: {}",
        join(stranded, ", ")
    ))
}
