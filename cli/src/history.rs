//! `rukpak history`.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use manifests::api::instance::{Cause, RevisionState, RevisionStatus};
use serde::Serialize;

use crate::{
    Exit,
    args::{self, HistoryArgs, HistoryFormat},
    cluster::{self, Cluster},
    message, output, revisions, table,
};

/// The characters of a digest in the table: `sha256:` and 12 digits.
const MAX_DIGEST_LEN: usize = 19;

/// A revision as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    number: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    cause: Cause,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback_of: Option<i64>,
    state: RevisionState,
    /// Whether `spec.rollbackTo` is the number of this revision.
    pinned: bool,
    created: &'a Time,
    digest: &'a str,
    bundle: &'a str,
}

pub(crate) fn run(args: &HistoryArgs) -> anyhow::Result<Exit> {
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| history(cluster, args).await,
    )
}

async fn history(cluster: &Cluster, args: &HistoryArgs) -> anyhow::Result<Exit> {
    let name = &args.name;
    let instance = cluster.instance(name).await?;
    let pin = instance.spec.rollback_to;
    let mut entries: Vec<Entry> = revisions::all(&instance)
        .iter()
        .map(|revision| Entry::new(revision, pin))
        .collect();
    entries.sort_by_key(|entry| entry.number);
    match args.output {
        HistoryFormat::Json => output::print_json(&entries)?,
        HistoryFormat::Yaml => output::print(&manifests::yaml::to_string(&entries)?)?,
        HistoryFormat::Table if entries.is_empty() => message::note(&format!(
            "BundleInstance {name} has no revision yet; run \"{} status {name}\"",
            args::name()
        )),
        HistoryFormat::Table => {
            output::print(&table(&entries, Timestamp::now()))?;
            if let Some(number) = pin {
                message::note(&format!(
                    "BundleInstance {name} is pinned to revision {number}; run \"{} rollback {name} --undo\" to remove \
                     the pin",
                    args::name()
                ));
            }
        }
    }
    Ok(Exit::Done)
}

impl<'a> Entry<'a> {
    fn new(revision: &'a RevisionStatus, pin: Option<i64>) -> Self {
        Self {
            number: revision.number,
            version: revision.version.as_deref(),
            cause: revision.cause,
            rollback_of: revision.rollback_of,
            state: revision.state,
            pinned: pin == Some(revision.number),
            created: &revision.created,
            digest: &revision.digest,
            bundle: &revision.bundle,
        }
    }
}

fn table(entries: &[Entry], now: Timestamp) -> String {
    let header = ["REVISION", "VERSION", "CAUSE", "STATE", "AGE", "DIGEST"];
    let row = |entry: &Entry| {
        let cause = match entry.rollback_of {
            Some(number) => format!("{:?} to {number}", entry.cause),
            None => format!("{:?}", entry.cause),
        };
        [
            entry.number.to_string(),
            entry.version.unwrap_or("-").to_owned(),
            cause,
            format!("{:?}", entry.state),
            age(now.as_second().saturating_sub(entry.created.0.as_second())),
            entry.digest.chars().take(MAX_DIGEST_LEN).collect(),
        ]
    };
    let rows: Vec<[String; 6]> = entries.iter().map(row).collect();
    table::render(Some(header), &rows, 0)
}

/// Formats an age in seconds as kubectl does: two units while the first one is small.
fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = seconds.max(0); // the clocks may differ
    let two = |unit: (i64, char), smaller: (i64, char)| {
        let whole = seconds / unit.0;
        match seconds % unit.0 / smaller.0 {
            0 => format!("{whole}{}", unit.1),
            rest => format!("{whole}{}{rest}{}", unit.1, smaller.1),
        }
    };
    if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if seconds < 10 * MINUTE {
        two((MINUTE, 'm'), (1, 's'))
    } else if seconds < 3 * HOUR {
        format!("{}m", seconds / MINUTE)
    } else if seconds < 8 * HOUR {
        two((HOUR, 'h'), (MINUTE, 'm'))
    } else if seconds < 2 * DAY {
        format!("{}h", seconds / HOUR)
    } else if seconds < 8 * DAY {
        two((DAY, 'd'), (HOUR, 'h'))
    } else if seconds < 2 * YEAR {
        format!("{}d", seconds / DAY)
    } else if seconds < 8 * YEAR {
        two((YEAR, 'y'), (DAY, 'd'))
    } else {
        format!("{}y", seconds / YEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisions::tests::revision;

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (9 * 86400, "9d"),
            (800 * 86400, "2y70d"),
            (10 * 365 * 86400, "10y"),
            (i64::MAX, "292471208677y"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn table_has_a_row_for_each_revision() {
        let mut first = revision(1, "Archived", "sha256:0123456789abcdef");
        first.version = Some("1.0\u{1b}[2J".to_owned());
        let mut second = revision(2, "Active", "short");
        second.version = None;
        second.cause = Cause::Rollback;
        second.rollback_of = Some(1);
        let entries = [Entry::new(&first, Some(1)), Entry::new(&second, Some(1))];
        let now = "2026-01-01T00:01:40Z".parse().unwrap();
        assert_eq!(
            table(&entries, now),
            "REVISION  VERSION  CAUSE          STATE     AGE   DIGEST\n\
             1         1.0 [2J  Upgrade        Archived  100s  sha256:0123456789ab\n\
             2         -        Rollback to 1  Active    100s  short\n"
        );
    }
}
