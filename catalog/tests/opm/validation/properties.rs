//! What properties hold.

use super::*;

// parity: validate-8
#[test]
fn properties() {
    let metadata = |field: &str, value: Value| of("olm.csv.metadata", &json!({field: value}));
    let start = "4: parse properties for bundle \"foo.v0.2.0\": parse property[1] of type \"";
    for (row, text, expected) in tests::rows![
        "E.2 property olm.package.required", of("olm.package.required", &json!({"packageName": 1}))
            => "Go struct field PackageRequired.packageName of type string";
        "E.2 property olm.package.required a range",
            of("olm.package.required", &json!({"packageName": "a", "versionRange": "x"})) => "";
        "E.2 property olm.gvk", of("olm.gvk", &json!("x"))
            => "json: cannot unmarshal string into Go value of type property.GVK";
        "E.2 property olm.gvk null", of("olm.gvk", &json!(null)) => "";
        "E.2 property olm.gvk.required", of("olm.gvk.required", &json!({"version": 1, "group": true}))
            => "bool into Go struct field GVKRequired.group of type string";
        "E.2 property olm.channel", of("olm.channel", &json!({"channelName": "c", "priority": 1e3})) => "";
        "E.2 property olm.channel a fraction", of("olm.channel", &json!({"priority": 1.50}))
            => "number 1.5 into Go struct field Channel.priority of type int";
        "E.2 property olm.channel out of range", of("olm.channel", &json!({"priority": 1e19}))
            => "Go struct field Channel.priority of type int";
        "E.2 property olm.channel a text", of("olm.channel", &json!({"priority": "1"}))
            => "string into Go struct field Channel.priority of type int";
        "E.2 property olm.csv.metadata", metadata("minKubeVersion", json!(1.25))
            => "Go struct field CSVMetadata.minKubeVersion of type string";
        "E.2 property olm.csv.metadata of its types",
            of("olm.csv.metadata", &json!({"keywords": ["a"], "labels": {"a": "b"}, "provider": {}, "links": [{}]})) => "";
        "E.2 property olm.csv.metadata no modes", metadata("installModes", json!([]))
            => "";
        "E.2 property olm.csv.metadata no definitions", metadata("crdDescriptions", json!({})) => "";
        "E.2 property olm.csv.metadata no version", metadata("minKubeVersion", json!("")) => "";
        "E.2 property olm.gvk.required null", of("olm.gvk.required", &json!(null)) => "";
        "E.2 property olm.gvk.required a list", of("olm.gvk.required", &json!([]))
            => "array into Go value of type property.GVKRequired";
        "E.2 property olm.channel a name", of("olm.channel", &json!({"channelName": 1}))
            => "number into Go struct field Channel.channelName of type string";
        "E.2 property olm.csv.metadata annotations", metadata("annotations", json!({"a": 1}))
            => "Go struct field CSVMetadata.annotations of type string";
        "E.2 property olm.csv.metadata labels", metadata("labels", json!([]))
            => "Go struct field CSVMetadata.labels of type map[string]string";
        "E.2 property olm.csv.metadata keywords", metadata("keywords", json!([1]))
            => "Go struct field CSVMetadata.keywords of type string";
        "E.2 property olm.csv.metadata modes", metadata("installModes", json!({})) => "of type []v1alpha1.InstallMode";
        "E.2 property olm.csv.metadata a mode", metadata("installModes", json!([{"type": 1}]))
            => "Go struct field InstallMode.installModes.type of type v1alpha1.InstallModeType";
        "E.2 property olm.csv.metadata support", metadata("installModes", json!([{"supported": "true"}]))
            => "Go struct field InstallMode.installModes.supported of type bool";
        "E.2 property olm.csv.metadata definitions",
            metadata("crdDescriptions", json!({"owned": [{"resources": [{"kind": 1}]}]}))
            => "APIResourceReference.crdDescriptions.owned.resources.kind";
        "E.2 property olm.csv.metadata descriptors",
            metadata("crdDescriptions", json!({"owned": [{"specDescriptors": [{"value": 1, "x-descriptors": [1]}]}]}))
            => "SpecDescriptor.crdDescriptions.owned.specDescriptors.x-descriptors";
        "E.2 property olm.csv.metadata services",
            metadata("apiServiceDefinitions", json!({"owned": [{"containerPort": 1_u64 << 32}]}))
            => "number 4294967296 into Go struct field APIServiceDescription.apiServiceDefinitions.owned.containerPort of type int32";
        "E.2 property olm.csv.metadata links", metadata("links", json!(["x"]))
            => "Go struct field CSVMetadata.links of type v1alpha1.AppLink";
        "E.2 property olm.csv.metadata people", metadata("maintainers", json!([{"email": []}]))
            => "Go struct field Maintainer.maintainers.email of type string";
        "E.2 property olm.csv.metadata APIs", metadata("nativeAPIs", json!([1]))
            => "Go struct field CSVMetadata.nativeAPIs of type v1.GroupVersionKind";
        "E.2 property olm.csv.metadata provider", metadata("provider", json!("x"))
            => "Go struct field CSVMetadata.provider of type v1alpha1.AppLink";
        "E.2 property olm.csv.metadata two at once",
            of("olm.csv.metadata", &json!({"provider": 1, "description": 1, "Keywords": 1}))
            => "CSVMetadata.keywords of type []string";
        "E.2 property null", with(json!(null)) => "\": unexpected end of JSON input";
        "E.2 property without a type", with(json!({"value": 1})) => "";
        "E.2 property twice", of("x", &json!(1)).replace(
            "{\"type\":\"x\",\"value\":1}",
            "{\"type\":\"x\",\"value\":1},{\"type\":\"x\",\"value\":1}",
        ) => "";
        // opm decodes no constraint, and neither refuses a catalog for one; ours warns (src/load/tests/facts.rs).
        "E.2 constraint an unknown key", of("olm.constraint", &json!({"x": 1})) => "4: bundle*cannot be read by OLM: *";
        "E.2 constraint CEL that is none", of("olm.constraint", &json!({"cel": {"rule": "1 +"}}))
            => "4: bundle*cannot be read by OLM: *";
        "E.2 constraint too large", of("olm.constraint", &json!({"failureMessage": "x".repeat(200_000)}))
            => "4: bundle*cannot be read by OLM: *";
        "E.2 constraint nested", of(
            "olm.constraint",
            &json!({"all": {"constraints": [{"not": {"constraints": [{"gvk": {"group": "a", "kind": "b", "version": "c"}}]}}]}}),
        ) => "";
    ] {
        let found = same(row, &[("catalog", &text)]);
        let pattern = match expected {
            "" => String::new(),
            warning if warning.starts_with("4: ") => warning.to_owned(),
            part => format!("{start}*{part}*"),
        };
        assert!(matches(&pattern, &found), "{row}: {found}");
    }
}
