mod hostile;

use std::{fs, path::PathBuf};

use ::tests::DATABASE_TABLES as TABLES;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Database,
    edges::{self, Row},
    is_database,
};
use crate::{Limits, Source, load, model::Bundle, source::FileSource, testing::list};

/// Creates a package with one bundle in one channel.
const TIDE: &str = r"
    INSERT INTO operatorbundle(name, bundlepath, version, csv) VALUES ('tide.v1.0.0', 'example.com/tide:1', '1.0.0', '{}');
    INSERT INTO package VALUES ('tide', 'stable');
    INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.0.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'tide', 'tide.v1.0.0', NULL, 0);
";

struct DatabaseDir(TempDir);

impl DatabaseDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn database(&self, sql: &str) -> PathBuf {
        let path = self.0.path().join("index one%.db");
        drop(fs::remove_file(&path));
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path
    }

    /// Returns the package of one bundle after a change.
    fn open(&self, sql: &str) -> Database {
        let path = self.database(&format!("{TABLES}{TIDE}{sql}"));
        Database::open(&path, &Limits::default()).unwrap()
    }
}

fn tide(database: &Database) -> Bundle {
    let catalog = load(Source::Files(database), &Limits::default()).unwrap();
    assert!(catalog.is_valid(), "{:?}", catalog.findings);
    let bundle = catalog.packages["tide"].bundle("tide.v1.0.0");
    bundle.unwrap().clone()
}

