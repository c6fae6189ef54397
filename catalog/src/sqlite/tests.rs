mod hostile;

use std::{fs, path::PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    Database,
    graph::{self, Edges, Row},
    is_database,
};
use crate::{Limits, Source, load, source::Files};

/// As the last migration leaves it, without the tables of APIs, which nobody reads then.
const TABLES: &str = "
    CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT, skiprange TEXT,
        version TEXT, replaces TEXT, skips TEXT, substitutesfor TEXT);
    CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT);
    CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT, PRIMARY KEY(name, package_name));
    CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT,
        operatorbundle_name TEXT, replaces INTEGER, depth INTEGER);
    CREATE TABLE properties (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT,
        operatorbundle_path TEXT);
    CREATE TABLE dependencies (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT,
        operatorbundle_path TEXT);
    CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT);
";

/// A package with one bundle in one channel.
const TIDE: &str = r"
    INSERT INTO operatorbundle(name, bundlepath, version, csv) VALUES ('tide.v1.0.0', 'example.com/tide:1', '1.0.0', '{}');
    INSERT INTO package VALUES ('tide', 'stable');
    INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.0.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'tide', 'tide.v1.0.0', NULL, 0);
";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn database(&self, sql: &str) -> PathBuf {
        let path = self.0.path().join("index one%.db");
        drop(fs::remove_file(&path));
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path
    }
}

