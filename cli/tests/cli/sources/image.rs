//! Images of real builders, in registries and in files.

use tests::{Buildah, Registry};

use super::Desk;

const PLAIN: &[&str] = &["--tls-verify=false"];

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
