//! What a bundle replaces and skips in a channel, from the rows of `channel_entry`.
//!
//! A row is a way into a bundle: "in this channel, this bundle follows that row's". Of the rows that are reached from
//! the heads, which are those of the least depth, the replaced bundle is what the bundle `replaces`; all others are
//! `skips`. One bundle has mostly several rows. Source: the query by which opm lists bundles.

use std::collections::{BTreeMap, HashMap, HashSet};

/// A row; names are positions in a list of names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) package: u32,
    pub(super) channel: u32,
    pub(super) bundle: u32,
    pub(super) replaces: Option<i64>,
    pub(super) depth: Option<i64>,
}

/// What a bundle follows in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Edges {
    pub(super) replaces: Option<u32>,
    pub(super) skips: Vec<u32>,
}

/// The bundles of channels, by package and channel.
pub(super) type Channels = BTreeMap<(u32, u32), BTreeMap<u32, Edges>>;

/// `is_after` says whether one name comes after another: of two replaced ones the last counts.
pub(super) fn channels(rows: &mut [Row], is_after: impl Fn(u32, u32) -> bool) -> Channels {
    rows.sort_unstable_by_key(|it| it.id);
    let by_id: HashMap<i64, &Row> = rows.iter().map(|it| (it.id, it)).collect();
    let followed = followed(rows, &by_id);
    let mut channels = Channels::new();
    for row in rows.iter() {
        let channel = channels.entry((row.package, row.channel)).or_default();
        let edges = channel.entry(row.bundle).or_default();
        let Some(next) = row.replaces.and_then(|id| by_id.get(&id)) else {
            continue;
        };
        if !followed.contains(&row.id) {
            edges.skips.push(next.bundle);
        } else if edges.replaces.is_none_or(|it| is_after(next.bundle, it)) {
            edges.replaces = Some(next.bundle);
        }
    }
    channels
}

/// The rows that are reached from the heads.
fn followed(rows: &[Row], by_id: &HashMap<i64, &Row>) -> HashSet<i64> {
    let least = rows.iter().filter_map(|it| it.depth).min();
    let heads = rows
        .iter()
        .filter(|it| it.depth == least && least.is_some());
    let mut followed = HashSet::new();
    let mut next: Vec<i64> = heads.map(|it| it.id).collect();
    while let Some(id) = next.pop() {
        if let Some(row) = by_id.get(&id)
            && followed.insert(id)
        {
            next.extend(row.replaces);
        }
    }
    followed
}
