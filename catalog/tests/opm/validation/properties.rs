//! Values of properties.

use super::*;

// parity: validate-8
#[test]
fn properties() {
    let of_metadata = tests::rows![
        "minKubeVersion", json!(1.25) => "Go struct field CSVMetadata.minKubeVersion of type string";
        "installModes", json!([]) => "";
        "crdDescriptions", json!({}) => "";
        "minKubeVersion", json!("") => "";
        "annotations", json!({"a": 1}) => "Go struct field CSVMetadata.annotations of type string";
        "labels", json!([]) => "Go struct field CSVMetadata.labels of type map[string]string";
        "keywords", json!([1]) => "Go struct field CSVMetadata.keywords of type string";
        "installModes", json!({}) => "of type []v1alpha1.InstallMode";
        "installModes", json!([{"type": 1}]) => "Go struct field InstallMode.installModes.type of type v1alpha1.InstallModeType";
        "installModes", json!([{"supported": "true"}]) => "Go struct field InstallMode.installModes.supported of type bool";
        "crdDescriptions", json!({"owned": [{"resources": [{"kind": 1}]}]})
            => "APIResourceReference.crdDescriptions.owned.resources.kind";
        "crdDescriptions", json!({"owned": [{"specDescriptors": [{"value": 1, "x-descriptors": [1]}]}]})
            => "SpecDescriptor.crdDescriptions.owned.specDescriptors.x-descriptors";
        "apiServiceDefinitions", json!({"owned": [{"containerPort": 1_u64 << 32}]})
            => "number 4294967296 into Go struct field APIServiceDescription.apiServiceDefinitions.owned.containerPort of type int32";
        "links", json!(["x"]) => "Go struct field CSVMetadata.links of type v1alpha1.AppLink";
        "maintainers", json!([{"email": []}]) => "Go struct field Maintainer.maintainers.email of type string";
        "nativeAPIs", json!([1]) => "Go struct field CSVMetadata.nativeAPIs of type v1.GroupVersionKind";
        "provider", json!("x") => "Go struct field CSVMetadata.provider of type v1alpha1.AppLink";
    ]
    .map(|(field, value, expected)| ("olm.csv.metadata", json!({field: value}), expected));
    let of_others = tests::rows![
        "olm.package.required", json!({"packageName": 1}) => "Go struct field PackageRequired.packageName of type string";
        "olm.package.required", json!({"packageName": "a", "versionRange": "x"}) => "";
        "olm.gvk", json!("x") => "json: cannot unmarshal string into Go value of type property.GVK";
        "olm.gvk", json!(null) => "";
        "olm.gvk.required", json!({"version": 1, "group": true}) => "bool into Go struct field GVKRequired.group of type string";
        "olm.gvk.required", json!(null) => "";
        "olm.gvk.required", json!([]) => "array into Go value of type property.GVKRequired";
        "olm.channel", json!({"channelName": "c", "priority": 1e3}) => "";
        "olm.channel", json!({"priority": 9_007_199_254_740_993_i64}) => "";
        "olm.channel", json!({"channelName": 1}) => "number into Go struct field Channel.channelName of type string";
        "olm.channel", json!({"priority": 1.50}) => "number 1.5 into Go struct field Channel.priority of type int";
        "olm.channel", json!({"priority": 1e19}) => "Go struct field Channel.priority of type int";
        "olm.channel", json!({"priority": "1"}) => "string into Go struct field Channel.priority of type int";
        "olm.csv.metadata", json!({"keywords": ["a"], "labels": {"a": "b"}, "provider": {}, "links": [{}]}) => "";
        // Of several, the first one in sort order.
        "olm.csv.metadata", json!({"provider": 1, "description": 1, "Keywords": 1}) => "CSVMetadata.keywords of type []string";
        // opm decodes no constraint, and no constraint makes it reject a catalog. Our check warns
        // (src/load/tests/facts.rs).
        "olm.constraint", json!({"x": 1}) => "4: bundle*cannot be read by OLM: *";
        "olm.constraint", json!({"cel": {"rule": "1 +"}}) => "4: bundle*cannot be read by OLM: *";
        "olm.constraint", json!({"failureMessage": "x".repeat(200_000)}) => "4: bundle*cannot be read by OLM: *";
        "olm.constraint",
            json!({"all": {"constraints": [{"not": {"constraints": [{"gvk": {"group": "a", "kind": "b", "version": "c"}}]}}]}})
            => "";
    ];
    let one = r#"{"type":"x","value":1}"#;
    let twice = property("x", &json!(1)).replace(one, &format!("{one},{one}"));
    let mut rows = Vec::from(tests::rows![
        "null".to_owned(), with(json!(null)) => "\": unexpected end of JSON input";
        "without a type".to_owned(), with(json!({"value": 1})) => "";
        "twice".to_owned(), twice => "";
    ]);
    for (type_, value, expected) in of_metadata.into_iter().chain(of_others) {
        let row = format!("{type_} {value:.100}");
        rows.push((row, property(type_, &value), expected));
    }
    let start = "4: parse properties for bundle \"foo.v0.2.0\": parse property[1] of type \"";
    for (row, text, expected) in rows {
        let row = format!("E.2 property {row}");
        let found = same(&row, &[("catalog", &text)]);
        let pattern = match expected {
            "" => String::new(),
            warning if warning.starts_with("4: ") => warning.to_owned(),
            part => format!("{start}*{part}*"),
        };
        assert!(matches(&pattern, &found), "{row}: {found}");
    }
}
