//! `rukpak catalog` with catalogs in images.

use tests::{Buildah, Registry};

use crate::bundle::Place;

/// A package of three versions in two channels, as `opm` would write it.
pub(crate) const CATALOG: &str = include_str!("../../../examples/catalog/tidewatch/catalog.yaml");

#[test]
fn images_are_catalogs_too() {
    let place = Place::new();
    place.write("catalog/tidewatch/catalog.yaml", CATALOG);
    let registry = Registry::plain();
    let image = registry.image("org/catalog:v1");
    place.write("junk", "[");
    let file = "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY catalog /configs\nCOPY junk /junk\n";
    Buildah::new().publish(file, &place.path("."), &image, &[]);
    let run = place.ok(&format!("catalog list packages {image} --tls-verify=false"));
    run.out_has("tidewatch  stable");
}
