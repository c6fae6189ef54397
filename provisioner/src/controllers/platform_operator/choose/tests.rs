mod doubts;
mod hostile;
mod keeps;
mod offers;
mod recreates;
mod upgrades;

use ::tests::assert_has;
use catalog::{
    choose::CatalogAnswer,
    model::{Channel, Entry, Package},
};
use manifests::{api::bundle_instance::BundleInstance, version::parse_strict};
use serde_json::{Value, json};

use super::*;
use crate::controllers::platform_operator::fixtures::{
    chosen, condition, forget, image, instance, limited, max_openshift, operator, package,
    plain_status, status,
};

const LINE: [&str; 3] = ["1.0.0", "1.0.1", "1.1.0"];
/// The answer of a catalog that is being read for the first time.
const PENDING: &str = "pending";

/// Offers of catalogs: names, priorities and answers.
type Offers = Vec<(&'static str, i64, Result<Package, &'static str>)>;

#[derive(Debug, Clone)]
struct Case {
    operator: Box<PlatformOperator>,
    instance: Option<Box<BundleInstance>>,
    are_listed: bool,
    offers: Offers,
    openshift: Result<Option<ClusterReleases>, &'static str>,
    kubernetes: Result<&'static str, &'static str>,
    olm: Option<&'static str>,
    gains: Vec<CheckedPermissions>,
}

impl Case {
    /// No instance exists, and the catalog `c/mine` has this package.
    fn new(package: Package) -> Self {
        Self {
            operator: Box::new(operator(&json!({}))),
            instance: None,
            are_listed: true,
            offers: vec![("c/mine", 0, Ok(package))],
            openshift: Ok(None),
            kubernetes: Ok("1.36.3"),
            olm: None,
            gains: Vec::new(),
        }
    }

    /// This version is installed and healthy, and the catalog has these versions.
    fn at(version: &str, versions: &[&str]) -> Self {
        Self::installed(package(versions), version)
    }

    /// This version is installed and healthy, and the catalog has this package.
    fn installed(package: Package, version: &str) -> Self {
        let live = instance(&chosen(version, None), &status(version, true));
        Self::new(package).with(live)
    }

    fn offered(self, offers: Offers) -> Self {
        with!(self => offers: offers)
    }

    fn with(self, instance: BundleInstance) -> Self {
        with!(self => instance: Some(Box::new(instance)))
    }

    fn spec(mut self, spec: &Value) -> Self {
        let annotations = self.operator.metadata.annotations.take();
        *self.operator = operator(spec);
        self.operator.metadata.annotations = annotations;
        self
    }

    fn recorded_minors(mut self, minors: &str) -> Self {
        let annotations = self.operator.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::APPROVED_MINORS.into(), minors.into());
        self
    }

    /// Sets the release of OpenShift, or the former and the desired one during an update.
    fn on(mut self, releases: &str) -> Self {
        let both = releases.split_once("->").unwrap_or((releases, releases));
        let [completed, highest] = [both.0, both.1].map(|text| Release::read(text).unwrap());
        self.openshift = Ok(Some(ClusterReleases { completed, highest }));
        self
    }

    fn existing(&self) -> ExistingInstance<'_> {
        let live = self.instance.as_deref();
        live.map_or(ExistingInstance::Nothing, ExistingInstance::Ours)
    }

    fn plan(&self) -> OperatorPlan {
        self.plan_of(self.existing(), None)
    }

    fn brief(&self) -> String {
        brief(&self.plan())
    }

    fn minors(&self) -> String {
        let minors = self.plan().keep;
        minors.map(|minors| minors.to_string()).unwrap_or_default()
    }

    fn plan_of(
        &self,
        existing: ExistingInstance<'_>,
        conflict: Option<PackageConflict>,
    ) -> OperatorPlan {
        let offers = self.offers.iter().map(|(catalog, priority, answer)| Offer {
            catalog,
            priority: *priority,
            answer: match answer {
                Ok(package) if package.bundles.is_empty() => CatalogAnswer::NotFound,
                Ok(package) => CatalogAnswer::Package(package),
                Err(PENDING) => CatalogAnswer::Pending,
                Err(why) => CatalogAnswer::Unavailable(why),
            },
        });
        let offers: Vec<Offer<'_>> = offers.collect();
        let kubernetes = self.kubernetes.map(parse_strict).map(Result::unwrap);
        plan(&Input {
            operator: &self.operator,
            conflict,
            existing,
            offers: self.are_listed.then_some(&*offers),
            openshift: self.openshift,
            kubernetes: kubernetes.as_ref().map_err(|why| *why),
            olm: self.olm,
            gains: &self.gains,
        })
    }
}

