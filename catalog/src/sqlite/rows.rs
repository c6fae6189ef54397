//! What is kept of a database: names, edges, and in which rows the rest is.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use rusqlite::{Connection, ErrorCode, types::ValueRef};

use super::{
    Problem,
    graph::{self, Channels, Row},
    layout::{Layout, ROW},
    names::{Names, too_long},
    tables::text,
};

/// Where a bundle is, with its APIs and other properties; the column that names it; and what there are many of.
const TABLES: [(&str, &str, &str); 6] = [
    ("operatorbundle", "name", "bundles"),
    ("properties", OF, "properties"),
    ("dependencies", OF, "dependencies"),
    ("related_image", OF, "related images"),
    ("api_provider", OF, "APIs"),
    ("api_requirer", OF, "needed APIs"),
];
const OF: &str = "operatorbundle_name";
/// The bundle was found by way of a channel, before there were versions.
const ENTRY: &str = "channel_entry_id";
/// Bundles that opm has cut off say so.
pub(super) const DEPRECATED: &str = "olm.deprecated";
/// What is told of what is left out.
const MOST_LEFT_OUT: usize = 1000;

/// All that need not be read again.
#[derive(Debug)]
pub(super) struct Rows {
    names: Names,
    /// Default channel and channels, with the bundle at the head of each.
    packages: BTreeMap<Arc<str>, Package>,
    channels: Channels,
    /// Rows of other tables, by table and bundle.
    places: BTreeMap<&'static str, HashMap<u32, Vec<i64>>>,
    cut_off: HashSet<u32>,
    pub(super) left_out: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Package {
    pub(super) default_channel: Arc<str>,
    pub(super) heads: BTreeMap<Arc<str>, Arc<str>>,
}

/// How much may be kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// Rows of each table.
    pub(super) rows: usize,
    /// Bytes of all names.
    pub(super) names: usize,
}

/// Counts the rows of a table.
struct Count {
    left: usize,
    most: usize,
    unit: &'static str,
}

// === impl Count ===

impl Count {
    fn new(most: Most, unit: &'static str) -> Self {
        Self {
            left: most.rows,
            most: most.rows,
            unit,
        }
    }

    fn one_more(&mut self) -> Result<(), Problem> {
        let too_many = Problem::TooLarge {
            limit: self.most as u64,
            unit: self.unit,
        };
        self.left = self.left.checked_sub(1).ok_or(too_many)?;
        Ok(())
    }
}

// === impl Rows ===

