//! What bundles are called: as little of where they are as tells them apart.

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

/// Names every bundle after the end of its path, and takes as many folders before it as it needs to tell all of them
/// apart: `a/bundle b/bundle` become `a-bundle` and `b-bundle`.
pub(super) fn all<E>(
    texts: &[OsString],
    places: &[Result<Source, E>],
) -> Result<Vec<String>, String> {
    let mut parts: Vec<Vec<String>> = texts
        .iter()
        .zip(places)
        .map(|(text, place)| match place {
            Ok(place) => of(place),
            Err(_) => path(Path::new(text)),
        })
        .collect();
    for (parts, place) in parts.iter_mut().zip(places) {
        if let Ok(Source::Http(http)) = place {
            number(parts, http, places);
        }
    }
    let deepest = parts.iter().map(Vec::len).max().unwrap_or(0);
    for depth in 1..=deepest.max(1) {
        let names: Vec<String> = parts.iter().map(|parts| end(parts, depth)).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        if distinct.len() == names.len() {
            return Ok(names);
        }
    }
    Err(
        "two of those that are named cannot be told apart by their names; name each of them once"
            .to_owned(),
    )
}

fn end(parts: &[String], depth: usize) -> String {
    let from = parts.len().saturating_sub(depth);
    parts.get(from..).unwrap_or_default().join("-")
}

/// The names along the way to a bundle, the last of them its own.
fn of(source: &Source) -> Vec<String> {
    match source {
        Source::Image(image) => of_image(image),
        Source::Git(git) => of_git(git),
        Source::Http(http) => of_http(http),
        Source::Local(Local::Stdin) => vec!["stdin".to_owned()],
        Source::Local(Local::Path(at)) => path(at),
        Source::Local(
            Local::OciLayout(at, name)
            | Local::OciArchive(at, name)
            | Local::DockerArchive(at, name),
        ) => {
            let mut parts = path(at);
            if let Some(name) = name {
                extend_last(&mut parts, &plain(name));
            }
            parts
        }
    }
}

fn of_image(Image { reference, .. }: &Image) -> Vec<String> {
    let mut parts = vec![plain(reference.domain())];
    parts.extend(reference.path().split('/').map(str::to_owned));
    let digest = reference
        .digest()
        .and_then(|digest| digest.split_once(':')?.1.get(..12));
    if let Some(version) = reference.tag().or(digest) {
        extend_last(&mut parts, version);
    }
    parts
}

fn of_git(git: &Git) -> Vec<String> {
    let url = &git.repository;
    let mut parts = vec![plain(url.host_str().unwrap_or_default())];
    parts.extend(segments(url.path(), &[".git"]));
    let revision = match &git.revision {
        Revision::Head => None,
        Revision::Name(name) | Revision::Branch(name) | Revision::Tag(name) => Some(plain(name)),
        Revision::Commit(commit) => commit.get(..12).map(str::to_owned),
    };
    if let Some(revision) = revision {
        extend_last(&mut parts, &revision);
    }
    if let Some(directory) = &git.directory {
        parts.extend(directory.split('/').map(plain));
    }
    parts
}

fn of_http(Http { url, .. }: &Http) -> Vec<String> {
    let mut parts = vec![plain(url.host_str().unwrap_or_default())];
    parts.extend(segments(url.path(), ARCHIVES));
    parts
}

/// Tells URLs apart that differ in their queries alone, which may be secrets: by their order.
fn number<E>(parts: &mut [String], http: &Http, places: &[Result<Source, E>]) {
    let place = |http: &Http| {
        let mut url = http.url.clone();
        url.set_query(None);
        url
    };
    let here = place(http);
    let mut queries = Vec::new();
    for other in places {
        if let Ok(Source::Http(other)) = other
            && place(other) == here
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
    let mut parts: Vec<String> = filled.map(plain).collect();
    strip_ending(&mut parts, endings);
    parts
}

fn extend_last(parts: &mut [String], with: &str) {
    if let Some(last) = parts.last_mut() {
        *last = format!("{last}-{with}");
    }
}

/// A text as a file may be called.
fn plain(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    text.chars().map(plain).take(100).collect()
}

/// What marks an archive.
const ARCHIVES: &[&str] = &[".tar.gz", ".tgz", ".tar"];

/// The names along a path, the last one without what marks an archive.
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
        let places: Vec<_> = texts
            .iter()
            .map(|text| Source::parse(text.to_str().unwrap(), |_| false))
            .collect();
        all(&texts, &places).ok()
    }

    #[test]
    fn bundles_are_named_by_as_much_of_their_path_as_it_takes() {
        let digest = "a".repeat(64);
        for (paths, expected) in ::tests::rows![
            &["x/a", "y/b/"][..] => Some(&["a", "b"][..]);
            &["x/a.tar.gz", "b.tgz", "c.tar", "-"] => Some(&["a", "b", "c", "stdin"]);
            &["x/1.0.0", "y/1.0.0"] => Some(&["x-1.0.0", "y-1.0.0"]);
            &["x/a/b", "y/a/b", "c"] => Some(&["x-a-b", "y-a-b", "c"]);
            &[".tar"] => Some(&[".tar"]);
            &["a", "a"] => None;
            &["a", "./a"] => None;
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
        ] {
            let expected =
                expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(names(paths), expected, "{paths:?}");
        }
    }
}
