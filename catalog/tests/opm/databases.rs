//! Databases: the blobs that opm and this crate create from them.

use std::fs;

use catalog::sqlite::Database;
use rusqlite::Connection;
use serde_json::json;

use crate::testing::{has, list};
use crate::*;

/// The last of opm's migrations.
const LAST: u8 = 13;

/// Returns the statements of the migrations up to this one.
fn until(migration: u8, statements: &[(u8, String)]) -> String {
    let statements = statements.iter().filter(|(since, _)| *since <= migration);
    list(statements, |(_, sql)| format!("{sql};\n"))
}

/// Returns the tables after a migration; migration 0 creates the first ones.
fn tables(migration: u8) -> String {
    let by_name = "operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT";
    // Joined through channel entries, because bundles had no versions yet.
    let by_entry = "channel_entry_id INTEGER";
    let of_a_bundle = if migration >= 6 { by_name } else { by_entry };
    let column = |name: &str| format!("ALTER TABLE operatorbundle ADD COLUMN {name} TEXT");
    let table = |declared: &str| format!("CREATE TABLE {declared}");
    until(
        migration,
        &tests::rows![
            0 => table("schema_migrations (version bigint NOT NULL PRIMARY KEY, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)");
            0 => format!("INSERT INTO schema_migrations(version) VALUES ({migration})");
            0 => table("operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT)");
            0 => table("package (name TEXT PRIMARY KEY, default_channel TEXT)");
            0 => table("channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT, PRIMARY KEY(name, package_name))");
            0 => table("channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, \
                        operatorbundle_name TEXT, replaces INTEGER, depth INTEGER)");
            0 => table("api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL, PRIMARY KEY(group_name, version, kind))");
            0 => table(&format!("api_provider (group_name TEXT, version TEXT, kind TEXT, {of_a_bundle})"));
            1 => table("related_image (image TEXT, operatorbundle_name TEXT)");
            2 => column("bundlepath");
            3 => table(&format!("api_requirer (group_name TEXT, version TEXT, kind TEXT, {of_a_bundle})"));
            5 => column("skiprange");
            5 => column("version");
            6 => "CREATE UNIQUE INDEX pk ON operatorbundle(name, version, bundlepath)".to_owned();
            7 => column("replaces");
            7 => column("skips");
            8 => table(&format!("dependencies (type TEXT, value TEXT, {by_name})"));
            9 => table(&format!("properties (type TEXT, value TEXT, {by_name})"));
            11 => column("substitutesfor");
            12 => table("deprecated (operatorbundle_name TEXT PRIMARY KEY)");
        ],
    )
}

/// The same content at each migration: two channels, a skip, a skip range, a provided and a required API, images, and
/// the manifests themselves.
fn tale(migration: u8) -> String {
    let mut sql = vec!["
        INSERT INTO package VALUES ('tide', 'stable');
        INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.1.0'), ('beta', 'tide', 'tide.v1.0.0');
        INSERT INTO channel_entry VALUES
            (1, 'stable', 'tide', 'tide.v1.1.0', 2, 0), (2, 'stable', 'tide', 'tide.v1.0.0', NULL, 1),
            (3, 'stable', 'tide', 'tide.v1.1.0', 4, 1), (4, 'stable', 'tide', 'tide.v1.0.1', NULL, 2),
            (5, 'beta', 'tide', 'tide.v1.0.0', NULL, 0);
        INSERT INTO api VALUES ('tide.example', 'v1', 'Tide', 'tides'), ('moon.example', 'v1', 'Moon', 'moons');"
        .to_owned()];
    let tables = [
        (0, "api_provider", "tide.example', 'v1', 'Tide"),
        (3, "api_requirer", "moon.example', 'v1', 'Moon"),
    ];
    for (version, range) in [("1.0.0", ""), ("1.0.1", ""), ("1.1.0", "<1.1.0")] {
        let name = format!("tide.v{version}");
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "annotations": {"olm.skipRange": range}},
            "spec": {
                "version": version,
                "customresourcedefinitions": {
                    "owned": [{"name": "tides.tide.example", "version": "v1", "kind": "Tide"}],
                    "required": [{"name": "moons.moon.example", "version": "v1", "kind": "Moon"}],
                },
                "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "tide", "spec": {"template": {"spec": {
                    "containers": [{"name": "tide", "image": format!("example.com/manager:{version}")}],
                }}}}]}},
                "relatedImages": [{"name": "chart", "image": "example.com/chart:1"}],
            },
        });
        let api = |kind: &str| json!({"type": "olm.gvk", "group": format!("{}.example", kind.to_lowercase()), "kind": kind, "version": "v1"});
        let package = json!({"packageName": "tide", "version": version});
        let update = |set: String| format!("UPDATE operatorbundle SET {set} WHERE name = '{name}'");
        let image = |image: String| {
            format!("INSERT INTO related_image VALUES ('example.com/{image}', '{name}')")
        };
        let of_bundle = |table: &str, values: String| {
            format!("INSERT INTO {table} VALUES ({values}, '{name}', '{version}', '')")
        };
        sql.push(until(migration, &tests::rows![
            0 => format!("INSERT INTO operatorbundle(name, csv, bundle) VALUES ('{name}', '{csv}', '{csv}')");
            1 => image(format!("manager:{version}"));
            1 => image("chart:1".to_owned());
            2 => update("bundlepath = ''".to_owned());
            5 => update(format!("skiprange = '{range}', version = '{version}'"));
            8 => of_bundle("dependencies", format!("'olm.gvk', '{}'", api("Moon")));
            9 => of_bundle("properties", format!("'olm.gvk', '{}'", api("Tide")));
            9 => of_bundle("properties", format!("'olm.package', '{package}'"));
        ]));
        for (since, table, api) in tables {
            if migration >= 6 {
                sql.push(of_bundle(table, format!("'{api}'")) + ";\n");
            } else if migration >= since {
                let entries =
                    format!("entry_id FROM channel_entry WHERE operatorbundle_name = '{name}'");
                sql.push(format!("INSERT INTO {table} SELECT '{api}', {entries};\n"));
            }
        }
    }
    sql.concat()
}

