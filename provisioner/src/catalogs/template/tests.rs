use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use manifests::template::ANNOTATION;

use super::*;

const CANNOT: &str = "Cannot construct catalog image reference";

fn values(kube: Option<&str>) -> Values {
    with!(Values::default() => kube: kube.and_then(template::server), openshift: template::server("4.8.3"))
}

/// An image of which nothing else is known, where OLM does not run.
fn input(reference: &str) -> Input<'_> {
    Input {
        reference,
        annotations: None,
        conditions: &[],
        noted: None,
        generation: Some(2),
        has_olm: false,
        unknown_olm: None,
    }
}

fn condition(reason: &str, message: &str) -> Condition {
    Condition {
        type_: RESOLVED_IMAGE.to_owned(),
        status: ["False", "True"][usize::from(reason == reason::RESOLVED)].to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: Some(2),
    }
}

/// A line a condition: type, status, reason and message.
fn lines(resolved: &ResolvedImage) -> Vec<String> {
    let all = resolved.conditions.iter();
    all.map(|it| format!("{} {} {} {}", it.type_, it.is_true, it.reason, it.message))
        .collect()
}

fn pairs(annotations: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = annotations.iter();
    all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn resolved(
    reference: &str,
    annotations: &[(&str, &str)],
    before: &[Condition],
    has_olm: bool,
    kube: Option<&str>,
) -> ResolvedImage {
    let annotations = pairs(annotations);
    let input = with!(input(reference) => annotations: Some(&annotations), conditions: before, has_olm: has_olm);
    resolve(input, &values(kube), &BTreeSet::new()).unwrap()
}

// parity: switch-17
#[test]
fn an_image_without_a_template_is_what_it_is() {
    for has_olm in [false, true] {
        let resolved = resolved("r/c:v1", &[("a", "{b}")], &[], has_olm, None);
        assert_eq!(resolved.image, Ok("r/c:v1".to_owned()));
        assert_eq!((lines(&resolved), resolved.write), (vec![], None));
    }
}

// parity: switch-10, switch-11, switch-12
#[test]
fn a_template_in_the_image_becomes_one_or_is_told() {
    let template = "r/c:v{kube_major_version}.{kube_minor_version}";
    let good = resolved(template, &[], &[], false, Some("v1.20.1+build"));
    assert_eq!(good.image, Ok("r/c:v1.20".to_owned()));
    assert_eq!((&good.write, &good.warning), (&None, &None));
    let expected = [
        "TemplatesHaveResolved true AllTemplatesResolved catalog image reference was successfully resolved",
        "ResolvedImage true AllTemplatesResolved r/c:v1.20",
        "resolved_image true AllTemplatesResolved r/c:v1.20",
    ];
    assert_eq!(lines(&good), expected);

    let why = format!(
        "{CANNOT}, variables \"kube_major_version\", \"kube_minor_version\" couldn't be resolved"
    );
    for (before, last) in ::tests::rows![
        vec![] => format!("resolved_image false UnableToResolve {template}");
        vec![condition(reason::RESOLVED, "r/c:v1.19")] => "resolved_image false LastResolved r/c:v1.19".to_owned();
        vec![condition(reason::KEPT, "r/c:v1.19")] => "resolved_image false LastResolved r/c:v1.19".to_owned();
        vec![condition(reason::UNRESOLVED, template)] => format!("resolved_image false UnableToResolve {template}");
    ] {
        let bad = resolved(template, &[], &before, false, None);
        let found = bad.image.clone().unwrap_err();
        assert_eq!((&found.why, found.is_for_good), (&why, false));
        assert_rows!(found.last.is_some() => last.contains(reason::KEPT), "{found:?}");
        let expected = [
            format!("TemplatesHaveResolved false UnableToResolve {why}"),
            format!("ResolvedImage false UnableToResolve {template}"),
            last,
        ];
        assert_eq!(lines(&bad), expected);
    }
    for (text, begin) in ::tests::rows![
        "r/c:{foobar}" => "variable \"foobar\" couldn't be resolved";
        "r/c:{Kube_Major_Version}" => "variable \"Kube_Major_Version\"";
        "r/c:{}" => "variable \"\" couldn't be resolved";
    ] {
        let bad = resolved(text, &[], &[], false, Some("v1.20.1"));
        let found = bad.image.unwrap_err();
        let begin = format!("{CANNOT}, {begin}");
        assert!(found.why.starts_with(&begin), "{found:?}");
        assert!(found.is_for_good, "{text}");
    }
    for (text, made) in [
        ("r/c:{kube_minor_version", "r/c:{kube_minor_version"),
        ("R C:{kube_minor_version}", "R C:20"),
    ] {
        let bad = resolved(text, &[], &[], false, Some("v1.20.1"));
        let expected = format!("ResolvedImage false UnableToResolve {made}");
        assert_eq!(lines(&bad)[1], expected);
        assert!(bad.image.unwrap_err().is_for_good, "{text}");
    }
}

// parity: switch-olm-1, switch-olm-2
#[test]
fn olms_annotation_is_written_in_its_words_where_it_does_not_run() {
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
        // Not one of the three.
        "r/c:v19", ("r/c:v{ocp_minor_version}", good.1), "r/c:v19", None => [
            "TemplatesHaveResolved false UnableToResolve cannot construct catalog image reference, because one or more \
             template(s) has improper syntax",
            "ResolvedImage false UnableToResolve r/c:v{ocp_minor_version}",
            "resolved_image false LastResolved r/c:v19",
        ];
    ] {
        let found = resolved(reference, &[(ANNOTATION, text)], &[], false, kube);
        assert_eq!(found.image, Ok(image.to_owned()), "{reference} {text}");
        // Conditions tell of it, and nothing else does.
        assert_eq!(found.kept, None, "{reference} {text}");
        assert_eq!(found.write.as_deref(), write, "{reference} {text}");
        assert_eq!(lines(&found), expected, "{reference} {text}");
        // Where it does, nothing is ours.
        let found = resolved(reference, &[(ANNOTATION, text)], &[], true, kube);
        assert_eq!(found.image, Ok(reference.to_owned()));
        assert_eq!((lines(&found), found.write), (vec![], None));
    }
}

