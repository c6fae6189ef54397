//! `rukpak history`.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use manifests::api::bundle_instance::{Cause, RevisionState, RevisionStatus};
use serde::Serialize;

use crate::{
    ExitStatus,
    age::age,
    args::{self, HistoryArgs, HistoryFormat},
    cluster::{self, Cluster, revisions},
    output,
    output::{message, table},
};

/// The characters of a digest in the table: `sha256:` and 12 digits.
const MAX_DIGEST_LEN: usize = 19;

/// A revision in the output formats for programs.
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

pub(crate) fn run(args: &HistoryArgs) -> anyhow::Result<ExitStatus> {
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| history(cluster, args).await,
    )
}

async fn history(cluster: &Cluster, args: &HistoryArgs) -> anyhow::Result<ExitStatus> {
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
    Ok(ExitStatus::Done)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::revisions::tests::revision;

    #[test]
    fn table_has_a_row_for_each_revision() {
        let mut first = revision(1, "Archived", "sha256:0123456789abcdef");
        first.version = Some("1.0\u{1b}[2J".to_owned());
        let mut second = revision(2, "Active", "short");
        second.version = None;
        second.cause = Cause::Rollback;
        second.rollback_of = Some(1);
        let entries = [Entry::new(&first, Some(1)), Entry::new(&second, Some(1))];
        assert_eq!(
            table(&entries, "2026-01-01T00:01:40Z".parse().unwrap()),
            "REVISION  VERSION  CAUSE          STATE     AGE   DIGEST\n\
             1         1.0 [2J  Upgrade        Archived  100s  sha256:0123456789ab\n\
             2         -        Rollback to 1  Active    100s  short\n"
        );
    }
}
