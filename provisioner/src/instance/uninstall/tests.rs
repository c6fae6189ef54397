use super::*;
use apply::inventory::Entry;

fn inventory(names: &[(&str, &str, &str)]) -> Inventory {
    names
        .iter()
        .map(|(group, kind, name)| {
            let identity = Identity {
                group: (*group).to_owned(),
                kind: (*kind).to_owned(),
                namespace: String::new(),
                name: (*name).to_owned(),
            };
            (identity, Entry::default())
        })
        .collect()
}

#[test]
fn custom_resources_go_first_and_definitions_as_the_policy_says() {
    let inventory = inventory(&[
        ("apps", "Deployment", "operator"),
        ("", "ServiceAccount", "operator"),
        ("", "Namespace", "etcd"),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "etcds.example.com",
        ),
        ("example.com", "Etcd", "sample"),
        ("other.com", "Thing", "thing"),
    ]);
    let kinds = |policy| -> Vec<Vec<String>> {
        stages(&inventory, policy)
            .iter()
            .map(|stage| {
                stage
                    .iter()
                    .map(|leaving| leaving.identity.kind.clone())
                    .collect()
            })
            .collect()
    };
    let others = ["Deployment", "Thing", "ServiceAccount", "Namespace"];
    let own = |stages: Vec<Vec<&str>>| -> Vec<Vec<String>> {
        stages
            .iter()
            .map(|s| s.iter().map(|k| (*k).to_owned()).collect())
            .collect()
    };
    assert_rows! {
        kinds(DefinitionPolicy::DeleteIfUnused) => own(vec![vec!["Etcd"], others.to_vec(), vec!["CustomResourceDefinition"]]);
        kinds(DefinitionPolicy::Delete) => own(vec![vec!["Etcd"], vec!["CustomResourceDefinition"], others.to_vec()]);
        stages(&Inventory::new(), DefinitionPolicy::Delete).iter().all(Vec::is_empty) => true;
    }
}
