use manifests::image_template::ANNOTATION;
use serde_json::json;

use super::*;

const CANNOT: &str = "Cannot construct catalog image reference";

fn values(kube: Option<&str>) -> TemplateValues {
    with!(TemplateValues::default() => kube: kube.and_then(image_template::server), openshift: image_template::server("4.8.3"))
}

/// Returns the input for an image without annotations, in a cluster without OLM.
fn input(reference: &str) -> Input<'_> {
    Input {
        reference,
        annotations: None,
        conditions: &[],
        cached_image: None,
        generation: Some(2),
        has_olm: false,
        unknown_olm: None,
    }
}

fn condition(reason: &str, message: &str) -> Condition {
    let status = ["False", "True"][usize::from(reason == reason::RESOLVED)];
    let condition = json!({
        "type": RESOLVED_IMAGE, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": 2,
    });
    serde_json::from_value(condition).unwrap()
}

/// Formats each condition as a line: type, status, reason and message.
fn lines(resolved: &ResolvedImage) -> Vec<String> {
    let line = |update: &ConditionUpdate| {
        let (type_, reason) = (update.type_, update.reason);
        format!("{type_} {} {reason} {}", update.is_true, update.message)
    };
    resolved.conditions.iter().map(line).collect()
}

fn pairs(annotations: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = annotations.iter();
    all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn resolved(
    reference: &str,
    annotations: &[(&str, &str)],
    has_olm: bool,
    kube: Option<&str>,
) -> ResolvedImage {
    let annotations = pairs(annotations);
    let input = with!(input(reference) => annotations: Some(&annotations), has_olm: has_olm);
    resolve(input, &values(kube), &BTreeSet::new()).unwrap()
}

// parity: switch-17
#[test]
fn image_without_template_is_unchanged() {
    for has_olm in [false, true] {
        let resolved = resolved("r/c:v1", &[("a", "{b}")], has_olm, None);
        assert_eq!(resolved.image, Ok("r/c:v1".to_owned()));
        assert_eq!((lines(&resolved), resolved.write), (vec![], None));
    }
}

// parity: switch-10, switch-11, switch-12
#[test]
fn image_template_is_resolved_or_reported() {
    let template = "r/c:v{kube_major_version}.{kube_minor_version}";
    let good = resolved(template, &[], false, Some("v1.20.1+build"));
    assert_eq!(good.image, Ok("r/c:v1.20".to_owned()));
    assert_eq!((&good.write, &good.warning), (&None, &None));
    let expected = [
        "TemplatesHaveResolved true AllTemplatesResolved catalog image reference was successfully resolved",
        "ResolvedImage true AllTemplatesResolved r/c:v1.20",
        "resolved_image true AllTemplatesResolved r/c:v1.20",
    ];
    assert_eq!(lines(&good), expected);

    let bad = resolved(template, &[], false, None);
    let names = "\"kube_major_version\", \"kube_minor_version\"";
    let why = format!("{CANNOT}, variables {names} couldn't be resolved");
    let expected = [
        format!("TemplatesHaveResolved false UnableToResolve {why}"),
        format!("ResolvedImage false UnableToResolve {template}"),
        format!("resolved_image false UnableToResolve {template}"),
    ];
    assert_eq!(lines(&bad), expected);
    let found = bad.image.unwrap_err();
    assert_rows!((found.why, found.is_for_good, found.last) => (why, false, None));
    for (text, partial) in [
        ("r/c:{foobar}", "r/c:{foobar}"),
        ("r/c:{kube_minor_version", "r/c:{kube_minor_version"),
        ("R C:{kube_minor_version}", "R C:20"),
    ] {
        let bad = resolved(text, &[], false, Some("v1.20.1"));
        assert_rows!(lines(&bad)[1] => format!("ResolvedImage false UnableToResolve {partial}"));
        assert!(bad.image.unwrap_err().is_for_good, "{text}");
    }
}

// parity: switch-olm-1, switch-olm-2
#[test]
fn annotation_of_olm_is_resolved_as_by_olm_if_olm_is_absent() {
    let good = ("r/c:v{kube_minor_version}", Some("v1.20.1"));
    let has_resolved = [
        "TemplatesHaveResolved true AllTemplatesResolved catalog image reference was successfully resolved",
        "ResolvedImage true AllTemplatesResolved r/c:v20",
        "resolved_image true AllTemplatesResolved r/c:v20",
    ];
    for (reference, (text, kube), image, write, expected) in ::tests::rows![
        "r/c:v19", good, "r/c:v20", Some("r/c:v20") => has_resolved;
        "r/c:v20", good, "r/c:v20", None => has_resolved;
        "r/c:v19", (good.0, None), "r/c:v19", None => [
            "TemplatesHaveResolved false UnableToResolve cannot construct catalog image reference, because variable(s) \
             \"{kube_minor_version}\" could not be resolved",
            "ResolvedImage false UnableToResolve r/c:vmissing",
            "resolved_image false LastResolved r/c:v19",
        ];
        // Not one of OLM's three variables.
        "r/c:v19", ("r/c:v{ocp_minor_version}", good.1), "r/c:v19", None => [
            "TemplatesHaveResolved false UnableToResolve cannot construct catalog image reference, because one or more \
             template(s) has improper syntax",
            "ResolvedImage false UnableToResolve r/c:v{ocp_minor_version}",
            "resolved_image false LastResolved r/c:v19",
        ];
    ] {
        let found = resolved(reference, &[(ANNOTATION, text)], false, kube);
        assert_eq!(found.image, Ok(image.to_owned()), "{reference} {text}");
        // Only conditions report it.
        assert_eq!(found.retained_image, None, "{reference} {text}");
        assert_eq!(found.write.as_deref(), write, "{reference} {text}");
        assert_eq!(lines(&found), expected, "{reference} {text}");
        // If OLM runs, this provisioner reports nothing.
        let found = resolved(reference, &[(ANNOTATION, text)], true, kube);
        assert_eq!(found.image, Ok(reference.to_owned()));
        assert_eq!((lines(&found), found.write), (vec![], None));
    }
}

// parity: switch-olm-4
#[test]
fn own_annotation_has_all_variables_also_beside_olm() {
    let text = "r/c:v{kube_minor_version}-{ocp_minor_version}";
    let own = [(CATALOG_IMAGE_TEMPLATE, text)];
    for has_olm in [false, true] {
        let found = resolved("r/c:any", &own, has_olm, Some("v1.20.1"));
        let first = [TEMPLATES_HAVE_RESOLVED, TEMPLATE_RESOLVED][usize::from(has_olm)];
        assert_rows! {
            (found.image.as_deref(), found.write.as_deref()) => (Ok("r/c:v20-8"), Some("r/c:v20-8"));
            found.conditions.len() => 3 - usize::from(has_olm);
            lines(&found).last().unwrap() => "resolved_image true AllTemplatesResolved r/c:v20-8";
            lines(&found)[0] => format!("{first} true AllTemplatesResolved catalog image reference was successfully resolved");
        }

        let found = resolved("r/c:any", &own, has_olm, None);
        // The first condition has the exact text of the design document.
        let why = format!("{CANNOT}, variable \"kube_minor_version\" couldn't be resolved");
        assert_rows! {
            (found.image.as_deref(), found.write.as_deref()) => (Ok("r/c:any"), None);
            lines(&found).last().unwrap() => "resolved_image false LastResolved r/c:any";
            lines(&found)[0] => format!("{first} false UnableToResolve {why}");
            found.warning.as_ref() => Some(&why);
            found.retained_image.unwrap() => UnresolvedImage { why, is_for_good: false, last: None };
        }
        // A partly resolved image is never pulled.
        let found = resolved("r/c:{kube_minor_version}", &own, has_olm, None);
        assert!(found.image.is_err() && found.write.is_none(), "{found:?}");
    }
    let both = [own[0], (ANNOTATION, "r/c:v{kube_major_version}")];
    let found = resolved("r/c:any", &both, true, Some("v1.20.1"));
    let warning = found.warning.as_deref().unwrap();
    let ignored = format!("is ignored because {ANNOTATION} takes precedence");
    let ignored = format!("annotation {CATALOG_IMAGE_TEMPLATE} {ignored}");
    assert!(warning.starts_with(&ignored), "{warning}");
    assert_rows! {
        (found.image.as_deref(), found.write.as_deref()) => (Ok("r/c:any"), None);
        lines(&found) => [TEMPLATE_RESOLVED, RESOLVED_IMAGE].map(|type_| format!("{type_} false TwoTemplates {warning}"));
        // Without OLM, its annotation is resolved here.
        resolved("r/c:any", &both, false, Some("v1.20.1")).write.as_deref() => Some("r/c:v1");
        resolved("r/c:any", &both, false, Some("v1.20.1")).warning.as_deref() => Some(warning);
    }
}

// parity: switch-11
#[test]
fn terminal_annotation_errors_are_reported_as_terminal() {
    let kube = Some("v1.20.1");
    for (annotation, text, kube, is_for_good) in ::tests::rows![
        CATALOG_IMAGE_TEMPLATE, "r/c:{foobar}", kube => true;
        CATALOG_IMAGE_TEMPLATE, "r/c:{kube_minor_version", kube => true;
        CATALOG_IMAGE_TEMPLATE, "R C:{kube_minor_version}", kube => true;
        CATALOG_IMAGE_TEMPLATE, "r/c:{kube_minor_version}", None => false;
        ANNOTATION, "r/c:{foobar}", kube => true;
        ANNOTATION, "r/c:{ocp_minor_version}", kube => true;
        ANNOTATION, "r/c:}", kube => true;
        ANNOTATION, "r/c:{kube_minor_version}", None => false;
        ANNOTATION, "r/c:{foobar}{kube_minor_version}", None => true;
    ] {
        let annotations = [(annotation, text)];
        // Without an image, and with one.
        let none = resolved("", &annotations, false, kube);
        let error = none.image.unwrap_err();
        assert_eq!(error.is_for_good, is_for_good, "{text}: {error:?}");
        let some = resolved("r/c:v19", &annotations, false, kube);
        assert_rows! {
            (none.warning.as_ref(), none.write, none.retained_image) => (Some(&error.why), None, None), "{text}";
            (some.image.as_deref(), some.write) => (Ok("r/c:v19"), None), "{text}";
            some.retained_image => Some(error).filter(|_| annotation == CATALOG_IMAGE_TEMPLATE), "{text}";
        }
    }
}

/// Otherwise conditions would change several times after a start.
// parity: switch-olm-7
#[test]
fn conditions_wait_for_the_facts_that_a_template_needs() {
    use FactSource::{ClusterOperator, Kubernetes, Nodes, Olm, Openshift, Packageserver};
    let kube = "r/c:v{kube_minor_version}";
    let ocp = "r/c:v{ocp_minor_version}-{ocp_update_channels}";
    let nodes = "r/c:{platform_architecture}";
    let olm = "r/c:{olm_minor_version}";
    // The image, the annotation, whether OLM runs, the pending facts, and whether the conditions wait for them.
    for (image, annotation, has_olm, pending, waits) in ::tests::rows![
        kube, None, false, &[Kubernetes][..] => true;
        kube, None, false, &[Openshift, Nodes, Olm] => false;
        ocp, None, false, &[Openshift] => true;
        ocp, None, false, &[Kubernetes, Nodes] => false;
        nodes, None, false, &[Nodes] => true;
        nodes, None, false, &[Kubernetes, Openshift] => false;
        "r/c:{foobar}", None, false, &[Kubernetes, Openshift, Nodes] => false;
        "r/c:{olm_major_version}", None, false, &[Kubernetes, Openshift, Nodes] => false;
        "r/c:v1", None, false, &[Kubernetes, Openshift, Nodes] => false;
        "r/c:v1", Some((CATALOG_IMAGE_TEMPLATE, kube)), false, &[Kubernetes] => true;
        "r/c:v1", Some((CATALOG_IMAGE_TEMPLATE, ocp)), true, &[Openshift] => true;
        "r/c:v1", Some((ANNOTATION, kube)), false, &[Kubernetes] => true;
        // OLM resolves these three variables itself, and has no others.
        "r/c:v1", Some((ANNOTATION, kube)), true, &[Kubernetes] => false;
        "r/c:v1", Some((ANNOTATION, ocp)), false, &[Openshift] => false;
        // The version of this program is known; that of OLM is declared elsewhere.
        olm, None, false, &[ClusterOperator, Packageserver] => false;
        olm, None, true, &[ClusterOperator] => true;
        olm, None, true, &[Packageserver] => true;
        olm, None, true, &[Kubernetes, Openshift, Nodes] => false;
        kube, None, true, &[ClusterOperator, Packageserver] => false;
        "r/c:v1", Some((CATALOG_IMAGE_TEMPLATE, olm)), true, &[Packageserver] => true;
        "r/c:v1", Some((ANNOTATION, olm)), true, &[Packageserver] => false;
    ] {
        let annotations = pairs(annotation.as_slice());
        let input = with!(input(image) => annotations: Some(&annotations), has_olm: has_olm);
        let pending = pending.iter().copied().collect();
        let found = resolve(input, &TemplateValues::default(), &pending);
        let row = format!("{image} {annotations:?} {has_olm}");
        assert_eq!(found.is_none(), waits, "{row}: {found:?}");
    }
}

// parity: switch-olm-4
#[test]
fn template_that_olm_cannot_parse_is_reported() {
    let template = "r/c:v{kube_minor_version}";
    let found = resolved(template, &[], true, Some("v1.20.1"));
    let warning = found.warning.as_deref().unwrap();
    assert!(warning.contains(CATALOG_IMAGE_TEMPLATE), "{warning}");
    let why = format!("{CANNOT}, variable \"kube_minor_version\" couldn't be resolved");
    assert_rows! {
        (found.image.as_deref(), found.write.as_deref()) => (Ok("r/c:v20"), None);
        lines(&found) => [format!("{TEMPLATE_RESOLVED} false UnsupportedByOLM {warning}")];
        // One line per problem.
        lines(&resolved(template, &[], true, None)) => [format!("{TEMPLATE_RESOLVED} false UnableToResolve {why}\n{warning}")];
    }
}

// parity: switch-11
#[test]
fn missing_olm_version_is_explained_if_a_template_needs_it() {
    let unknown = "cannot determine the version of OLM";
    let cannot = |names: &str| format!("{CANNOT}, {names} couldn't be resolved");
    for (text, unknown_olm, expected) in ::tests::rows![
        "r/c:v{olm_minor_version}", Some(unknown) => format!("{}; {unknown}", cannot("variable \"olm_minor_version\""));
        "r/c:v{olm_minor_version}-{foobar}", Some(unknown)
            => format!("{}; {unknown}", cannot("variables \"olm_minor_version\", \"foobar\""));
        "r/c:v{foobar}", Some(unknown) => cannot("variable \"foobar\"");
        "r/c:v{olm_minor_version}", None => cannot("variable \"olm_minor_version\"");
    ] {
        let annotations = pairs(&[(CATALOG_IMAGE_TEMPLATE, text)]);
        let input = with!(input("r/c:any") => annotations: Some(&annotations), has_olm: true, unknown_olm: unknown_olm);
        let found = resolve(input, &values(None), &BTreeSet::new()).unwrap();
        assert_rows!(lines(&found)[0] => format!("{TEMPLATE_RESOLVED} false UnableToResolve {expected}"));
        // The Event has the same text.
        assert_eq!(found.warning.as_deref(), Some(&*expected));
    }
}

// parity: switch-13
#[test]
fn the_last_image_is_that_of_the_same_spec() {
    let template = "r/c:v{kube_minor_version}";
    for (reason, image, generation, expected) in [
        (reason::RESOLVED, "r/c:v19", Some(2), Some("r/c:v19")),
        (reason::LAST_RESOLVED, "r/c:v19", Some(2), Some("r/c:v19")),
        // From another spec, perhaps with another template.
        (reason::RESOLVED, "r/c:v19", Some(1), None),
        (reason::RESOLVED, "r/c:v19", None, None),
        (reason::UNRESOLVED, template, Some(2), None),
        // The condition contains the template itself.
        (reason::LAST_RESOLVED, template, Some(2), None),
    ] {
        let before = with!(condition(reason, image) => observed_generation: generation);
        // The recorded image of this template is used if no other is known.
        for cached in [None, Some("r/c:v18")] {
            let input = with!(input(template) => conditions: std::slice::from_ref(&before), cached_image: cached);
            let found = resolve(input, &values(None), &BTreeSet::new()).unwrap();
            let expected = expected.or(cached);
            let last_line = lines(&found).pop();
            assert_rows!(found.image.unwrap_err().last.as_deref() => expected, "{reason} {generation:?}");
            let expected_line = match expected {
                Some(image) => format!("resolved_image false LastResolved {image}"),
                None => format!("resolved_image false UnableToResolve {template}"),
            };
            assert_eq!(last_line, Some(expected_line), "{reason} {generation:?}");
        }
    }
}
