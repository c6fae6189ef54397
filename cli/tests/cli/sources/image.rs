//! Images of real builders, in registries and in files.

use tests::{Buildah, Registry};

use super::{Desk, PLAIN};

#[test]
fn an_index_gives_the_platform_that_is_asked_for() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let buildah = Buildah::new();
    desk.place.good("wave");
    let name = registry.image("index:v1");
    buildah.run(&["manifest", "create", "list"]);
    for (folder, arch) in [("wave", "s390x"), ("tide", "arm64")] {
        let (arch, folder) = (format!("--arch={arch}"), desk.place.path(folder));
        let image = buildah.build("FROM scratch\nCOPY . /\n", &folder, &[&arch]);
        buildah.run(&["manifest", "add", &arch, "list", &image]);
    }
    let to = format!("docker://{name}");
    buildah.run(&["manifest", "push", "--all", PLAIN, "list", &to]);
    desk.resolves(&name, "--tls-verify=false --platform linux/arm64", &[]);
    let known = ["linux/riscv64", "linux/arm64", "linux/s390x"];
    desk.refuses(&name, "--tls-verify=false --platform linux/riscv64", &known);
}
