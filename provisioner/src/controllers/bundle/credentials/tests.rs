use serde_json::{Value, json};
use unpacker::http_client::Proxies;

use super::*;

fn secret(type_: &str, data: &[(&str, &[u8])]) -> Secret {
    let secret: Secret = object!({"metadata": {"name": "s", "namespace": "ns"}, "type": type_});
    let data = data.iter().map(|&(key, value)| {
        let value = k8s_openapi::ByteString(value.to_vec());
        (key.to_owned(), value)
    });
    with!(secret => data: Some(data.collect()))
}

fn read(spec: Value, secret: Option<&Secret>) -> Result<Access, String> {
    let spec: BundleSource = serde_json::from_value(spec).unwrap();
    with(Access::default(), &spec, secret).map_err(|error| error.to_string())
}

const LOGIN: &[(&str, &[u8])] = &[("username", b"me"), ("password", b"hush")];
const KEY: &[(&str, &[u8])] = &[("ssh-privatekey", b"hush"), ("ssh-knownhosts", b"host key")];

fn git(repository: &str) -> Value {
    json!({"type": "git", "git": {"repository": repository, "ref": {"branch": "b"}, "auth": {"insecureSkipVerify": true}}})
}

#[test]
fn settings_of_flags_apply_to_each_source() {
    let proxies = Some(Proxies::of_cluster("http://proxy:3128", "", ""));
    let flags = with!(Access::default() => trust.roots: BEGIN.to_owned(), proxies: proxies);
    for source in [
        json!({"type": "image", "image": {"ref": "quay.io/a/b"}}),
        git("https://example.com/r"),
        json!({"type": "http", "http": {"url": "https://example.com/a.tgz"}}),
    ] {
        let spec: BundleSource = serde_json::from_value(source.clone()).unwrap();
        let access = with(flags.clone(), &spec, None).unwrap();
        assert_eq!(access.trust.roots, flags.trust.roots, "{source}");
        assert_eq!(access.proxies, flags.proxies, "{source}");
    }
}

#[test]
fn secret_is_sent_only_to_its_hosts() {
    let http = |url: &str| json!({"type": "http", "http": {"url": url}});
    let mut login = secret("Opaque", LOGIN);
    let mut key = secret("Opaque", KEY);
    for secret in [&mut login, &mut key] {
        let hosts = "files.example.com, Git.example.com".to_owned();
        secret.metadata.annotations = Some([(labels::HOSTS.to_owned(), hosts)].into());
    }
    for (spec, secret) in [
        (http("https://files.example.com/a"), &login),
        (http("https://x@GIT.example.com:1/a"), &login),
        (git("https://git.example.com/r"), &login),
        (git("git@git.example.com:r"), &key),
        (git("ssh://git@git.example.com:2222/r"), &key),
    ] {
        assert!(read(spec.clone(), Some(secret)).is_ok(), "{spec}");
    }
    for (spec, secret) in [
        (http("http://evil.example.com/files.example.com"), &login),
        (http("http://files.example.com@evil.example.com/"), &login),
        (http("http://files.example.com.evil.example.com/"), &login),
        (git("git@evil.example.com:git.example.com"), &key),
        (git("git.example.com@evil.example.com:r"), &key),
        (git("ssh://git.example.com@evil.example.com/r"), &key),
        (git("r"), &key),
    ] {
        let error = read(spec.clone(), Some(secret)).unwrap_err();
        assert_rows!(error.contains("is restricted to hosts \"files.example.com, Git.example.com\"") => true, "{spec}: {error}");
    }
}

