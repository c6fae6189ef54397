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

fn summary(verdict: &UpgradeAssessment) -> (bool, &str, &str) {
    (verdict.is_upgradeable, verdict.reason, &verdict.message)
}

const READY: &str = "Ready for upgrade";
const MAY_NOT: &str = "The following operators may not run on the next OpenShift Version: ";
const WILL_NOT: &str = "The following operators will not run on the next OpenShift Version: ";

/// Rows 1 to 8 of the acceptance list, and A.5's table: whether the cluster may be upgraded, reason and first line.
// parity: max-2, max-7, max-8, max-14, max-15, max-olm-6
#[test]
fn messages_match_the_enhancement() {
    let (fine, silent, blocking) = (Some("4.13"), None, Some("4.12"));
    for (operators, upgradeable, reason, first) in ::tests::rows![
        vec![], true, "AsExpected" => READY.to_owned();
        vec![("a", fine)], true, "AsExpected" => READY.to_owned();
        vec![("a", silent)], true, "IndeterminateOperatorsInstalled" => format!("{MAY_NOT}ns/a");
        vec![("b", silent), ("a", Some("foo")), ("c", fine)], true, "IndeterminateOperatorsInstalled"
            => format!("{MAY_NOT}ns/a, ns/b");
        vec![("a", blocking)], false, "IncompatibleOperatorsInstalled" => format!("{WILL_NOT}ns/a");
        vec![("a", Some("4.11"))], false, "IncompatibleOperatorsInstalled" => format!("{WILL_NOT}ns/a");
        vec![("d", blocking), ("a", silent), ("b", blocking), ("c", fine)], false, "IncompatibleOperatorsInstalled"
            => format!("{WILL_NOT}ns/b, ns/d");
    ] {
        let operators = operators.iter().map(|(name, max)| operator(name, *max));
        let operators: Vec<_> = operators.collect();
        let verdict = judged(&openshift("4.12"), &operators);
        assert_eq!(verdict.is_upgradeable, upgradeable, "{operators:?}");
        assert_eq!(verdict.reason, reason, "{operators:?}");
        assert_eq!(verdict.message.lines().next(), Some(first.as_str()));
    }
}

/// Values that are not a maximum do not block, and neither do those that OLM rejects.
// parity: max-9, max-14, max-olm-2, max-olm-5
#[test]
fn invalid_release_is_indeterminate() {
    let quoted = [" ", "4.8.0", "4.8.1", "v4.8", "4.8-rc", "4.08"].map(|text| format!("{text:?}"));
    let bare = ["", "4", "null", "{}", "4.8 and 4.8", "bad_version"];
    let values = quoted.iter().map(String::as_str).chain(bare);
    for value in values.chain(["4.8\n\u{202e}\u{7}"]) {
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
        let verdict = judged(&openshift("4.12"), &[of_catalog]);
        assert!(verdict.message.contains("; ask the catalog author to "));
    }
}

/// An invalid value of a catalog does not open the gate that the bundle's value closes, and is reported.
#[test]
fn invalid_catalog_value_is_reported_with_the_bundle_value() {
    for (bundle, reason, effects) in ::tests::rows![
        "4.12", reason::INCOMPATIBLE => &[Effect::Blocks, Effect::Unknown][..];
        "4.13", reason::INDETERMINATE => &[Effect::Unknown];
    ] {
        let garbled =
            with!(operator("a", Some(bundle)) => invalid_maximum: Some("\"4.13.0\"".into()));
        let verdict = judged(&openshift("4.12"), &[garbled]);
        assert_eq!(verdict.reason, reason, "{bundle}");
        assert_rows!(verdict.concerns.iter().map(|one| one.effect).collect::<Vec<Effect>>() => effects, "{bundle}");
        let line =
            "- ns/a: the value of the bundle is used because the value of the catalog is invalid: ";
        assert_has(&verdict.message, line);
    }
}

