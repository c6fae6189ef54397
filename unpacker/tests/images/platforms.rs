//! Selection of one image among several.

use crate::*;

#[test]
fn names_digests_and_platforms_choose_an_image() {
    let files = "manifests/one other/two";
    let one = "FROM scratch\nCOPY manifests /manifests/\n";
    let two = "FROM scratch\nCOPY other /manifests/\n";
    let app = "registry.example/org/app";
    let store = Store::new(files, &[("one", one), ("two", two)]);
    let push = |image: &str, to: &str| store.buildah(&["push", "-q", image, to]);
    push("one", "oci:layout:one");
    push("two", &format!("oci:layout:{app}:two"));
    push("one", &format!("docker-archive:single.tar:{app}:one"));
    push("one", "oci-archive:oci.tar");
    store.buildah(&["manifest", "create", "list"]);
    for (image, arch) in [("one", "s390x"), ("two", "arm64")] {
        let platform = ["--arch", arch, "--os", "linux"];
        store.buildah(&[&["manifest", "add"], &platform[..], &["list", image]].concat());
    }
    store.buildah(&["manifest", "push", "-q", "--all", "list", "oci:index:v1"]);

    let rows = r#"
        # form, path, name, platform, paths or the message
        no name        | oci | layout | | | *the source contains several images; append one of these names to the path: one, registry.example/org/app:two
        name           | oci | layout | one | | manifests/one
        tag            | oci | layout | two | | manifests/two
        short name     | oci | layout | app:two | | manifests/two
        unknown name   | oci | layout | three | | *image "three" not found; use one of: one, registry*
        s390x          | oci | index | v1 | linux/s390x | manifests/one
        arm64          | oci | index | v1 | linux/arm64 | manifests/two
        # The first, on every machine.
        no platform    | oci | index | v1 | | manifests/one
        other platform | oci | index | v1 | linux/riscv64 | *no image for "linux/riscv64"; choose one of: linux/*
        single         | docker-archive | single.tar | | | manifests/one
        its name       | docker-archive | single.tar | registry.example/org/app:one | | manifests/one
        its tag        | docker-archive | single.tar | one | | manifests/one
        other tag      | docker-archive | single.tar | two | | *image "two" not found; use one of: registry.example/org/app:one*
        docker as OCI  | oci-archive | single.tar | | | *not a valid OCI layout: "index.json" not found; check the path, or use docker-archive:*
        OCI as docker  | docker-archive | oci.tar | | | *not a valid docker archive: "manifest.json" not found; check the path, or use oci-archive:*
        file as layout | oci | oci.tar | | | *use oci-archive: or docker-archive: before the path of a file*
        other directory | oci | manifests | | | *"index.json" not found*
        layout as file | oci-archive | layout | | | *neither a directory nor a file*
        nothing        | oci-archive | none | | | *No such file*
        other file     | oci-archive | Dockerfile | | | *not a tar archive*
    "#;
    let run = |[form, path, name, platform]: &[Cell; 4]| {
        let filled = |cell: &Cell| Some(cell.text()).filter(|text| !text.is_empty());
        let (path, name) = (store.path(path.raw()), filled(name));
        let form = match form.raw() {
            "oci" => Local::OciLayout(path, name),
            "oci-archive" => Local::OciArchive(path, name),
            _ => Local::DockerArchive(path, name),
        };
        match local::image(&form, filled(platform).as_deref(), &Options::default()) {
            Ok(fetched) => listed(&fetched.tree).1.join(" "),
            Err(error) => chain(&error),
        }
    };
    table::compare(rows, &Values::default(), run);

    let layout = |name: &str| Local::OciLayout(store.path("layout"), Some(name.to_owned()));
    let fetched = read(&layout("one"), Selection::Default);
    let digest = fetched.digest.unwrap().to_string();
    assert_eq!(fetched.resolved, Source::Local(layout(&digest)));
    let again = read(&layout(&digest), Selection::Default);
    assert_rows!((again.digest, crate::listed(&again.tree)) => (fetched.digest, crate::listed(&fetched.tree)));
}
