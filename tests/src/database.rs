//! Catalogs in SQLite databases.

/// The label by which an index image names its database.
pub const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

/// The tables of a catalog's database, as the last opm version with support for databases created them.
pub const DATABASE_TABLES: &str = "
    CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP);
    INSERT INTO schema_migrations(version) VALUES (13);
    CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT, skiprange TEXT,
        version TEXT, replaces TEXT, skips TEXT, substitutesfor TEXT);
    CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT);
    CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT, PRIMARY KEY(name, package_name));
    CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT,
        operatorbundle_name TEXT, replaces INTEGER, depth INTEGER);
    CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT);
    CREATE TABLE dependencies (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT,
        operatorbundle_path TEXT);
    CREATE TABLE properties (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT,
        operatorbundle_path TEXT);
    CREATE TABLE deprecated (operatorbundle_name TEXT PRIMARY KEY);
";