/// Returns the ClusterServiceVersion of a bundle as a database stores it.
fn csv(name: &str, version: &str, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{{"name":"{name}"}},"spec":{{"displayName":"Tide <&>","version":"{version}"{more}}}}}"#
    )
}

/// A chain with a skip, a second channel, a removed bundle, one with its manifests, and rows of no package.
fn story(is_last: bool) -> String {
    let mut sql = Vec::new();
    let picture = r#","icon":[{"base64data":"aGVs bG8=","mediatype":"image/png"}]"#;
    let images = r#","relatedImages":[{"name":"a","image":"example.com/a:1"}]"#;
    for (name, version, path, bundle, skip_range) in tests::rows![
        "tide.v1.0.0", "1.0.0", "'example.com/tide:1.0.0'", String::new() => "";
        "tide.v1.1.0", "1.1.0", "'example.com/tide:1.1.0'", String::new() => "";
        "tide.v1.2.0", "1.2.0", "'example.com/tide:1.2.0'", String::new() => "<1.2.0";
        "tide.v1.3.0", "1.3.0", "''", csv("tide.v1.3.0", "1.3.0", images) + r#"{"kind":"Other", "spaces": [ 1 ]}"# => "";
        "pathless", "1.0.0", "NULL", String::new() => "";
        "alone", "1.0.0", "'example.com/alone:1'", String::new() => "";
    ] {
        let head = csv(name, version, picture);
        sql.push(format!(
            "INSERT INTO operatorbundle(name, csv, bundle, bundlepath, version, skiprange) \
             VALUES ('{name}', '{head}', '{bundle}', {path}, '{version}', '{skip_range}');"
        ));
    }
    let mut sql = sql.concat() + "
        INSERT INTO package VALUES ('tide', 'stable');
        INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.3.0'), ('beta', 'tide', 'tide.v1.2.0');
        INSERT INTO channel_entry VALUES
            (1, 'stable', 'tide', 'tide.v1.3.0', 2, 0), (2, 'stable', 'tide', 'tide.v1.2.0', 3, 1),
            (3, 'stable', 'tide', 'tide.v1.0.0', NULL, 2), (4, 'stable', 'tide', 'tide.v1.2.0', 5, 2),
            (5, 'stable', 'tide', 'tide.v1.1.0', NULL, 3), (6, 'beta', 'tide', 'tide.v1.2.0', NULL, 0),
            (7, 'beta', 'tide', 'nowhere', NULL, 1), (8, 'beta', 'tide', 'pathless', NULL, 1);
        INSERT INTO related_image VALUES ('example.com/a:1', 'tide.v1.3.0'), ('example.com/b:1', 'tide.v1.3.0'),
            ('example.com/tide:1.0.0', 'tide.v1.0.0'), (NULL, 'tide.v1.0.0');
        INSERT INTO api VALUES ('tide.example', 'v1', 'Tide', 'tides'), ('moon.example', 'v1', 'Moon', 'moons');
        INSERT INTO api_provider VALUES ('tide.example', 'v1', 'Tide', 'tide.v1.2.0', '1.2.0', 'example.com/tide:1.2.0');
        INSERT INTO api_requirer VALUES ('moon.example', 'v1', 'Moon', 'tide.v1.2.0', '1.2.0', 'example.com/tide:1.2.0');
    ";
    if is_last {
        sql += r#"
            INSERT INTO properties VALUES
                ('left', '"behind"', 'tide.v1.2.0', '1.1.9', 'elsewhere'),
                ('olm.gvk', '{"version": "v1", "kind": "Tide", "group": "tide.example", "plural": "tides"}', 'tide.v1.2.0', NULL, NULL),
                ('olm.gvk', '{"kind": "Tide", "version": "v1", "group": "tide.example"}', 'tide.v1.2.0', NULL, NULL),
                ('olm.gvk', '{"KIND": "Wave", "Version": "v1", "group": "wave.example"}', 'tide.v1.2.0', NULL, NULL),
                ('olm.package', '{"version": "1.2.0", "packageName": "tide"}', 'tide.v1.2.0', '1.2.0', 'example.com/tide:1.2.0'),
                ('olm.maxOpenShiftVersion', '"4.12"', 'tide.v1.2.0', NULL, NULL),
                ('own', '{"b": 1, "a": "<>", "c": 1.50}', 'tide.v1.1.0', NULL, NULL),
                ('olm.deprecated', '{}', 'tide.v1.0.0', NULL, NULL);
            INSERT INTO dependencies VALUES
                ('olm.gvk', '{"type": "olm.gvk", "group": "moon.example", "kind": "Moon", "version": "v1"}', 'tide.v1.2.0', NULL, NULL),
                ('olm.package', '{"packageName": "moon", "version": ">1.0.0"}', 'tide.v1.2.0', NULL, NULL),
                ('olm.constraint', '{"failureMessage": "x", "gvk": {"group": "a", "kind": "b", "version": "c"}}', 'tide.v1.2.0', NULL, NULL);
        "#;
    }
    sql
}

