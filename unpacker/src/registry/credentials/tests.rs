use super::*;

fn basic(username: &str, password: &str) -> Credential {
    Credential::Basic(Basic {
        username: username.to_owned(),
        password: password.to_owned().into(),
    })
}

fn config(json: &str) -> Credentials {
    Credentials::from_docker_config(json.as_bytes()).unwrap()
}

/// Returns entries whose passwords are their keys.
fn auths(keys: &[&str]) -> Credentials {
    let entry = |key: &&str| format!(r#""{key}": {{"username": "u", "password": "{key}"}}"#);
    let entries: Vec<_> = keys.iter().map(entry).collect();
    config(&format!(r#"{{"auths": {{{}}}}}"#, entries.join(",")))
}

#[tokio::test]
async fn longest_key_wins_and_wildcards_are_those_of_the_kubelet() {
    let keys = "quay.io quay.io/org https://quay.io/org/team/ *.example.com eu.example.com host:5000 \
                https://index.docker.io/v1/ http://old.example/v2/ *-good.kubernetes.io prefix.*:1111 k8s.*";
    let credentials = auths(&keys.split(' ').collect::<Vec<_>>());
    assert_each!(|registry, path, key| credentials.find(registry, path).await.unwrap() => key.map(|key| basic("u", key));
        "quay.io", "else/app" => Some("quay.io");
        "quay.io", "org/app" => Some("quay.io/org");
        "quay.io", "org" => Some("quay.io/org");
        "quay.io", "organization/app" => Some("quay.io");
        "quay.io", "org/team/app" => Some("https://quay.io/org/team/");
        "us.example.com", "app" => Some("*.example.com");
        "eu.example.com", "app" => Some("eu.example.com");
        "host:5000", "app" => Some("host:5000");
        "docker.io", "library/busybox" => Some("https://index.docker.io/v1/");
        "old.example", "v2/app" => Some("http://old.example/v2/");
        "QUAY.IO", "app" => Some("quay.io");
        "prefix-good.kubernetes.io", "app" => Some("*-good.kubernetes.io");
        "prefix.io:1111", "app" => Some("prefix.*:1111");
        "k8s.io", "app" => Some("k8s.*");
        "k8s.io:5000", "app" => None;
        "a.b-good.kubernetes.io", "app" => None;
        "bad.kubernetes.io", "app" => None;
    );
    for registry in ["a.b.example.com", "example.com", "host", "host:5001", ""] {
        assert_rows!(credentials.find(registry, "app").await.unwrap() => None, "{registry}");
    }
}

#[tokio::test]
async fn every_format_of_an_entry_is_read() {
    let token = |text: &str| Secret::from(text.to_owned());
    for (entry, credential) in ::tests::rows![
        r#"{"auth": "dTpwOnE="}"# => Some(basic("u", "p:q"));
        r#"{"auth": "dTpwOnE"}"# => Some(basic("u", "p:q"));
        r#"{"username": "u", "password": "p"}"# => Some(basic("u", "p"));
        r#"{"auth": "dTpwOnE=", "username": "x", "password": "y", "email": "e"}"# => Some(basic("u", "p:q"));
        r#"{"auth": "dTo=", "identitytoken": "i"}"# => Some(Credential::IdentityToken(token("i")));
        r#"{"registrytoken": "r"}"# => Some(Credential::Token(token("r")));
        "{}" => None;
    ] {
        for json in [
            format!(r#"{{"auths": {{"h": {entry}}}, "HttpHeaders": {{"a": "b"}}}}"#),
            format!(r#"{{"h": {entry}, "detachKeys": "x"}}"#),
            format!("\u{feff}{{\"auths\": {{\"h\": {entry}}}}}"),
        ] {
            assert_rows!(config(&json).find("h", "app").await.unwrap() => credential, "{json}");
        }
    }
}

#[track_caller]
fn assert_problem(error: &Error, problem: &str) {
    let text = error.to_string();
    ::tests::assert_has(&text, problem);
    assert!(error.is_terminal() && !text.contains("hunter2"), "{text}");
}

#[test]
fn malformed_config_is_rejected() {
    for (json, problem) in [
        ("hunter2", "line 1"),
        ("[]", "not JSON as in"),
        (r#"{"auths": []}"#, "not JSON as in"),
    ] {
        let error = Credentials::from_docker_config(json.as_bytes()).unwrap_err();
        assert_problem(&error, problem);
    }
    assert_rows!(matches!(Credentials::from_docker_config(&vec![b' '; MAX_CONFIG + 1]), Err(Error::TooLarge)) => true);
    let text = format!("{:?}", auths(&["h"])).replace("host: \"h\"", "");
    assert!(!text.contains("\"h\""), "{text}");
}

#[tokio::test]
async fn malformed_entry_fails_its_registry_and_hides_secrets() {
    for (entry, problem) in ::tests::rows![
        r#"{"auth": "hunter2!"}"# => "\"h\" have an \"auth\" that is not base64";
        r#"{"auth": "aHVudGVyMg=="}"# => "without the \":\"";
        r#"{"auth": "/////w=="}"# => "not text";
        r#"{"auth": 1, "password": "hunter2"}"# => "not strings";
        r#""hunter2""# => "not strings";
        r#"{"username": "u", "password": "hunter2\n"}"# => "control characters";
        r#"{"username": "u:v", "password": "hunter2"}"# => "a user name that contains";
    ] {
        let json = format!(r#"{{"auths": {{"h": {entry}, "other": {{"auth": "dTpw"}}}}}}"#);
        let credentials = config(&json);
        assert_problem(&credentials.find("h", "app").await.unwrap_err(), problem);
        assert_rows!(credentials.find("other", "app").await.unwrap() => Some(basic("u", "p")), "{json}");
        assert_eq!(credentials.find("third", "app").await.unwrap(), None);
    }
}

#[tokio::test]
async fn empty_entries_and_unusable_keys_are_skipped() {
    for entry in [
        r#""h": null"#,
        r#""h": {"auth": null, "identitytoken": null}"#,
        r#""": {"auth": "dTpw"}"#,
        r#""u:hunter2@h": {"auth": "dTpw"}"#,
    ] {
        let json = format!(r#"{{"auths": {{{entry}, "other": {{"auth": "dTpw"}}}}}}"#);
        let credentials = config(&json);
        assert_eq!(credentials.find("h", "app").await.unwrap(), None, "{entry}");
        assert_rows!(credentials.find("other", "app").await.unwrap() => Some(basic("u", "p")), "{entry}");
    }
}

#[tokio::test]
async fn only_the_helper_of_the_registry_must_exist() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    for (json, fails) in [
        (r#"{"credsStore": "not-installed"}"#, false),
        (r#"{"credHelpers": {"h": "not-installed"}}"#, true),
        (r#"{"credHelpers": {"other": "not-installed"}}"#, false),
    ] {
        std::fs::write(&path, json).unwrap();
        let credentials = Credentials::from_user_file(&path).unwrap();
        let found = credentials.find("h", "app").await;
        assert_eq!(found.is_err(), fails, "{json}: {found:?}");
    }
}

#[tokio::test]
async fn helper_in_a_secret_is_rejected_where_it_is_needed() {
    let names_helper = |error: Error| error.to_string().contains("docker-credential-");
    assert_each!(|json, registry, refused| config(json).find(registry, "app").await.err().map(names_helper) => refused;
        r#"{"credHelpers": {"gcr.io": "gcloud"}}"#, "gcr.io" => Some(true);
        r#"{"credHelpers": {"gcr.io": "gcloud"}}"#, "quay.io" => None;
        r#"{"credsStore": "desktop", "auths": {"quay.io": {}}}"#, "quay.io" => Some(true);
        r#"{"credsStore": "desktop", "auths": {"quay.io": {"auth": "dTpw"}}}"#, "quay.io" => None;
        r#"{"credsStore": ""}"#, "quay.io" => None;
    );
}
