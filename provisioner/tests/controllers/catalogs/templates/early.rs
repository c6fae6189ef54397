//! A cluster that comes to a release before its catalog does.

use super::*;

#[tokio::test]
async fn an_annotation_whose_next_image_is_not_there_yet_leaves_what_was_read() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let old = push_documents(&registry, "org/catalog:v36", &tide(&["1.0.0"]), None);
    let template = registry.image("org/catalog:v{kube_minor_version}");
    for (name, annotation) in [("ours", CATALOG_IMAGE_TEMPLATE), ("olms", ANNOTATION)] {
        let annotations = json!({annotation: template});
        let spec = json!({"image": old});
        shelf
            .declare_with("catalogs", name, spec, annotations)
            .await;
    }
    let read = ["catalogs/olms: tide.v1.0.0", "catalogs/ours: tide.v1.0.0"];
    shelf.offers_become("tide", &read).await;
    shelf.cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    let new = registry.image("org/catalog:v37");
    for name in ["olms", "ours"] {
        let source = shelf
            .becomes(name, "told of what is missing", |it| {
                image(it) == new && message(it).contains("org/catalog:v37 does not exist")
            })
            .await;
        assert_eq!(reason(&source), "RegistryServerError");
        let key = format!("catalogs/{name}");
        shelf
            .is_in_trouble(&key, &["org/catalog:v37 does not exist"])
            .await;
    }
    assert_eq!(shelf.offers("tide"), read);
    let versions = ["1.0.0", "1.1.0"];
    push_documents(&registry, "org/catalog:v37", &tide(&versions), None);
    let newer = read.map(|it| format!("{it} tide.v1.1.0"));
    let newer = newer.each_ref().map(String::as_str);
    shelf.offers_become("tide", &newer).await;
}