/// Formats a plan: `have 1.0.0`, `refuse SourceFailed`, `look …`, `leave`; and the next version.
fn brief(plan: &OperatorPlan) -> String {
    let short = |name: &str| name.trim_start_matches("tide.v").to_owned();
    let act = match &plan.act {
        InstanceAction::Apply(chosen) => format!("have {}", short(&chosen.bundle.name)),
        InstanceAction::Refuse { reason, .. } => format!("refuse {reason}"),
        InstanceAction::CheckPermissions { image, .. } => {
            let digest = image.rsplit(':').next().unwrap();
            format!("look {}", digest.trim_start_matches('0'))
        }
        InstanceAction::NoChange => "leave".to_owned(),
    };
    match &plan.next {
        Some(next) => format!("{act}, next {}", short(&next.name)),
        None => act,
    }
}

fn have(plan: &OperatorPlan) -> &BundleChoice {
    match &plan.act {
        InstanceAction::Apply(chosen) => chosen,
        act => panic!("{act:?}"),
    }
}

fn why(plan: &OperatorPlan) -> Vec<String> {
    have(plan).bundle.why.clone()
}

fn refusal(plan: &OperatorPlan) -> &str {
    match &plan.act {
        InstanceAction::Refuse { message, .. } => message,
        act => panic!("{act:?}"),
    }
}

fn waits_for(plan: &OperatorPlan) -> &str {
    let next = plan.next.as_ref();
    next.and_then(|next| next.waits_for.as_deref())
        .unwrap_or_default()
}

/// Checks the short form of the plan, and that the pattern matches its rejection, or its wait and warnings.
#[track_caller]
fn assert_plan(plan: &OperatorPlan, short: &str, pattern: &str) {
    assert_eq!(brief(plan), short, "{plan:?}");
    let text = match &plan.act {
        InstanceAction::Refuse { message, .. } => message.clone(),
        _ => format!("{}\n{}", waits_for(plan), plan.warnings.join("\n")),
    };
    assert!(::tests::table::matches(pattern, &text), "{text}");
}

#[track_caller]
fn assert_plans<const N: usize>(rows: [(&str, &str, Case); N]) {
    for (short, pattern, case) in rows {
        assert_plan(&case.plan(), short, pattern);
    }
}

/// Returns a spec that ignores the maximum of this version.
fn overridden(version: &str) -> Value {
    let image = image(version);
    let digest = image.rsplit_once('@').unwrap().1;
    json!({"bundle": {"overrides": [{"constraint": "maxOpenShiftVersion", "digest": digest, "reason": "tested"}]}})
}

/// Returns the status of an instance with this condition, which is False.
fn is_not(type_: &str, reason: &str) -> Value {
    json!({"conditions": [condition(type_, "False", reason)]})
}

fn without(package: &Package) -> Package {
    with!(package.clone() => bundles: std::collections::BTreeMap::default())
}