// parity: max-7
#[test]
fn messages_name_the_next_release_and_the_remedy() {
    let limited_operator =
        with!(operator("a", Some("4.22")) => remedy: UpgradeRemedy::Upgrade("2.0.0".into()));
    let mut invalid_maximum = operator("c", Some("4.22"));
    invalid_maximum.remedy =
        UpgradeRemedy::Unknown("catalog ours/mine is currently unavailable".into());
    // OLM has installed it: spec.overrides does not exist.
    let olm = with!(operator("d.v1", Some("4.22")) => remedy: UpgradeRemedy::Subscription);
    let operators = [
        limited_operator,
        operator("b", Some("4.9")),
        invalid_maximum,
        olm,
    ];
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
    let blocks = "4.23 4.24 5.0";
    for (cluster, blocks) in [("4.22", ""), ("4.23", blocks), ("5.0", blocks)] {
        let blocking: Vec<&str> = ["4.23", "4.24", "5.0", "5.1"]
            .into_iter()
            .filter(|max| !judged(&openshift(cluster), &[operator("a", Some(max))]).is_upgradeable)
            .collect();
        assert_eq!(blocking.join(" "), blocks, "{cluster}");
    }
}

#[test]
fn override_opens_the_gate_and_is_reported() {
    let overridden =
        with!(operator("a", Some("4.12")) => overridden: Some("tested by us,\nreally".into()));
    let verdict = judged(&openshift("4.12"), std::slice::from_ref(&overridden));
    let message = "Ready for upgrade\n- ns/a: supports OpenShift up to 4.12 (overridden in spec.overrides: tested by \
                   us, really)";
    assert_eq!(summary(&verdict), (true, reason::AS_EXPECTED, message));
    assert_eq!(verdict.concerns[0].effect, Effect::Overridden);
    // An unneeded override is not reported.
    let verdict = judged(&openshift("4.11"), &[overridden]);
    assert_eq!((&*verdict.message, verdict.concerns.len()), (READY, 0));
}

// parity: max-olm-10
#[test]
fn errors_keep_the_gate_closed() {
    let unknown = ClusterKind::OpenShift(Err("the cluster's version \"x\" is no version".into()));
    let operators = [("bad", "garbage"), ("good", "9.9")];
    let operators = operators.map(|(name, maximum)| operator(name, Some(maximum)));
    let verdict = judged(&unknown, &operators);
    let message = "Encountered errors while checking compatibility with the next minor version of OpenShift: the cluster's \
                   version \"x\" is no version";
    assert_eq!(summary(&verdict), (false, reason::ERROR, message));
    let errors = ["failed to list ClusterServiceVersions: a\nb".to_owned()];
    for (cluster, name) in [
        (openshift("4.12"), "OpenShift"),
        (ClusterKind::Kubernetes, "Kubernetes"),
    ] {
        let verdict = assess(&cluster, &operators, &errors);
        assert!(!verdict.is_upgradeable);
        let expected = format!("version of {name}: failed to list ClusterServiceVersions: a b");
        assert_has(&verdict.message, &format!("next minor {expected}"));
    }
    // Known blocking operators are reported as well.
    let verdict = assess(&openshift("4.12"), &[operator("a", Some("4.12"))], &errors);
    let line = "\n- ns/a: supports OpenShift up to 4.12";
    assert_has(&verdict.message, line);
}

#[test]
fn operator_condition_blocks_upgrades_on_any_cluster() {
    let busy = with!(operator("busy", Some("9.9")) => refusal: Some(("Migrating".into(), "moving data:\n3 of 7".into())));
    for cluster in [openshift("4.12"), ClusterKind::Kubernetes] {
        let verdict = judged(&cluster, std::slice::from_ref(&busy));
        let message = "The following operators are not upgradeable: ns/busy\n- ns/busy: not upgradeable: Migrating: \
                       moving data: 3 of 7";
        assert_eq!(summary(&verdict), (false, reason::NOT_NOW, message));
    }
    let verdict = judged(&openshift("4.12"), &[busy, operator("old", Some("4.12"))]);
    assert_eq!(verdict.reason, reason::INCOMPATIBLE);
    let lines: Vec<&str> = verdict.message.lines().collect();
    assert_eq!(lines[0], format!("{WILL_NOT}ns/old"));
    assert!(lines[1].starts_with("- ns/old: ") && lines[2].starts_with("- ns/busy: "));
}