fn rukpak_output(path: &Path, format: Format) -> String {
    let limits = Limits::default();
    let database = Database::open(path, &limits).unwrap();
    let mut render = Render::new(Level::None);
    render.catalog(Source::Files(&database), &limits).unwrap();
    print(&render.finish(), format)
}

fn database(place: &TempDir, sql: &str) -> PathBuf {
    let path = place.path().join("index.db");
    drop(fs::remove_file(&path));
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

fn theirs(place: &TempDir, format: Format) -> String {
    let args = ["render", "index.db", "-o", format.extension()];
    run(place.path(), &args).unwrap()
}

fn assert_same(place: &TempDir, sql: &str) {
    let path = database(place, sql);
    for format in [Format::Json, Format::Yaml] {
        let theirs = theirs(place, format);
        let rukpak = rukpak_output(&path, format);
        assert!(theirs.contains("tide.v1.2.0"), "{theirs}");
        assert_eq!(rukpak, theirs);
    }
}

// parity: run-6, sqlite-1, sqlite-2
#[test]
fn databases_are_rendered_as_by_opm() {
    let place = directory(&[]);
    assert_same(&place, &format!("{}{}", tables(LAST), story(true)));
    assert_same(&place, &format!("{}{}", tables(6), story(false)));
}

/// Row E.6: a database is the same catalog after each of opm's migrations. Before the fifth migration, opm itself finds
/// no bundles, because that migration writes versions into rows of no bundle.
// parity: sqlite-1
#[test]
fn every_migration_is_the_same_catalog() {
    let place = directory(&[]);
    let of = |migration: u8| {
        let path = database(&place, &format!("{}{}", tables(migration), tale(migration)));
        rukpak_output(&path, Format::Json)
    };
    let expected = of(LAST);
    for part in tests::rows![
        r#""name": "beta""# => r#""skipRange": "<1.1.0""#;
        r#""skips": ["# => r#""replaces": "tide.v1.0.0""#;
        r#""type": "olm.gvk.required""# => "olm.bundle.object";
        "moon.example" => "tide.example";
        "example.com/manager:1.1.0" => "example.com/chart:1";
    ] {
        has(&expected, part.0);
        has(&expected, part.1);
    }
    for migration in 0..=LAST {
        let rukpak = of(migration);
        same(&rukpak, &expected);
        if migration >= 5 {
            same(&rukpak, &theirs(&place, Format::Json));
        }
    }
}
