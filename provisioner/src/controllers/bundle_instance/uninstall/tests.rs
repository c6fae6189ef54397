use super::*;
use crate::fixtures::identity;
use apply::inventory::Entry;

fn inventory(names: &[(&str, &str, &str)]) -> Inventory {
    let all = names.iter();
    let all = all.map(|(group, kind, name)| identity(group, kind, "", name));
    all.map(|identity| (identity, Entry::default())).collect()
}

#[test]
fn custom_resources_precede_crds_which_follow_the_policy() {
    let inventory = inventory(&::tests::rows![
        "apps", "Deployment" => "operator";
        "", "ServiceAccount" => "operator";
        "", "Namespace" => "etcd";
        "apiextensions.k8s.io", "CustomResourceDefinition" => "etcds.example.com";
        "example.com", "Etcd" => "sample";
        "other.com", "Thing" => "thing";
    ]);
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