fn blobs(database: &Database, package: &str) -> String {
    let mut text = String::new();
    let path = format!("{package}.json");
    let mut reader = database.open(&path).unwrap();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_database_is_a_catalog() {
    let place = Place::new();
    let path = place.database(&format!("{TABLES}{TIDE}"));
    assert!(is_database(&path).unwrap());
    let database = Database::open(&path, &Limits::default()).unwrap();
    assert_eq!(database.left_out(), [""; 0]);
    let catalog = load(Source::Files(&database), &Limits::default()).unwrap();
    assert!(catalog.is_valid(), "{:?}", catalog.findings);
    let bundle = catalog.packages["tide"].bundle("tide.v1.0.0").unwrap();
    assert_eq!(bundle.version.to_string(), "1.0.0");
    assert_eq!(
        blobs(&database, "tide").lines().collect::<Vec<_>>(),
        [
            r#"{"schema":"olm.package","name":"tide","defaultChannel":"stable"}"#,
            r#"{"schema":"olm.channel","package":"tide","name":"stable","entries":[{"name":"tide.v1.0.0"}]}"#,
            r#"{"schema":"olm.bundle","name":"tide.v1.0.0","package":"tide","image":"example.com/tide:1","properties":[{"type":"olm.package","value":{"packageName":"tide","version":"1.0.0"}}]}"#,
        ]
    );
}

// parity: max-4
#[test]
fn database_declares_max_openshift_in_every_spelling() {
    let place = Place::new();
    let property = |value: &str| {
        format!(
            "INSERT INTO properties(type, value, operatorbundle_name) VALUES ('olm.maxOpenShiftVersion', '{value}', 'tide.v1.0.0');"
        )
    };
    let manifest = |annotation: &str, text: &str| {
        let annotations = serde_json::json!({annotation: text});
        let csv = serde_json::json!({"kind": "ClusterServiceVersion", "metadata": {"annotations": annotations}});
        format!("UPDATE operatorbundle SET bundle = '{csv}';")
    };
    let list = r#"[{"type": "olm.maxOpenShiftVersion", "value": "4.10"}]"#;
    for sql in [
        property("\"4.10\""),
        property("4.10"),
        manifest("operators.coreos.com/maxOpenShiftVersion", "4.10"),
        manifest("olm.properties", list),
    ] {
        let path = place.database(&format!("{TABLES}{TIDE}{sql}"));
        let database = Database::open(&path, &Limits::default()).unwrap();
        let catalog = load(Source::Files(&database), &Limits::default()).unwrap();
        assert!(catalog.is_valid(), "{:?}", catalog.findings);
        let bundle = catalog.packages["tide"].bundle("tide.v1.0.0").unwrap();
        let declared = bundle.max_openshift.as_ref().unwrap();
        assert_eq!(declared.text(), "4.10", "{sql}");
    }
}

#[test]
fn the_csv_column_counts_where_a_row_has_no_manifests() {
    let place = Place::new();
    let csv = |text: &str| {
        serde_json::json!({
            "kind": "ClusterServiceVersion",
            "metadata": {"annotations": {"operators.coreos.com/maxOpenShiftVersion": text}},
        })
    };
    for (manifests, expected) in [
        ("NULL".to_owned(), "4.8"),
        ("''".to_owned(), "4.8"),
        (format!("'{}'", csv("4.10")), "4.10"),
    ] {
        let columns = format!("csv = '{}', bundle = {manifests}", csv("4.8"));
        let sql = format!("{TABLES}{TIDE}UPDATE operatorbundle SET {columns};");
        let path = place.database(&sql);
        let database = Database::open(&path, &Limits::default()).unwrap();
        let catalog = load(Source::Files(&database), &Limits::default()).unwrap();
        assert!(catalog.is_valid(), "{:?}", catalog.findings);
        let bundle = catalog.packages["tide"].bundle("tide.v1.0.0").unwrap();
        let declared = bundle.max_openshift.as_ref().unwrap();
        assert_eq!(declared.text(), expected, "{manifests}");
    }
}

#[test]
fn a_copy_is_gone_with_its_catalog() {
    let place = Place::new();
    let path = place.database(&format!("{TABLES}{TIDE}"));
    let mut file = fs::File::open(&path).unwrap();
    let database = Database::copy(&mut file, &Limits::default()).unwrap();
    assert_eq!(database.paths(), ["tide.json"]);
    let copy = database.tables.path.clone();
    assert!(copy.exists());
    drop(database);
    assert!(!copy.exists());
}

/// A row of one channel.
fn row(id: i64, bundle: u32, replaces: Option<i64>, depth: i64) -> Row {
    Row {
        id,
        package: 0,
        channel: 0,
        bundle,
        replaces,
        depth: Some(depth),
    }
}

fn edges(mut rows: Vec<Row>) -> Vec<(u32, Option<u32>, Vec<u32>)> {
    let channels = graph::channels(&mut rows, |a, b| a > b);
    let channel = channels.into_values().next().unwrap_or_default();
    let plain = |(bundle, Edges { replaces, skips })| (bundle, replaces, skips);
    channel.into_iter().map(plain).collect()
}

// parity: sqlite-2
#[test]
fn rows_reached_from_the_heads_are_replaced_and_others_skipped() {
    // A line.
    let line = vec![
        row(1, 3, Some(2), 0),
        row(2, 2, Some(3), 1),
        row(3, 1, None, 2),
    ];
    assert_eq!(
        edges(line),
        [
            (1, None, vec![]),
            (2, Some(1), vec![]),
            (3, Some(2), vec![])
        ]
    );
    // A skip is a row of the skipped bundle, and a second one of the head that leads there.
    let skip = vec![
        row(1, 3, Some(2), 0),
        row(2, 1, None, 1),
        row(3, 3, Some(4), 1),
        row(4, 2, None, 2),
    ];
    assert_eq!(
        edges(skip),
        [(1, None, vec![]), (2, None, vec![]), (3, Some(1), vec![2])]
    );
    // Of two that are followed, the name that comes last.
    let two = vec![
        row(1, 9, Some(3), 0),
        row(2, 9, Some(4), 0),
        row(3, 1, None, 1),
        row(4, 2, None, 1),
    ];
    assert_eq!(
        edges(two),
        [(1, None, vec![]), (2, None, vec![]), (9, Some(2), vec![])]
    );
    // A circle, one that leads nowhere, and no depth at all.
    let circle = vec![
        row(1, 1, Some(2), 0),
        row(2, 2, Some(1), 1),
        row(3, 3, Some(77), 1),
    ];
    assert_eq!(
        edges(circle),
        [
            (1, Some(2), vec![]),
            (2, Some(1), vec![]),
            (3, None, vec![])
        ]
    );
    let flat = Row {
        depth: None,
        ..row(1, 1, Some(1), 0)
    };
    assert_eq!(edges(vec![flat]), [(1, None, vec![1])]);
}

// parity: sqlite-3
#[test]
fn rows_that_belong_nowhere_are_told_and_left_out() {
    let place = Place::new();
    let path = place.database(&format!(
        "{TABLES}{TIDE}
        INSERT INTO channel VALUES ('beta', 'gone', 'x');
        INSERT INTO channel_entry VALUES (2, 'alpha', 'tide', 'tide.v1.0.0', NULL, 0);
        INSERT INTO channel_entry VALUES (3, 'stable', 'tide', 'nowhere', NULL, 0);
        INSERT INTO channel_entry VALUES (4, 'stable', NULL, 'tide.v1.0.0', NULL, 0);
        INSERT INTO channel_entry VALUES (5, 'stable', 'tide', 'pathless', NULL, 0);
        INSERT INTO operatorbundle(name, version) VALUES ('pathless', '1.0.0');
        INSERT INTO channel_entry VALUES (6, 'stable', 'tide', 'cut', NULL, 0);
        INSERT INTO operatorbundle(name, version, bundlepath) VALUES ('cut', '0.9.0', '');
        INSERT INTO properties(type, value, operatorbundle_name) VALUES ('olm.deprecated', '{{}}', 'cut');"
    ));
    let database = Database::open(&path, &Limits::default()).unwrap();
    assert_eq!(
        database.left_out(),
        [
            "channel \"beta\" is of package \"gone\", which the database does not have",
            "there are entries of channel \"alpha\" of package \"tide\", which the database does not have",
        ]
    );
    let blobs = blobs(&database, "tide");
    assert_eq!(blobs.lines().count(), 3, "{blobs}");
    assert!(!blobs.contains("nowhere") && !blobs.contains("pathless") && !blobs.contains("cut"));
}
