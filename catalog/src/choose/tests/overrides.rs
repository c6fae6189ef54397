//! Overrides: constraints that are ignored on request.

use super::*;

#[test]
fn override_applies_to_its_image_and_constraint_with_a_warning() {
    let kubernetes = parse_strict("1.30.5").unwrap();
    let too_new = "requires OpenShift <= 4.12 but the cluster is 4.13";
    let too_old = "requires Kubernetes >= 1.31.0 but the cluster is 1.30.5";
    let spoil = |newest: bool, oldest: bool| {
        let mut package = package("stable", &[("stable", CHAIN)]);
        let bundle = package.bundles.get_mut("1.2.0").unwrap();
        bundle.image = "quay.io/foo:v1@sha256:12".into();
        if newest {
            bundle.max_openshift = max_openshift("4.12");
        }
        if oldest {
            bundle.min_kube = Some("1.31.0".into());
        }
        package
    };
    let of = |constraint, digest| Override { constraint, digest };
    let newest = |digest| of(Constraint::MaxOpenShiftVersion, digest);
    let oldest = |digest| of(Constraint::MinKubeVersion, digest);
    let at = installed("1.1.0");
    for (package, overrides, is_chosen, warned) in ::tests::rows![
        spoil(true, false), vec![], false => vec![];
        spoil(true, false), vec![newest("sha256:12")], true => vec![too_new];
        spoil(true, false), vec![newest("sha256:13")], false => vec![];
        spoil(true, false), vec![oldest("sha256:12")], false => vec![];
        spoil(false, true), vec![oldest("sha256:12")], true => vec![too_old];
        spoil(false, true), vec![newest("sha256:12")], false => vec![];
        spoil(true, true), vec![newest("sha256:12")], false => vec![];
        spoil(true, true), vec![newest("sha256:12"), oldest("sha256:12")], true => vec![too_new, too_old];
        // An override of a satisfied constraint causes no warning.
        spoil(false, false), vec![newest("sha256:12")], true => vec![];
    ] {
        for (installed, chosen, other) in [
            (None, "install 1.2.0", "install 1.1.0"),
            (Some(&at), "upgrade 1.2.0", "no upgrade"),
        ] {
            let (openshift, kubernetes) = (Some("4.13.2".parse().unwrap()), Some(&kubernetes));
            let request = with!(Request, installed, openshift, kubernetes, overrides: &overrides);
            let decision = decide(&request, &package);
            assert_rows!(short(&decision) => if is_chosen { chosen } else { other }, "{overrides:?}");
            let warned = warned.iter();
            let warned = warned.map(|warning| format!("bundle 1.2.0 {warning} (overridden)"));
            assert_eq!(decision.warnings, warned.collect::<Vec<_>>());
        }
    }
    // An override needs a digest, because a tag does not identify content.
    let mut tagged = spoil(true, false);
    tagged.bundles.get_mut("1.2.0").unwrap().image = "quay.io/foo:12".into();
    let (openshift, overrides) = (Some("4.13.2".parse().unwrap()), &[newest("12"), newest("")]);
    assert_rows!(short(&decide(&with!(Request, openshift, overrides), &tagged)) => "install 1.1.0");
}
