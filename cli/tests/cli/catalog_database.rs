//! Catalogs in SQLite databases, with every command that reads a catalog.

use std::fs;

use rusqlite::Connection;
use tests::DATABASE_TABLES;

use crate::bundle::Workspace;

pub(crate) const OLD: &str = "SQLite catalogs are deprecated; run \"rukpak catalog migrate\"";

/// A package with two bundles and one channel.
const ROWS: &str = r#"
    INSERT INTO operatorbundle(name, csv, bundlepath, version) VALUES
        ('tide.v1.0.0', '{"kind": "ClusterServiceVersion"}', 'example.com/tide:1.0.0', '1.0.0'),
        ('tide.v1.1.0', '{"kind": "ClusterServiceVersion", "spec": {}}', 'example.com/tide:1.1.0', '1.1.0');
    INSERT INTO package VALUES ('tide', 'stable');
    INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.1.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'tide', 'tide.v1.1.0', 2, 0), (2, 'stable', 'tide', 'tide.v1.0.0', NULL, 1);
    INSERT INTO properties(type, value, operatorbundle_name) VALUES ('olm.maxOpenShiftVersion', '"4.21"', 'tide.v1.1.0');
"#;

fn execute(workspace: &Workspace, name: &str, batch: &str) {
    let database = Connection::open(workspace.path(name)).unwrap();
    database.execute_batch(batch).unwrap();
}

pub(crate) fn write_database(workspace: &Workspace) {
    execute(workspace, "index.db", &format!("{DATABASE_TABLES}{ROWS}"));
}

// parity: sqlite-4
#[test]
fn a_database_is_a_catalog_for_every_command() {
    let workspace = Workspace::new();
    write_database(&workspace);
    tests::assert_runs! { workspace;
        "catalog validate index.db" => 0, _, "1 package without errors";
        "catalog list channels index.db" => 0, ["tide.v1.1.0"], "{OLD}";
        "catalog choose tide --catalog=index.db --openshift-version=4.22"
            => 0, ["install tide.v1.0.0", "requires OpenShift <= 4.21"], "{OLD}";
        "catalog graph tide --catalog=index.db" => 0, ["tide.v1.0.0", "tide.v1.1.0"], "{OLD}";
        "catalog migrate index.db files" => 0, _, "{OLD}";
        "catalog serve index.db --cache-dir=cache --cache-only" => 0, _, "{OLD}";
    }
    for args in ["render index.db -o json", "render index.db -o yaml"] {
        let run = workspace.ok(&format!("catalog {args}"));
        run.err_has(OLD);
        assert_eq!(run.out, workspace.opm(args));
    }
    let files = workspace.ok("catalog validate files");
    files.err_has("1 package without errors");
    files.err_lacks(OLD);
}

#[test]
fn faulty_databases_are_reported() {
    let workspace = Workspace::new();
    write_database(&workspace);
    let whole = fs::read(workspace.path("index.db")).unwrap();
    workspace.write("cut.db", &whole[..5000]);
    execute(&workspace, "other.db", "CREATE TABLE packages (name TEXT)");
    let more = "INSERT INTO channel VALUES ('beta', 'lost', 'x');
        UPDATE operatorbundle SET version = 'one' WHERE name = 'tide.v1.0.0';";
    execute(&workspace, "index.db", more);
    tests::assert_runs! { workspace;
        "catalog list packages cut.db" => 1, "", "failed to read database cut.db";
        "catalog list packages other.db" => 1, "", "other.db is not a catalog: missing table operatorbundle";
        "catalog validate index.db" => 1, ["tide.json:", "tide", "\"one\""], "channel \"beta\" belongs to package \"lost\"";
    }
}
