//! Display names of bundles: the shortest part of their location that is unique.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Component, Path},
};

use unpacker::{
    Source,
    source::{Git, Http, Image, Local, Revision},
};

/// Names every bundle after the last segment of its path, with as many parent directories as all names need to be unique:
/// `a/bundle b/bundle` become `a-bundle` and `b-bundle`.
pub(super) fn all<E>(
    texts: &[OsString],
    sources: &[Result<Source, E>],
) -> Result<Vec<String>, String> {
    let mut parts: Vec<Vec<String>> = texts
        .iter()
        .zip(sources)
        .map(|(text, source)| match source {
            Ok(source) => segments_of(source),
            Err(_) => path(Path::new(text)),
        })
        .collect();
    for (parts, source) in parts.iter_mut().zip(sources) {
        if let Ok(Source::Http(http)) = source {
            append_query_number(parts, http, sources);
        }
    }
    let deepest = parts.iter().map(Vec::len).max().unwrap_or(0);
    for depth in 1..=deepest.max(1) {
        let names: Vec<String> = parts
            .iter()
            .map(|parts| last_segments(parts, depth))
            .collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        if distinct.len() == names.len() {
            return Ok(names);
        }
    }
    Err("two sources have the same name; specify each source only once".to_owned())
}

fn last_segments(parts: &[String], depth: usize) -> String {
    let from = parts.len().saturating_sub(depth);
    parts.get(from..).unwrap_or_default().join("-")
}

/// Returns the segments of a location, the most specific one last.
fn segments_of(source: &Source) -> Vec<String> {
    match source {
        Source::Image(image) => image_segments(image),
        Source::Git(git) => git_segments(git),
        Source::Http(http) => http_segments(http),
        Source::Local(Local::Stdin) => vec!["stdin".to_owned()],
        Source::Local(Local::Path(at)) => path(at),
        Source::Local(
            Local::OciLayout(at, name)
            | Local::OciArchive(at, name)
            | Local::DockerArchive(at, name),
        ) => {
            let mut parts = path(at);
            if let Some(name) = name {
                extend_last(&mut parts, &sanitize(name));
            }
            parts
        }
    }
}

fn image_segments(Image { reference, .. }: &Image) -> Vec<String> {
    let mut parts = vec![sanitize(reference.domain())];
    parts.extend(reference.path().split('/').map(str::to_owned));
    let digest = reference
        .digest()
        .and_then(|digest| digest.split_once(':')?.1.get(..12));
    if let Some(version) = reference.tag().or(digest) {
        extend_last(&mut parts, version);
    }
    parts
}

fn git_segments(git: &Git) -> Vec<String> {
    let url = &git.repository;
    let mut parts = vec![sanitize(url.host_str().unwrap_or_default())];
    parts.extend(segments(url.path(), &[".git"]));
    let revision = match &git.revision {
        Revision::Head => None,
        Revision::Name(name) | Revision::Branch(name) | Revision::Tag(name) => Some(sanitize(name)),
        Revision::Commit(commit) => commit.get(..12).map(str::to_owned),
    };
    if let Some(revision) = revision {
        extend_last(&mut parts, &revision);
    }
    if let Some(directory) = &git.directory {
        parts.extend(directory.split('/').map(sanitize));
    }
    parts
}

fn http_segments(Http { url, .. }: &Http) -> Vec<String> {
    let mut parts = vec![sanitize(url.host_str().unwrap_or_default())];
    parts.extend(segments(url.path(), ARCHIVES));
    parts
}

/// Appends a number to URLs that differ only in their queries, which may contain secrets.
fn append_query_number<E>(parts: &mut [String], http: &Http, sources: &[Result<Source, E>]) {
    let address_of = |http: &Http| {
        let mut url = http.url.clone();
        url.set_query(None);
        url
    };
    let address = address_of(http);
    let mut queries = Vec::new();
    for other in sources {
        if let Ok(Source::Http(other)) = other
            && address_of(other) == address
            && !queries.contains(&other.url.query())
        {
            queries.push(other.url.query());
        }
    }
    let before = queries.iter().position(|query| *query == http.url.query());
    if let Some(before @ 1..) = before {
        extend_last(parts, &(before + 1).to_string());
    }
}

