use ::tests::assert_has;

use super::*;

fn operator(name: &str, maximum: Option<&str>) -> InstalledOperator {
    with!(InstalledOperator::default() => namespace: "ns".into(), name: name.into(), max_openshift: maximum.map(str::to_owned))
}

fn openshift(release: &str) -> ClusterKind {
    ClusterKind::OpenShift(Ok(Release::read(release).unwrap()))
}

fn judged(cluster: &ClusterKind, operators: &[InstalledOperator]) -> UpgradeAssessment {
    assess(cluster, operators, &[])
}

/// Returns whether the cluster may be upgraded, the reason, and the first line.
fn first_line(verdict: &UpgradeAssessment) -> (bool, &str, &str) {
    let first = verdict.message.lines().next();
    (verdict.is_upgradeable, verdict.reason, first.unwrap())
}

fn effects(verdict: &UpgradeAssessment) -> Vec<Effect> {
    let concerns = verdict.concerns.iter();
    concerns.map(|concern| concern.effect).collect()
}

const READY: &str = "Ready for upgrade";
const MAY_NOT: &str = "The following operators may not run on the next OpenShift Version: ";
const WILL_NOT: &str = "The following operators will not run on the next OpenShift Version: ";

/// Rows 1 to 8 of the acceptance list, and A.5's table: whether the cluster may be upgraded, reason and first line.
// parity: max-2, max-7, max-8, max-14, max-15, max-olm-6
#[test]
fn messages_match_the_enhancement() {
    let (fine, silent, blocking) = (Some("4.13"), None, Some("4.12"));
    let of = |operators: &[(&str, Option<&str>)]| {
        let operators = operators.iter().map(|(name, max)| operator(name, *max));
        judged(&openshift("4.12"), &operators.collect::<Vec<_>>())
    };
    assert_each!(|operators, upgradeable, reason, first| first_line(&of(&operators)) => (upgradeable, reason, &*first);
        vec![], true, "AsExpected" => READY.to_owned();
        vec![("a", fine)], true, "AsExpected" => READY.to_owned();
        vec![("a", silent)], true, "IndeterminateOperatorsInstalled" => format!("{MAY_NOT}ns/a");
        vec![("b", silent), ("a", Some("foo")), ("c", fine)], true, "IndeterminateOperatorsInstalled"
            => format!("{MAY_NOT}ns/a, ns/b");
        vec![("a", blocking)], false, "IncompatibleOperatorsInstalled" => format!("{WILL_NOT}ns/a");
        vec![("a", Some("4.11"))], false, "IncompatibleOperatorsInstalled" => format!("{WILL_NOT}ns/a");
        vec![("d", blocking), ("a", silent), ("b", blocking), ("c", fine)], false, "IncompatibleOperatorsInstalled"
            => format!("{WILL_NOT}ns/b, ns/d");
    );
}

/// Values that are not a maximum do not block, and neither do those that OLM rejects.
// parity: max-9, max-14, max-olm-2, max-olm-5
#[test]
fn invalid_release_is_indeterminate() {
    for value in ["\"4.8.1\"", "", "{}", "4.8 and 4.8", "4.8\n\u{202e}\u{7}"] {
        let verdict = judged(&openshift("4.12"), &[operator("a", Some(value))]);
        assert_eq!(verdict.reason, reason::INDETERMINATE, "{value:?}");
        let message = &verdict.concerns[0].message;
        assert_eq!(verdict.message, format!("{MAY_NOT}ns/a\n- ns/a: {message}"));
        let error = maximum(value).unwrap_err();
        let remedy =
            format!("{error}; ask the bundle author to declare a release such as \"4.13\"");
        assert!(message.starts_with(&remedy), "{message}");
        assert!(!message.contains(['\n', '\u{202e}', '\u{7}']), "{message}");
        let of_catalog = with!(operator("a", Some(value)) => is_from_catalog: true);
        assert_rows!(judged(&openshift("4.12"), &[of_catalog]).message.contains("; ask the catalog author to ") => true);
    }
}

