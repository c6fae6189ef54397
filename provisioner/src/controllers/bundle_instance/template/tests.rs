use serde_json::{Value, json};

use super::*;

fn instance(name: &str, template: &Value) -> BundleInstance {
    object!({
        "metadata": {"name": name, "uid": "u1"},
        "spec": {"provisionerClassName": "core.rukpak.io/plain", "template": template},
    })
}

fn image(reference: &str) -> Value {
    json!({"spec": {"source": {"type": "image", "image": {"ref": reference}}}})
}

#[test]
fn hash_is_documented_and_depends_only_on_the_template() {
    // printf '%s' '{"annotations":null,"labels":null,"spec":{"provisionerClassName":"core.rukpak.io/plain","source":
    // {"image":{"ref":"example.com/a:1"},"type":"image"}}}' | sha256sum | cut -c1-40, without the line break
    let base = "682509083659fdf7195e8faf92c6b0c1dc2a75b4";
    // printf '%s' '{"annotations":null,"labels":null,"spec":{"provisionerClassName":"core.rukpak.io/plain","source":
    // {"type":"upload","upload":{}}}}' | sha256sum | cut -c1-40, without the line break
    let uploaded = "f0457d9f5cb5155cc4f94518a338dcc435585e6b";
    let hash_of = |name, template| hash(&instance(name, &template));
    let upload = |upload: Value| json!({"spec": {"source": {"type": "upload", "upload": upload}}});
    let plain = || image("example.com/a:1");
    let same = with!(plain() => |same| same["metadata"] = json!({"labels": {}, "annotations": {}});
        same["spec"]["provisionerClassName"] = json!("core.rukpak.io/plain"));
    assert_rows! {
        hash_of("a", plain()) => base;
        hash_of("b", same) => base;
        hash_of("a", upload(json!({}))) => uploaded;
        // An upload without a digest keeps its hash.
        hash_of("a", upload(json!({"digest": null}))) => uploaded;
    }
    for other in [
        image("example.com/a:2"),
        with!(plain() => |labeled| labeled["metadata"] = json!({"labels": {"a": "b"}})),
        with!(plain() => |class| class["spec"]["provisionerClassName"] = json!("core.rukpak.io/registry")),
        upload(json!({"digest": "sha256:0"})),
    ] {
        let hash = hash_of("a", other);
        assert!(hash != base && hash != uploaded, "{hash}");
    }
}

#[test]
fn bundle_names_are_valid_for_every_instance_name() {
    let long = format!("{}.{}", "x".repeat(37), "y".repeat(7));
    for name in ["a", "a.b", &"x".repeat(45), &long] {
        let instance = instance(name, &image("example.com/a:1"));
        let hash = hash(&instance);
        let mut all: Vec<String> = bundle_names(&instance, &hash).collect();
        for made in &all {
            assert!(made.len() <= MAX_NAME_LEN, "{made}");
            assert_eq!(names::dns_subdomain(made), Ok(()), "{made}");
            let bundle = bundle(&instance, &hash, made);
            assert_eq!(bundle.name_any(), *made);
            assert!(belongs_to(&bundle, &instance));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), usize::from(MAX_NAMES), "{all:?}");
    }
    // Long names that differ in the last character, and are cut to the same, have different Bundles.
    let [one, two] = ["a", "b"].map(|end| {
        let name = format!("{}{end}", "x".repeat(44));
        let instance = instance(&name, &image("example.com/a:1"));
        bundle_names(&instance, &hash(&instance)).collect::<Vec<_>>()
    });
    assert_rows!(one.iter().all(|name| !two.contains(name)) => true, "{one:?} {two:?}");
    // An older provisioner made its Bundles under the first name.
    let existing = instance("a", &image("example.com/a:1"));
    let all = || -> Vec<String> { bundle_names(&existing, &hash(&existing)).collect() };
    let (first, again) = (all(), all());
    let distinct = ["a", "682509083659fdf7195e8faf92c6b0c1dc2a75b4"];
    assert_eq!(first[0], names::generate_name("a", &distinct, MAX_NAME_LEN));
    assert_eq!(first[0], again[0]);
    // The other names are not predictable.
    assert!(first[1..].iter().all(|name| !again.contains(name)));
}

