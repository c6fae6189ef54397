use std::fs;

use rusqlite::Connection;

use super::{DatabaseDir, TABLES, TIDE};
use crate::{
    Error as CatalogError, Limits, Source, load,
    source::FileSource as _,
    sqlite::{Database, Error},
    testing::has,
};

/// As in [`TABLES`].
const PACKAGE: &str = "CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT);";
const ENDLESS: &str = "WITH RECURSIVE n(name, default_channel) AS (SELECT 'a', 'b' UNION ALL SELECT 'a', 'b' FROM n) SELECT * FROM n;";

fn rejected(sql: &str) -> Error {
    let dir = DatabaseDir::new();
    Database::open(&dir.database(sql), &Limits::default()).unwrap_err()
}

// parity: sqlite-5
#[test]
fn code_of_a_database_is_never_executed() {
    let named = |sql: &str| match rejected(sql) {
        Error::ContainsCode { name, .. } => name,
        error => panic!("{error}"),
    };
    let view = TABLES.replace(PACKAGE, &format!("CREATE VIEW package AS {ENDLESS}"));
    assert_eq!(named(&view), "package");
    // A virtual table is detected in every spelling; reading it would read the view.
    let table = "CREATE VIRTUAL TABLE package USING fts4(content='evil', name, default_channel);";
    let tables = TABLES.replace(PACKAGE, table);
    let all = "CREATE VIRTUAL TABLE|CREATE  VIRTUAL TABLE|create/**/virtual table|CREATE VIRTUAL TABLE IF NOT EXISTS";
    for declared in all.split('|') {
        let virtual_table = format!(
            "{tables} CREATE VIEW evil AS {ENDLESS}
            PRAGMA writable_schema = ON;
            UPDATE sqlite_master SET sql = '{declared} package USING fts4(content=''evil'', name, default_channel)'
                WHERE name = 'package';"
        );
        assert_eq!(named(&virtual_table), "package");
    }
    // The declared type is ignored; SQLite itself may detect that it is wrong.
    let rename = "UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = 'package';";
    let error = rejected(&format!("{view} PRAGMA writable_schema = ON; {rename}"));
    assert_rows!(matches!(error, Error::ContainsCode { .. } | Error::Sqlite { .. }) => true, "{error}");
}

