//! `rukpak catalog render-template`, beside the real opm where it can do the same.

use tests::Registry;

use crate::{
    bundle::{Place, csv},
    sources::{Desk, says},
};

const COMMAND: &str = "catalog render-template";

/// Two versions in folders, `old` and `new`.
fn versions(place: &Place) {
    for (folder, version) in [("old", "1.0.0"), ("new", "1.1.0")] {
        let mut csv = csv("tide");
        csv["metadata"]["name"] = format!("tide.v{version}").into();
        csv["spec"]["version"] = version.into();
        csv["spec"].as_object_mut().unwrap().remove("replaces");
        place.bundle(folder, &csv);
    }
}

fn lists(old: &str, new: &str) -> String {
    format!("schema: olm.semver\nstable: {{bundles: [{{image: '{new}'}}, {{image: '{old}'}}]}}\n")
}

#[test]
fn templates_of_images_are_rendered_as_by_opm() {
    let desk = Desk::new();
    versions(&desk.place);
    let registry = Registry::plain();
    let images = ["old", "new"].map(|folder| {
        let image = registry.image(&format!("tide:{folder}"));
        desk.ok(&format!("push {folder} {image} --quiet --tls-verify=false"));
        image
    });
    let [old, new] = &images;
    desk.place.write("t.yaml", lists(old, new));
    desk.place.write(
        "basic.yaml",
        format!("schema: olm.template.basic\nentries: [{{schema: olm.bundle, image: '{old}'}}]\n"),
    );
    for words in [
        "t.yaml",
        "semver t.yaml -o yaml",
        "t.yaml --output=mermaid",
        "t.yaml --migrate-level bundle-object-to-csv-metadata",
        "basic basic.yaml",
        "basic.yaml -o mermaid",
    ] {
        let ours = desk.ok(&format!("{COMMAND} --tls-verify=false {words}"));
        let args = format!("alpha render-template --use-http {words}");
        assert_eq!(ours.out, desk.place.opm(&args), "{words:?}");
    }
    let absent = registry.image("tide:absent");
    desk.place.write("t.yaml", lists(&absent, new));
    let run = desk.fail(&format!("{COMMAND} --tls-verify=false t.yaml"));
    says(&run.err, &["render reference", &absent], &[new.as_str()]);
    assert_eq!(run.out, "");
}