fn segments(path: &str, endings: &[&str]) -> Vec<String> {
    let filled = path.split('/').filter(|segment| !segment.is_empty());
    let mut parts: Vec<String> = filled.map(sanitize).collect();
    strip_ending(&mut parts, endings);
    parts
}

fn extend_last(parts: &mut [String], with: &str) {
    if let Some(last) = parts.last_mut() {
        *last = format!("{last}-{with}");
    }
}

/// Replaces characters that are unsuitable for file names.
fn sanitize(text: &str) -> String {
    let sanitize = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    text.chars().map(sanitize).take(100).collect()
}

/// File extensions of archives.
const ARCHIVES: &[&str] = &[".tar.gz", ".tgz", ".tar"];

/// Returns the segments of a path, without the extension of an archive.
fn path(path: &Path) -> Vec<String> {
    if path.as_os_str() == "-" {
        return vec!["stdin".to_owned()];
    }
    let names = |path: &Path| -> Vec<String> {
        let normal = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        });
        normal.collect()
    };
    let ends_in_dots = path.file_name().is_none();
    let mut parts = match fs::canonicalize(path) {
        Ok(whole) if ends_in_dots => names(&whole),
        _ => names(path),
    };
    strip_ending(&mut parts, ARCHIVES);
    parts
}

fn strip_ending(parts: &mut [String], endings: &[&str]) {
    if let Some(last) = parts.last_mut() {
        let stem = endings
            .iter()
            .find_map(|ending| last.strip_suffix(ending))
            .filter(|stem| !stem.is_empty());
        if let Some(stem) = stem {
            *last = stem.to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Option<Vec<String>> {
        let texts: Vec<OsString> = texts.iter().map(OsString::from).collect();
        let sources: Vec<_> = texts
            .iter()
            .map(|text| Source::parse(text.to_str().unwrap(), |_| false))
            .collect();
        all(&texts, &sources).ok()
    }

    #[test]
    fn bundle_names_use_the_shortest_unique_path_suffix() {
        let digest = "a".repeat(64);
        ::tests::assert_each!(|paths, expected|
            names(paths) => expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            &["x/a", "y/b/"][..] => Some(&["a", "b"][..]);
            &["x/a.tar.gz", "b.tgz", "c.tar", "-"] => Some(&["a", "b", "c", "stdin"]);
            &["x/1.0.0", "y/1.0.0"] => Some(&["x-1.0.0", "y-1.0.0"]);
            &["x/a/b", "y/a/b", "c"] => Some(&["x-a-b", "y-a-b", "c"]);
            &[".tar"] => Some(&[".tar"]);
            &["a", "a"] => None;
            &["a", "./a"] => None;
            &["x/a", "x/a/"] => None;
            &["-", "-"] => None;
            &["quay.io/org/app-bundle:v1", "quay.io/org/app-bundle:v2"] => Some(&["app-bundle-v1", "app-bundle-v2"]);
            &["quay.io/org/app", &format!("quay.io/org/app@sha256:{digest}")] => Some(&["app-latest", "app-aaaaaaaaaaaa"]);
            &["localhost:5000/app:v1", "quay.io/app:v1"] => Some(&["localhost-5000-app-v1", "quay.io-app-v1"]);
            &["git+https://h/org/repo.git", "git+ssh://git@h/org/repo#feature/x:deploy/bundle"] => Some(&["repo", "bundle"]);
            &["git+https://h/org/repo#v1:bundle", "git+https://h/org/repo#v2:bundle"]
                => Some(&["repo-v1-bundle", "repo-v2-bundle"]);
            &["https://h/a.tgz", "https://h/get?file=b.tgz", "oci:layout:v1"] => Some(&["a", "get", "layout-v1"]);
            &["https://h/b.tgz?sig=1", "https://h/b.tgz?sig=2", "https://h/c?sig=2"] => Some(&["b", "b-2", "c"]);
            &["https://h/b.tgz?sig=1", "https://h/b.tgz?sig=1"] => None;
            &["https://h/", "https://i/"] => Some(&["h", "i"]);
            &["quay.io/org/app:v1", "docker://quay.io/org/app:v1"] => None;
        );
    }
}
