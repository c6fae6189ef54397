//! Content in ConfigMaps. The caller reads the ConfigMaps from the cluster.
//!
//! ```
//! use unpacker::{Options, config_maps::{ConfigMap, read}};
//!
//! let manifests = ConfigMap {
//!     name: "manifests".to_owned(),
//!     data: [("csv.yaml".to_owned(), "kind: ClusterServiceVersion".to_owned())].into(),
//!     path: Some("manifests".to_owned()),
//!     ..ConfigMap::default()
//! };
//! let (tree, _) = read(&[manifests], &Options::default())?;
//! assert!(tree.read("manifests/csv.yaml").is_some());
//! # Ok::<(), unpacker::Error>(())
//! ```

use std::collections::BTreeMap;

use manifests::content;

use crate::{Options, Result, Tree, select::Select, spool::Storage, tree::Builder};

/// A ConfigMap whose keys are files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Name of the ConfigMap.
    pub name: String,
    /// Text files by key.
    pub data: BTreeMap<String, String>,
    /// Binary files by key.
    pub binary_data: BTreeMap<String, Vec<u8>>,
    /// Directory of the files in the bundle; `None` is the root.
    pub path: Option<String>,
}

/// An error in the ConfigMaps of a bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list of ConfigMaps is empty.
    #[error("no configmap specified; specify at least one with manifests")]
    NoConfigMaps,
    /// A ConfigMap has no keys.
    #[error(
        "configmap {name:?} is empty: at least one object is required; add one, or remove the configmap from the source"
    )]
    Empty {
        /// Name of the ConfigMap.
        name: String,
    },
    /// The directory is outside of the bundle.
    #[error(
        "the path of configmap {name:?} is invalid: {path:?} is outside bundle root; use a relative path without \"..\""
    )]
    Path {
        /// Name of the ConfigMap.
        name: String,
        /// Invalid directory as given.
        path: String,
        /// Problem of the path.
        #[source]
        source: Box<content::Error>,
    },
    /// The key is not valid in a ConfigMap.
    #[error(
        "key {key:?} of configmap {name:?} is not a valid file name; use letters, digits, \".\", \"-\" and \"_\""
    )]
    Key {
        /// Name of the ConfigMap.
        name: String,
        /// Invalid key, truncated to a readable length.
        key: String,
    },
    /// Several keys have the same path, in different ConfigMaps or in `data` and `binaryData` of one.
    #[error("duplicate path {path:?} found in configmaps [{}]; keep one of them", .names.join(", "))]
    Duplicate {
        /// Path of the file in the bundle.
        path: String,
        /// Names of the ConfigMaps.
        names: Vec<String>,
    },
}

impl Error {
    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoConfigMaps | Self::Empty { .. } => "ConfigMapEmpty",
            Self::Path { .. } | Self::Key { .. } => "InvalidPath",
            Self::Duplicate { .. } => "DuplicatePath",
        }
    }
}

/// A file and the name of its ConfigMap.
struct Entry<'a> {
    name: &'a str,
    bytes: &'a [u8],
}

/// Combines the files of all ConfigMaps, each below the directory of its ConfigMap. Also returns the number of files
/// that are not selected.
///
/// # Errors
/// Returns an error if the ConfigMaps contain no files, or two files with the same path. Invalid paths and keys and
/// exceeded limits are errors, too.
pub fn read(configmaps: &[ConfigMap], options: &Options) -> Result<(Tree, usize)> {
    if configmaps.is_empty() {
        return Err(Error::NoConfigMaps.into());
    }
    let mut files: BTreeMap<String, Vec<Entry<'_>>> = BTreeMap::new();
    for configmap in configmaps {
        for (path, entry) in entries(configmap)? {
            files.entry(path).or_default().push(entry);
        }
    }
    let select = Select::new(options)?;
    let mut unselected = 0;
    let mut builder = Builder::new(options.limits, Storage::Memory);
    for (path, entries) in files {
        let [entry] = entries.as_slice() else {
            let names = entries.iter().map(|entry| entry.name.to_owned()).collect();
            return Err(Error::Duplicate { path, names }.into());
        };
        if select.matches(&path) {
            builder.add(&path, 0o644, &mut &*entry.bytes)?;
        } else {
            builder.skip(&path)?;
            unselected += 1;
        }
    }
    Ok((builder.finish(), unselected))
}

fn entries(configmap: &ConfigMap) -> Result<Vec<(String, Entry<'_>)>, Error> {
    let name = configmap.name.as_str();
    let texts = configmap
        .data
        .iter()
        .map(|(key, text)| (key, text.as_bytes()));
    let binaries = configmap
        .binary_data
        .iter()
        .map(|(key, bytes)| (key, bytes.as_slice()));
    let dir = directory(configmap)?;
    let entries: Vec<_> = texts
        .chain(binaries)
        .map(|(key, bytes)| {
            if !is_key(key) {
                return Err(Error::Key {
                    name: name.to_owned(),
                    key: key.chars().take(80).collect(),
                });
            }
            let path = match &dir {
                Some(dir) => format!("{dir}/{key}"),
                None => key.clone(),
            };
            Ok((path, Entry { name, bytes }))
        })
        .collect::<Result<_, _>>()?;
    if entries.is_empty() {
        let name = name.to_owned();
        return Err(Error::Empty { name });
    }
    Ok(entries)
}