#[test]
fn orphaned_bundle_is_found_by_its_labels() {
    let instance = instance("a", &image("example.com/a:1"));
    let own = bundle(&instance, &hash(&instance), "a-1");
    let mut orphan = own.clone();
    orphan.metadata.owner_references = None;
    let (mut foreign, mut strange) = (own.clone(), orphan.clone());
    for owner in foreign.metadata.owner_references.iter_mut().flatten() {
        owner.uid = "u2".to_owned();
    }
    strange.labels_mut().remove(labels::TEMPLATE_HASH);
    assert_rows!([&own, &orphan, &foreign, &strange].map(|bundle| belonged_to(bundle, &instance)) => [true, true, false, false]);
    // Bundles are released all at once, and Bundles of other instances do not count.
    let [own, orphan, foreign] = [own, orphan, foreign].map(Arc::new);
    assert_each!(|bundles, expected| are_released(&instance, &bundles) => expected;
        vec![] => false;
        vec![orphan.clone()] => true;
        vec![orphan.clone(), foreign.clone()] => true;
        vec![orphan, own] => false;
        vec![foreign] => false;
    );
}

#[test]
fn reference_needs_group_kind_uid_and_controller() {
    type Change = fn(&mut OwnerReference);
    let instance = instance("a", &image("example.com/a:1"));
    let own = bundle(&instance, &hash(&instance), "a-1");
    let table: [(Change, bool); 6] = ::tests::rows![
        |_| {} => true;
        |owner| owner.api_version = "core.rukpak.io/v2".to_owned() => true;
        |owner| owner.api_version = "example.com/v1".to_owned() => false;
        |owner| owner.kind = "Bundle".to_owned() => false;
        |owner| owner.uid = "u2".to_owned() => false;
        |owner| owner.controller = Some(false) => false;
    ];
    for (number, (change, expected)) in table.into_iter().enumerate() {
        let mut bundle = own.clone();
        change(&mut bundle.metadata.owner_references.as_mut().unwrap()[0]);
        assert_eq!(refers_to(&bundle, &instance), expected, "{number}");
    }
}

#[test]
fn template_cannot_set_reserved_labels() {
    let mut template = image("example.com/a:1");
    template["metadata"] = json!({"labels": {
        labels::OWNER_NAME: "other", labels::OWNER_KIND: "Bundle", labels::TEMPLATE_HASH: "0", "app": "a",
    }});
    assert_each!(|label, value| bundle(&instance("a", &template), "1", "a-1").labels()[label] => value;
        labels::OWNER_NAME => "a";
        labels::OWNER_KIND => "BundleInstance";
        labels::TEMPLATE_HASH => "1";
        "app" => "a";
    );
}

#[test]
fn oldest_failing_bundles_are_deleted_first() {
    let created = ["installed", "good", "older", "newer", "desired"];
    let phases = "Unpacked Unpacked Failing Failing Pending Unpacked".split(' ');
    let all = created.into_iter().chain(["foreign"]).zip(phases);
    let all = all.enumerate().map(|(age, (name, phase))| -> Bundle {
        object!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z")},
            "spec": {"source": {"type": "upload"}}, "status": {"phase": phase},
        })
    });
    let all: Vec<Bundle> = all.collect();
    let all: Vec<&Bundle> = all.iter().collect();
    let names = |max| -> Vec<String> {
        let surplus = excess_bundles(&all, &["installed", "desired"], &created, max);
        surplus.iter().map(|bundle| bundle.name_any()).collect()
    };
    assert_each!(|max, expected| names(max).join(" ") => expected;
        4 => "";
        3 => "foreign";
        2 => "foreign older";
        1 => "foreign older newer";
        0 => "foreign older newer good";
    );
}
