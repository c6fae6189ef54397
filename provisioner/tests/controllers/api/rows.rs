//! V1 to V10, B4 and B5 of rukpak's own tests.

use serde_json::json;

use super::*;

#[tokio::test]
async fn v1_a_valid_bundle_of_every_source_is_accepted() {
    for source in [
        image(),
        json!({"type": "image", "image": {
            "ref": "localhost:5000/a@sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "pullSecret": "pull", "insecureSkipTLSVerify": true, "certificateData": "-----BEGIN CERTIFICATE-----\n"}}),
        git(&json!({"branch": "main"})),
        git(&json!({"tag": "v0.0.1"})),
        git(&json!({"commit": "9e3ab7f1a36302ef512294d5c9f2e9b9566b811e"})),
        json!({"type": "git", "git": {"repository": "git@example.com:a.git", "directory": "./dev/deploy",
            "ref": {"branch": "main"}, "auth": {"secret": {"name": "key"}, "insecureSkipVerify": true}}}),
        json!({"type": "http", "http": {"url": "https://example.com/a.tgz"}}),
        json!({"type": "configMaps", "configMaps": [
            {"configMap": {"name": "a"}}, {"configMap": {"name": "a.b"}, "path": "manifests"}]}),
        json!({"type": "upload", "upload": {}}),
        json!({"type": "upload", "upload": {
            "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}),
    ] {
        for object in both(&source) {
            offer(&object).await.unwrap();
        }
    }
}

#[tokio::test]
async fn v2_the_name_of_a_bundle_has_at_most_52_characters() {
    offer(&bundle(&"b".repeat(52), &image())).await.unwrap();
    // rukpak's words were the apiserver's of that time: `may not be longer than 52`.
    refuse(
        &bundle(&"b".repeat(53), &image()),
        "metadata.name: Too long: may not be more than 52 bytes",
    )
    .await;
}

#[tokio::test]
async fn v3_type_git_needs_git() {
    let source = json!({"type": "git", "image": {"ref": "a"}});
    refuse(
        &bundle("v3", &source),
        r#"bundle.spec.source.git must be set for source type "git""#,
    )
    .await;
    refused(&source, r#"{source}.git must be set for source type "git""#).await;
}

#[tokio::test]
async fn v4_type_image_needs_image_and_so_on() {
    let source = git(&json!({"branch": "main"}));
    for member in ["image", "http", "configMaps", "upload"] {
        let mut source = source.clone();
        source["type"] = member.into();
        let message = format!("{member} must be set for source type \"{member}\"");
        refuse(
            &bundle("v4", &source),
            &format!("bundle.spec.source.{message}"),
        )
        .await;
        refused(&source, &format!("{{source}}.{message}")).await;
    }
}

#[tokio::test]
async fn v5_git_with_two_refs_is_refused() {
    refused(
        &git(&json!({"branch": "main", "tag": "v1"})),
        r#""{source}.git.ref" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
    )
    .await;
}

#[tokio::test]
async fn v6_git_without_ref_is_refused() {
    refused(
        &git(&json!({})),
        r#""{source}.git.ref" must validate one and only one schema (oneOf). Found none valid"#,
    )
    .await;
}

#[tokio::test]
async fn v7_two_sources_are_refused() {
    refused(
        &json!({"type": "image", "image": {"ref": "a"}, "upload": {}}),
        r#""{source}" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
    )
    .await;
}

#[tokio::test]
async fn v8_no_source_is_refused() {
    refused(
        &json!({"type": "image"}),
        r#""{source}" must validate one and only one schema (oneOf). Found none valid"#,
    )
    .await;
}

#[tokio::test]
async fn v9_a_class_name_with_a_slash_is_refused_everywhere_unless_it_is_ours() {
    let places = [
        (bundle("v9", &image()), "/spec/provisionerClassName"),
        (instance("v9", &image()), "/spec/provisionerClassName"),
        (
            instance("v9", &image()),
            "/spec/template/spec/provisionerClassName",
        ),
    ];
    for (object, place) in places {
        let with = |class: &str| {
            let mut object = object.clone();
            *object.pointer_mut(place).unwrap() = class.into();
            object
        };
        let path = place.trim_start_matches('/').replace('/', ".");
        for class in [
            "invalid/class-name",
            "core.rukpak.io/",
            "core.rukpak.io/a/b",
            "Plain",
            "a b",
            "-a",
            "a\n",
            "",
        ] {
            let message = format!("{path}: Invalid value: {class:?}: {path} in body should");
            refuse(&with(class), &message).await;
        }
        for class in [
            "core.rukpak.io/plain",
            "core.rukpak.io/registry",
            "core.rukpak.io/converter",
            "core-rukpak-io-plain",
            "core-rukpak-io-registry",
            "somebody-elses",
        ] {
            offer(&with(class)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn v10_the_name_of_a_bundle_instance_has_at_most_45_characters() {
    offer(&instance(&"i".repeat(45), &image())).await.unwrap();
    refuse(
        &instance(&"i".repeat(46), &image()),
        "metadata.name: Too long: may not be more than 45 bytes",
    )
    .await;
}

#[tokio::test]
async fn b4_b5_the_spec_of_a_bundle_is_immutable_and_its_labels_are_not() {
    let client = installed().await.client().unwrap();
    create(client.clone(), &bundle("b4", &image()), false)
        .await
        .unwrap();
    for spec in [
        json!({"source": {"image": {"ref": "quay.io/example/bundle:v2"}}}),
        json!({"source": {"image": {"pullSecret": "a"}}}),
        json!({"provisionerClassName": "core-rukpak-io-registry"}),
    ] {
        let said = change(client.clone(), "Bundle", "b4", json!({"spec": spec}))
            .await
            .unwrap_err();
        assert!(said.contains("bundle.spec is immutable"), "{said}");
    }
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    change(client, "Bundle", "b4", labels).await.unwrap();
}

#[tokio::test]
async fn the_digest_of_an_upload_is_a_sha256() {
    let zeros = "0".repeat(64);
    for digest in [
        String::new(),
        zeros.clone(),
        format!("sha512:{zeros}"),
        format!("sha256:{}", "0".repeat(63)),
        format!("sha256:{zeros}0"),
        format!("sha256:{}", "A".repeat(64)),
        format!("sha256:{zeros}\n"),
    ] {
        let source = json!({"type": "upload", "upload": {"digest": digest}});
        let message = format!(
            "{{source}}.upload.digest: Invalid value: {digest:?}: {{source}}.upload.digest in body should match"
        );
        refused(&source, &message).await;
    }
}
