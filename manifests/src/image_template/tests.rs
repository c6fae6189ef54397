use super::*;
use crate::api::labels::CATALOG_IMAGE_TEMPLATE;

/// The cluster in the examples of the design document.
fn values() -> TemplateValues {
    TemplateValues {
        kube: server("v1.19.0+6af3663"),
        olm: "0.18.1".parse().ok(),
        openshift: "4.8.12".parse().ok(),
        architecture: architecture(["amd64", "amd64"]),
        update_channel: update_channel("fast-4.8"),
    }
}

// parity: switch-4, switch-5, switch-8
#[test]
fn each_variable_has_the_value_of_the_document() {
    let variables = "kube_major_version 1, kube_minor_version 19, kube_patch_version 0, olm_major_version 0, \
                     olm_minor_version 18, olm_patch_version 1, platform_architecture x86_64, ocp_major_version 4, \
                     ocp_minor_version 8, ocp_patch_version 12, ocp_update_channels fast";
    for (name, value) in ::tests::pairs(variables) {
        assert_rows!(resolve(&format!("a/c:{{{name}}}"), &values()).unwrap() => format!("a/c:{value}"), "{name}");
    }
}

// parity: switch-3
#[test]
fn variables_can_repeat_at_any_position() {
    assert_each!(|text, image| resolve(text, &values()).unwrap() => image;
        "example.com/catalog:latest" => "example.com/catalog:latest";
        "example.com/kube-v{kube_major_version}/catalog:v{kube_major_version}.{kube_minor_version}"
            => "example.com/kube-v1/catalog:v1.19";
        "{ocp_update_channels}.example.com/{platform_architecture}/c:{ocp_major_version}{ocp_minor_version}"
            => "fast.example.com/x86_64/c:48";
    );
}

// parity: switch-11
#[test]
fn missing_values_have_the_message_of_the_document() {
    let kubernetes = with!(TemplateValues, openshift: None, update_channel: None; ..values());
    for (text, is_for_good, names) in ::tests::rows![
        "a/c:v{ocp_major_version}", false => "variable \"ocp_major_version\"";
        "a/c:{ocp_update_channels}-{ocp_minor_version}-{ocp_minor_version}", false
            => "variables \"ocp_update_channels\", \"ocp_minor_version\"";
        // Unknown variables and variables without a value, in the order of the text; the message ends after them.
        "a/c:{odd}.{ocp_minor_version}.{foobar}.{odd}", true => "variables \"odd\", \"ocp_minor_version\", \"foobar\"";
        "a/c:{foobar}", true => "variable \"foobar\"";
        "a/c:{Kube_Major_Version}", true => "variable \"Kube_Major_Version\"";
        "a/c:{ kube_major_version}", true => "variable \" kube_major_version\"";
        "a/c:{}", true => "variable \"\"";
        "a/c:{kube-major}", true => "variable \"kube-major\"";
    ] {
        let error = resolve(text, &kubernetes).unwrap_err();
        assert!(matches!(error, Error::Unresolved(_)), "{error}");
        let expected =
            format!("Cannot construct catalog image reference, {names} couldn't be resolved");
        assert_rows!((error.is_for_good(), error.to_string()) => (is_for_good, expected));
        let start = "supported variables: kube_major_version, ";
        assert_rows!(error.hint().is_some_and(|hint| hint.starts_with(start)) => is_for_good, "{text}");
    }
    assert_rows!(resolve("a/c:{ocp_minor_version}", &kubernetes).unwrap_err().hint() => None);
}

#[test]
fn partial_values_are_reported_with_the_missing_ones() {
    let values = with!(TemplateValues, openshift: None; ..values());
    let text = "a/v{kube_minor_version}/c:v{ocp_minor_version}.{odd}";
    let Err(Error::Unresolved(unresolved)) = resolve(text, &values) else {
        panic!("resolved");
    };
    assert_eq!(unresolved.partial, "a/v19/c:v{ocp_minor_version}.{odd}");
    let names = ["ocp_minor_version", "odd"].map(str::to_owned);
    assert_rows!((unresolved.names, unresolved.has_unknown) => (names.to_vec(), true));
}

// parity: switch-10
#[test]
fn unmatched_braces_are_reported() {
    for text in "a/c:{ a/c:} a/c:{kube_major_version a/c:{{kube_major_version}} {a{b}".split(' ') {
        let error = resolve(text, &values()).unwrap_err();
        assert_rows!(matches!(error, Error::Unbalanced { .. }) && error.is_for_good() => true, "{text}: {error}");
    }
}

// parity: switch-19
#[test]
fn values_are_not_expanded_again_and_form_an_image() {
    let odd =
        |channel: &str| with!(TemplateValues, update_channel: update_channel(channel); ..values());
    for channel in ["{kube_major_version}", "a b", "😀", &"x".repeat(200)] {
        let error = resolve("a/c:{ocp_update_channels}", &odd(channel)).unwrap_err();
        let Error::Illegal { text, .. } = &error else {
            panic!("{channel}: {error}");
        };
        let name = update_channel(channel).unwrap();
        assert_eq!(*text, format!("a/c:{name}"));
    }
    assert!(resolve("a/c@sha256:{kube_minor_version}", &values()).is_err());
}