/// If several records refer to the same page, a small file has rows of any size.
// parity: sqlite-5
#[test]
fn cyclic_pages_are_detected() {
    let dir = DatabaseDir::new();
    let path = dir.database(&format!(
        "PRAGMA page_size = 4096; {TABLES}{TIDE}
        UPDATE operatorbundle SET bundle = '{{\"a\":\"' || hex(zeroblob(30000)) || '\"}}';"
    ));
    let query = "SELECT pageno FROM dbstat WHERE name = 'operatorbundle' AND pagetype = 'overflow' ORDER BY path LIMIT 1";
    let connection = Connection::open(&path).unwrap();
    let page: i64 = connection.query_row(query, [], |row| row.get(0)).unwrap();
    drop(connection);
    assert!(Database::open(&path, &Limits::default()).is_ok());
    let page = u32::try_from(page).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = (page as usize - 1) * 4096;
    bytes[at..at + 4].copy_from_slice(&page.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let error = Database::open(&path, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_rows!(::tests::table::matches("* is corrupt (*); fetch it again", &error.to_string()) => true, "{error}");
}

/// Returns many packages that share one bundle.
fn shared(packages: u32, bytes: u32) -> String {
    format!(
        "UPDATE operatorbundle SET bundle = '{{\"a\":\"' || hex(zeroblob({bytes} / 2)) || '\"}}';
        WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= {packages})
            INSERT INTO channel_entry SELECT i, 'stable', 'p' || i, 'tide.v1.0.0', NULL, 0 FROM n;
        INSERT INTO channel SELECT channel_name, package_name, operatorbundle_name FROM channel_entry WHERE entry_id > 1;
        INSERT INTO package SELECT package_name, channel_name FROM channel_entry WHERE entry_id > 1;"
    )
}

// parity: sqlite-5
#[test]
fn shared_bundles_exhaust_the_read_budget() {
    let dir = DatabaseDir::new();
    let database = dir.open(&shared(2000, 1 << 20));
    let paths = database.paths();
    assert_eq!(paths.len(), 2001);
    let mut read = 0;
    let error = paths.iter().find_map(|path| {
        let copied = std::io::copy(&mut database.open(path).unwrap(), &mut std::io::sink());
        read += copied.as_ref().copied().unwrap_or_default();
        copied.err()
    });
    let error = error.expect("an exhausted budget");
    has(error, "exceeds the read budget");
    assert!((40 << 20..200 << 20).contains(&read), "{read}");
}

#[test]
fn output_of_a_database_has_the_limits_of_files() {
    let dir = DatabaseDir::new();
    let path = dir.database(&format!("{TABLES}{TIDE}{}", shared(20, 1 << 17)));
    let limits = with!(Limits, total: 1 << 20);
    let database = Database::open(&path, &limits).unwrap();
    match load(Source::Files(&database), &limits).unwrap_err() {
        CatalogError::TooLarge { limit, unit } => assert_eq!((limit, unit), (1 << 20, "bytes")),
        error => panic!("{error}"),
    }
    let enough = with!(Limits, total: 8 << 20; ..limits);
    assert!(load(Source::Files(&database), &enough).is_ok());
}

// parity: sqlite-5
#[test]
fn names_and_rows_are_bounded() {
    let many = |columns: &str| {
        let numbers = "n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= 200)";
        format!("WITH RECURSIVE {numbers} INSERT INTO {columns} FROM n;")
    };
    let long = |bytes: u32| {
        let entry = format!("(2, 'stable', 'tide', hex(zeroblob({bytes})), NULL, 0)");
        format!("INSERT INTO channel_entry VALUES {entry};")
    };
    let loose = TABLES.replace("package (name TEXT PRIMARY KEY", "package (name TEXT");
    let limits = Limits::default();
    let few = with!(Limits, documents: 100);
    for (tables, sql, limits, expected) in ::tests::rows![
        TABLES, long(600), limits => "bytes in a name";
        TABLES, long(60_000), limits => "bytes in a name";
        TABLES, long(60_000_000), limits => "bytes in a name";
        TABLES, many("channel_entry SELECT i, 'stable', 'tide', hex(zeroblob(500)) || i, NULL, 0"),
            with!(Limits, document: 100_000) => "bytes of names";
        // Rows are counted, regardless of their content.
        TABLES, many("channel_entry SELECT i, 'stable', 'tide', 'b' || i, NULL, 0"), few => "channel entries";
        TABLES, many("package SELECT NULL, i"), few => "packages";
        &loose, many("package SELECT 'tide', i"), few => "packages";
        TABLES, String::new(), with!(Limits, total: 1000) => "bytes";
    ] {
        let dir = DatabaseDir::new();
        match Database::open(&dir.database(&format!("{tables}{TIDE}{sql}")), &limits) {
            Err(Error::TooLarge { unit, .. }) => assert_eq!(unit, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn manifests_are_bounded() {
    let dir = DatabaseDir::new();
    let problem = |bundle: &str| {
        let database = dir.open(&format!("UPDATE operatorbundle SET bundle = {bundle};"));
        let mut reader = database.open("tide.json").unwrap();
        std::io::read_to_string(&mut reader)
            .unwrap_err()
            .to_string()
    };
    assert_each!(|bundle, part| problem(bundle) => has part;
        "'[' || replace(hex(zeroblob(600000)), '0', '0,') || '0]'" => "more than 1000000 values";
        "replace(hex(zeroblob(600000)), '0', '0 ')" => "is larger than the limit of";
    );
}

// parity: sqlite-5
#[test]
fn foreign_database_is_rejected_without_running_code() {
    let dir = DatabaseDir::new();
    let limits = Limits::default();
    let foreign = |sql: &str| match Database::open(&dir.database(sql), &limits).unwrap_err() {
        Error::NotACatalog { missing, .. } => missing,
        error => panic!("{error}"),
    };
    assert_eq!(foreign("CREATE TABLE t (a)"), "table operatorbundle");
    let without = TABLES.replace("head_operatorbundle_name", "tail");
    assert_rows!(foreign(&without) => "column head_operatorbundle_name in table channel");
    // Generated columns would run code. A column that replaces the row number has no index, and other tables have no
    // row numbers.
    let package = "package (name TEXT PRIMARY KEY, default_channel TEXT)";
    for odd in [
        "package (name TEXT PRIMARY KEY, default_channel TEXT, a AS (hex(zeroblob(60000000))))",
        "package (name TEXT PRIMARY KEY, default_channel TEXT, a AS ('a') STORED)",
        "package (name TEXT PRIMARY KEY, default_channel TEXT, _ROWID_ INTEGER)",
        "package (name TEXT PRIMARY KEY, default_channel TEXT) WITHOUT ROWID",
    ] {
        let odd = TABLES.replace(package, odd);
        assert_ne!(odd, TABLES);
        assert_eq!(foreign(&odd), "table package");
    }

    let path = dir.0.path().join("text.db");
    for text in "|SQLite format 3\0|SQLite format 3\0and other text|{}".split('|') {
        fs::write(&path, text).unwrap();
        let error = Database::open(&path, &limits).unwrap_err();
        let is_foreign = matches!(error, Error::Sqlite { .. } | Error::NotACatalog { .. });
        assert!(is_foreign && error.is_terminal(), "{error}");
    }
    for path in [dir.0.path().to_owned(), dir.0.path().join("none")] {
        let error = Database::open(&path, &limits).unwrap_err();
        let is_file = matches!(error, Error::File { .. });
        assert!(is_file && !error.is_terminal(), "{error}");
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    let source = rusqlite::Error::SqliteFailure(code, None);
    let full = Error::Sqlite { path, source };
    assert!(!full.is_terminal(), "{full}");
}

// parity: sqlite-5
#[test]
fn damaged_pages_are_errors() {
    let dir = DatabaseDir::new();
    let many = "
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
            INSERT INTO properties(type, value, operatorbundle_name)
            SELECT 't' || i, '\"' || hex(zeroblob(100)) || '\"', 'tide.v1.0.0' FROM n;";
    let path = dir.database(&format!("{TABLES}{TIDE}{many}"));
    let whole = fs::read(&path).unwrap();
    let (mut broken, mut sound) = (0, 0);
    for at in (100..whole.len()).step_by(397) {
        let mut bytes = whole.clone();
        for byte in bytes.iter_mut().skip(at).take(16) {
            *byte = byte.wrapping_mul(31).wrapping_add(7);
        }
        fs::write(&path, &bytes).unwrap();
        let database = Database::open(&path, &Limits::default());
        let catalog = database.map(|database| load(Source::Files(&database), &Limits::default()));
        match catalog {
            Ok(Ok(catalog)) if catalog.is_valid() => sound += 1,
            _ => broken += 1,
        }
    }
    assert!(broken > 20 && sound > 20, "{broken} broken, {sound} sound");
}

// parity: sqlite-5
#[test]
fn documents_are_bounded() {
    let dir = DatabaseDir::new();
    let path = dir.database(&format!("{TABLES}{TIDE}{}", shared(0, 200_000)));
    let limits = with!(Limits, document: 50_000);
    let database = Database::open(&path, &limits).unwrap();
    let catalog = load(Source::Files(&database), &limits).unwrap();
    assert!(!catalog.is_valid());
    let text = catalog.findings[0].to_string();
    assert_rows!(text.contains("too big") || text.contains("larger than the limit") => true, "{text}");
}