/// An invalid value of a catalog does not open the gate that the bundle's value closes, and is reported.
#[test]
fn invalid_catalog_value_is_reported_with_the_bundle_value() {
    let line =
        "- ns/a: the value of the bundle is used because the value of the catalog is invalid: ";
    let garbled =
        |bundle| with!(operator("a", Some(bundle)) => invalid_maximum: Some("\"4.13.0\"".into()));
    let of = |bundle| judged(&openshift("4.12"), &[garbled(bundle)]);
    assert_each!(|bundle, reason, expected| (of(bundle).reason, effects(&of(bundle))) => (reason, expected);
        "4.12", reason::INCOMPATIBLE => vec![Effect::Blocks, Effect::Unknown];
        "4.13", reason::INDETERMINATE => vec![Effect::Unknown];
    );
    assert_each!(|bundle, part| of(bundle).message => has part; "4.12" => line; "4.13" => line;);
}

// parity: max-7
#[test]
fn messages_name_the_next_release_and_the_remedy() {
    let unavailable = "catalog ours/mine is currently unavailable";
    let operators = ::tests::rows![
        "a", "4.22" => UpgradeRemedy::Upgrade("2.0.0".into());
        "b", "4.9" => UpgradeRemedy::None;
        "c", "4.22" => UpgradeRemedy::Unknown(unavailable.into());
        // OLM has installed it: spec.overrides does not exist.
        "d.v1", "4.22" => UpgradeRemedy::Subscription;
    ];
    let operators = operators.map(|row| with!(operator(row.0, Some(row.1)) => remedy: row.2));
    let verdict = judged(&openshift("4.22"), &operators);
    assert_rows! {
        verdict.message => format!(
            "{WILL_NOT}ns/a, ns/b, ns/c, ns/d.v1\n\
             - ns/a: supports OpenShift up to 4.22; upgrade the operator to 2.0.0, which supports 4.23\n\
             - ns/b: supports OpenShift up to 4.9; no known version supports 4.23; uninstall the operator, or add an \
             entry to spec.overrides\n\
             - ns/c: supports OpenShift up to 4.22; cannot determine whether a version supports 4.23: catalog \
             ours/mine is currently unavailable; fix this, or wait\n\
             - ns/d.v1: supports OpenShift up to 4.22; upgrade the operator with its Subscription, or uninstall \
             the operator"
        );
    }
}

// parity: max-12, max-21
#[test]
fn overrides_conditions_and_removed_apis_are_reported() {
    use Effect::{Blocks, Overridden, Refuses, Warns};
    let kubernetes = || ClusterKind::Kubernetes;
    let overridden =
        || with!(operator("a", Some("4.12")) => overridden: Some("tested by us,\nreally".into()));
    let refusal = || Some(("Migrating".into(), "moving data:\n3 of 7".into()));
    let busy = || with!(operator("busy", Some("9.9")) => refusal: refusal());
    let uses = "ClusterRole etcd refers to the resource of PodDisruptionBudget";
    let using = |maximum| with!(operator("a", maximum) => removed_apis: vec![uses.into()]);
    let limited = "supports OpenShift up to 4.12; no known version supports 4.13; uninstall the operator, or add an entry to \
                   spec.overrides";
    let waits = "- ns/busy: not upgradeable: Migrating: moving data: 3 of 7";
    let not_now = format!("The following operators are not upgradeable: ns/busy\n{waits}");
    let ignored = [("a", Some("4.1")), ("b", None), ("c", Some("x"))];
    let ignored = ignored.map(|(name, maximum)| operator(name, maximum));
    let found = |verdict: UpgradeAssessment| {
        let (effects, is_upgradeable) = (effects(&verdict), verdict.is_upgradeable);
        (is_upgradeable, verdict.reason, effects, verdict.message)
    };
    assert_each!(|cluster, operators, upgradeable, reason, effects, message|
        found(judged(&cluster, &operators)) => (upgradeable, reason, effects, message);
        openshift("4.12"), vec![overridden()], true, reason::AS_EXPECTED, vec![Overridden]
            => format!("{READY}\n- ns/a: supports OpenShift up to 4.12 (overridden in spec.overrides: tested by us, really)");
        // An unneeded override is not reported.
        openshift("4.11"), vec![overridden()], true, reason::AS_EXPECTED, vec![] => READY.to_owned();
        openshift("4.12"), vec![busy()], false, reason::NOT_NOW, vec![Refuses] => not_now.clone();
        kubernetes(), vec![busy()], false, reason::NOT_NOW, vec![Refuses] => not_now;
        openshift("4.12"), vec![busy(), operator("old", Some("4.12"))], false, reason::INCOMPATIBLE, vec![Refuses, Blocks]
            => format!("{WILL_NOT}ns/old\n- ns/old: {limited}\n{waits}");
        kubernetes(), vec![using(None)], true, reason::REMOVED_APIS, vec![Warns] => format!("{READY}\n- ns/a: Warning: {uses}");
        openshift("4.12"), vec![using(Some("4.12"))], false, reason::INCOMPATIBLE, vec![Blocks, Warns]
            => format!("{WILL_NOT}ns/a\n- ns/a: {limited}\n- ns/a: Warning: {uses}");
        kubernetes(), Vec::from(ignored), true, reason::AS_EXPECTED, vec![] => READY.to_owned();
    );
}

