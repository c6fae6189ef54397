use serde_json::{Value, json};

use super::*;

fn source(value: Value) -> BundleSource {
    serde_json::from_value(value).unwrap()
}

fn describe(value: Value) -> String {
    match parse(&source(value)) {
        Ok(SourceRequest::Remote(source)) => source.to_string(),
        Ok(SourceRequest::ConfigMaps(listed)) => format!("{} ConfigMaps", listed.len()),
        Ok(SourceRequest::Upload) => "upload".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn git(repository: &str, reference: &Value, directory: Option<&str>) -> Value {
    json!({"type": "git", "git": {"repository": repository, "ref": reference, "directory": directory}})
}

#[test]
fn every_source_type_is_parsed() {
    let branch = || json!({"branch": "main"});
    let commit = "0123456789012345678901234567890123456789";
    assert_each!(|value, expected| describe(value.clone()) => has expected;
        json!({"type": "image", "image": {"ref": "quay.io/org/app:v1"}}) => "quay.io/org/app:v1";
        json!({"type": "image", "image": {"ref": "app"}}) => "docker.io/library/app:latest";
        git("https://example.com/r.git", &json!({"tag": "v1"}), Some("./dev/deploy/")) => "refs/tags/v1:dev/deploy";
        git("https://example.com/r.git", &branch(), Some("./")) => "git+https://example.com/r.git#refs/heads/main";
        git("git@example.com:org/r.git", &json!({"commit": commit}), None) => "git+ssh://git@example.com/org/r.git#";
        json!({"type": "http", "http": {"url": "https://example.com/b.tgz"}}) => "https://example.com/b.tgz";
        json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}}]}) => "1 ConfigMaps";
        json!({"type": "upload", "upload": {}}) => "upload";
        json!({"type": "upload"}) => "upload";
    );
}

#[test]
fn invalid_sources_are_explained() {
    let branch = || json!({"branch": "main"});
    let http = |url: &str| json!({"type": "http", "http": {"url": url}});
    for (value, expected) in ::tests::rows![
        json!({"type": "image"}) => "spec.source.image must be set for source type \"image\"";
        json!({"type": "configMaps", "configMaps": []}) => "spec.source.configMaps must be set";
        json!({"type": "helm"}) => "source type \"helm\" not supported; use one of";
        json!({"type": "image", "image": {"ref": "A B"}}) => "use [registry/]repository";
        git("https://example.com/r", &branch(), Some("../x")) => "directory can not start with '../' or '/'";
        git("https://example.com/r", &branch(), Some("/x")) => "get subdirectory \"/x\"";
        git("https://example.com/r", &branch(), Some("/")) => "get subdirectory \"/\"";
        git("https://example.com/r", &json!({}), None) => "sets 0 of branch, tag and commit";
        git("https://example.com/r", &json!({"branch": "a", "tag": "b"}), None) => "sets 2 of branch, tag and commit";
        git("file:///etc", &branch(), None) => "must start with one of";
        git("nonsense", &branch(), None) => "is not a URL";
        git("https://me:hush@example.com/r", &branch(), None) => "git.auth.secret references";
        git("ssh://git:hush@example.com/r", &branch(), None) => "contains credentials";
        http("https://me@example.com/b.tgz") => "http.auth.secret references";
        http("https://example.com/b.tgz#sha256:12") => "http.url has an invalid fragment";
    ] {
        let text = describe(value.clone());
        assert!(text.contains(expected), "{value}: {text}");
        assert!(!text.contains("hush"), "{text}");
    }
}

#[test]
fn resolved_sources_are_pinned_and_without_credentials() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let commit = "0123456789012345678901234567890123456789";
    let image = source(json!({"type": "image", "image": {
        "ref": "quay.io/org/app:v1", "pullSecret": "pull", "insecureSkipTLSVerify": true, "certificateData": "PEM"
    }}));
    let git = source(json!({"type": "git", "git": {
        "repository": "git@example.com:r.git", "ref": {"branch": "main"}, "directory": "d", "auth": {"secret": {"name": "s"}}
    }}));
    let http =
        source(json!({"type": "http", "http": {"url": "https://example.com/b.tgz?token=hush"}}));
    let maps = json!([{"configMap": {"name": "a"}, "path": "p"}]);
    let maps = source(json!({"type": "configMaps", "configMaps": maps}));
    let pin = |spec: &BundleSource| match parse(spec).unwrap() {
        SourceRequest::Remote(Source::Image(image)) => {
            let reference = format!("quay.io/org/app@{digest}").parse().unwrap();
            Some(Source::Image(with!(image => reference: reference)))
        }
        SourceRequest::Remote(Source::Git(git)) => {
            let revision = Revision::Commit(commit.to_owned());
            Some(Source::Git(with!(git => revision: revision)))
        }
        SourceRequest::Remote(other) => Some(other),
        _ => None,
    };
    for (spec, expected) in ::tests::rows![
        &image => json!({"type": "image", "image": {"ref": format!("quay.io/org/app@{digest}"), "insecureSkipTLSVerify": true}});
        &git
            => json!({"type": "git", "git": {
                "repository": "git@example.com:r.git", "ref": {"commit": commit}, "directory": "d", "auth": {"secret": {"name": "s"}}
            }});
        &http => json!({"type": "http", "http": {"url": "https://example.com/b.tgz"}});
        &maps => json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": "p"}]});
    ] {
        let found = resolved(spec, pin(spec).as_ref());
        assert_eq!(serde_json::to_value(&found).unwrap(), expected);
        // A pinned source is requested again, even if the tag or branch has moved.
        if let Some(pin) = pin(spec) {
            assert_rows!(pinned(parse(spec).unwrap(), &found) => SourceRequest::Remote(pin));
        }
    }
}

#[test]
fn referenced_secrets_and_config_maps_are_listed() {
    assert_each!(|value, expected| secret(&source(value.clone())) => expected;
        json!({"type": "image", "image": {"ref": "a", "pullSecret": "p"}}) => Some("p");
        json!({"type": "image", "image": {"ref": "a"}}) => None;
        json!({"type": "git", "git": {"repository": "r", "ref": {}, "auth": {"secret": {}}}}) => None;
        json!({"type": "http", "http": {"url": "u", "auth": {"secret": {"name": "s"}}}}) => Some("s");
        json!({"type": "upload"}) => None;
    );
    let maps = source(json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}}]}));
    assert_eq!(config_maps(&maps).collect::<Vec<_>>(), ["a"]);
}
