#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use ::tests::TestCa;
use serde_json::{Value, json};

use super::*;

fn object(name: &str, data: Value) -> DynamicObject {
    let mut object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": name}});
    for (key, value) in data.as_object().unwrap() {
        object[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn objects(all: Vec<(Source, DynamicObject)>) -> Objects {
    let mut objects = Objects::new();
    for (source, object) in all {
        objects.entry(source).or_default().push(object);
    }
    objects
}

fn read(all: Vec<(Source, DynamicObject)>) -> (PullSettings, Vec<String>) {
    let (configuration, problems) = PullSettings::read(&objects(all));
    let text = |one: ConfigProblem| format!("{:?} {}: {}", one.source, one.object, one.text);
    (configuration, problems.into_iter().map(text).collect())
}

fn image(spec: Value) -> (Source, DynamicObject) {
    (Source::Image, object("cluster", json!({"spec": spec})))
}

fn proxy(spec: Value, status: Value) -> (Source, DynamicObject) {
    let proxy = object("cluster", json!({"spec": spec, "status": status}));
    (Source::Proxy, proxy)
}

fn secret(json: &str) -> (Source, DynamicObject) {
    let data = json!({"data": {".dockerconfigjson": BASE64.encode(json)}});
    (Source::PullSecret, object("pull-secret", data))
}

fn every_source(ca: &TestCa) -> Vec<(Source, DynamicObject)> {
    let pem = ca.pem();
    let mirrors = |field: &str, source: &str| {
        let entries = json!([{"source": source, "mirrors": ["m.example"]}]);
        object(source, json!({"spec": {field: entries}}))
    };
    Vec::from(::tests::rows![
        Source::ImageDigestMirrorSet => mirrors("imageDigestMirrors", "a.example");
        Source::ImageTagMirrorSet => mirrors("imageTagMirrors", "b.example");
        Source::ImageContentSourcePolicy => mirrors("repositoryDigestMirrors", "c.example");
        Source::Image => image(json!({
            "additionalTrustedCA": {"name": "registry-cas"},
            "registrySources": {"insecureRegistries": ["d.example"], "containerRuntimeSearchRegistries": ["x.example"]},
            "externalRegistryHostnames": ["e.example"],
        })).1;
        Source::Proxy => proxy(
            json!({"trustedCA": {"name": "user-ca-bundle"}}), json!({"httpProxy": "http://proxy:3128", "noProxy": ".svc"}),
        ).1;
        Source::ImageAuthorities => object("registry-cas", json!({"data": {"r.example..5000": pem, "s.example": pem}}));
        Source::ProxyAuthorities => object("user-ca-bundle", json!({"data": {CA_BUNDLE: pem}}));
        Source::PullSecret => secret(r#"{"auths": {"quay.io": {"auth": "bWU6aHVzaA=="}}}"#).1;
    ])
}

#[test]
fn cluster_configuration_is_applied() {
    let ca = TestCa::new("lab");
    let (configuration, problems) = read(every_source(&ca));
    assert_eq!(problems, [""; 0]);
    let sources = configuration.mirrors.rules().iter();
    let sources: Vec<_> = sources.map(|rule| rule.source.as_str()).collect();
    assert_rows!(sources => ["a.example", "b.example", "c.example", "d.example"]);
    assert_eq!(configuration.roots, ca.pem());
    assert_rows!(configuration.cas.keys().collect::<Vec<_>>() => ["r.example:5000", "s.example"]);
    assert_rows!(configuration.proxies => Some(Proxies::of_cluster("http://proxy:3128", "", ".svc")));
    assert!(configuration.credentials.names("quay.io", "app"));

    let (configuration, problems) = read(Vec::new());
    assert_eq!((configuration, problems), Default::default());
}

#[test]
fn flags_precede_the_cluster_configuration() {
    let (configuration, _) = read(every_source(&TestCa::new("lab")));
    let own = "[[registry]]\nlocation = \"a.example\"\nblocked = true\n";
    let own = Mirrors::from_registries_conf(own).unwrap();
    let proxies = Proxies::of_cluster("http://mine:1", "", "");
    let trust = with!(Trust, roots: "mine".to_owned());
    let given = with!(Access, mirrors: own.clone(), proxies: Some(proxies.clone()), trust);
    let access = configuration.add_to(given);
    assert_eq!(access.mirrors.rules()[0], own.rules()[0]);
    assert_eq!(access.mirrors.rules().len(), 5);
    assert_eq!(access.proxies, Some(proxies));
    assert!(access.trust.roots.starts_with("mine\n") && access.trust.roots.contains(BEGIN));
    assert_rows!(PullSettings::default().add_to(Access::default()) => Access::default());
}

#[test]
fn unusable_configuration_is_skipped_and_reported() {
    let ca = TestCa::new("lab");
    let good = ca.pem();
    let half = format!("{good}\n{BEGIN}\nbm90IG9uZQ==\n{END}\n");
    let named_ca = || image(json!({"additionalTrustedCA": {"name": "cas"}}));
    let trusting = || proxy(json!({"trustedCA": {"name": "cas"}}), json!({}));
    for (all, problem) in ::tests::rows![
        vec![image(json!({"registrySources": {"allowedRegistries": "quay.io"}}))] => "Image cluster: spec is invalid \
                                                                                      and ignored";
        vec![(Source::ImageDigestMirrorSet, object("odd", json!({"spec": {"imageDigestMirrors": [7]}})))]
            => "ImageDigestMirrorSet odd: spec is invalid and ignored";
        vec![(Source::ImageTagMirrorSet, object("new", json!({"spec": {"imageTagMirrors": [
            {"source": "a.b", "mirrorSourcePolicy": "Sometimes"}]}})))]
            => "ImageTagMirrorSet new: spec is invalid and ignored";
        vec![proxy(json!({}), json!({"httpProxy": 1}))] => "Proxy cluster: status is invalid and ignored";
        vec![trusting(), (Source::ProxyAuthorities, object("cas", json!({"data": {"ca.crt": good}})))]
            => "ProxyAuthorities cas: ConfigMap or its key \"ca-bundle.crt\" not found";
        vec![trusting(), (Source::ProxyAuthorities, object("cas", json!({"data": {CA_BUNDLE: "none"}})))]
            => "\"ca-bundle.crt\" contains invalid PEM certificates, which are ignored (valid certificates in use: 0)";
        vec![named_ca(), (Source::ImageAuthorities, object("cas", json!({"data": {"r.example": half}})))]
            => "\"r.example\" contains invalid PEM certificates, which are ignored (valid certificates in use: 1)";
        vec![secret("{")] => "PullSecret pull-secret: the registry credentials are not JSON";
        vec![(Source::PullSecret, object("pull-secret", json!({"data": {}})))] => "key \".dockerconfigjson\" is missing";
    ] {
        let (_, problems) = read(all);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(problem), "{problem}: {problems:?}");
    }
    // A missing ConfigMap, and one that was not listed yet.
    let mut missing = objects(vec![named_ca()]);
    assert_eq!(PullSettings::read(&missing).1, []);
    missing.insert(Source::ImageAuthorities, Vec::new());
    let missing_problems = PullSettings::read(&missing).1;
    assert_rows!(missing_problems[0].text.contains("ConfigMap not found") => true, "{missing_problems:?}");
}

#[test]
fn malformed_object_does_not_affect_others() {
    let mut all = every_source(&TestCa::new("lab"));
    let odd = object("odd", json!({"spec": {"imageDigestMirrors": "x"}}));
    all.push((Source::ImageDigestMirrorSet, odd));
    let (configuration, problems) = read(all);
    assert_eq!(problems.len(), 1);
    assert_eq!(configuration.mirrors.rules().len(), 4);
    assert!(configuration.proxies.is_some());
}