/// Returns the directory for the files of a ConfigMap; `None` is the root.
fn directory(configmap: &ConfigMap) -> Result<Option<String>, Error> {
    let path = configmap.path.as_deref().unwrap_or_default();
    if path.split('/').all(|part| matches!(part, "" | ".")) && !path.starts_with('/') {
        return Ok(None);
    }
    match content::normalize(path) {
        Ok(dir) => Ok(Some(dir)),
        Err(source) => Err(Error::Path {
            name: configmap.name.clone(),
            path: path.chars().take(200).collect(),
            source: source.into(),
        }),
    }
}

/// Reports whether Kubernetes allows a key. The values may have other sources than a cluster.
fn is_key(key: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    (1..=253).contains(&key.len())
        && key != "."
        && !key.starts_with("..")
        && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::{Limits, Selection};

    fn configmap(name: &str, path: Option<&str>, files: &[(&str, &str)]) -> ConfigMap {
        let text = |&(key, text): &(&str, &str)| (key.to_owned(), text.to_owned());
        let data = files.iter().map(text).collect();
        with!(ConfigMap, name: name.to_owned(), data, path: path.map(str::to_owned))
    }

    /// Returns the paths and sizes, or the error message.
    fn outcome(configmaps: &[ConfigMap], options: &Options) -> String {
        let (tree, _) = match read(configmaps, options) {
            Ok(read) => read,
            Err(error) => return error.to_string(),
        };
        let files = tree.files();
        let files = files.map(|(path, file)| format!("{path} {}", file.size));
        files.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn every_configmap_goes_under_its_path() {
        let mut crds = configmap("crds", Some("./manifests//crds/"), &[("a.yaml", "aa")]);
        crds.binary_data.insert("logo.png".to_owned(), vec![0, 255]);
        let configmaps = [
            configmap("csv", Some("manifests"), &[("csv.yaml", "c")]),
            crds,
            configmap("root", None, &[("README.md", "")]),
            configmap("here", Some("."), &[("b", "")]),
            configmap("empty", Some(""), &[("c", "")]),
        ];
        let paths = "README.md 0, b 0, c 0, manifests/crds/a.yaml 2, manifests/crds/logo.png 2, manifests/csv.yaml 1";
        assert_eq!(outcome(&configmaps, &Options::default()), paths);
        let (tree, _) = read(&configmaps, &Options::default()).unwrap();
        assert_rows!(tree.into_content().unwrap().read("manifests/crds/logo.png").unwrap().as_ref() => [0, 255]);
    }

    #[test]
    fn path_in_several_configmaps_is_rejected_with_their_names() {
        let file = [("x", "1")];
        let mut both = configmap("both", None, &file);
        both.binary_data.insert("x".to_owned(), vec![1]);
        for (configmaps, path, names) in ::tests::rows![
            vec![configmap("b", Some("manifests"), &file), configmap("c", None, &file), configmap("a", Some("manifests/."), &file)],
                "manifests/x" => "b, a";
            vec![configmap("a", None, &file), configmap("a", None, &file)], "x" => "a, a";
            vec![both], "x" => "both, both";
        ] {
            let found = outcome(&configmaps, &Options::default());
            assert_rows!(found => format!("duplicate path {path:?} found in configmaps [{names}]; keep one of them"));
        }
    }

    #[test]
    fn missing_files_and_conflicts_are_rejected() {
        let map = configmap;
        assert_each!(|configmaps, problem| outcome(&configmaps, &Options::default()) => has problem;
            vec![] => "no configmap specified";
            vec![map("a", None, &[("x", "")]), map("b", None, &[])] => "configmap \"b\" is empty";
            vec![map("a", None, &[("manifests", "")]), map("b", Some("manifests"), &[("x", "")])] => "requires one";
        );
    }

    #[test]
    fn keys_and_paths_stay_in_the_bundle() {
        let long = "x".repeat(254);
        for key in "|.|..|..x|a/b|/a|a\\b|a b|ä|a\0".split('|').chain([&*long]) {
            let text = outcome(&[configmap("a", None, &[(key, "")])], &Options::default());
            ::tests::assert_has(&text, "is not a valid file name");
        }
        for path in ["..", "../x", "a/../..", "/", "/a", "a\\b", "a\nb"] {
            let configmap = configmap("a", Some(path), &[("x", "")]);
            let error = read(&[configmap], &Options::default()).unwrap_err();
            let is_explained = error.source().is_some() && error.is_terminal();
            assert_rows!(is_explained && error.to_string().contains("outside bundle root") => true, "{error}");
        }
    }

    #[test]
    fn limits_hold_for_configmaps_too() {
        let limits = with!(Limits::default() => total: 5, file: 4, entries: 2, path: 9, depth: 2);
        let options = with!(Options, limits);
        assert_each!(|path, files, problem| outcome(&[configmap("a", Some(path), files)], &options) => has problem;
            "", &[("x", "1234")][..] => "x 4";
            "", &[("x", "12345")] => "--max-file-size";
            "", &[("x", "123"), ("y", "123")] => "--max-size";
            "", &[("x", ""), ("y", ""), ("z", "")] => "--max-entries";
            "", &[("1234567890", "")] => "--max-path-length";
            "a/b", &[("c", "")] => "--max-path-depth";
        );
        // Files outside of the selection are counted.
        let options = with!(Options, select: Selection::Only(vec!["manifests".to_owned()]));
        let selected = configmap("a", Some("manifests"), &[("x", "")]);
        let configmaps = [selected, configmap("b", None, &[("y", "")])];
        let (tree, unselected) = read(&configmaps, &options).unwrap();
        assert_eq!((tree.len(), unselected), (1, 1));
    }
}
