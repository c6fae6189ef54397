use crate::bundle::Place;

#[test]
fn wrong_usage_exits_with_2() {
    let place = Place::new();
    place.good("tide");
    for args in [
        &[][..],
        &["convert"],
        &["convart", "tide"],
        &["convert", "tide", "--no-such-flag"],
        &["convert", "tide", "-o", "toml"],
        &["convert", "tide", "--force"],
        &["convert", "tide", "--kube-version", "newest"],
        &["convert", "tide", "--install-namespace", "Not_A_Name"],
        &["convert", "tide", "--max-size", "much"],
        &["convert", "tide", "--class", "helm"],
        &["convert", "-", "-"],
        &["convert", "ftp://example.com/tide.tgz"],
        &["convert", "https://user:word@example.com/tide.tgz"],
        &["convert", "git+ext::sh"],
        &["convert", "oci:"],
        &["convert", "tide", "--platform", "linux"],
        &["convert", "tide", "--tls-verify=maybe"],
        &["convert", "tide", "--timeout", "0"],
        &["convert", "tide", "--password-file", "word"],
        &["convert", "-", "--username", "me", "--password-file", "-"],
        &["inspect", "tide", "tide"],
        &["unpack"],
        &["unpack", "tide", "tide"],
        &["unpack", "tide", "--force"],
        &["unpack", "tide", "--all", "--only", "manifests"],
        &["unpack", "tide", "--output", "-", "--format", "json"],
        &["push", "tide"],
        &["push", "tide", "Not/An/Image"],
        &["push", "quay.io/acme/tide:v1", "quay.io/acme/other:v1"],
        &["completion", "tcsh"],
        &["install", "tide", "tide", "--pull-secret", "x"],
        &["install", "tide", "git+https://example.com/tide"],
        &["install", "tide", "quay.io/a/b:c", "--service-account", "x"],
        &["install", "Not A Name", "tide"],
        &["install", "a?b=c", "tide"],
        &["run", "bundle"],
        &["run", "packagemanifests"],
    ] {
        let run = place.run(args).exits(2);
        assert!(
            run.out.is_empty() && !run.err.is_empty(),
            "{args:?}: {run:?}"
        );
    }
}

#[test]
fn the_version_says_which_kubernetes_is_known() {
    let place = Place::new();
    let newest = manifests::version::KubeVersion::NEWEST.to_string();
    let text = place.ok("version").out;
    assert!(
        text.starts_with("rukpak ") && text.contains(&newest),
        "{text}"
    );
    let json = place.ok("version -o json").json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["kubernetes"], newest);
}