#[test]
fn each_source_type_requires_its_secret_type() {
    let image = json!({"type": "image", "image": {"ref": "quay.io/a/b", "certificateData": BEGIN, "insecureSkipTLSVerify": true}});
    for (type_, key, config) in ::tests::rows![
        "kubernetes.io/dockerconfigjson", ".dockerconfigjson" => &br#"{"auths":{"quay.io":{"auth":"bWU6aHVzaA=="}}}"#[..];
        "kubernetes.io/dockercfg", ".dockercfg" => br#"{"quay.io":{"auth":"bWU6aHVzaA=="}}"#;
    ] {
        let access = read(image.clone(), Some(&secret(type_, &[(key, config)]))).unwrap();
        assert!(access.registries.names("quay.io", "a/b"), "{type_}");
        assert_eq!(access.trust.verify, Verify::Never);
        assert_eq!(access.trust.roots.trim(), BEGIN);
    }

    for type_ in ["Opaque", "kubernetes.io/basic-auth", "example.com/own"] {
        let access = read(git("https://example.com/r"), Some(&secret(type_, LOGIN))).unwrap();
        assert_eq!(access.basic.unwrap().username, "me");
        assert!(access.ssh.is_none());
        assert_eq!(access.trust.verify, Verify::Never);
    }
    let access = read(git("git@example.com:r"), Some(&secret("Opaque", KEY))).unwrap();
    let ssh = access.ssh.unwrap();
    assert_rows!((ssh.key.reveal(), &*ssh.known_hosts) => ("hush", "host key"));
    assert!(access.basic.is_none());
}

#[test]
fn wrong_secret_type_is_reported_without_its_data() {
    let image = json!({"type": "image", "image": {"ref": "quay.io/a/b", "pullSecret": "s"}});
    let bad = b"hush is no JSON".as_slice();
    for (spec, secret, expected) in ::tests::rows![
        image.clone(), secret("Opaque", LOGIN)
            => "secret ns/s has type \"Opaque\", but a pull secret requires type kubernetes.io/dockerconfigjson";
        image.clone(), secret("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", b"")]) => "has no key \".dockerconfigjson\"";
        image, secret("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", bad)])
            => "secret ns/s cannot be used to pull images";
        git("https://example.com/r"), secret("kubernetes.io/ssh-auth", KEY)
            => "has type \"kubernetes.io/ssh-auth\", but http and https require \"username\"";
        git("https://example.com/r"), secret("kubernetes.io/dockerconfigjson", LOGIN)
            => "has type \"kubernetes.io/dockerconfigjson\", but http and https require \"username\"";
        git("https://example.com/r"), secret("Opaque", &[("username", b"me")]) => "secret ns/s has no key \"password\"";
        git("ssh://git@example.com/r"), secret("Opaque", LOGIN) => "has no key \"ssh-privatekey\"";
        git("https://example.com/r"), secret("Opaque", &[("username", b"\xff"), ("password", b"hush")]) => "is not valid UTF-8";
    ] {
        let error = read(spec, Some(&secret)).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let image = json!({"ref": "quay.io/a/b", "certificateData": "hush"});
    let error = read(json!({"type": "image", "image": image}), None).unwrap_err();
    assert!(error.contains("certificateData contains no certificate") && !error.contains("hush"));
}

#[test]
fn cluster_credentials_are_sent_only_to_verified_servers() {
    let cluster = r#"{"auths": {"registry.example": {"auth": "Y2x1c3Rlcjp3b3Jk"}}}"#;
    let cluster = Credentials::from_docker_config(cluster.as_bytes()).unwrap();
    let own = br#"{"auths": {"own.example": {"auth": "bWU6aHVzaA=="}}}"#;
    let type_ = "kubernetes.io/dockerconfigjson";
    let own = secret(type_, &[(".dockerconfigjson", own)]);
    let ca = ::tests::TestCa::new("registry").pem();
    for (image, secret, is_sent) in ::tests::rows![
        json!({"ref": "r"}), None => (true, false);
        json!({"ref": "r"}), Some(&own) => (true, true);
        json!({"ref": "r", "insecureSkipTLSVerify": true}), None => (false, false);
        json!({"ref": "r", "certificateData": ca}), Some(&own) => (false, true);
    ] {
        let spec = json!({"type": "image", "image": image});
        let spec: BundleSource = serde_json::from_value(spec).unwrap();
        let given = with!(Access::default() => registries: cluster.clone());
        let access = with(given, &spec, secret).unwrap();
        let names = |registry| access.registries.names(registry, "app");
        assert_rows!((names("registry.example"), names("own.example")) => is_sent, "{spec:?}");
    }
}
