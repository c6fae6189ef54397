//! In-memory index of a database: names, edges, and the IDs of the rows with all other data.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use rusqlite::{Connection, ErrorCode, types::ValueRef};

use super::{
    Problem,
    connection::text,
    edges::{self, Channels, Row},
    interner::{NameInterner, too_long},
    schema::{ROW_ID, Schema},
};

/// Tables with data of bundles, the column that names the bundle, and the unit for limits.
const TABLES: [(&str, &str, &str); 6] = [
    ("operatorbundle", "name", "bundles"),
    ("properties", BUNDLE_COLUMN, "properties"),
    ("dependencies", BUNDLE_COLUMN, "dependencies"),
    ("related_image", BUNDLE_COLUMN, "related images"),
    ("api_provider", BUNDLE_COLUMN, "APIs"),
    ("api_requirer", BUNDLE_COLUMN, "needed APIs"),
];
const BUNDLE_COLUMN: &str = "operatorbundle_name";
/// Column that references a channel entry instead of a bundle, used before bundles had versions.
const ENTRY_COLUMN: &str = "channel_entry_id";
/// Property of bundles that `opm` truncated.
pub(super) const DEPRECATED: &str = "olm.deprecated";
/// Maximum number of messages about skipped entries.
const MAX_SKIPPED_MESSAGES: usize = 1000;

/// Index of a database.
#[derive(Debug)]
pub(super) struct RowIndex {
    names: NameInterner,
    /// Packages by name.
    packages: BTreeMap<Arc<str>, Package>,
    channels: Channels,
    /// Row IDs by table and bundle.
    row_ids: BTreeMap<&'static str, HashMap<u32, Vec<i64>>>,
    truncated_bundles: HashSet<u32>,
    pub(super) left_out: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Package {
    pub(super) default_channel: Arc<str>,
    pub(super) heads: BTreeMap<Arc<str>, Arc<str>>,
}

/// Limits of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowLimits {
    /// Maximum number of rows per table.
    pub(super) rows: usize,
    /// Maximum size of all names in bytes.
    pub(super) names: usize,
}

/// Counter for the rows of a table.
struct Count {
    remaining: usize,
    limit: usize,
    unit: &'static str,
}

// === impl Count ===

impl Count {
    fn new(limits: RowLimits, unit: &'static str) -> Self {
        Self {
            remaining: limits.rows,
            limit: limits.rows,
            unit,
        }
    }

    fn add_row(&mut self) -> Result<(), Problem> {
        let too_many = Problem::TooLarge {
            limit: self.limit as u64,
            unit: self.unit,
        };
        self.remaining = self.remaining.checked_sub(1).ok_or(too_many)?;
        Ok(())
    }
}

// === impl RowIndex ===

