//! Catalogs in SQLite databases: everything that can be done with a catalog.

use std::fs;

use rusqlite::Connection;
use tests::{Buildah, DATABASE_LABEL, DATABASE_TABLES, Registry};

use crate::{
    bundle::{Place, Run},
    sources::says,
};

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

/// What opm prints.
fn opm(place: &Place, args: &[&str]) -> String {
    let run: Run = tests::opm(&place.path(""), args).into();
    run.exits(0).out
}

#[test]
fn a_database_is_a_catalog_for_every_command() {
    let place = place();
    let run = |args: &[&str]| {
        let run = place.run(&[&["catalog"], args].concat()).exits(0);
        says(&run.err, &[OLD, "rukpak catalog migrate"], &[]);
        run.out
    };
    let validated = place.run(&["catalog", "validate", "index.db"]).exits(0);
    says(&validated.err, &["1 package without errors"], &[]);
    says(
        &run(&["list", "channels", "index.db"]),
        &["tide.v1.1.0"],
        &[],
    );
    says(
        &run(&[
            "choose",
            "tide",
            "--catalog=index.db",
            "--openshift-version=4.22",
        ]),
        &["install tide.v1.0.0", "requires OpenShift <= 4.21"],
        &[],
    );
    says(
        &run(&["graph", "tide", "--catalog=index.db"]),
        &["tide.v1.0.0", "tide.v1.1.0"],
        &[],
    );
    for format in ["json", "yaml"] {
        let args = ["render", "index.db", "-o", format];
        assert_eq!(run(&args), opm(&place, &args));
    }
    run(&["migrate", "index.db", "files"]);
    let files = place.run(&["catalog", "validate", "files"]).exits(0);
    says(&files.err, &["1 package without errors"], &[OLD]);
    let rendered = |what: &str| {
        let run = place.run(&["catalog", "render", "-q", what]).exits(0);
        assert_eq!(run.err, "");
        run.out
    };
    assert_eq!(rendered("files/tide"), rendered("files"));
    run(&["serve", "index.db", "--cache-dir=cache", "--cache-only"]);
}

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
    let run = place.run(&args).exits(0);
    says(&run.err, &[OLD], &[]);
    assert_eq!(run.out, opm(&place, &["render", "--use-http", &image]));
    let args = ["catalog", "validate", "--tls-verify=false", &image];
    says(
        &place.run(&args).exits(0).err,
        &["1 package without errors"],
        &[],
    );
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
    for (file, part) in [
        ("cut.db", "failed to read the database cut.db"),
        (
            "other.db",
            "other.db is no catalog: it has no table operatorbundle",
        ),
    ] {
        let run = place.run(&["catalog", "list", "packages", file]).exits(1);
        says(&run.err, &[part], &[]);
        assert_eq!(run.out, "");
    }
    let run = place.run(&["catalog", "validate", "index.db"]).exits(1);
    says(&run.out, &["tide.json:", "tide", "\"one\""], &[]);
    says(&run.err, &["channel \"beta\" is of package \"lost\""], &[]);
}
