//! Generator of benchmark catalogs. They resemble real catalogs, have any size, and are deterministic.
//!
//! Each package is a file. A bundle has the content that `opm render` writes without its ClusterServiceVersion: APIs,
//! metadata with a description and examples, and related images by digest. Every third bundle has a max OpenShift
//! version.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use serde::Serialize as _;
use serde_json::{Map, Value, json, ser::PrettyFormatter};

/// Size of a generated catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogShape {
    /// Number of packages.
    pub packages: usize,
    /// Number of bundles per package.
    pub bundles: usize,
    /// Approximate size of a bundle in bytes.
    pub bundle_size: usize,
}

impl Default for CatalogShape {
    /// Shape with 10,000 bundles in 150 MB.
    fn default() -> Self {
        Self {
            packages: 100,
            bundles: 100,
            bundle_size: 15_000,
        }
    }
}

// === impl CatalogShape ===

impl CatalogShape {
    /// Writes the catalog to a directory, one file per package.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(self, directory: &Path) -> io::Result<()> {
        for package in 0..self.packages {
            let directory = directory.join(name(package));
            fs::create_dir_all(&directory)?;
            let mut file = BufWriter::new(File::create(directory.join("catalog.json"))?);
            self.write_package(package, &mut file)?;
            file.flush()?;
        }
        Ok(())
    }

    /// Writes one package as `opm` writes JSON.
    ///
    /// # Errors
    /// Returns an error if the writer fails.
    pub fn write_package(self, package: usize, out: &mut dyn Write) -> io::Result<()> {
        for document in self.documents(package) {
            let formatter = PrettyFormatter::with_indent(b"    ");
            let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter);
            document.serialize(&mut serializer)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Returns the documents of one package in order.
    pub fn documents(self, package: usize) -> impl Iterator<Item = Value> {
        let name = name(package);
        let head = [
            json!({"schema": "olm.package", "name": name, "defaultChannel": "stable",
                "icon": {"base64data": "PHN2Zz48L3N2Zz4K".repeat(200), "mediatype": "image/svg+xml"},
                "description": text(package, 800)}),
            channel(&name, "candidate", self.bundles / 2, self.bundles),
            channel(&name, "stable", 0, self.bundles),
        ];
        let bundles = (0..self.bundles).map(move |at| self.bundle(package, at));
        head.into_iter().chain(bundles)
    }

    fn bundle(self, package: usize, at: usize) -> Value {
        let name = name(package);
        let group = format!("{name}.example.com");
        // The bundle without these two texts has 7.6 kilobytes.
        let text_size = self.bundle_size.saturating_sub(7_600) / 2;
        let mut properties: Vec<Value> = ["Cluster", "Backup", "Restore"]
            .map(|kind| {
                json!({"type": "olm.gvk", "value": {"group": group, "kind": kind, "version": "v1beta1"}})
            })
            .into();
        let version = version(at);
        properties.push(
            json!({"type": "olm.package", "value": {"packageName": name, "version": version}}),
        );
        if at.is_multiple_of(3) {
            properties.push(json!({"type": "olm.maxOpenShiftVersion", "value": "4.20"}));
        }
        let described = |kind: &str| {
            json!({"name": format!("{}s.{group}", kind.to_lowercase()), "version": "v1beta1", "kind": kind,
                "displayName": format!("{kind} of {name}"), "description": text(at, 120)})
        };
        properties.push(json!({"type": "olm.csv.metadata", "value": {
            "annotations": {
                "alm-examples": examples(&group, at, text_size),
                "capabilities": "Deep Insights", "categories": "Database", "certified": "false",
                "containerImage": image(package, at, "operator"), "createdAt": "2024-03-01T12:00:00Z",
                "operatorframework.io/suggested-namespace": name, "repository": format!("https://example.com/{name}")},
            "apiServiceDefinitions": {},
            "crdDescriptions": {"owned": [described("Cluster"), described("Backup"), described("Restore")]},
            "description": text(at, text_size),
            "displayName": format!("Operator {package}"),
            "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
                {"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true}],
            "keywords": ["database", "cluster", "backup"],
            "labels": {"operatorframework.io/arch.amd64": "supported", "operatorframework.io/os.linux": "supported"},
            "links": [{"name": "Documentation", "url": format!("https://example.com/{name}/docs")}],
            "maintainers": [{"name": "Maintainers", "email": "maintainers@example.com"}],
            "maturity": "stable", "minKubeVersion": "1.25.0",
            "provider": {"name": "Example", "url": "https://example.com"}}}));
        let related: Vec<Value> = ["operator", "proxy", "server", "backup", "exporter", "init"]
            .map(|role| json!({"name": role, "image": image(package, at, role)}))
            .into();
        json!({"schema": "olm.bundle", "name": bundle_name(&name, at), "package": name,
            "image": image(package, at, "bundle"), "properties": properties, "relatedImages": related})
    }
}

fn name(package: usize) -> String {
    format!("operator-{package:04}")
}

fn bundle_name(package: &str, at: usize) -> String {
    format!("{package}.v{}", version(at))
}

/// Returns the version of a bundle. Each minor version has ten patches.
fn version(at: usize) -> String {
    format!("1.{}.{}", at / 10, at % 10)
}

/// Returns a channel in which each bundle replaces the previous one. The first bundle of a minor version has a
/// `skipRange` of all earlier ones.
fn channel(package: &str, name: &str, from: usize, to: usize) -> Value {
    let entries: Vec<Value> = (from..to)
        .map(|at| {
            let mut entry = Map::new();
            entry.insert("name".into(), bundle_name(package, at).into());
            if at > from {
                entry.insert("replaces".into(), bundle_name(package, at - 1).into());
            }
            if at > from && at.is_multiple_of(10) {
                let range = format!(">=1.0.0 <{}", version(at));
                entry.insert("skipRange".into(), range.into());
            }
            entry.into()
        })
        .collect();
    json!({"schema": "olm.channel", "name": name, "package": package, "entries": entries})
}

/// Returns an image reference with a unique digest.
fn image(package: usize, at: usize, role: &str) -> String {
    let name = name(package);
    let seed = manifests::names::hash(&[&name, &version(at), role]);
    let digest: String = seed
        .bytes()
        .cycle()
        .take(32)
        .map(|b| format!("{b:02x}"))
        .collect::<Vec<_>>()
        .concat();
    format!("quay.io/example/{name}-{role}@sha256:{digest}")
}

/// Returns prose with markup and line breaks, as in descriptions.
fn text(seed: usize, length: usize) -> String {
    const WORDS: [&str; 12] = [
        "operator",
        "cluster",
        "**manages**",
        "backups",
        "of",
        "\"databases\"",
        "with",
        "`spec.replicas`",
        "and",
        "<br>",
        "failover",
        "metrics",
    ];
    let mut text = String::with_capacity(length + 16);
    let mut at = seed;
    while text.len() < length {
        let word = WORDS.get(at % WORDS.len()).copied().unwrap_or_default();
        text.push_str(word);
        text.push(if at.is_multiple_of(11) { '\n' } else { ' ' });
        at += 5;
    }
    text
}

/// Returns custom resources as JSON for use inside a JSON string.
fn examples(group: &str, seed: usize, length: usize) -> String {
    let mut text = "[\n".to_owned();
    let mut at = seed;
    while text.len() < length {
        // Writing to a String never fails.
        let _ = write!(
            text,
            "  {{\n    \"apiVersion\": \"{group}/v1beta1\",\n    \"kind\": \"Cluster\",\n    \"metadata\": {{\"name\": \"example-{at}\"}},\n    \"spec\": {{\"replicas\": 3, \"storage\": \"10Gi\", \"version\": \"1.2.3\"}}\n  }},\n",
        );
        at += 1;
    }
    text.push_str("  {}\n]");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_catalog_is_valid_and_has_the_requested_size() {
        let dir = tempfile::tempdir().unwrap();
        let shape = CatalogShape {
            packages: 3,
            bundles: 25,
            bundle_size: 15_000,
        };
        shape.write(dir.path()).unwrap();
        let source = crate::Source::Directory(dir.path());
        let catalog = crate::load(source, &crate::Limits::default()).unwrap();
        assert_eq!(catalog.findings, []);
        assert_eq!((catalog.packages.len(), catalog.documents), (3, 3 * 28));
        let file = fs::metadata(dir.path().join("operator-0001/catalog.json")).unwrap();
        assert!((350_000..420_000).contains(&file.len()), "{}", file.len());
    }
}