impl Rows {
    /// Reads all tables once.
    pub(super) fn read(
        connection: &Connection,
        layout: &Layout,
        most: Most,
    ) -> Result<Self, Problem> {
        let mut rows = Self {
            names: Names::new(most.names),
            packages: BTreeMap::new(),
            channels: Channels::new(),
            places: BTreeMap::new(),
            cut_off: HashSet::new(),
            left_out: Vec::new(),
        };
        rows.fill(connection, layout, most).map_err(|it| match it {
            // It was about to be a name.
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
        layout: &Layout,
        most: Most,
    ) -> Result<(), Problem> {
        self.packages(connection, most)?;
        self.channels(connection, most)?;
        let bundles = self.entries(connection, most)?;
        for (table, of, unit) in TABLES {
            let count = Count::new(most, unit);
            if layout.has(table, of) {
                self.places(connection, layout, (table, of), count, |names, it| {
                    names.find(&text(it)?)
                })?;
            } else if layout.has(table, ENTRY) {
                self.places(connection, layout, (table, ENTRY), count, |_, it| {
                    bundles.get(&number(it)?).copied()
                })?;
            }
        }
        self.leave_out();
        Ok(())
    }

    fn packages(&mut self, connection: &Connection, most: Most) -> Result<(), Problem> {
        let mut count = Count::new(most, "packages");
        let mut statement = connection.prepare("SELECT name, default_channel FROM package")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            count.one_more()?;
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

    fn channels(&mut self, connection: &Connection, most: Most) -> Result<(), Problem> {
        let mut count = Count::new(most, "channels");
        let mut statement = connection
            .prepare("SELECT package_name, name, head_operatorbundle_name FROM channel")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            count.one_more()?;
            let (Some(package), Some(name)) = (text(row.get_ref(0)?), text(row.get_ref(1)?)) else {
                continue;
            };
            let head = text(row.get_ref(2)?).unwrap_or_default();
            match self.packages.get_mut(package.as_str()) {
                Some(package) => {
                    let head = self.names.shared(&head)?;
                    package.heads.insert(self.names.shared(&name)?, head);
                }
                None => leave(&mut self.left_out, || {
                    format!(
                        "channel {name:?} is of package {package:?}, which the database does not have"
                    )
                }),
            }
        }
        Ok(())
    }

    /// Returns the bundle of each entry.
    fn entries(
        &mut self,
        connection: &Connection,
        most: Most,
    ) -> Result<HashMap<i64, u32>, Problem> {
        let mut count = Count::new(most, "channel entries");
        let mut statement = connection.prepare(
            "SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry",
        )?;
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            count.one_more()?;
            let mut name = |column| -> Result<Option<u32>, Problem> {
                let name = text(row.get_ref(column)?);
                name.map(|it| self.names.add(&it)).transpose()
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
        self.channels = graph::channels(&mut rows, |a, b| names.of(a) > names.of(b));
        Ok(rows.iter().map(|it| (it.id, it.bundle)).collect())
    }

    /// In which rows of a table something of a bundle is: most have no index for that.
    fn places(
        &mut self,
        connection: &Connection,
        layout: &Layout,
        (table, of): (&'static str, &str),
        mut count: Count,
        bundle: impl Fn(&Names, ValueRef<'_>) -> Option<u32>,
    ) -> Result<(), Problem> {
        // Only properties tell that a bundle was cut off.
        let type_ = match table {
            "properties" => layout.or_null(table, "type"),
            _ => "NULL",
        };
        let mut statement =
            connection.prepare(&format!("SELECT {ROW}, {of}, {type_} FROM {table}"))?;
        let mut rows = statement.query([])?;
        let places = self.places.entry(table).or_default();
        while let Some(row) = rows.next()? {
            count.one_more()?;
            let Some(bundle) = bundle(&self.names, row.get_ref(1)?) else {
                continue;
            };
            places.entry(bundle).or_default().push(row.get(0)?);
            if text(row.get_ref(2)?).as_deref() == Some(DEPRECATED) {
                self.cut_off.insert(bundle);
            }
        }
        Ok(())
    }

    /// Channels that no package has.
    fn leave_out(&mut self) {
        let Self {
            names,
            packages,
            channels,
            left_out,
            ..
        } = self;
        channels.retain(|(package, channel), _| {
            let (package, channel) = (names.of(*package), names.of(*channel));
            let is_known = packages
                .get(package)
                .is_some_and(|it| it.heads.contains_key(channel));
            if !is_known {
                leave(left_out, || format!(
                    "there are entries of channel {channel:?} of package {package:?}, which the database does not have"
                ));
            }
            is_known
        });
    }

    pub(super) fn package_names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(|it| &**it)
    }

    pub(super) fn package(&self, name: &str) -> Option<(&str, &Package)> {
        let (name, package) = self.packages.get_key_value(name)?;
        Some((name, package))
    }

    /// Bundles of a channel by name: what they replace, and skip.
    pub(super) fn entries_of<'a>(
        &'a self,
        package: &str,
        channel: &str,
    ) -> BTreeMap<&'a str, (&'a str, Vec<&'a str>)> {
        let at = self.names.find(package).zip(self.names.find(channel));
        let entries = at.and_then(|at| self.channels.get(&at));
        let named = |(bundle, edges): (&u32, &'a graph::Edges)| {
            let replaces = edges.replaces.map_or("", |it| self.names.of(it));
            let skips = edges.skips.iter().map(|it| self.names.of(*it)).collect();
            (self.names.of(*bundle), (replaces, skips))
        };
        entries.into_iter().flatten().map(named).collect()
    }

    /// The rows of a table that tell of a bundle.
    pub(super) fn of(&self, table: &str, bundle: &str) -> &[i64] {
        let bundle = self.names.find(bundle);
        let rows = self.places.get(table).zip(bundle);
        rows.and_then(|(rows, bundle)| rows.get(&bundle))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The row of a bundle itself.
    pub(super) fn of_bundle(&self, bundle: &str) -> Option<i64> {
        self.of("operatorbundle", bundle).first().copied()
    }

    /// Whether opm has cut a bundle off.
    pub(super) fn is_cut_off(&self, bundle: &str) -> bool {
        let bundle = self.names.find(bundle);
        bundle.is_some_and(|it| self.cut_off.contains(&it))
    }
}

/// Tells of what is left out, as far as anybody reads that.
fn leave(left_out: &mut Vec<String>, text: impl FnOnce() -> String) {
    match left_out.len() {
        ..MOST_LEFT_OUT => left_out.push(text()),
        MOST_LEFT_OUT => left_out.push("and more".to_owned()),
        _ => {}
    }
}

fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}
