//! What is kept of a database: names, edges, and in which rows the rest is.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, types::ValueRef};

use super::{
    graph::{self, Channels, Row},
    layout::Layout,
};

/// Where a bundle's APIs and other properties are.
const TABLES: [&str; 5] = [
    "properties",
    "dependencies",
    "related_image",
    "api_provider",
    "api_requirer",
];

/// All that need not be read again.
#[derive(Debug)]
pub(super) struct Rows {
    names: Names,
    /// Default channel and channels, with the bundle at the head of each.
    packages: BTreeMap<String, Package>,
    channels: Channels,
    /// Rows of other tables, by table and bundle.
    places: BTreeMap<&'static str, HashMap<u32, Vec<i64>>>,
    pub(super) left_out: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) default_channel: String,
    pub(super) heads: BTreeMap<String, String>,
}

/// Each name once.
#[derive(Debug, Default)]
struct Names {
    all: Vec<Box<str>>,
    at: HashMap<Box<str>, u32>,
}

// === impl Rows ===

impl Rows {
    /// `Err` tells of what there are more than `most`.
    pub(super) fn read(
        connection: &Connection,
        layout: &Layout,
        most: usize,
    ) -> rusqlite::Result<Result<Self, &'static str>> {
        let mut rows = Self {
            names: Names::default(),
            packages: BTreeMap::new(),
            channels: Channels::new(),
            places: BTreeMap::new(),
            left_out: Vec::new(),
        };
        if !rows.packages(connection, most)? {
            return Ok(Err("packages and channels"));
        }
        if !rows.entries(connection, most)? {
            return Ok(Err("channel entries"));
        }
        for table in TABLES {
            if !rows.places(connection, layout, table, most)? {
                return Ok(Err("properties"));
            }
        }
        rows.leave_out();
        Ok(Ok(rows))
    }

    fn packages(&mut self, connection: &Connection, most: usize) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare("SELECT name, default_channel FROM package")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let Some(name) = text(row.get_ref(0)?) else {
                continue;
            };
            let package = self.packages.entry(name).or_default();
            package.default_channel = text(row.get_ref(1)?).unwrap_or_default();
            if self.packages.len() > most {
                return Ok(false);
            }
        }
        let mut statement = connection
            .prepare("SELECT package_name, name, head_operatorbundle_name FROM channel")?;
        let mut rows = statement.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            if count > most {
                return Ok(false);
            }
            let (Some(package), Some(name)) = (text(row.get_ref(0)?), text(row.get_ref(1)?)) else {
                continue;
            };
            let head = text(row.get_ref(2)?).unwrap_or_default();
            match self.packages.get_mut(&package) {
                Some(package) => drop(package.heads.insert(name, head)),
                None => self.left_out.push(format!(
                    "channel {name:?} is of package {package:?}, which the database does not have"
                )),
            }
        }
        Ok(true)
    }

    fn entries(&mut self, connection: &Connection, most: usize) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare(
            "SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry",
        )?;
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            if rows.len() >= most {
                return Ok(false);
            }
            let mut name = |column| -> rusqlite::Result<Option<u32>> {
                Ok(text(row.get_ref(column)?).map(|it| self.names.add(it)))
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
        Ok(true)
    }

    /// In which rows of a table something of a bundle is: it has no index for that.
    fn places(
        &mut self,
        connection: &Connection,
        layout: &Layout,
        table: &'static str,
        most: usize,
    ) -> rusqlite::Result<bool> {
        let query = if layout.has(table, "operatorbundle_name") {
            format!("SELECT _rowid_, operatorbundle_name FROM {table}")
        } else if layout.has(table, "channel_entry_id") {
            // The bundle was found by way of a channel, before there were versions.
            format!(
                "SELECT {table}._rowid_, operatorbundle_name FROM {table} \
                 INNER JOIN channel_entry ON channel_entry.entry_id = {table}.channel_entry_id"
            )
        } else {
            return Ok(true);
        };
        let places = self.places.entry(table).or_default();
        let mut statement = connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            if count > most {
                return Ok(false);
            }
            let bundle = text(row.get_ref(1)?).and_then(|it| self.names.find(&it));
            if let Some(bundle) = bundle {
                places.entry(bundle).or_default().push(row.get(0)?);
            }
        }
        Ok(true)
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
                left_out.push(format!(
                    "there are entries of channel {channel:?} of package {package:?}, which the database does not have"
                ));
            }
            is_known
        });
    }

    pub(super) fn package_names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
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
}

// === impl Names ===

impl Names {
    fn add(&mut self, name: String) -> u32 {
        if let Some(at) = self.at.get(name.as_str()) {
            return *at;
        }
        // There are no more than limits allow, which is far less.
        let at = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let name = name.into_boxed_str();
        self.all.push(name.clone());
        self.at.insert(name, at);
        at
    }

    fn find(&self, name: &str) -> Option<u32> {
        self.at.get(name).copied()
    }

    fn of(&self, at: u32) -> &str {
        self.all.get(at as usize).map_or("", |it| it)
    }
}

/// A value as Go's driver reads it into a text; nothing of NULL.
pub(super) fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}
