use super::*;
use crate::fixtures::identity;
use apply::inventory::Entry;

#[test]
fn custom_resources_precede_crds_which_follow_the_policy() {
    let objects = ::tests::rows![
        "apps", "Deployment" => "operator";
        "", "ServiceAccount" => "operator";
        "", "Namespace" => "etcd";
        "apiextensions.k8s.io", "CustomResourceDefinition" => "etcds.example.com";
        "example.com", "Etcd" => "sample";
        "other.com", "Thing" => "thing";
    ];
    let entry = |(group, kind, name)| (identity(group, kind, "", name), Entry::default());
    let inventory = Inventory::from(objects.map(entry));
    let kinds = |policy| {
        let stages = stages(&inventory, policy).into_iter().map(|stage| {
            let kinds = stage.iter().map(|leaving| leaving.identity.kind.as_str());
            kinds.collect::<Vec<_>>().join(" ")
        });
        stages.collect::<Vec<_>>()
    };
    let others = "Deployment Thing ServiceAccount Namespace";
    assert_rows!(kinds(DefinitionPolicy::DeleteIfUnused) => ["Etcd", others, "CustomResourceDefinition"]);
    assert_rows!(kinds(DefinitionPolicy::Delete) => ["Etcd", "CustomResourceDefinition", others]);
    assert_rows!(stages(&Inventory::new(), DefinitionPolicy::Delete).iter().all(Vec::is_empty) => true);
}

#[test]
fn events_name_twenty_released_objects_and_count_the_others() {
    let notes = |count: usize| {
        let names: Vec<String> = (10..10 + count).map(|n| format!("object-{n}")).collect();
        let released = |name: &String| (identity("", "Secret", "", name), "a reason".to_owned());
        let pruned = PruneReport {
            released: names.iter().map(released).collect(),
            ..PruneReport::default()
        };
        let notes = released_notes(&pruned);
        (notes.len(), notes.last().cloned())
    };
    let last = |text: &str| Some(text.to_owned());
    assert_rows! {
        notes(0) => (0, None);
        notes(20) => (20, last("Secret object-29 is kept: a reason"));
        notes(21) => (21, last("1 more object is kept"));
        notes(60) => (21, last("40 more objects are kept"));
    }
}
