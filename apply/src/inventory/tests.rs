use super::*;

fn identity(group: &str, kind: &str, namespace: &str, name: &str) -> Identity {
    Identity {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn sample(objects: usize) -> Inventory {
    (0..objects)
        .map(|n| {
            let group = ["", "apps"][n % 2];
            let namespace = ["", "etcd"][n / 2 % 2];
            // Names of roles may have spaces, and look like fingerprints.
            let name = [
                "n",
                "n ",
                "n 0f1e2d3c4b5a ",
                "0f1e2d3c4b5a 0f1e2d3c4b+recreate",
            ][n % 4];
            let entry = Entry {
                version: "v1".to_owned(),
                fields: (n % 3 == 0).then(|| "0f1e2d3c4b5a".parse().unwrap()),
                recreating: n % 5 == 0,
            };
            (
                identity(group, "Kind", namespace, &format!("{name}{n:02}")),
                entry,
            )
        })
        .collect()
}

#[test]
fn what_is_listed_reads_back_whatever_the_pieces() {
    for objects in [0, 1, 7, 100] {
        for most in [1, 3, 1000] {
            let inventory = sample(objects);
            let pieces = list(&inventory, most);
            let counts: Vec<usize> = pieces
                .iter()
                .map(|kinds| kinds.iter().map(|kind| kind.objects.len()).sum())
                .collect();
            assert!(counts.iter().all(|count| *count <= most), "{counts:?}");
            let read: Inventory = pieces.iter().flat_map(|kinds| parse(kinds)).collect();
            assert_eq!(read, inventory, "{objects} in pieces of {most}");
        }
    }
}

#[test]
fn an_inventory_is_easy_to_read() {
    let fields = Some("0f1e2d3c4b5a".parse().unwrap());
    let entry = |version: &str, fields| Entry {
        version: version.to_owned(),
        fields,
        recreating: false,
    };
    let recreated = Entry {
        recreating: true,
        ..entry("v1", fields)
    };
    let inventory = Inventory::from([
        (
            identity("apps", "Deployment", "etcd", "operator"),
            entry("v1", fields),
        ),
        (identity("apps", "Deployment", "etcd", "server"), recreated),
        (identity("", "Namespace", "", "etcd"), entry("v1", None)),
    ]);
    let mut pieces = list(&inventory, MOST_LISTED);
    let status = listed(inventory.len(), &mut pieces);
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        serde_json::json!({"count": 3, "kinds": [
            {"apiVersion": "v1", "kind": "Namespace", "objects": ["etcd"]},
            {"apiVersion": "apps/v1", "kind": "Deployment", "objects": [
                "etcd/operator 0f1e2d3c4b5a", "etcd/server 0f1e2d3c4b5a+recreate",
            ]},
        ]})
    );
    assert!(pieces.is_empty());
}