// parity: switch-4
#[test]
fn values_of_clusters_are_read() {
    let text = |version: Option<Version>| version.map(|version| version.to_string());
    assert_eq!(text(server("v1.20.1")).unwrap(), "1.20.1");
    assert_eq!(server("v1.36.3-gke.100+abc").unwrap().minor, 36);
    assert_eq!(server("unknown"), None);
    assert_eq!(architecture(["arm64"]).unwrap(), "aarch64");
    assert_eq!(architecture(["s390x", "s390x"]).unwrap(), "s390x");
    assert_eq!(architecture(["amd64", "arm64"]), None);
    assert_eq!(architecture([""]), None);
    assert_eq!(architecture([]), None);
    assert_eq!(update_channel("stable").unwrap(), "stable");
    assert_eq!(update_channel(""), None);
}

// parity: switch-olm-1, switch-olm-2
#[test]
fn annotations_have_the_names_of_olm() {
    let kube = server("v1.20.1");
    let missing = "cannot construct catalog image reference, because variable(s)";
    let improper = "one or more template(s) has improper syntax";
    for (text, kube, image, message) in ::tests::rows![
        "a/c:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}", &kube, "a/c:v1.20.1"
            => "catalog image reference was successfully resolved".to_owned();
        "a/c:v{kube_major_version}", &None, "a/c:vmissing"
            => format!("{missing} \"{{kube_major_version}}\" could not be resolved");
        "a/c:v{kube_minor_version}.{kube_major_version}", &None, "a/c:vmissing.missing"
            => format!("{missing} \"{{kube_minor_version}}\", \"{{kube_major_version}}\" could not be resolved");
        "a/c:{ocp_major_version}", &kube, "a/c:{ocp_major_version}"
            => format!("cannot construct catalog image reference, because {improper}");
        // An extra brace is kept.
        "a/c:{{kube_minor_version}}", &kube, "a/c:{20}"
            => format!("cannot construct catalog image reference, because {improper}");
        "a/c:v{kube_minor_version}.{", &kube, "a/c:v20.{"
            => format!("cannot construct catalog image reference, because {improper}");
        "a/c:{foo}{kube_major_version}", &None, "a/c:{foo}missing"
            => format!("{missing} \"{{kube_major_version}}\" could not be resolved and {improper}");
    ] {
        let annotated = annotated(text, kube.as_ref());
        assert_rows!((annotated.image.as_str(), annotated.message()) => (image, message.as_str()));
        assert_rows!(annotated.reason() == "AllTemplatesResolved" => annotated.problem.is_none());
        assert_eq!(annotated.is_for_good, message.contains(improper), "{text}");
    }
}

#[test]
fn variables_of_a_text_are_listed() {
    let text = "a/{kube_minor_version}/c:{odd}{-{ocp_update_channels}-{kube_minor_version}";
    let minor = Variable::Kube(Part::Minor);
    assert_rows!(variables(text).collect::<Vec<Variable>>() => [minor, Variable::UpdateChannel, minor]);
    assert_eq!(variables("a/c:v1").count(), 0);
}

// parity: switch-olm-8
#[test]
fn olm_annotation_precedes_ours_and_the_image() {
    use TemplateSource::{Image, Olm, Rukpak};
    let template = "a/c:{kube_minor_version}";
    // The image, our annotation, OLM's annotation; the effective one, and the ignored ones.
    for (image, rukpak, olm, counts, ignored) in [
        ("a/c:v1", None, None, Image, &[][..]),
        (template, None, None, Image, &[]),
        ("a/c:v1", Some("o"), None, Rukpak, &[]),
        ("", Some("o"), None, Rukpak, &[]),
        (template, Some("o"), None, Rukpak, &[Image]),
        ("a/c:v1", None, Some("l"), Olm, &[]),
        (template, None, Some("l"), Olm, &[Image]),
        ("a/c:v1", Some("o"), Some("l"), Olm, &[Rukpak]),
        (template, Some("o"), Some("l"), Olm, &[Rukpak, Image]),
        // Empty values count as absent.
        (template, Some(""), Some(""), Image, &[]),
        (template, Some("o"), Some(""), Rukpak, &[Image]),
    ] {
        let annotation = |name: &str| match name {
            ANNOTATION => olm,
            CATALOG_IMAGE_TEMPLATE => rukpak,
            other => panic!("{other}"),
        };
        let choice = choose(image, annotation);
        let text = match counts {
            Image => image,
            Rukpak => "o",
            Olm => "l",
        };
        assert_rows!((choice.holder, choice.text, &*choice.ignored_sources) => (counts, text, ignored), "{image} {rukpak:?} {olm:?}");
    }
}

#[test]
fn error_names_a_limited_number_of_variables() {
    let names: Vec<String> = (0..5_000).map(|number: u32| number.to_string()).collect();
    let text = format!("{{{}}}", names.join("}{"));
    let Err(Error::Unresolved(unresolved)) = resolve(&text, &values()) else {
        panic!("resolved");
    };
    assert_rows!((unresolved.names.len(), unresolved.partial) => (MAX_UNRESOLVED, text));
}