// parity: switch-olm-4
#[test]
fn our_annotation_has_all_variables_and_counts_where_olm_runs_too() {
    let text = "r/c:v{kube_minor_version}-{ocp_minor_version}";
    let ours = [(CATALOG_IMAGE_TEMPLATE, text)];
    for has_olm in [false, true] {
        let found = resolved("r/c:any", &ours, &[], has_olm, Some("v1.20.1"));
        assert_eq!(found.image, Ok("r/c:v20-8".to_owned()));
        assert_eq!(found.write.as_deref(), Some("r/c:v20-8"));
        let first = [TEMPLATES_HAVE_RESOLVED, TEMPLATE_RESOLVED][usize::from(has_olm)];
        assert_rows! {
            found.conditions.len() => 3 - usize::from(has_olm);
            lines(&found).last().unwrap() => "resolved_image true AllTemplatesResolved r/c:v20-8";
            lines(&found)[0] => format!("{first} true AllTemplatesResolved catalog image reference was successfully resolved");
        }

        let found = resolved("r/c:any", &ours, &[], has_olm, None);
        assert_eq!(found.image.as_deref(), Ok("r/c:any"));
        assert_eq!(found.write, None);
        // The first condition has the text of the design document, word for word.
        let message = "variable \"kube_minor_version\" couldn't be resolved";
        assert_rows!(lines(&found).last().unwrap() => "resolved_image false LastResolved r/c:any");
        assert_rows!(lines(&found)[0] => format!("{first} false UnableToResolve {CANNOT}, {message}"));
        assert!(found.warning.unwrap().contains("\"kube_minor_version\""));
        let kept = found.kept.unwrap();
        assert!(kept.why.contains("\"kube_minor_version\"") && !kept.is_for_good);
        // Nothing half of an image is ever pulled.
        let found = resolved("r/c:{kube_minor_version}", &ours, &[], has_olm, None);
        assert!(found.image.is_err() && found.write.is_none(), "{found:?}");
    }
    let both = [ours[0], (ANNOTATION, "r/c:v{kube_major_version}")];
    let found = resolved("r/c:any", &both, &[], true, Some("v1.20.1"));
    assert_eq!(found.image.as_deref(), Ok("r/c:any"));
    assert_eq!(found.write, None);
    let types = [TEMPLATE_RESOLVED, RESOLVED_IMAGE];
    for (line, type_) in lines(&found).iter().zip(types) {
        let expected = format!(
            "{type_} false TwoTemplates annotation {CATALOG_IMAGE_TEMPLATE} is ignored because \
                                {ANNOTATION} takes precedence"
        );
        assert!(line.starts_with(&expected), "{found:?}");
    }
    assert_eq!(found.conditions.len(), 2);
    let found = resolved("r/c:any", &both, &[], false, Some("v1.20.1"));
    assert_eq!(found.write.as_deref(), Some("r/c:v1"));
    let warning = found.warning.unwrap();
    assert!(warning.contains(ANNOTATION) && warning.contains(CATALOG_IMAGE_TEMPLATE));
}

/// What only an edit can mend is not told as what may pass.
// parity: switch-11
#[test]
fn what_is_wrong_with_an_annotation_for_good_is_told_as_that() {
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
        // Where there is no image yet, and where there is one.
        let none = resolved("", &annotations, &[], false, kube);
        let told = none.image.unwrap_err();
        assert_eq!(told.is_for_good, is_for_good, "{text}: {told:?}");
        assert_eq!(Some(&told.why), none.warning.as_ref(), "{text}");
        assert_eq!((none.write, none.kept), (None, None), "{text}");
        let some = resolved("r/c:v19", &annotations, &[], false, kube);
        assert_eq!(some.image, Ok("r/c:v19".to_owned()), "{text}");
        let kept = (annotation == CATALOG_IMAGE_TEMPLATE).then_some(told);
        assert_eq!((some.write, some.kept), (None, kept), "{text}");
    }
}

