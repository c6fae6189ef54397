//! Real bundles as images: whoever built the image, it is the same bundle.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tests::{Buildah, Registry, corpus};

use super::Desk;

const PLAIN: &str = "--tls-verify=false";

/// What each bundle becomes, in order: the line about it, and its manifests if it has any.
fn convert(desk: &Desk, bundles: &[String]) -> Vec<(String, Option<Vec<u8>>)> {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let mut args = vec!["convert", "--quiet", PLAIN, "--output-dir", folder];
    args.extend(bundles.iter().map(String::as_str));
    let run = desk.run(&args);
    let outcomes: Vec<_> = run
        .out
        .lines()
        .map(|line| {
            let (name, rest) = line.split_once('\t').unwrap();
            let manifests = fs::read(out.path().join(format!("{name}.yaml"))).ok();
            (rest.to_owned(), manifests)
        })
        .collect();
    assert_eq!(outcomes.len(), bundles.len(), "{run:#?}");
    outcomes
}

fn assert_same(desk: &Desk, folders: &[PathBuf], images: &[String]) {
    let folders: Vec<String> = folders
        .iter()
        .map(|folder| folder.to_str().unwrap().to_owned())
        .collect();
    let expected = convert(desk, &folders);
    let converted = expected.iter().filter(|(_, manifests)| manifests.is_some());
    assert!(converted.count() > 0, "no bundle was converted");
    let found = convert(desk, images);
    for ((folder, expected), found) in folders.iter().zip(expected).zip(found) {
        assert_eq!(found.0, expected.0, "{folder}");
        assert!(found.1 == expected.1, "{folder} has other manifests");
    }
}

fn folders() -> Option<Vec<PathBuf>> {
    let corpus = corpus()?;
    let folders: Vec<_> = corpus.cases().map(|case| corpus.bundle(case)).collect();
    assert!(!folders.is_empty(), "the corpus is empty");
    Some(folders)
}

#[test]
fn every_bundle_of_the_corpus_is_the_same_when_it_was_pushed() {
    let Some(folders) = folders() else { return };
    let desk = Desk::new();
    let registry = Registry::plain();
    let next = AtomicUsize::new(0);
    let push = |folder: &Path, name: &str| {
        let image = registry.image(name);
        let args = [
            "push",
            folder.to_str().unwrap(),
            &image,
            "-o",
            "json",
            "--quiet",
            PLAIN,
        ];
        let pushed = desk.run(&args).exits(0).json();
        pushed["digest"].as_str().unwrap().to_owned()
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(folder) = folders.get(at)
                {
                    let digest = push(folder, &format!("once/bundle-{at}:v1"));
                    assert_eq!(push(folder, &format!("again/bundle-{at}:v2")), digest);
                }
            });
        }
    });
    let images: Vec<_> = (0..folders.len())
        .map(|at| registry.image(&format!("once/bundle-{at}:v1")))
        .collect();
    assert_same(&desk, &folders, &images);
}

/// Dockerfiles as people write them. Most bundles have the first.
const FILES: [&str; 4] = [
    "FROM scratch\n\
     LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1\n\
     LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/\n\
     LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/\n\
     COPY manifests /manifests/\n\
     COPY metadata /metadata/\n",
    "FROM scratch\n\
     COPY manifests /manifests/\n\
     COPY metadata/annotations.yaml /tests/scorecard/config.yaml\n\
     COPY metadata /metadata/\n",
    "FROM BASE\n\
     COPY manifests /manifests\n\
     COPY metadata /metadata\n",
    "FROM USED\n\
     RUN rm -r /metadata /manifests/leftover.yaml\n\
     COPY manifests /manifests\n\
     COPY metadata /metadata\n",
];

#[test]
fn every_bundle_of_the_corpus_is_the_same_when_buildah_built_it() {
    let Some(folders) = folders() else { return };
    let desk = Desk::new();
    let registry = Registry::plain();
    let buildah = Buildah::new();
    let base = buildah.base();
    // A bundle image that others are built from, as some do by mistake.
    desk.place
        .write("used/manifests/leftover.yaml", "kind: Leftover\n");
    desk.place
        .write("used/metadata/annotations.yaml", "annotations: {}\n");
    let used = format!("FROM {base}\nCOPY . /\n");
    let used = buildah.build(&used, &desk.place.path("used"), &[]);
    let files = FILES.map(|file| file.replace("BASE", &base).replace("USED", &used));
    let images: Vec<_> = folders
        .iter()
        .enumerate()
        .map(|(at, folder)| {
            let name = registry.image(&format!("bundle-{at}:v1"));
            // Each layer by itself for every eighth, because that takes long.
            let flags = if at % 8 == 1 { &["--layers"][..] } else { &[] };
            buildah.publish(&files[at % files.len()], folder, &name, flags);
            name
        })
        .collect();
    assert_same(&desk, &folders, &images);
}
