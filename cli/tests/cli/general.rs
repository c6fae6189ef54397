use crate::bundle::Place;

#[test]
fn the_version_says_which_kubernetes_is_known() {
    let place = Place::new();
    let newest = manifests::version::KubeVersion::NEWEST.to_string();
    let text = place.ok("version").out;
    assert!(
        text.starts_with("rukpak ") && text.contains(&newest),
        "{text}"
    );
    let json = place.ok("version -o json").json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["kubernetes"], newest);
}