// parity: max-olm-10
#[test]
fn errors_keep_the_gate_closed() {
    let unknown = "the cluster's version \"x\" is no version";
    let unknown = || ClusterKind::OpenShift(Err(unknown.into()));
    let operators = [("bad", "garbage"), ("good", "9.9"), ("old", "4.12")];
    let operators = operators.map(|(name, maximum)| operator(name, Some(maximum)));
    let errors = &["failed to list ClusterServiceVersions: a\nb".to_owned()][..];
    let first = "Encountered errors while checking compatibility with the next minor version of";
    assert_each!(|cluster, errors, kind, error|
        first_line(&assess(&cluster, &operators, errors)) => (false, reason::ERROR, &*format!("{first} {kind}: {error}"));
        unknown(), &[][..], "OpenShift" => "the cluster's version \"x\" is no version";
        openshift("4.12"), errors, "OpenShift" => "failed to list ClusterServiceVersions: a b";
        ClusterKind::Kubernetes, errors, "Kubernetes" => "failed to list ClusterServiceVersions: a b";
    );
    // Known blocking operators are reported as well.
    let verdict = assess(&openshift("4.12"), &operators, errors);
    let line = "\n- ns/old: supports OpenShift up to 4.12";
    assert_has(&verdict.message, line);
    assert!(!judged(&unknown(), &operators).message.contains('\n'));
}

// parity: max-olm-18
#[test]
fn messages_and_concerns_are_bounded() {
    let names = (0..3000).map(|n| format!("operator-{n:04}-{}", "x".repeat(30)));
    let many: Vec<_> = names.map(|name| operator(&name, Some("4.12"))).collect();
    let verdict = judged(&openshift("4.12"), &many);
    assert!(verdict.message.len() <= 32 << 10);
    let first = verdict.message.lines().next().unwrap();
    let (named, more) = first.rsplit_once(", and ").unwrap();
    assert_eq!(more, format!("{} more", 3000 - named.split(", ").count()));
    // The order of the operators does not matter.
    assert_rows!(judged(&openshift("4.12"), &many.into_iter().rev().collect::<Vec<_>>()) => verdict);

    let mut long = operator(&"n".repeat(2000), Some(&"4".repeat(100_000)));
    long.refusal = Some(("R".repeat(5000), "m\n".repeat(100_000)));
    long.removed_apis = vec!["ä".repeat(100_000); 50];
    let verdict = judged(&openshift("4.12"), &[long]);
    assert!(verdict.message.len() <= 32 << 10);
    assert!(!verdict.concerns.is_empty());
    for concern in &verdict.concerns {
        assert!(concern.message.len() <= limits::LINE as usize);
        assert!(concern.operator.len() <= limits::WORD as usize);
    }
}

#[test]
fn worst_concerns_are_listed_and_all_are_counted() {
    use Effect::{Blocks, Unknown, Warns};
    // Two thousand operators without a value come first in the alphabet.
    let names = (0..2000).map(|n| format!("a{n:04}"));
    let mut all: Vec<_> = names.map(|name| operator(&name, None)).collect();
    let mut warned = operator("b", Some("9.9"));
    warned.removed_apis = vec!["it uses something".into(), "and something else".into()];
    all.push(warned);
    all.push(operator("z", Some("4.12")));
    let verdict = judged(&openshift("4.12"), &all);
    assert_eq!((verdict.concerns.len(), verdict.more), (1024, 2003 - 1024));
    let last = verdict.concerns.last().unwrap();
    assert_eq!((&*last.operator, last.effect), ("ns/z", Effect::Blocks));
    assert!(verdict.concerns.is_sorted());
    assert_rows!(verdict.counts => [(Blocks, 1), (Unknown, 2000), (Warns, 2)].into());
    // The message lists unknown values last.
    let lines: Vec<&str> = verdict.message.lines().collect();
    assert_each!(|line, start| lines[line].split_at(start.len()).0 => start;
        1 => "- ns/z: supports OpenShift up to 4.12";
        2 => "- ns/b: Warning: ";
        4 => "- ns/a0000: does not declare whether it supports OpenShift 4.13; ask the author";
    );
    assert_eq!(lines.last(), Some(&"and 1983 more"));
}

