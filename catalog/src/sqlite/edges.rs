//! Upgrade edges of each channel, computed from the rows of `channel_entry`.
//!
//! A row is an edge to a bundle: in this channel, the bundle follows the bundle of the row in `replaces`. Rows of the
//! least depth are heads. In rows that are reachable from a head, the followed bundle is the one that is replaced. In
//! all other rows, it is a skipped one. A bundle usually has several rows. Source: the query with which opm lists
//! bundles.

use std::collections::{BTreeMap, HashMap, HashSet};

/// A row of `channel_entry`. Names are positions in the list of names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) package: u32,
    pub(super) channel: u32,
    pub(super) bundle: u32,
    pub(super) replaces: Option<i64>,
    pub(super) depth: Option<i64>,
}

/// Bundles that a bundle replaces and skips in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Edges {
    pub(super) replaces: Option<u32>,
    pub(super) skips: Vec<u32>,
}

/// Bundles of channels, by package and channel.
pub(super) type Channels = BTreeMap<(u32, u32), BTreeMap<u32, Edges>>;

/// Computes the edges of all channels. `is_after` compares two names; of several replaced bundles, the last one is
/// used.
pub(super) fn channels(rows: &mut [Row], is_after: impl Fn(u32, u32) -> bool) -> Channels {
    rows.sort_unstable_by_key(|row| row.id);
    let by_id: HashMap<i64, &Row> = rows.iter().map(|row| (row.id, row)).collect();
    let reachable = reachable(rows, &by_id);
    let mut channels = Channels::new();
    for row in rows.iter() {
        let channel = channels.entry((row.package, row.channel)).or_default();
        let edges = channel.entry(row.bundle).or_default();
        let Some(next) = row.replaces.and_then(|id| by_id.get(&id)) else {
            continue;
        };
        if !reachable.contains(&row.id) {
            edges.skips.push(next.bundle);
        } else if edges
            .replaces
            .is_none_or(|replaces| is_after(next.bundle, replaces))
        {
            edges.replaces = Some(next.bundle);
        }
    }
    channels
}

/// Returns the rows that are reachable from the heads.
fn reachable(rows: &[Row], by_id: &HashMap<i64, &Row>) -> HashSet<i64> {
    let least = rows.iter().filter_map(|row| row.depth).min();
    let heads = rows
        .iter()
        .filter(|row| row.depth == least && least.is_some());
    let mut reachable = HashSet::new();
    let mut next: Vec<i64> = heads.map(|row| row.id).collect();
    while let Some(id) = next.pop() {
        if let Some(row) = by_id.get(&id)
            && reachable.insert(id)
        {
            next.extend(row.replaces);
        }
    }
    reachable
}