#[test]
fn installed_and_offered_bundles_decide() {
    let (two, line) = (|| package(&["1.0.0", "1.0.1"]), ["1.0.0", "1.0.1"]);
    let absent = without(&two());
    let olm = Some("failed to list Subscriptions: 403");
    let pending = vec![("c/first", 5, Err(PENDING)), ("c/mine", 0, Ok(two()))];
    assert_plans(::tests::rows![
        "have 1.0.1", "*" => Case::new(two());
        "refuse SourceFailed", "*" => Case::new(absent.clone());
        "have 1.0.1", "*" => Case::at("1.0.0", &line);
        "have 1.0.1", "*" => Case::at("1.0.1", &line);
        // The bundle is kept although the catalog no longer contains it.
        "have 1.0.1", "*" => Case::at("1.0.1", &["1.0.0"]);
        "have 1.0.0", "*" => Case::at("1.0.0", &[]).offered(vec![("c/mine", 0, Ok(absent))]);
        "have 1.0.0", "*" => Case::at("1.0.0", &[]).offered(vec![("c/mine", 0, Err("away"))]);
        "have 1.0.0", "*" => Case::at("1.0.0", &[]).offered(Vec::new());
        // An unknown cluster version blocks new bundles.
        "have 1.0.0", "*" => with!(Case::at("1.0.0", &line) => openshift: Err("no history"));
        "refuse SourceFailed", "failed to determine the cluster version: no history: failed to run sourcing logic"
            => with!(Case::new(two()) => openshift: Err("no history"));
        "have 1.0.0", "*" => with!(Case::at("1.0.0", &line) => kubernetes: Err("connection refused"));
        "refuse SourceFailed", "*failed to determine the Kubernetes version: connection refused*"
            => with!(Case::new(two()) => kubernetes: Err("connection refused"));
        // New bundles wait until the packages of OLM are known.
        "have 1.0.1", "*" => with!(Case::at("1.0.0", &line) => olm: olm);
        "refuse InstallPending", "cannot determine which packages OLM manages: failed to list Subscriptions: 403"
            => with!(Case::new(two()) => olm: olm);
        // A decision waits until the catalogs are listed.
        "refuse InstallPending", "catalogs have not been listed yet" => with!(Case::new(two()) => are_listed: false);
        "have 1.0.0", "*" => with!(Case::at("1.0.0", &[]) => are_listed: false);
        // The plan waits for the first reading of a catalog of higher priority.
        "refuse InstallPending", "catalog c/first has not been read yet" => Case::new(two()).offered(pending);
        "refuse SourceFailed", "*failed to find candidate olm.bundles from the tide package*"
            => Case::new(two()).offered(vec![("c/mine", 0, Err("no route to host"))]);
    ]);
}

#[test]
fn owner_of_the_instance_decides_first() {
    let case = Case::new(package(&["1.0.0"]));
    let leaving = instance(&chosen("1.0.0", None), &status("1.0.0", true));
    let deletion = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let leaving = with!(leaving => metadata.deletion_timestamp: Some(deletion));
    for (existing, short, pattern) in ::tests::rows![
        ExistingInstance::Foreign { is_leaving: true }, "leave" => "*";
        ExistingInstance::Foreign { is_leaving: false }, "refuse InstallFailed"
            => "BundleInstance tide already exists and does not belong to this PlatformOperator; delete it, or rename \
                the PlatformOperator";
        ExistingInstance::Orphaned, "refuse InstallPending" => "*waiting for the deletion of the BundleInstance*";
        ExistingInstance::Ours(&leaving), "leave" => "*";
    ] {
        assert_plan(&case.plan_of(existing, None), short, pattern);
    }
    for case in [case, Case::at("1.0.0", &["1.0.0"])] {
        let (package, by) = ("tide".into(), "Subscription a/b".into());
        let plan = case.plan_of(case.existing(), Some(PackageConflict::Olm { package, by }));
        let pattern = "*is managed by OLM (Subscription a/b)*";
        assert_plan(&plan, "refuse SourceFailed", pattern);
    }
}

#[test]
fn installed_bundle_is_found_without_a_recorded_choice() {
    let live = || forget(instance(&chosen("1.0.0", None), &status("1.0.0", true)));
    let case = Case::new(package(&["1.0.0", "1.1.0"])).with(live());
    let other = with!(package(&["1.0.0"]) => |other| other.bundles.get_mut("tide.v1.0.0").unwrap().image = image("6.6.6"));
    assert_rows! {
        case.brief() => "have 1.0.0, next 1.1.0";
        case.plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // A bundle with the same name may be a different one.
        Case::new(other).with(live()).brief() => "refuse SourceFailed";
    }
}

/// A bundle without a digest is identified by its name.
#[test]
fn bundles_without_bundle_info_follow_the_channel() {
    let plain = |chosen: &BundleChoice, version| {
        let mut package = package(&["1.0.0", "1.0.1", "1.0.2"]);
        for bundle in package.bundles.values_mut() {
            bundle.media_type = Some("plain+v0".into());
        }
        Case::new(package).with(instance(chosen, &plain_status(version)))
    };
    let first = with!(chosen("1.0.0", None) => media_type: "plain+v0".into());
    let second = have(&plain(&first, "1.0.0").plan()).clone();
    assert_rows! {
        second.bundle.name => "tide.v1.0.1";
        second.after.as_ref().unwrap().name => "tide.v1.0.0";
        // An unfinished upgrade skips no version.
        plain(&second, "1.0.0").brief() => "have 1.0.1";
        plain(&second, "1.0.1").brief() => "have 1.0.2";
    }
}