impl RowIndex {
    /// Reads each table once.
    pub(super) fn read(
        connection: &Connection,
        layout: &Schema,
        limits: RowLimits,
    ) -> Result<Self, Problem> {
        let mut rows = Self {
            names: NameInterner::new(limits.names),
            packages: BTreeMap::new(),
            channels: Channels::new(),
            row_ids: BTreeMap::new(),
            truncated_bundles: HashSet::new(),
            left_out: Vec::new(),
        };
        rows.fill(connection, layout, limits)
            .map_err(|problem| match problem {
                // The oversized value was to become a name.
                Problem::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
                    too_long()
                }
                problem => problem,
            })?;
        Ok(rows)
    }

    fn fill(
        &mut self,
        connection: &Connection,
        layout: &Schema,
        limits: RowLimits,
    ) -> Result<(), Problem> {
        self.packages(connection, limits)?;
        self.channels(connection, limits)?;
        let bundles = self.entries(connection, limits)?;
        for (table, column, unit) in TABLES {
            let count = Count::new(limits, unit);
            if layout.has(table, column) {
                self.row_ids(
                    connection,
                    layout,
                    (table, column),
                    count,
                    |names, value| names.find(&text(value)?),
                )?;
            } else if layout.has(table, ENTRY_COLUMN) {
                self.row_ids(
                    connection,
                    layout,
                    (table, ENTRY_COLUMN),
                    count,
                    |_, value| bundles.get(&number(value)?).copied(),
                )?;
            }
        }
        self.skip_unknown_channels();
        Ok(())
    }

    fn packages(&mut self, connection: &Connection, limits: RowLimits) -> Result<(), Problem> {
        let mut count = Count::new(limits, "packages");
        let mut statement = connection.prepare("SELECT name, default_channel FROM package")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            count.add_row()?;
            let Some(name) = text(row.get_ref(0)?) else {
                continue;
            };
            let default_channel = text(row.get_ref(1)?).unwrap_or_default();
            let package = Package {
                default_channel: self.names.shared(&default_channel)?,
                heads: BTreeMap::new(),
            };
            self.packages.insert(self.names.shared(&name)?, package);
        }
        Ok(())
    }

    fn channels(&mut self, connection: &Connection, limits: RowLimits) -> Result<(), Problem> {
        let mut count = Count::new(limits, "channels");
        let mut statement = connection
            .prepare("SELECT package_name, name, head_operatorbundle_name FROM channel")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            count.add_row()?;
            let (Some(package), Some(name)) = (text(row.get_ref(0)?), text(row.get_ref(1)?)) else {
                continue;
            };
            let head = text(row.get_ref(2)?).unwrap_or_default();
            match self.packages.get_mut(package.as_str()) {
                Some(package) => {
                    let head = self.names.shared(&head)?;
                    package.heads.insert(self.names.shared(&name)?, head);
                }
                None => report_skipped(&mut self.left_out, || {
                    format!(
                        "channel {name:?} belongs to package {package:?}, which the database does not contain"
                    )
                }),
            }
        }
        Ok(())
    }

    /// Reads the entries of all channels. Returns the bundle of each entry.
    fn entries(
        &mut self,
        connection: &Connection,
        limits: RowLimits,
    ) -> Result<HashMap<i64, u32>, Problem> {
        let mut count = Count::new(limits, "channel entries");
        let mut statement = connection.prepare(
            "SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry",
        )?;
        let mut query_rows = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = query_rows.next()? {
            count.add_row()?;
            let mut name = |column| -> Result<Option<u32>, Problem> {
                let name = text(row.get_ref(column)?);
                name.map(|name| self.names.add(&name)).transpose()
            };
            let (Some(package), Some(channel), Some(bundle)) = (name(1)?, name(2)?, name(3)?)
            else {
                continue;
            };
            rows.push(Row {
                id: row.get(0)?,
                package,
                channel,
                bundle,
                replaces: number(row.get_ref(4)?),
                depth: number(row.get_ref(5)?),
            });
        }
        let names = &self.names;
        self.channels = edges::channels(&mut rows, |a, b| names.get(a) > names.get(b));
        Ok(rows.iter().map(|row| (row.id, row.bundle)).collect())
    }

    /// Records the IDs of the rows that belong to bundles. Most tables have no index on the bundle.
    fn row_ids(
        &mut self,
        connection: &Connection,
        layout: &Schema,
        (table, column): (&'static str, &str),
        mut count: Count,
        bundle: impl Fn(&NameInterner, ValueRef<'_>) -> Option<u32>,
    ) -> Result<(), Problem> {
        // Only properties mark truncated bundles.
        let type_ = match table {
            "properties" => layout.or_null(table, "type"),
            _ => "NULL",
        };
        let mut statement =
            connection.prepare(&format!("SELECT {ROW_ID}, {column}, {type_} FROM {table}"))?;
        let mut rows = statement.query([])?;
        let row_ids = self.row_ids.entry(table).or_default();
        while let Some(row) = rows.next()? {
            count.add_row()?;
            let Some(bundle) = bundle(&self.names, row.get_ref(1)?) else {
                continue;
            };
            row_ids.entry(bundle).or_default().push(row.get(0)?);
            if text(row.get_ref(2)?).as_deref() == Some(DEPRECATED) {
                self.truncated_bundles.insert(bundle);
            }
        }
        Ok(())
    }

    /// Skips channels that belong to no package.
    fn skip_unknown_channels(&mut self) {
        let Self {
            names,
            packages,
            channels,
            left_out,
            ..
        } = self;
        channels.retain(|(package, channel), _| {
            let (package, channel) = (names.get(*package), names.get(*channel));
            let is_known = packages
                .get(package)
                .is_some_and(|package| package.heads.contains_key(channel));
            if !is_known {
                report_skipped(left_out, || format!(
                    "entries exist for channel {channel:?} of package {package:?}, which the database does not contain"
                ));
            }
            is_known
        });
    }

    pub(super) fn package_names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(|name| &**name)
    }

    pub(super) fn package(&self, name: &str) -> Option<(&str, &Package)> {
        let (name, package) = self.packages.get_key_value(name)?;
        Some((name, package))
    }

    /// Returns the bundles of a channel by name, with the bundles that each replaces and skips.
    pub(super) fn entries_of<'a>(
        &'a self,
        package: &str,
        channel: &str,
    ) -> BTreeMap<&'a str, (&'a str, Vec<&'a str>)> {
        let at = self.names.find(package).zip(self.names.find(channel));
        let entries = at.and_then(|at| self.channels.get(&at));
        let named = |(bundle, edges): (&u32, &'a edges::Edges)| {
            let replaces = edges.replaces.map_or("", |id| self.names.get(id));
            let skips = edges.skips.iter().map(|id| self.names.get(*id)).collect();
            (self.names.get(*bundle), (replaces, skips))
        };
        entries.into_iter().flatten().map(named).collect()
    }

    /// Returns the IDs of the rows of a table that belong to a bundle.
    pub(super) fn rows_of(&self, table: &str, bundle: &str) -> &[i64] {
        let bundle = self.names.find(bundle);
        let rows = self.row_ids.get(table).zip(bundle);
        rows.and_then(|(rows, bundle)| rows.get(&bundle))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Returns the row ID of the bundle itself.
    pub(super) fn bundle_row(&self, bundle: &str) -> Option<i64> {
        self.rows_of("operatorbundle", bundle).first().copied()
    }

    /// Reports whether opm truncated the bundle.
    pub(super) fn is_truncated(&self, bundle: &str) -> bool {
        let bundle = self.names.find(bundle);
        bundle.is_some_and(|id| self.truncated_bundles.contains(&id))
    }
}

/// Records a message about a skipped entry, up to the limit.
fn report_skipped(left_out: &mut Vec<String>, text: impl FnOnce() -> String) {
    match left_out.len() {
        ..MAX_SKIPPED_MESSAGES => left_out.push(text()),
        MAX_SKIPPED_MESSAGES => left_out.push("and more".to_owned()),
        _ => {}
    }
}

fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}
