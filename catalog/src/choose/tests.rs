mod ahead;
mod catalogs;
mod hostile;
mod overrides;
mod rebuilds;

use manifests::{openshift::Spelling, version::parse_strict};

use super::*;
use crate::model::{Bundle, Channel, Entry, Gvk, PLAIN_V0, REGISTRY_V1, Requirement};

/// A package in short: `name: version`, and then for each channel `name<replaces -skips ~range`.
fn package(default: &str, channels: &[(&str, &str)]) -> Package {
    let mut package = with!(Package, name: "foo".into(), default_channel: default.into());
    let split = |text: &str, mark| match text.split_once(mark) {
        Some((before, after)) => (before.to_owned(), Some(after.replace(',', " "))),
        None => (text.to_owned(), None),
    };
    for (name, entries) in channels {
        let mut channel = with!(Channel, name: (*name).into());
        for text in entries.split_whitespace() {
            let (text, skip_range) = split(text, '~');
            let mut parts = text.split('-');
            let (name, replaces) = split(parts.next().unwrap(), '<');
            let bundles = package.bundles.entry(name.clone());
            bundles.or_insert_with(|| bundle(&name));
            let skips = parts.map(str::to_owned).collect();
            channel.entries.push(Entry {
                name,
                replaces,
                skips,
                skip_range,
            });
        }
        package.channels.insert((*name).into(), channel);
    }
    package
}

/// `1.2.0rc1` is the version 1.2.0-rc1; a name's `-` begins a skip.
fn version(name: &str) -> Release {
    Release {
        version: parse_strict(&name.replacen("rc", "-rc", 1)).unwrap(),
        release: None,
    }
}

fn bundle(name: &str) -> Bundle {
    with!(Bundle, image: format!("quay.io/foo@{name}"); ..Bundle::new(name, version(name).version))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of the field")]
fn max_openshift(text: &str) -> Option<MaxOpenShiftVersion> {
    Some(MaxOpenShiftVersion::new(text, Spelling::CatalogProperties))
}

fn installed(name: &str) -> Installed {
    Installed {
        name: name.into(),
        version: Some(version(name)),
        catalog: None,
    }
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self {
            package: "foo",
            channel: None,
            range: None,
            minor: None,
            newest: None,
            installed: None,
            openshift: None,
            kubernetes: None,
            media_types: &[REGISTRY_V1, PLAIN_V0],
            overrides: &[],
        }
    }
}

fn offer<'a>(catalog: &'a str, priority: i64, package: &'a Package) -> Offer<'a> {
    answer(catalog, priority, CatalogAnswer::Package(package))
}

fn answer<'a>(catalog: &'a str, priority: i64, answer: CatalogAnswer<'a>) -> Offer<'a> {
    Offer {
        catalog,
        priority,
        answer,
    }
}

/// Formats an outcome as `install 1.0.0`, `upgrade 1.1.0`, `no upgrade` or `nothing`.
fn short(decision: &Decision) -> String {
    match &decision.verdict {
        Outcome::Install(bundle) => format!("install {}", bundle.name),
        Outcome::Upgrade(bundle) => format!("upgrade {}", bundle.name),
        Outcome::NoUpgrade(_) => "no upgrade".into(),
        Outcome::NoCandidate(_) => "nothing".into(),
    }
}

fn decide(request: &Request<'_>, package: &Package) -> Decision {
    explain(request, &[offer("c", 0, package)])
}

fn after(installed: &Installed) -> Request<'_> {
    with!(Request, installed: Some(installed))
}

fn next(from: &str, request: Request<'_>, package: &Package) -> String {
    let installed = installed(from);
    let request = with!(Request, installed: Some(&installed); ..request);
    short(&decide(&request, package))
}

/// Follows the channel to its end, or for ten upgrades.
fn path(from: &Installed, package: &Package) -> Vec<String> {
    let (mut at, mut path) = (from.clone(), Vec::new());
    for _ in 0..10 {
        let Outcome::Upgrade(choice) = decide(&after(&at), package).verdict else {
            break;
        };
        path.push(choice.name.clone());
        at = with!(Installed, name: choice.name, version: Some(choice.version); ..at);
    }
    path
}

fn reasons<'a>(decision: &'a Decision, name: &str) -> &'a [String] {
    let mut candidates = decision.candidates.iter();
    let found = candidates.find(|candidate| candidate.name == name);
    &found.unwrap().reasons
}

const CHAIN: &str = "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0";