/// At a start, conditions would say now this and now that.
// parity: switch-olm-7
#[test]
fn nothing_is_said_before_the_cluster_was_asked() {
    use FactSource::{ClusterOperator, Kubernetes, Nodes, Olm, Openshift, Packageserver};
    let kube = "r/c:v{kube_minor_version}";
    let ocp = "r/c:v{ocp_minor_version}-{ocp_update_channels}";
    let nodes = "r/c:{platform_architecture}";
    let olm = "r/c:{olm_minor_version}";
    // The image, the annotation, whether OLM runs, what nobody has asked for yet, and whether that is waited for.
    for (image, annotation, has_olm, pending, waits) in ::tests::rows![
        kube, None, false, &[Kubernetes][..] => true;
        kube, None, true, &[Kubernetes] => true;
        kube, None, false, &[Openshift, Nodes, Olm] => false;
        ocp, None, false, &[Openshift] => true;
        ocp, None, false, &[Kubernetes, Nodes] => false;
        nodes, None, false, &[Nodes] => true;
        nodes, None, false, &[Kubernetes, Openshift] => false;
        "r/c:{foobar}", None, false, &[Kubernetes, Openshift, Nodes] => false;
        "r/c:{olm_major_version}", None, false, &[Kubernetes, Openshift, Nodes] => false;
        "r/c:v1", None, false, &[Kubernetes, Openshift, Nodes] => false;
        "r/c:v1", Some((CATALOG_IMAGE_TEMPLATE, kube)), false, &[Kubernetes] => true;
        "r/c:v1", Some((CATALOG_IMAGE_TEMPLATE, kube)), true, &[Kubernetes] => true;
        "r/c:v1", Some((CATALOG_IMAGE_TEMPLATE, ocp)), true, &[Openshift] => true;
        "r/c:v1", Some((ANNOTATION, kube)), false, &[Kubernetes] => true;
        // OLM asks itself, and has these three alone.
        "r/c:v1", Some((ANNOTATION, kube)), true, &[Kubernetes] => false;
        "r/c:v1", Some((ANNOTATION, ocp)), false, &[Openshift] => false;
        // Our own version is known; that of OLM is declared somewhere.
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
        let found = resolve(input, &Values::default(), &pending);
        let row = format!("{image} {annotations:?} {has_olm}");
        assert_eq!(found.is_none(), waits, "{row}: {found:?}");
    }
}

// parity: switch-olm-4
#[test]
fn a_template_that_olm_cannot_read_is_told() {
    let template = "r/c:v{kube_minor_version}";
    let found = resolved(template, &[], &[], true, Some("v1.20.1"));
    assert_eq!(found.image, Ok("r/c:v20".to_owned()));
    assert_eq!(found.write, None);
    let warning = found.warning.as_deref().unwrap();
    assert!(warning.contains(CATALOG_IMAGE_TEMPLATE), "{warning}");
    let expected = format!("{TEMPLATE_RESOLVED} false UnsupportedByOLM {warning}");
    assert_eq!(lines(&found), [expected]);
    // One line per problem.
    let found = resolved(template, &[], &[], true, None);
    let expected = format!(
        "{TEMPLATE_RESOLVED} false UnableToResolve {CANNOT}, variable \"kube_minor_version\" couldn't be resolved\n{warning}"
    );
    assert_eq!(lines(&found), [expected]);
}

// parity: switch-11
#[test]
fn unknown_olm_version_is_explained_where_a_template_needs_it() {
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
        let condition = format!("{TEMPLATE_RESOLVED} false UnableToResolve {expected}");
        assert_eq!(lines(&found)[0], condition);
        // The Event says the same.
        assert_eq!(found.warning.as_deref(), Some(&*expected));
    }
}

// parity: switch-13
#[test]
fn the_last_image_is_that_of_the_same_spec() {
    let template = "r/c:v{kube_minor_version}";
    for (reason, image, generation, expected) in [
        (reason::RESOLVED, "r/c:v19", Some(2), Some("r/c:v19")),
        (reason::KEPT, "r/c:v19", Some(2), Some("r/c:v19")),
        // Of another spec, perhaps with another template.
        (reason::RESOLVED, "r/c:v19", Some(1), None),
        (reason::RESOLVED, "r/c:v19", None, None),
        (reason::UNRESOLVED, template, Some(2), None),
        // Whoever wrote that.
        (reason::KEPT, template, Some(2), None),
    ] {
        let before = with!(condition(reason, image) => observed_generation: generation);
        // What was noted of this very template counts where nothing else is known.
        for noted in [None, Some("r/c:v18")] {
            let input =
                with!(input(template) => conditions: std::slice::from_ref(&before), noted: noted);
            let found = resolve(input, &values(None), &BTreeSet::new()).unwrap();
            let expected = expected.or(noted);
            let said = lines(&found).pop();
            assert_rows!(found.image.unwrap_err().last.as_deref() => expected, "{reason} {generation:?}");
            let kept = match expected {
                Some(image) => format!("resolved_image false LastResolved {image}"),
                None => format!("resolved_image false UnableToResolve {template}"),
            };
            assert_eq!(said, Some(kept), "{reason} {generation:?}");
        }
    }
}
