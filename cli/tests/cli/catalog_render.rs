//! `rukpak catalog render`, `render-template` and `migrate`, compared with the real opm where it supports the same.

use tests::{Buildah, DATABASE_LABEL, Registry};

use crate::{
    bundle::Workspace,
    catalog_database::{OLD, write_database},
};

const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";

const CATALOG: &str = "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\n\
    schema: olm.channel\nname: stable\npackage: tide\nentries: [{name: tide}]\n---\n\
    schema: x\nn: 1.50\n";

// parity: render-1, render-9, sqlite-4
#[test]
fn images_are_rendered_as_by_opm() {
    let workspace = Workspace::with_tide();
    workspace.write("catalog/configs/a.yaml", CATALOG);
    write_database(&workspace);
    let registry = Registry::plain();
    let buildah = Buildah::new();
    let publish = |name: &str, labels: &str| {
        let image = registry.image(name);
        let file = format!("FROM scratch\nCOPY catalog /\n{labels}");
        buildah.publish(&file, &workspace.path(""), &image, &[]);
        image
    };
    let bundle = registry.image("tide:v1");
    workspace.ok(&format!("push tide {bundle} --tls-verify=false"));
    let catalog = publish("catalog:v1", &format!("LABEL {CONFIGS}=/configs\n"));
    let label = format!("LABEL {DATABASE_LABEL}=/database/index.db\n");
    let database = publish("database:v1", &format!("COPY index.db /database/\n{label}"));
    let render = |arguments: &str| {
        let run = workspace.ok(&format!("catalog render --tls-verify=false {arguments}"));
        run.out
    };
    for arguments in [
        catalog.clone(),
        format!("{catalog} -o yaml"),
        database.clone(),
        bundle.clone(),
        format!("{bundle} --migrate -o yaml"),
        format!("{bundle} --migrate-level=all"),
    ] {
        tests::assert_rows!(render(&arguments) => workspace.opm(&format!("render --use-http {arguments}")), "{arguments}");
    }
    assert_eq!(render(&format!("docker://{bundle}")), render(&bundle));
    let absent = registry.image("absent:v1");
    for (name, image) in [("template.yaml", &bundle), ("absent.yaml", &absent)] {
        let entry = format!("{{schema: olm.bundle, image: '{image}'}}");
        let template = format!("schema: olm.template.basic\nentries: [{entry}]\n");
        workspace.write(name, template);
    }
    let actual = workspace.ok("catalog render-template --tls-verify=false template.yaml");
    tests::assert_rows!(actual.out => workspace.opm("alpha render-template --use-http template.yaml"));

    let other = publish("other:v1", "LABEL a=b\n");
    let lost = publish("lost:v1", &format!("LABEL {CONFIGS}=/lost\n"));
    tests::assert_runs! { workspace;
        "catalog render --tls-verify=false {database}" => 0, _, "{OLD}";
        "catalog validate --tls-verify=false {database}" => 0, _, "1 package without errors";
        "catalog render-template --tls-verify=false absent.yaml" => 1, "", "render reference", "{absent}";
        "catalog migrate --tls-verify=false {bundle} new" => 1, _, "cannot render bundle image", "not allowed";
        "catalog render --tls-verify=false {other}"
            => 1, "", "render reference", "image type could not be determined, found labels";
        "catalog render --tls-verify=false {lost}"
            => 1, "", "render reference", "directory \"lost\" of image label {CONFIGS} not found";
        "catalog render --tls-verify=false {absent}" => 1, "", "render reference", "absent";
    }
    let file = format!("FROM scratch\nCOPY catalog /\nLABEL {CONFIGS}=/configs\n");
    let built = buildah.build(&file, &workspace.path(""), &[]);
    let layout = workspace.path("layout");
    buildah.push(&built, &format!("oci:{}", layout.display()), &[]);
    assert_eq!(render("oci:layout"), render(&catalog));
}