// parity: openshift-14
#[test]
fn install_chooses_the_highest_of_the_default_channel() {
    let decided = |channels, channel| {
        let package = package("stable", channels);
        short(&decide(&with!(Request, channel), &package))
    };
    assert_each!(|channels, channel, chosen| decided(channels, channel) => chosen;
        &[("stable", CHAIN)][..], None => "install 1.2.0";
        // Only the default channel counts, not the highest version of all channels.
        &[("stable", CHAIN), ("candidate", "2.0.0")], None => "install 1.2.0";
        &[("stable", CHAIN), ("candidate", "2.0.0")], Some("candidate") => "install 2.0.0";
        &[("stable", CHAIN)], Some("fast") => "nothing";
        // Releases precede pre-releases, even those of higher versions.
        &[("stable", "1.9.0 1.10.0<1.9.0 2.0.0rc1<1.10.0")], None => "install 1.10.0";
        &[("stable", "2.0.0rc1 2.0.0rc2<2.0.0rc1")], None => "install 2.0.0rc2";
        // Skipped bundles are not installed.
        &[("stable", "1.0.0 1.3.0<1.0.0 1.2.0-1.3.0")], None => "install 1.2.0";
        &[("other", CHAIN)], None => "nothing";
    );
}

// parity: openshift-14
#[test]
fn upgrades_follow_one_edge() {
    let stable = |entries| package("stable", &[("stable", entries)]);
    assert_each!(|entries, from, chosen| next(from, Request::default(), &stable(entries)) => chosen;
        CHAIN, "1.0.0" => "upgrade 1.1.0";
        CHAIN, "1.1.0" => "upgrade 1.2.0";
        CHAIN, "1.2.0" => "no upgrade";
        // Skips, and the highest of several edges.
        "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0-1.0.0", "1.0.0" => "upgrade 1.2.0";
        "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0~>=1.0.0,<1.2.0", "1.0.0" => "upgrade 1.2.0";
        "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0~>=1.1.0,<1.2.0", "1.0.0" => "upgrade 1.1.0";
        // The catalog no longer contains the installed bundle, but the tail and ranges still refer to it.
        "1.1.0<1.0.0 1.2.0<1.1.0", "1.0.0" => "upgrade 1.1.0";
        "1.2.0~<1.2.0", "0.7.0" => "upgrade 1.2.0";
        "1.2.0<1.1.0", "0.7.0" => "no upgrade";
        // A skipped bundle is on the path only if no other bundle is.
        "1.0.0 1.1.0<1.0.0 1.2.0<1.0.0-1.1.0", "1.0.0" => "upgrade 1.2.0";
        "1.0.0 1.1.0-1.0.0 1.2.0-1.1.0", "1.0.0" => "upgrade 1.1.0";
        // No downgrades and no cycles.
        "1.0.0<1.1.0 1.1.0", "1.1.0" => "no upgrade";
        "1.0.0-1.1.0 1.1.0<1.0.0 1.2.0<1.1.0-1.0.0", "1.1.0" => "upgrade 1.2.0";
        "1.0.0~>=1.0.0", "1.0.0" => "no upgrade";
        "1.0.0 1.1.0rc1<1.0.0 1.0.1-1.0.0", "1.0.0" => "upgrade 1.0.1";
    );
}

// parity: platform-4, platform-5
#[test]
fn ineligible_bundles_are_not_chosen_and_have_reasons() {
    let cases: [(fn(&mut Bundle), _); 9] = ::tests::rows![
        |b| b.max_openshift = max_openshift("4.12") => "requires OpenShift <= 4.12 but the cluster is 4.13";
        |b| b.min_kube = Some("1.31.0".into()) => "requires Kubernetes >= 1.31.0 but the cluster is 1.30.5+k3s";
        |b| b.min_kube = Some("new".into()) => "has an invalid minKubeVersion: \"new\"";
        |b| b.media_type = Some("helm".into()) => "has unsupported media type \"helm\"";
        |b| b.invalid_properties = Some("timeout".into()) => "cannot be read: timeout";
        |b| b.image = String::new() => "has no image";
        |b| { b.requires = vec![Requirement::Package { name: "bar".into(), range: ">1.0.0".into() }]; }
            => "requires package bar >1.0.0; dependencies are not resolved";
        |b| {
            let api = Gvk { group: "g".into(), version: "v1".into(), kind: "K".into() };
            b.requires = vec![Requirement::Api(api), Requirement::Constraint(None)];
        } => "requires API g/v1 K and 1 more; dependencies are not resolved";
        |b| b.requires = vec![Requirement::Constraint(Some("GPU".into()))]
            => "requires constraint: GPU; dependencies are not resolved";
    ];
    let kubernetes = parse_strict("1.30.5+k3s").unwrap();
    let at = installed("1.1.0");
    for (spoil, reason) in cases {
        let mut package = package("stable", &[("stable", CHAIN)]);
        spoil(package.bundles.get_mut("1.2.0").unwrap());
        let fresh = with!(Request, openshift: Some("4.13.2".parse().unwrap()), kubernetes: Some(&kubernetes));
        let decision = decide(&fresh, &package);
        assert_eq!(short(&decision), "install 1.1.0", "{reason}");
        assert_eq!(reasons(&decision, "1.2.0"), [reason]);
        let next = decision.next.unwrap();
        assert_eq!(next.name, "1.2.0");
        assert_eq!(next.reasons, [reason]);
        // The installed bundle is kept, and the decision names the bundle that follows.
        let decision = decide(&with!(Request, installed: Some(&at); ..fresh), &package);
        assert_eq!(short(&decision), "no upgrade");
        assert_eq!(decision.next.unwrap().reasons, [reason]);
    }
}

