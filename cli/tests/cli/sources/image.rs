//! Images of real builders, in registries and in files.

use std::path::Path;

use tests::{Buildah, Registry};

use super::Desk;

const PLAIN: &[&str] = &["--tls-verify=false"];

#[test]
fn layouts_and_archives_of_a_real_builder() {
    let desk = Desk::new();
    let buildah = Buildah::new();
    let image = buildah.build("FROM scratch\nCOPY . /\n", &desk.place.path("tide"), &[]);
    let at = |name: &str| desk.place.path(name).to_str().unwrap().to_owned();
    for (to, source) in [
        ("oci:{}layout:v1", "oci:layout:v1"),
        ("oci:{}single", "oci:single"),
        ("oci-archive:{}archive.tar:v1", "oci-archive:archive.tar:v1"),
        ("oci-archive:{}archive.tar:v1", "oci-archive:archive.tar"),
        (
            "docker-archive:{}docker.tar:tide:v1",
            "docker-archive:docker.tar:tide:v1",
        ),
        (
            "docker-archive:{}docker.tar:tide:v1",
            "docker-archive:docker.tar",
        ),
    ] {
        let _ = std::fs::remove_file(desk.place.path("archive.tar"));
        let _ = std::fs::remove_file(desk.place.path("docker.tar"));
        buildah.push(&image, &to.replace("{}", &at("")), &[]);
        desk.resolves(source, &[], &[]);
    }
}

#[test]
fn images_of_every_format_and_compression() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let buildah = Buildah::new();
    let image = buildah.build("FROM scratch\nCOPY . /\n", &desk.place.path("tide"), &[]);
    for flags in [
        &["--format=oci"][..],
        &["--format=v2s2"],
        &["--format=oci", "--compression-format=zstd"],
        &["--format=oci", "--disable-compression"],
    ] {
        let tag = format!("tide:{}", flags.concat().replace(['=', '-'], ""));
        let name = registry.image(&tag);
        buildah.push(
            &image,
            &format!("docker://{name}"),
            &[flags, PLAIN].concat(),
        );
        desk.resolves(&name, PLAIN, &[]);
    }
}

/// A bundle on top of a system, whose leftovers a layer removes.
#[test]
fn layers_remove_what_others_added() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let buildah = Buildah::new();
    let base = buildah.base();
    let file = format!(
        "FROM {base}\n\
         COPY manifests /manifests\n\
         COPY metadata/annotations.yaml /manifests/leftover.yaml\n\
         RUN rm /manifests/leftover.yaml\n\
         COPY metadata/annotations.yaml /metadata/deeper/leftover.yaml\n\
         RUN rm -r /metadata\n\
         COPY metadata /metadata\n"
    );
    let image = buildah.build(&file, &desk.place.path("tide"), &["--layers"]);
    let name = registry.image("tide:v1");
    buildah.push(&image, &format!("docker://{name}"), PLAIN);
    let resolved = desk.resolves(&name, PLAIN, &[]);
    assert!(resolved.contains("@sha256:"));
    let run = desk
        .run(&["unpack", &name, PLAIN[0], "--all", "-o", "whole"])
        .exits(0);
    assert!(desk.place.path("whole/usr/bin/sh").is_file(), "{run:?}");
    assert!(!Path::new(&desk.place.path("whole/manifests/leftover.yaml")).exists());
}

#[test]
fn an_index_gives_the_platform_that_is_asked_for() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let buildah = Buildah::new();
    desk.place.good("wave");
    let name = registry.image("index:v1");
    buildah.run(&["manifest", "create", "list"]);
    for (folder, arch) in [("wave", "s390x"), ("tide", "arm64")] {
        let arch = format!("--arch={arch}");
        let image = buildah.build(
            "FROM scratch\nCOPY . /\n",
            &desk.place.path(folder),
            &[&arch],
        );
        buildah.run(&["manifest", "add", &arch, "list", &image]);
    }
    buildah.run(&[
        "manifest",
        "push",
        "--all",
        PLAIN[0],
        "list",
        &format!("docker://{name}"),
    ]);
    desk.resolves(&name, &[PLAIN[0], "--platform", "linux/arm64"], &[]);
    let message = desk.fails(&name, &[PLAIN[0], "--platform", "linux/riscv64"], &[]);
    super::says(
        &message,
        &["linux/riscv64", "linux/arm64", "linux/s390x"],
        &[],
    );
}
