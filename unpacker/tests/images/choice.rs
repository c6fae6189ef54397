//! Which image of several is read.

use unpacker::{Options, Selection, Source, local, source::Local};

use crate::{buildah::Store, read};

fn store() -> Store {
    let store = Store::new();
    store.write(&["manifests/one", "other/two"]);
    store.build("one", "FROM scratch\nCOPY manifests /manifests/\n");
    store.build("two", "FROM scratch\nCOPY other /manifests/\n");
    for (image, name) in [("one", "one"), ("two", "registry.example/org/app:two")] {
        store.buildah(&["push", "-q", image, &format!("oci:layout:{name}")]);
    }
    store
}

fn paths(local: &Local, platform: Option<&str>) -> Result<String, String> {
    let fetched = local::image(local, platform, &Options::default()).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    let paths: Vec<_> = fetched
        .tree
        .files()
        .map(|(path, _)| path.to_owned())
        .collect();
    Ok(paths.join(" "))
}

#[test]
fn a_name_or_a_digest_chooses_between_images_in_a_layout() {
    let store = store();
    let layout = |name: &str| Local::OciLayout(store.path("layout"), Some(name.to_owned()));
    let none = Local::OciLayout(store.path("layout"), None);
    assert_eq!(
        paths(&none, None),
        Err("there are several images; name one of them behind the path: one, registry.example/org/app:two".to_owned())
    );
    assert_eq!(paths(&layout("one"), None).unwrap(), "manifests/one");
    assert_eq!(paths(&layout("two"), None).unwrap(), "manifests/two");
    assert_eq!(paths(&layout("app:two"), None).unwrap(), "manifests/two");
    let error = paths(&layout("three"), None).unwrap_err();
    assert!(
        error.contains("no image \"three\"; choose one of: one, registry"),
        "{error}"
    );

    let fetched = read(&layout("one"), Selection::Natural).unwrap();
    let digest = fetched.digest.unwrap().to_string();
    let Source::Local(pinned @ Local::OciLayout(_, Some(_))) = &fetched.resolved else {
        panic!("{:?}", fetched.resolved);
    };
    assert_eq!(*pinned, layout(&digest));
    assert_eq!(paths(pinned, None).unwrap(), "manifests/one");
}

#[test]
fn an_index_of_platforms_gives_the_one_that_is_asked_for() {
    let store = store();
    store.buildah(&["manifest", "create", "list"]);
    for (image, platform) in [("one", "s390x"), ("two", "arm64")] {
        store.buildah(&[
            "manifest", "add", "--arch", platform, "--os", "linux", "list", image,
        ]);
    }
    store.buildah(&["manifest", "push", "-q", "--all", "list", "oci:index:v1"]);
    let index = Local::OciLayout(store.path("index"), Some("v1".to_owned()));
    assert_eq!(paths(&index, Some("linux/s390x")).unwrap(), "manifests/one");
    assert_eq!(paths(&index, Some("linux/arm64")).unwrap(), "manifests/two");
    assert_eq!(
        paths(&index, None).unwrap(),
        "manifests/one",
        "the first, on every machine"
    );
    let error = paths(&index, Some("linux/riscv64")).unwrap_err();
    assert!(
        error.contains("no image for \"linux/riscv64\"; choose one of: linux/"),
        "{error}"
    );
}

#[test]
fn a_tag_chooses_between_images_in_a_docker_archive() {
    let store = store();
    for (image, name) in [
        ("one", "registry.example/org/app:one"),
        ("two", "registry.example/org/app:two"),
    ] {
        store.buildah(&["tag", image, name]);
    }
    store.buildah(&[
        "push",
        "-q",
        "one",
        "docker-archive:single.tar:registry.example/org/app:one",
    ]);
    let single = |name: Option<&str>| {
        Local::DockerArchive(store.path("single.tar"), name.map(str::to_owned))
    };
    assert_eq!(paths(&single(None), None).unwrap(), "manifests/one");
    assert_eq!(
        paths(&single(Some("registry.example/org/app:one")), None).unwrap(),
        "manifests/one"
    );
    assert_eq!(paths(&single(Some("one")), None).unwrap(), "manifests/one");
    let error = paths(&single(Some("two")), None).unwrap_err();
    assert!(
        error.contains("no image \"two\"; choose one of: registry.example/org/app:one"),
        "{error}"
    );
}

#[test]
fn the_wrong_scheme_says_which_is_right() {
    let store = store();
    store.buildah(&["push", "-q", "one", "docker-archive:docker.tar"]);
    store.buildah(&["push", "-q", "one", "oci-archive:oci.tar"]);
    let cases = [
        (
            Local::OciArchive(store.path("docker.tar"), None),
            "there is no \"index.json\", so this is no OCI layout; check the path, or write docker-archive:",
        ),
        (
            Local::DockerArchive(store.path("oci.tar"), None),
            "there is no \"manifest.json\", so this is no docker archive; check the path, or write oci-archive:",
        ),
        (
            Local::OciLayout(store.path("oci.tar"), None),
            "write oci-archive: or docker-archive: before the path of a file",
        ),
        (
            Local::OciLayout(store.path("manifests"), None),
            "there is no \"index.json\"",
        ),
        (
            Local::OciArchive(store.path("layout"), None),
            "neither a folder nor a file",
        ),
        (Local::OciArchive(store.path("none"), None), "No such file"),
        (
            Local::OciArchive(store.path("Dockerfile"), None),
            "neither a tar nor",
        ),
    ];
    for (form, expected) in cases {
        let error = local::image(&form, None, &Options::default()).unwrap_err();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        assert!(
            text.contains(expected),
            "\n found {text}\nwanted {expected}"
        );
    }
}