#[test]
fn undeterminable_max_openshift_is_a_warning() {
    let with_max = |text| {
        let mut package = package("stable", &[("stable", "1.0.0")]);
        package.bundles.get_mut("1.0.0").unwrap().max_openshift = max_openshift(text);
        package
    };
    let on_openshift = with!(Request, openshift: Some("4.13.0".parse().unwrap()));
    for max in ["v4.8", "4.8.0", "4.8.1", "4", "4.08", "latest"] {
        let package = with_max(max);
        let decision = decide(&on_openshift, &package);
        assert_eq!(short(&decision), "install 1.0.0");
        let warning = format!(
            "bundle 1.0.0: max OpenShift version cannot be determined: {max:?} is not <major>.<minor>; the bundle may \
             not run on OpenShift 4.13"
        );
        assert_eq!(decision.warnings, [warning]);
        // Outside of OpenShift, the value is ignored.
        assert_eq!(decide(&Request::default(), &package).warnings, [""; 0]);
    }
    assert_rows!(short(&decide(&Request::default(), &with_max("4.1"))) => "install 1.0.0");
}

#[test]
fn requests_limit_the_choice() {
    let chain = package("stable", &[("stable", CHAIN)]);
    for (range, fresh, upgraded) in ::tests::rows![
        "<1.2.0", "install 1.1.0" => "no upgrade";
        "1.0.0", "install 1.0.0" => "no upgrade";
        ">=1.0.0", "install 1.2.0" => "upgrade 1.2.0";
        ">2.0.0", "nothing" => "no upgrade";
    ] {
        let range = Range::parse(range).unwrap();
        let request = with!(Request, range: Some(&range));
        assert_eq!(short(&decide(&request, &chain)), fresh);
        assert_eq!(next("1.1.0", request, &chain), upgraded);
    }
    // A change of the channel follows edges.
    let fast = ("fast", "1.3.0<1.2.0 1.4.0<1.3.0");
    let channels = package("stable", &[("stable", CHAIN), fast]);
    for (from, chosen) in [("1.2.0", "upgrade 1.3.0"), ("1.1.0", "no upgrade")] {
        assert_rows!(next(from, with!(Request, channel: Some("fast")), &channels) => chosen, "{from}");
    }
    // A lower upgrade replaces an ineligible one.
    let entries = "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0~<1.2.0";
    let mut skipping = package("stable", &[("stable", entries)]);
    skipping.bundles.get_mut("1.2.0").unwrap().max_openshift = max_openshift("4.9");
    assert_rows!(next("1.0.0", with!(Request, openshift: Some("4.10.0".parse().unwrap())), &skipping) => "upgrade 1.1.0");
}

#[test]
fn deprecation_is_a_warning_and_not_a_reason() {
    let mut package = package("stable", &[("stable", "1.0.0")]);
    package.deprecation = Some("p".into());
    package.channels.get_mut("stable").unwrap().deprecation = Some("c".into());
    package.bundles.get_mut("1.0.0").unwrap().deprecation = Some("b".into());
    let at = installed("1.0.0");
    for (installed, chosen) in [(None, "install 1.0.0"), (Some(&at), "no upgrade")] {
        let decision = decide(&with!(Request, installed), &package);
        assert_eq!(short(&decision), chosen);
        let warnings = "package foo is deprecated: p, channel stable is deprecated: c, bundle 1.0.0 is deprecated: b";
        assert_eq!(decision.warnings.join(", "), warnings);
    }
}

// parity: platform-29
#[test]
fn choice_has_the_media_type() {
    let mut package = package("stable", &[("stable", CHAIN)]);
    package.bundles.get_mut("1.2.0").unwrap().media_type = Some(PLAIN_V0.into());
    let all = Request::default().media_types;
    for (media_types, name, media_type) in [
        (all, "1.2.0", "plain+v0"),
        (&[REGISTRY_V1], "1.1.0", "registry+v1"),
    ] {
        let decision = decide(&with!(Request, media_types), &package);
        let choice = decision.verdict.choice().unwrap();
        assert_eq!((&*choice.name, &*choice.media_type), (name, media_type));
    }
}