// parity: max-olm-4
#[test]
fn payload_operators_warn_only_about_declared_values() {
    let of = |maximum| {
        let payload = with!(operator("packageserver", maximum) => is_payload: true);
        judged(&openshift("4.12"), &[payload])
    };
    assert_each!(|maximum, reason, has_concern, first|
        (of(maximum).reason, !of(maximum).concerns.is_empty(), first_line(&of(maximum)).2) => (reason, has_concern, &*first);
        None, reason::AS_EXPECTED, false => READY.to_owned();
        Some("4.13"), reason::AS_EXPECTED, false => READY.to_owned();
        Some("4.x"), reason::INDETERMINATE, true => format!("{MAY_NOT}ns/packageserver");
        Some("4.12"), reason::INCOMPATIBLE, true => format!("{WILL_NOT}ns/packageserver");
    );
}

#[test]
fn differing_judgment_of_olm_follows_the_first_line() {
    let header = "ClusterOperator operator-lifecycle-manager evaluates these ClusterServiceVersions differently:";
    let blocks = "- blocks the upgrade, because OLM ignores the value in the catalog: ns/a (OLM reads 4.12, the catalog declares \
                  4.13)";
    let judged_by_olm = |name: &str, maximum: Option<&str>, reading| with!(operator(name, maximum) => olm: Some(reading));
    let reads = |minor| olm::Reading::Release(Release::new(4, minor));
    let raised = with!(judged_by_olm("a", Some("4.13"), reads(12)) => is_from_catalog: true);
    let verdict = judged(&openshift("4.12"), std::slice::from_ref(&raised));
    assert!(verdict.is_upgradeable);
    assert_eq!(verdict.message, format!("{READY}\n{header}\n{blocks}"));
    let annotated = judged_by_olm("b", Some("4.12"), olm::Reading::NotFromCatalog);
    let silent = judged_by_olm("c", None, olm::Reading::Undeclared);
    let same = judged_by_olm("d", Some("4.12"), reads(12));
    let all = [raised.clone(), annotated, silent, same];
    let verdict = judged(&openshift("4.12"), &all);
    let lines: Vec<&str> = verdict.message.lines().collect();
    assert_eq!(lines[0], format!("{WILL_NOT}ns/b, ns/d"));
    assert_eq!(lines[4..6], [header, blocks]);
    assert_eq!(lines.len(), 8, "{lines:?}");
    // The concerns do not include those of OLM.
    assert_eq!(verdict.concerns.len(), 3);
    // Without a release, neither evaluates.
    assert_each!(|cluster, is_compared| judged(&cluster, &all).message.contains(header) => is_compared;
        ClusterKind::Kubernetes => false;
        ClusterKind::OpenShift(Err("x".into())) => false;
        openshift("4.12") => true;
    );
    let verdict = assess(&openshift("4.12"), &all, &["an error".to_owned()]);
    assert_has(&verdict.message, header);

    // The longest message has both.
    let mut many = Vec::new();
    for number in 0..500 {
        let name = format!("{number}{}", "ä".repeat(300));
        let wide = "x".repeat(5000);
        many.extend([
            judged_by_olm(&name, Some(&wide), olm::Reading::Undeclared),
            judged_by_olm(&name, Some("4.8"), olm::Reading::NotFromCatalog),
            judged_by_olm(&name, None, olm::Reading::Rejected(wide.clone())),
            raised.clone(),
        ]);
    }
    let errors = ["e".repeat(100_000)];
    for errors in [&errors[..], &[]] {
        let message = assess(&openshift("4.12"), &many, errors).message;
        assert!(message.len() <= 32 << 10, "{}", message.len());
        assert!(message.contains(header) && message.contains("does not block the upgrade"));
    }
}