// parity: max-21
#[test]
fn removed_apis_are_warnings() {
    let mut operator = operator("a", None);
    operator.removed_apis =
        vec!["ClusterRole etcd refers to the resource of PodDisruptionBudget".into()];
    let verdict = judged(&ClusterKind::Kubernetes, &[operator.clone()]);
    let message = "Ready for upgrade\n- ns/a: Warning: ClusterRole etcd refers to the resource of PodDisruptionBudget";
    assert_eq!(summary(&verdict), (true, reason::REMOVED_APIS, message));
    operator.max_openshift = Some("4.12".into());
    let verdict = judged(&openshift("4.12"), &[operator]);
    assert_eq!(verdict.reason, reason::INCOMPATIBLE);
    let message = verdict.message;
    assert!(message.ends_with("PodDisruptionBudget"), "{message}");
}

// parity: max-12
#[test]
fn maximum_is_ignored_on_kubernetes() {
    let operators = [("a", Some("4.1")), ("b", None), ("c", Some("x"))];
    let operators = operators.map(|(name, maximum)| operator(name, maximum));
    let verdict = judged(&ClusterKind::Kubernetes, &operators);
    assert_eq!(summary(&verdict), (true, reason::AS_EXPECTED, READY));
    assert_eq!(verdict.concerns, []);
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
    let named = named.split(", ").count();
    assert_eq!(more, format!("{} more", 3000 - named));
    assert_eq!(verdict.message.lines().last(), Some("and 2980 more"));
    assert_eq!(verdict.concerns.len(), 1024);
    assert_eq!(verdict.more, 3000 - 1024);
    // The order of the operators does not matter.
    assert_rows!(judged(&openshift("4.12"), &many.into_iter().rev().collect::<Vec<_>>()) => verdict);

    let mut long = operator(&"n".repeat(2000), Some(&"4".repeat(100_000)));
    long.refusal = Some(("R".repeat(5000), "m\n".repeat(100_000)));
    long.removed_apis = vec!["ä".repeat(100_000); 50];
    let verdict = judged(&openshift("4.12"), &[long]);
    assert!(verdict.message.len() <= 32 << 10);
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
    let counts = [(Blocks, 1), (Unknown, 2000), (Warns, 2)];
    assert_eq!(verdict.counts, counts.into());
    // The message lists unknown values last.
    let lines: Vec<&str> = verdict.message.lines().collect();
    for (line, start) in ::tests::rows![
        1 => "- ns/z: supports OpenShift up to 4.12";
        2 => "- ns/b: Warning: ";
        4 => "- ns/a0000: does not declare whether it supports OpenShift 4.13; ask the author";
    ] {
        assert!(lines[line].starts_with(start), "{}", lines[line]);
    }
    assert_eq!(lines.last(), Some(&"and 1983 more"));
}

// parity: max-olm-4
#[test]
fn payload_operators_warn_only_about_declared_values() {
    for (maximum, reason, first) in ::tests::rows![
        None, reason::AS_EXPECTED => READY.to_owned();
        Some("4.13"), reason::AS_EXPECTED => READY.to_owned();
        Some("4.x"), reason::INDETERMINATE => format!("{MAY_NOT}ns/packageserver");
        Some("4.12"), reason::INCOMPATIBLE => format!("{WILL_NOT}ns/packageserver");
    ] {
        let payload = with!(operator("packageserver", maximum) => is_payload: true);
        let verdict = judged(&openshift("4.12"), &[payload]);
        assert_eq!(verdict.reason, reason, "{maximum:?}");
        assert_eq!(verdict.message.lines().next(), Some(first.as_str()));
        assert_eq!(verdict.concerns.is_empty(), reason == reason::AS_EXPECTED);
    }
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
    for cluster in [
        ClusterKind::Kubernetes,
        ClusterKind::OpenShift(Err("x".into())),
    ] {
        let verdict = judged(&cluster, &all);
        assert!(!verdict.message.contains(header), "{}", verdict.message);
    }
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
        let verdict = assess(&openshift("4.12"), &many, errors);
        let message = verdict.message;
        assert!(message.len() <= 32 << 10, "{}", message.len());
        assert!(message.contains(header) && message.contains("does not block the upgrade"));
    }
}
