//! Catalogs in SQLite databases: everything that can be done with a catalog.

use std::fs;

use rusqlite::Connection;
use tests::{Buildah, DATABASE_LABEL, DATABASE_TABLES, Registry};

use crate::{bundle::Place, sources::says};

const OLD: &str = "the catalog is an SQLite database, a form that is not made any more";

/// A package with two bundles, and a channel of a package that there is not.
const ROWS: &str = r#"
    INSERT INTO operatorbundle(name, csv, bundlepath, version) VALUES
        ('tide.v1.0.0', '{"kind": "ClusterServiceVersion"}', 'example.com/tide:1.0.0', '1.0.0'),
        ('tide.v1.1.0', '{"kind": "ClusterServiceVersion", "spec": {}}', 'example.com/tide:1.1.0', '1.1.0');
    INSERT INTO package VALUES ('tide', 'stable');
    INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.1.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'tide', 'tide.v1.1.0', 2, 0), (2, 'stable', 'tide', 'tide.v1.0.0', NULL, 1);
    INSERT INTO properties(type, value, operatorbundle_name) VALUES ('olm.maxOpenShiftVersion', '"4.21"', 'tide.v1.1.0');
"#;

fn place() -> Place {
    let place = Place::new();
    let database = Connection::open(place.path("index.db")).unwrap();
    database
        .execute_batch(&format!("{DATABASE_TABLES}{ROWS}"))
        .unwrap();
    place
}

// parity: sqlite-4
#[test]
fn a_database_is_a_catalog_for_every_command() {
    let place = place();
    let run = |args: &str| {
        let run = place.ok(&format!("catalog {args}"));
        says(&run.err, &[OLD, "rukpak catalog migrate"], &[]);
        run.out
    };
    let validated = place.ok("catalog validate index.db");
    validated.err_has("1 package without errors");
    for (args, parts) in tests::rows![
        "list channels index.db" => &["tide.v1.1.0"][..];
        "choose tide --catalog=index.db --openshift-version=4.22" => &["install tide.v1.0.0", "requires OpenShift <= 4.21"];
        "graph tide --catalog=index.db" => &["tide.v1.0.0", "tide.v1.1.0"];
    ] {
        says(&run(args), parts, &[]);
    }
    for format in ["json", "yaml"] {
        let args = format!("render index.db -o {format}");
        assert_eq!(run(&args), place.opm(&args));
    }
    run("migrate index.db files");
    let files = place.ok("catalog validate files");
    says(&files.err, &["1 package without errors"], &[OLD]);
    let rendered = |what: &str| {
        let run = place.ok(&format!("catalog render -q {what}"));
        assert_eq!(run.err, "");
        run.out
    };
    assert_eq!(rendered("files/tide"), rendered("files"));
    run("serve index.db --cache-dir=cache --cache-only");
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
    let args = ["catalog", "render", "--tls-verify=false", &image];
    let run = place.ok(&args);
    says(&run.err, &[OLD], &[]);
    assert_eq!(run.out, place.opm(&["render", "--use-http", &image]));
    let args = ["catalog", "validate", "--tls-verify=false", &image];
    says(&place.ok(&args).err, &["1 package without errors"], &[]);
}

#[test]
fn what_is_wrong_with_a_database_is_told() {
    let place = place();
    let whole = fs::read(place.path("index.db")).unwrap();
    place.write("cut.db", &whole[..5000]);
    Connection::open(place.path("other.db"))
        .unwrap()
        .execute_batch("CREATE TABLE packages (name TEXT)")
        .unwrap();
    let more = "INSERT INTO channel VALUES ('beta', 'lost', 'x');
        UPDATE operatorbundle SET version = 'one' WHERE name = 'tide.v1.0.0';";
    let database = Connection::open(place.path("index.db")).unwrap();
    database.execute_batch(more).unwrap();
    for (file, part) in tests::rows![
        "cut.db" => "failed to read the database cut.db";
        "other.db" => "other.db is no catalog: it has no table operatorbundle";
    ] {
        let run = place.fail(&format!("catalog list packages {file}"));
        says(&run.err, &[part], &[]);
        assert_eq!(run.out, "");
    }
    let run = place.fail("catalog validate index.db");
    says(&run.out, &["tide.json:", "tide", "\"one\""], &[]);
    says(&run.err, &["channel \"beta\" is of package \"lost\""], &[]);
}
