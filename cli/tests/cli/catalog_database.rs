//! Catalogs in SQLite databases, with every command that reads a catalog.

use std::fs;

use rusqlite::Connection;
use tests::{Buildah, DATABASE_LABEL, DATABASE_TABLES, Registry};

use crate::bundle::Place;

const OLD: &str = "SQLite catalogs are deprecated; run \"rukpak catalog migrate\"";

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

fn execute(place: &Place, name: &str, batch: &str) {
    let database = Connection::open(place.path(name)).unwrap();
    database.execute_batch(batch).unwrap();
}

fn place() -> Place {
    let place = Place::new();
    execute(&place, "index.db", &format!("{DATABASE_TABLES}{ROWS}"));
    place
}

// parity: sqlite-4
#[test]
fn a_database_is_a_catalog_for_every_command() {
    let place = place();
    tests::assert_runs! { place;
        "catalog validate index.db" => 0, _, "1 package without errors";
        "catalog list channels index.db" => 0, ["tide.v1.1.0"], "{OLD}", "rukpak catalog migrate";
        "catalog choose tide --catalog=index.db --openshift-version=4.22"
            => 0, ["install tide.v1.0.0", "requires OpenShift <= 4.21"], "{OLD}", "rukpak catalog migrate";
        "catalog graph tide --catalog=index.db" => 0, ["tide.v1.0.0", "tide.v1.1.0"], "{OLD}", "rukpak catalog migrate";
        "catalog migrate index.db files" => 0, _, "{OLD}", "rukpak catalog migrate";
        "catalog serve index.db --cache-dir=cache --cache-only" => 0, _, "{OLD}", "rukpak catalog migrate";
    }
    for format in ["json", "yaml"] {
        let args = format!("render index.db -o {format}");
        let run = place.ok(&format!("catalog {args}"));
        run.err_has(OLD);
        run.err_has("rukpak catalog migrate");
        assert_eq!(run.out, place.opm(&args));
    }
    let files = place.ok("catalog validate files");
    files.err_has("1 package without errors");
    files.err_lacks(OLD);
    let rendered = |path: &str| {
        let run = place.ok(&format!("catalog render -q {path}"));
        assert_eq!(run.err, "");
        run.out
    };
    assert_eq!(rendered("files/tide"), rendered("files"));
}

// parity: sqlite-4
#[test]
fn an_image_with_a_database_is_a_catalog() {
    let place = place();
    let registry = Registry::plain();
    let image = registry.image("org/index:v4.5");
    let file = format!(
        "FROM scratch\nLABEL {DATABASE_LABEL}=/database/index.db\nCOPY index.db /database/\n"
    );
    Buildah::new().publish(&file, &place.path(""), &image, &[]);
    let run = place.ok(&["catalog", "render", "--tls-verify=false", &image]);
    run.err_has(OLD);
    assert_eq!(run.out, place.opm(&["render", "--use-http", &image]));
    tests::assert_runs! { place;
        "catalog validate --tls-verify=false {image}" => 0, _, "1 package without errors";
    }
}

#[test]
fn faulty_databases_are_reported() {
    let place = place();
    let whole = fs::read(place.path("index.db")).unwrap();
    place.write("cut.db", &whole[..5000]);
    execute(&place, "other.db", "CREATE TABLE packages (name TEXT)");
    let more = "INSERT INTO channel VALUES ('beta', 'lost', 'x');
        UPDATE operatorbundle SET version = 'one' WHERE name = 'tide.v1.0.0';";
    execute(&place, "index.db", more);
    tests::assert_runs! { place;
        "catalog list packages cut.db" => 1, "", "failed to read database cut.db";
        "catalog list packages other.db" => 1, "", "other.db is not a catalog: missing table operatorbundle";
        "catalog validate index.db"
            => 1, ["tide.json:", "tide", "\"one\""], "channel \"beta\" belongs to package \"lost\"";
    }
}