fn blobs(database: &Database, package: &str) -> String {
    let mut reader = database.open(&format!("{package}.json")).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn database_is_loaded_as_a_catalog() {
    let dir = DatabaseDir::new();
    let path = dir.database(&format!("{TABLES}{TIDE}"));
    assert!(is_database(&path).unwrap());
    let database = Database::open(&path, &Limits::default()).unwrap();
    assert_eq!(database.left_out(), [""; 0]);
    assert_eq!(tide(&database).version.to_string(), "1.0.0");
    assert_rows!(blobs(&database, "tide").lines().collect::<Vec<_>>() => [
        r#"{"schema":"olm.package","name":"tide","defaultChannel":"stable"}"#,
        r#"{"schema":"olm.channel","package":"tide","name":"stable","entries":[{"name":"tide.v1.0.0"}]}"#,
        r#"{"schema":"olm.bundle","name":"tide.v1.0.0","package":"tide","image":"example.com/tide:1","properties":[{"type":"olm.package","value":{"packageName":"tide","version":"1.0.0"}}]}"#,
    ]);
}

// parity: max-4
#[test]
fn database_declares_max_openshift() {
    let dir = DatabaseDir::new();
    let annotated = |release: &str| {
        let annotations = json!({"operators.coreos.com/maxOpenShiftVersion": release});
        json!({"kind": "ClusterServiceVersion", "metadata": {"annotations": annotations}})
    };
    let [low, high] = ["4.8", "4.10"].map(annotated);
    let property = "INSERT INTO properties(type, value, operatorbundle_name) VALUES ('olm.maxOpenShiftVersion', '4.10', 'tide.v1.0.0');";
    let set = |columns: String| format!("UPDATE operatorbundle SET {columns};");
    assert_each!(|sql, expected| tide(&dir.open(&sql)).max_openshift.unwrap().text() => expected;
        property.to_owned() => "4.10";
        set(format!("bundle = '{high}'")) => "4.10";
        // The column is used if a row has no manifests.
        set(format!("csv = '{low}', bundle = NULL")) => "4.8";
        set(format!("csv = '{low}', bundle = ''")) => "4.8";
        set(format!("csv = '{low}', bundle = '{high}'")) => "4.10";
    );
}

#[test]
fn temporary_copy_is_removed_with_its_catalog() {
    let dir = DatabaseDir::new();
    let mut file = fs::File::open(dir.database(&format!("{TABLES}{TIDE}"))).unwrap();
    let database = Database::copy(&mut file, &Limits::default()).unwrap();
    assert_eq!(database.paths(), ["tide.json"]);
    let copy = database.tables.path.clone();
    assert!(copy.exists());
    drop(database);
    assert!(!copy.exists());
}

// parity: sqlite-2
#[test]
fn rows_reached_from_the_heads_are_replaced_and_others_skipped() {
    // For a channel: number, bundle, replaced row, depth. Then bundles, with `<` before replaced and `-` before skipped
    // ones.
    let no = None;
    for (rows, expected) in ::tests::rows![
        // A chain.
        vec![(1, 3, Some(2), Some(0)), (2, 2, Some(3), Some(1)), (3, 1, no, Some(2))] => "1 2<1 3<2 ";
        // A skip is a row of the skipped bundle, and a second row of the head.
        vec![(1, 3, Some(2), Some(0)), (2, 1, no, Some(1)), (3, 3, Some(4), Some(1)), (4, 2, no, Some(2))] => "1 2 3<1-2 ";
        // Of two followed rows, the last name.
        vec![(1, 9, Some(3), Some(0)), (2, 9, Some(4), Some(0)), (3, 1, no, Some(1)), (4, 2, no, Some(1))] => "1 2 9<2 ";
        // A cycle, a row without target, and rows without depth.
        vec![(1, 1, Some(2), Some(0)), (2, 2, Some(1), Some(1)), (3, 3, Some(77), Some(1))] => "1<2 2<1 3 ";
        vec![(1, 1, Some(1), None)] => "1-1 ";
    ] {
        let row = |&(id, bundle, replaces, depth)| Row {
            id,
            package: 0,
            channel: 0,
            bundle,
            replaces,
            depth,
        };
        let channels = edges::channels(&mut rows.iter().map(row).collect::<Vec<_>>(), |a, b| a > b);
        let found = list(channels.into_values().flatten(), |(bundle, edges)| {
            let replaces = list(edges.replaces, |bundle| format!("<{bundle}"));
            let skips = list(edges.skips, |bundle| format!("-{bundle}"));
            format!("{bundle}{replaces}{skips} ")
        });
        assert_eq!(found, expected, "{rows:?}");
    }
}

// parity: sqlite-3
#[test]
fn rows_of_no_package_are_reported_and_skipped() {
    let dir = DatabaseDir::new();
    let database = dir.open(
        "INSERT INTO channel VALUES ('beta', 'absent', 'x');
        INSERT INTO operatorbundle(name, version, bundlepath) VALUES ('pathless', '1.0.0', NULL), ('cut', '0.9.0', '');
        INSERT INTO channel_entry VALUES
            (2, 'alpha', 'tide', 'tide.v1.0.0', NULL, 0), (3, 'stable', 'tide', 'nowhere', NULL, 0),
            (4, 'stable', NULL, 'tide.v1.0.0', NULL, 0), (5, 'stable', 'tide', 'pathless', NULL, 0),
            (6, 'stable', 'tide', 'cut', NULL, 0);
        INSERT INTO properties(type, value, operatorbundle_name) VALUES ('olm.deprecated', '{}', 'cut');",
    );
    let left_out = [
        "channel \"beta\" belongs to package \"absent\", which the database does not contain",
        "entries exist for channel \"alpha\" of package \"tide\", which the database does not contain",
    ];
    assert_eq!(database.left_out(), left_out);
    let blobs = blobs(&database, "tide");
    assert_eq!(blobs.lines().count(), 3, "{blobs}");
    assert!(!blobs.contains("nowhere") && !blobs.contains("pathless") && !blobs.contains("cut"));
}

#[test]
fn values_of_a_csv_are_read_as_in_go() {
    let dir = DatabaseDir::new();
    let images = json!([{"name": "a", "image": "example.com/a:1"}]);
    let csv = |metadata: Value, spec: Value| json!({"kind": "ClusterServiceVersion", "metadata": metadata, "spec": spec});
    let png =
        |data: &str| json!({"spec": {"icon": [{"base64data": data, "mediatype": "image/png"}]}});
    let image = r#""image":"example.com/a:1""#;
    let icon = r#""icon":{"base64data":"aGVsbG8=","mediatype":"image/png"}"#;
    let read = |column: &str, csv: Value| {
        let database = dir.open(&format!("UPDATE operatorbundle SET {column} = '{csv}';"));
        blobs(&database, "tide")
    };
    assert_each!(|column, csv, part| read(column, csv) => has part;
        // Null is an empty value.
        "bundle", csv(json!({"annotations": {"a": null}}), json!({"relatedImages": images})) => image;
        "bundle", csv(json!({}), json!({"icon": [{"base64data": null, "mediatype": null}], "relatedImages": images})) => image;
        "bundle", csv(json!({}), json!({"icon": [null], "relatedImages": images})) => image;
        "bundle", csv(json!({}), json!({"relatedImages": [null, {"name": null, "image": "example.com/a:1"}]})) => image;
        // Line breaks, a space, and trailing bits.
        "csv", png("aGVs\nbG8=\n") => icon;
        "csv", png("aGVs bG8=") => icon;
        "csv", png("aGVsbG9=") => icon;
    );
}

#[test]
fn invalid_dependency_is_a_finding() {
    let dir = DatabaseDir::new();
    let with = |type_: &str, value: &str| {
        let columns = "dependencies(type, value, operatorbundle_name)";
        dir.open(&format!(
            "INSERT INTO {columns} VALUES ('{type_}', '{value}', 'tide.v1.0.0');"
        ))
    };
    for (type_, value) in [
        ("olm.package", r#"{"packageName":"#),
        ("olm.package", r#"{"packageName": "moon", "version": 1}"#),
        ("olm.gvk", "x"),
    ] {
        let catalog = load(Source::Files(&with(type_, value)), &Limits::default()).unwrap();
        assert!(!catalog.is_valid(), "{value}");
    }
    let database = with("olm.package", r#"{"PackageName": "moon", "version": null}"#);
    let required = r#"{"packageName":"moon","versionRange":""}"#;
    ::tests::assert_has(blobs(&database, "tide"), required);
}
