//! `rukpak catalog render` and `migrate`, beside the real opm where it can do the same.

use tests::{Buildah, DATABASE_LABEL, Registry};

use crate::sources::{Desk, PLAIN, says};

const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";

const CATALOG: &str = "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\n\
    schema: olm.channel\nname: stable\npackage: tide\nentries: [{name: tide}]\n---\n\
    schema: x\nn: 1.50\n";

// parity: render-1, render-9
#[test]
fn images_are_rendered_as_by_opm() {
    let desk = Desk::new();
    desk.place.write("catalog/configs/a.yaml", CATALOG);
    desk.place.write("catalog/other/a.yaml", "schema: other\n");
    let registry = Registry::plain();
    let buildah = Buildah::new();
    let publish = |name: &str, labels: &str| {
        let image = registry.image(name);
        let file = format!("FROM scratch\nCOPY catalog /\n{labels}");
        buildah.publish(&file, &desk.place.path(""), &image, &[]);
        image
    };
    let bundle = registry.image("tide:v1");
    desk.push(&bundle, PLAIN, &[]);
    let catalog = publish("catalog:v1", &format!("LABEL {CONFIGS}=/configs\n"));
    let render = |words: &str| desk.run(&format!("catalog render {PLAIN} {words}"));
    for words in [
        catalog.clone(),
        format!("{catalog} -o yaml"),
        bundle.clone(),
        format!("{bundle} --migrate -o yaml"),
        format!("{bundle} --migrate-level=all"),
    ] {
        let expected = desk.place.opm(&format!("render --use-http {words}"));
        assert_eq!(render(&words).exits(0).out, expected, "{words}");
    }
    let expected = render(&bundle).exits(0).out;
    assert_eq!(render(&format!("docker://{bundle}")).exits(0).out, expected);
    let migrated = desk.fail(&format!("catalog migrate --tls-verify=false {bundle} new"));
    migrated.err_has("cannot render bundle image");
    migrated.err_has("not allowed");

    let root = publish("root:v1", &format!("LABEL {CONFIGS}=/\n"));
    let out = render(&root).exits(0).out;
    says(&out, &["\"schema\": \"other\"", "\"name\": \"tide\""], &[]);
    for (image, part) in tests::rows![
        publish("none:v1", "") => "image type could not be determined";
        publish("other:v1", "LABEL a=b\n") => "image type could not be determined, found labels";
        publish("lost:v1", &format!("LABEL {CONFIGS}=/lost\n")) => "names the folder \"lost\", which is not there";
        publish("old:v1", &format!("LABEL {DATABASE_LABEL}=/index.db\n")) => "names the file \"index.db\", which is not there";
        registry.image("absent:v1") => "absent";
    ] {
        let run = render(&image).exits(1);
        says(&run.err, &["render reference", part], &[]);
        assert_eq!(run.out, "");
    }
    let file = format!("FROM scratch\nCOPY catalog /\nLABEL {CONFIGS}=/configs\n");
    let built = buildah.build(&file, &desk.place.path(""), &[]);
    let layout = desk.place.path("layout");
    buildah.push(&built, &format!("oci:{}", layout.display()), &[]);
    let expected = render(&catalog).exits(0).out;
    assert_eq!(render("oci:layout").exits(0).out, expected);
}
