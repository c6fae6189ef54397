//! Whatever form an image is saved in and however its layers came about, what is read is what a container would see.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{self, ffi::OsStrExt as _},
    path::Path,
    process::Command,
};

use unpacker::{Options, Selection, open_tree, source::Local};

use crate::{
    buildah::{Store, write},
    forms, listed, read,
};

const BUNDLE: [&str; 3] = ["manifests", "metadata", "tests"];

fn bundle() -> Selection {
    Selection::Only(BUNDLE.map(str::to_owned).to_vec())
}

/// Asserts that every form of the image holds what a container would see, and returns its paths.
#[track_caller]
fn assert_seen(store: &Store, image: &str, select: &Selection) -> Vec<String> {
    let options = Options {
        select: if *select == Selection::Natural {
            bundle()
        } else {
            select.clone()
        },
        ..Options::default()
    };
    let seen = store.mounted(image, |root| listed(&open_tree(root, &options).unwrap().0));
    store.save(image);
    for form in forms(store.path("").as_path()) {
        let fetched =
            read(&form, select.clone()).unwrap_or_else(|error| panic!("{form}: {error:?}"));
        assert_eq!(listed(&fetched.tree), seen, "{form}");
    }
    seen.1
}

/// What an operating system has and a bundle never should.
fn base(root: &Path) {
    for path in [
        "etc/os-release",
        "usr/bin/tool",
        "usr/lib/a.so.1.2",
        "var/lib/data",
    ] {
        write(&root.join(path), path);
    }
    let usr = root.join("usr");
    for (target, link) in [
        ("usr/bin", "bin"),
        ("usr/lib", "lib"),
        ("/nowhere", "dangling"),
    ] {
        unix::fs::symlink(target, root.join(link)).unwrap();
    }
    fs::hard_link(usr.join("bin/tool"), usr.join("bin/other")).unwrap();
    fs::create_dir_all(usr.join("odd")).unwrap();
    fs::write(usr.join("odd").join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    write(
        &usr.join("lib/systemd/system-systemd\\x2dcryptsetup.slice"),
        "",
    );
    write(
        &usr.join("odd").join("n".repeat(200)).join("d".repeat(200)),
        "long",
    );
    for arguments in [["odd/null", "c", "1", "3"], ["odd/disk", "b", "8", "0"]] {
        run(Command::new("mknod").args(arguments).current_dir(&usr));
    }
    run(Command::new("mkfifo").arg("odd/pipe").current_dir(&usr));
    run(Command::new("chmod")
        .args(["6755", "bin/tool"])
        .current_dir(&usr));
    run(Command::new("truncate")
        .args(["-s", "1M", "odd/holes"])
        .current_dir(&usr));
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

#[test]
fn a_bundle_from_scratch_is_read_from_every_form() {
    let store = Store::new();
    store.write(&[
        "manifests/csv.yaml",
        "manifests/crd.yaml",
        "metadata/annotations.yaml",
        "tests/scorecard/config.yaml",
        "README.md",
    ]);
    store.build(
        "bundle",
        "FROM scratch\n\
         LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1\n\
         LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/\n\
         LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/\n\
         COPY manifests /manifests/\n\
         COPY metadata /metadata/\n\
         COPY tests/scorecard /tests/scorecard/\n\
         COPY README.md /\n",
    );
    let paths = assert_seen(&store, "bundle", &Selection::Natural);
    assert_eq!(
        paths,
        [
            "manifests/crd.yaml",
            "manifests/csv.yaml",
            "metadata/annotations.yaml",
            "tests/scorecard/config.yaml"
        ]
    );
    let paths = assert_seen(&store, "bundle", &Selection::All);
    assert!(paths.contains(&"README.md".to_owned()), "{paths:?}");
}

#[test]
fn what_upper_layers_delete_replace_and_add_is_what_a_container_sees() {
    let store = Store::new();
    store.write(&[
        "manifests/deleted.yaml",
        "manifests/kept.yaml",
        "manifests/replaced.yaml",
        "manifests/folder/a",
        "manifests/folder/b",
        "manifests/emptied/a",
        "metadata/file",
        "tests/gone/a",
    ]);
    store.build(
        "lower",
        "FROM scratch\nCOPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests /tests/\n",
    );
    store.layer("lower", "middle", |root| {
        let manifests = root.join("manifests");
        fs::remove_file(manifests.join("deleted.yaml")).unwrap();
        fs::write(manifests.join("replaced.yaml"), "new").unwrap();
        fs::remove_dir_all(manifests.join("folder")).unwrap();
        fs::write(manifests.join("folder"), "now a file").unwrap();
        fs::remove_dir_all(manifests.join("emptied")).unwrap();
        write(&manifests.join("emptied/b"), "b");
        fs::remove_file(root.join("metadata/file")).unwrap();
        write(&root.join("metadata/file/now a folder"), "");
        fs::remove_dir_all(root.join("tests")).unwrap();
    });
    let paths = assert_seen(&store, "middle", &Selection::Natural);
    assert_eq!(
        paths,
        [
            "manifests/emptied/b",
            "manifests/folder",
            "manifests/kept.yaml",
            "manifests/replaced.yaml",
            "metadata/file/now a folder",
        ]
    );
    store.layer("middle", "upper", |root| {
        write(&root.join("manifests/deleted.yaml"), "back again");
        fs::remove_dir_all(root.join("metadata")).unwrap();
        unix::fs::symlink("/etc", root.join("metadata")).unwrap();
        write(&root.join("tests/new"), "");
    });
    let paths = assert_seen(&store, "upper", &Selection::Natural);
    assert_eq!(
        paths,
        [
            "manifests/deleted.yaml",
            "manifests/emptied/b",
            "manifests/folder",
            "manifests/kept.yaml",
            "manifests/replaced.yaml",
            "tests/new",
        ]
    );
}

#[test]
fn a_bundle_on_top_of_an_operating_system_is_found_and_nothing_else() {
    let store = Store::new();
    store.build("empty", "FROM scratch\n");
    store.layer("empty", "base", base);
    store.layer("base", "bundle", |root| {
        write(&root.join("manifests/csv.yaml"), "csv");
        fs::hard_link(
            root.join("manifests/csv.yaml"),
            root.join("manifests/same.yaml"),
        )
        .unwrap();
        write(&root.join("metadata/annotations.yaml"), "annotations");
        fs::remove_file(root.join("usr/odd/null")).unwrap();
        fs::remove_dir_all(root.join("var")).unwrap();
    });
    let paths = assert_seen(&store, "bundle", &Selection::Natural);
    assert_eq!(
        paths,
        [
            "manifests/csv.yaml",
            "manifests/same.yaml",
            "metadata/annotations.yaml"
        ]
    );
    let fetched = read(
        &Local::OciLayout(store.path("layout"), None),
        Selection::Natural,
    )
    .unwrap();
    assert!(fetched.unselected >= 12, "{}", fetched.unselected);
    assert_eq!(fetched.tree.irregular().count(), 0);
    let layout = Local::OciLayout(store.path("layout"), None);
    let only = |path: &str| read(&layout, Selection::Only(vec![path.to_owned()]));
    let device = only("usr/odd/disk").unwrap().tree;
    assert_eq!((device.len(), device.irregular().count()), (0, 1));
    let deleted = only("usr/odd/null").unwrap().tree;
    assert_eq!((deleted.len(), deleted.irregular().count()), (0, 0));
}

#[test]
fn every_compression_gives_the_same() {
    let store = Store::new();
    store.write(&["manifests/csv.yaml", "metadata/annotations.yaml"]);
    store.build(
        "bundle",
        "FROM scratch\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n",
    );
    store.save("bundle");
    let layout = Local::OciLayout(store.path("layout"), None);
    let same = read(&layout, Selection::Natural).unwrap();
    let same = listed(&same.tree);
    for (from, to) in [("oci:layout:v1", "dir:zstd"), ("dir:zstd", "oci:zstd:v1")] {
        let zstd = ["--dest-compress", "--dest-compress-format", "zstd"];
        store.skopeo(&[&["copy"], &zstd[..], &[from, to]].concat());
    }
    let manifest = store.skopeo(&["inspect", "--raw", "oci:zstd:v1"]);
    assert!(manifest.contains("tar+zstd"), "{manifest}");
    for program in ["gzip", "zstd"] {
        for file in ["oci.tar", "docker.tar"] {
            let compressed = store.path(&format!("{file}.{program}"));
            let mut command = Command::new(program);
            command.arg("-c").arg(store.path(file));
            run(command.stdout(fs::File::create(compressed).unwrap()));
        }
    }
    let path = |name: &str| store.path(name);
    for form in [
        Local::OciLayout(path("zstd"), None),
        Local::OciArchive(path("oci.tar.gzip"), None),
        Local::OciArchive(path("oci.tar.zstd"), None),
        Local::DockerArchive(path("docker.tar.gzip"), None),
        Local::DockerArchive(path("docker.tar.zstd"), None),
    ] {
        let fetched =
            read(&form, Selection::Natural).unwrap_or_else(|error| panic!("{form}: {error:?}"));
        assert_eq!(listed(&fetched.tree), same, "{form}");
    }
}
