use super::*;

fn declared() -> EndpointSpec {
    let owner = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "my.catalog", "uid": "u1",
    });
    EndpointSpec {
        key: CatalogKey::new("catalogs", "my.catalog"),
        owner: serde_json::from_value(owner).unwrap(),
        at: ([10, 1, 2, 3], 20_001).into(),
    }
}

fn service(change: impl FnOnce(&mut Value)) -> Service {
    serde_json::from_value(with!(declared().service() => |service| change(&mut service))).unwrap()
}

fn slice(change: impl FnOnce(&mut Value)) -> EndpointSlice {
    serde_json::from_value(with!(declared().slice() => |slice| change(&mut slice))).unwrap()
}

// parity: serve-3
#[test]
fn catalog_names_become_service_names() {
    assert_rows! {
        service_name("a.b-c.d") => Ok("a-b-c-d".to_owned());
        service_name(&"a".repeat(63)) => Ok("a".repeat(63));
        service_name(&"a".repeat(64)) => Err(64);
        address(&declared().key) => "my-catalog.catalogs.svc:50051";
    }
}

// parity: serve-1
#[test]
fn declared_objects_use_the_port_of_the_pod() {
    let declared = declared();
    assert_rows! {
        declared.slice() => json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "my-catalog-catalog", "namespace": "catalogs",
                "labels": {
                    "core.rukpak.io/catalog": "my.catalog", "app.kubernetes.io/managed-by": "rukpak",
                    "kubernetes.io/service-name": "my-catalog", "endpointslice.kubernetes.io/managed-by": "core.rukpak.io",
                },
                "ownerReferences": [{
                    "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "my.catalog", "uid": "u1",
                }],
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.1.2.3"], "conditions": {"ready": true, "serving": true, "terminating": false},
            }],
            "ports": [{"name": "grpc", "port": 20001, "protocol": "TCP"}],
        });
    }
    let service = declared.service();
    let six = with!(declared => at: "[fd00::1]:20001".parse().unwrap()).slice();
    assert_rows! {
        service["metadata"]["name"] => "my-catalog";
        service["spec"]["ports"] => json!([{"name": "grpc", "port": 50051, "targetPort": 50051, "protocol": "TCP"}]);
        six["addressType"] => "IPv6";
        six["endpoints"][0]["addresses"] => json!(["fd00::1"]);
    }
}

// parity: serve-2
#[test]
fn own_services_are_repaired_and_foreign_ones_kept() {
    let declared = declared();
    let compare = |change: fn(&mut Value)| declared.compare_service(Some(&service(change)));
    assert_eq!(declared.compare_service(None), ObjectState::Missing);
    assert_eq!(compare(|_| {}), ObjectState::UpToDate);
    // Fields that the API server and other clients add are ignored.
    let compared = compare(|object| {
        object["spec"]["clusterIP"] = "10.0.0.1".into();
        object["metadata"]["annotations"] = json!({"a": "b"});
        let more = json!({"name": "more", "port": 1, "protocol": "UDP"});
        object["spec"]["ports"].as_array_mut().unwrap().push(more);
    });
    assert_eq!(compared, ObjectState::UpToDate);
    for change in [
        (|object| object["spec"]["selector"] = json!({"app": "trap"})) as fn(&mut Value),
        |object| object["spec"]["type"] = "LoadBalancer".into(),
        |object| object["spec"]["ports"][0]["port"] = 50052.into(),
        |object| object["spec"]["ports"][0]["name"] = "other".into(),
        |object| object["metadata"]["ownerReferences"][0]["uid"] = "u2".into(),
        |object| object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "me".into(),
        // Without the label, the field manager identifies the creator.
        |object| {
            let labels = object["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove(CATALOG);
            object["metadata"]["managedFields"] =
                json!([{"manager": MANAGER, "operation": "Apply"}]);
        },
    ] {
        assert_rows!(compare(change) => ObjectState::Outdated, "{:?}", service(change));
    }
    // The Service selects the catalog's own pod; during a handover both serve.
    let of_pod = service(|object| {
        object["metadata"]["labels"][CATALOG_POD] = "true".into();
        object["spec"]["selector"] = json!({"olm.catalogSource": "my.catalog"});
    });
    let other = with!(declared.clone() => owner.uid: "u2".to_owned());
    let foreign = other.compare_service(Some(&of_pod));
    assert!(matches!(foreign, ObjectState::Foreign(_)), "{foreign:?}");
    assert_rows! {
        compare(|object| object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()) => ObjectState::Terminating;
        declared.compare_service(Some(&of_pod)) => ObjectState::Shared;
        is_ours(&of_pod, "my.catalog") => false, "and is not removed";
    }
    for (change, text) in ::tests::rows![
        // Objects of OLM, also of the same CatalogSource.
        ((|object| object["metadata"]["labels"] = json!({"olm.managed": "true"})) as fn(&mut Value))
            => "Service catalogs/my-catalog already exists and is not managed by the provisioner";
        |object| object["metadata"]["labels"][CATALOG] = "my-catalog".into()
            => "belongs to CatalogSource my-catalog; rename one of the two CatalogSources";
    ] {
        match compare(change) {
            ObjectState::Foreign(reason) => ::tests::assert_has(reason, text),
            other => panic!("{other:?}"),
        }
    }
}

// parity: serve-5
#[test]
fn endpoint_slices_follow_the_serving_process() {
    let declared = declared();
    let compare = |change: fn(&mut Value)| declared.compare_slice(Some(&slice(change)));
    assert_eq!(declared.compare_slice(None), ObjectState::Missing);
    assert_eq!(compare(|_| {}), ObjectState::UpToDate);
    for change in [
        (|object| object["endpoints"][0]["addresses"] = json!(["10.9.9.9"])) as fn(&mut Value),
        |object| object["endpoints"][0]["conditions"]["ready"] = false.into(),
        |object| object["endpoints"] = json!([]),
        |object| {
            let other = json!({"addresses": ["10.6.6.6"]});
            object["endpoints"].as_array_mut().unwrap().push(other);
        },
        |object| object["ports"][0]["port"] = 20002.into(),
        |object| object["ports"] = json!([]),
        |object| object["metadata"]["labels"]["kubernetes.io/service-name"] = "other".into(),
    ] {
        assert_rows!(compare(change) => ObjectState::Outdated, "{:?}", slice(change));
    }
    // The address family is immutable.
    assert_rows! {
        compare(|one| { one["addressType"] = "IPv6".into(); one["endpoints"][0]["addresses"] = json!(["fd00::1"]); })
            => ObjectState::Recreate;
        matches!(compare(|one| one["metadata"]["labels"] = json!({"kubernetes.io/service-name": "my-catalog"})), ObjectState::Foreign(_))
            => true;
    }
}

#[test]
fn only_endpoints_of_a_former_process_are_stale() {
    let own = slice(|_| {});
    let empty = slice(|object| object["endpoints"] = json!([]));
    assert_rows! {
        has_stale_endpoints(&own, "my.catalog", false) => true;
        // The catalog is offered during the query, and this process serves it.
        has_stale_endpoints(&own, "my.catalog", true) => false;
        has_stale_endpoints(&empty, "my.catalog", false) => false;
        has_stale_endpoints(&own, "another", false) => false;
    }
}
