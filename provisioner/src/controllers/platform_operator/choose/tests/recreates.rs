//! A BundleInstance that was deleted is created again at the recorded bundle.

use manifests::api::labels::CHOSEN_BUNDLE;

use super::{super::record, *};

impl Case {
    /// The operator was installed, and its status has a field for the choice.
    fn recorded(self, version: &str) -> Self {
        self.pruned(version).chosen_in_status(version)
    }

    fn chosen_in_status(mut self, version: &str) -> Self {
        let status = self.operator.status.get_or_insert_default();
        status.chosen_bundle = Some(chosen(version, None).bundle);
        self
    }

    /// The operator was installed, and only the annotation records the choice.
    fn pruned(self, version: &str) -> Self {
        let text = record::annotation(&chosen(version, None)).unwrap();
        self.annotated(&text).was_installed()
    }

    fn annotated(mut self, text: &str) -> Self {
        let annotations = self.operator.metadata.annotations.get_or_insert_default();
        annotations.insert(CHOSEN_BUNDLE.into(), text.into());
        self
    }

    fn was_installed(self) -> Self {
        let status = json!({"activeBundleDeployment": {"name": "tide"}});
        with!(self => operator.status: serde_json::from_value(status).unwrap())
    }

    fn respec(self, spec: &Value) -> Self {
        let status = self.operator.status.clone();
        with!(self.spec(spec) => operator.status: status)
    }
}

type Edit = fn(&mut Value);

#[test]
fn a_deleted_instance_is_recreated_at_the_recorded_bundle() {
    let new = Case::new(package(&LINE));
    for version in LINE {
        let expected = InstanceAction::Apply(Box::new(chosen(version, None)));
        assert_eq!(new.clone().recorded(version).plan().act, expected);
        assert_eq!(new.clone().pruned(version).plan().act, expected);
    }
    let later = new.clone().recorded("1.0.1").on("4.13");
    assert_rows! {
        // Nothing is recorded before the first choice.
        new.brief() => "have 1.1.0";
        // The record of the last approval is kept, so that later cluster upgrades count.
        later.minors() => "4.13 1.0";
        later.recorded_minors("4.12 1.0").minors() => "4.12 1.0";
    }
    // No policy skips edges: the upgrade path starts at the recorded bundle.
    for approval in ["WithCluster", "Automatic", "Manual"] {
        let spec = json!({"upgradeApproval": approval});
        assert_rows!(new.clone().recorded("1.0.0").respec(&spec).brief() => "have 1.0.0", "{approval}");
    }
}

#[test]
fn recreation_waits_for_an_unavailable_catalog() {
    let recorded = Case::new(package(&LINE)).recorded("1.0.0");
    let offered = |offers| recorded.clone().offered(offers);
    let two = |offer| {
        let other = ("c/other", 9, Ok(package(&LINE)));
        offered(vec![other, ("c/mine", 0, offer)])
    };
    let named = |offer| {
        let spec = json!({"catalog": {"name": "other"}});
        offered(vec![("c/other", 0, Ok(offer))]).respec(&spec)
    };
    let mut broken = package(&LINE);
    let bundle = broken.bundles.get_mut("tide.v1.0.0").unwrap();
    bundle.invalid_properties = Some("broken off".into());
    assert_plans(::tests::rows![
        "have 1.0.0", "*" => two(Ok(package(&LINE)));
        "refuse InstallPending", "*catalog c/mine is unavailable: timeout*" => two(Err("timeout"));
        "refuse InstallPending", "*catalog c/mine has not been read yet*" => two(Err(PENDING));
        "refuse InstallPending", "*broken off*" => two(Ok(broken));
        // A namespace that cannot be listed may contain the catalog.
        "refuse InstallPending", "*" => offered(vec![("c/*", 0, Err("403"))]);
        // Another catalog does not take over the operator.
        "refuse SourceFailed", "*set another catalog in spec.catalog*" => two(Ok(without(&package(&[]))));
        "have 1.0.0", "*" => named(package(&LINE));
        "have 1.1.0", "*" => named(package(&["1.1.0"]));
    ]);
}

#[test]
fn a_withdrawn_bundle_is_replaced_along_approved_edges_only() {
    let case = |versions: &[&str]| {
        let package = with!(package(versions) => |package| package.bundles.remove("tide.v1.0.0"));
        Case::new(package).recorded("1.0.0").on("4.12")
    };
    // A patch, and nothing newer.
    let plan = case(&LINE).plan();
    assert_rows!(plan.act => InstanceAction::Apply(Box::new(with!(chosen("1.0.1", None) => bundle.why: why(&plan)))));
    // A new minor version waits as if the bundle were installed.
    let minor = case(&["1.0.0", "1.1.0"]);
    let plan = minor.plan();
    let pattern = "*catalog c/mine does not list the bundle; 1.1.0 is a new minor version*";
    assert_plan(&plan, "refuse InstallPending, next 1.1.0", pattern);
    assert_has(waits_for(&plan), "set spec.upgradeApproval to Automatic");
    assert_each!(|spec, expected| minor.clone().respec(&spec).brief() => expected;
        json!({"upgradeApproval": "Automatic"}) => "have 1.1.0";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.1.0"}) => "have 1.1.0";
        json!({"upgradeApproval": "Manual"}) => "refuse InstallPending, next 1.1.0";
        json!({"upgradeApproval": "Automatic", "approveNewRights": "Manual"}) => "refuse InstallPending, next 1.1.0";
        json!({"upgradeApproval": "Manual", "approvedVersion": "latest"}) => "refuse InstallPending";
    );
    assert_rows!(minor.recorded_minors("4.11 1.0").brief() => "have 1.1.0");
    let two = || Case::new(package(&["2.0.0"]));
    let ranged = json!({"version": ">=2.0.0"});
    assert_plans(::tests::rows![
        // No edge exists: an admin decides.
        "refuse SourceFailed", "*set spec.version*" => two().recorded("1.0.0");
        "refuse SourceFailed", "*remove the annotation*" => two().pruned("1.0.0");
        "have 2.0.0", "*" => two().recorded("1.0.0").respec(&ranged);
    ]);
}

#[test]
fn spec_and_cluster_may_exclude_the_recorded_bundle() {
    let mut other = package(&LINE);
    let entry = with!(Entry, name: "tide.v1.0.1".into(), replaces: Some("tide.v1.0.0".into()));
    let fast = with!(Channel, name: "fast".into(), entries: vec![entry]);
    other.channels.insert("fast".into(), fast);
    let at = |version: &str, spec: Value| {
        let case = Case::new(other.clone()).recorded(version).on("4.12");
        case.respec(&spec).brief()
    };
    assert_each!(|version, spec, expected| at(version, spec) => expected;
        "1.0.0", json!({"version": ">=1.0.1"}) => "have 1.0.1";
        "1.0.0", json!({"version": ">=1.1.0"}) => "have 1.1.0";
        "1.1.0", json!({"version": "<1.1.0"}) => "have 1.0.1";
        "1.0.0", json!({"channel": "fast"}) => "have 1.0.1";
        "1.1.0", json!({"channel": "fast"}) => "have 1.0.1";
        "1.0.1", json!({"channel": "fast"}) => "have 1.0.1";
        "1.0.0", json!({"channel": "none"}) => "have 1.0.0";
        "1.1.0", json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"}) => "have 1.0.0";
        // The record of another package is ignored.
        "1.0.0", json!({"package": {"name": "surf"}}) => "have 1.1.0";
    );
    // The cluster exceeds the bundle's maximum: the cluster upgrade approves the versions that support it.
    let moved = |version: &str| {
        let case = Case::new(limited(&LINE, &[(version, "4.12")])).recorded(version);
        case.on("4.13").recorded_minors("4.12 1.0")
    };
    assert_eq!(moved("1.0.1").brief(), "have 1.1.0");
    let pattern = "*requires OpenShift <= 4.12 but the cluster is 4.13*";
    assert_plan(&moved("1.1.0").plan(), "refuse SourceFailed", pattern);
    assert_rows!(moved("1.1.0").respec(&overridden("1.1.0")).brief() => "have 1.1.0");
}

#[test]
fn an_edited_annotation_installs_nothing_that_is_not_offered() {
    let text = record::annotation(&chosen("1.0.0", None)).unwrap();
    let case = |text: &str| Case::new(package(&LINE)).annotated(text);
    let evil = "evil.example/tide@sha256:66";
    let rows: [(Edit, &str); 13] = ::tests::rows![
        |choice| choice["why"] = json!(["x".repeat(9000)]) => "have 1.0.0";
        |choice| choice["image"] = "evil.example/tide:v1".into() => "have 1.0.1";
        |choice| choice["name"] = "evil.v1".into() => "refuse SourceFailed";
        |choice| choice["catalog"] = "evil/mine".into() => "refuse SourceFailed";
        |choice| choice["catalog"] = "".into() => "refuse SourceFailed";
        |choice| choice["channel"] = "evil".into() => "have 1.0.0";
        |choice| choice["version"] = "9.9.9".into() => "have 1.0.0";
        |choice| choice["version"] = "latest".into() => "have 1.0.0";
        |choice| choice["mediaType"] = "helm".into() => "have 1.0.0";
        |choice| choice["after"] = json!({"name": "evil.v1"}) => "have 1.0.0";
        |choice| choice["named"] = "evil.example/tide:v1".into() => "have 1.0.1";
        |choice| choice["name"] = "n".repeat(16_000).into() => "refuse SourceFailed";
        // A pinned image is not taken from an annotation.
        |choice| { choice["named"] = choice["image"].clone(); choice["image"] = "evil.example/tide@sha256:66".into(); } => "have 1.0.0";
    ];
    for (edit, expected) in rows {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        edit(&mut value);
        let plan = case(&value.to_string()).was_installed().plan();
        let found = brief(&plan);
        assert_eq!(found.split(',').next(), Some(expected), "{value}");
        match &plan.act {
            InstanceAction::Apply(found) => {
                assert_rows!(**found => with!(chosen(&found.bundle.version, None) => bundle.why: found.bundle.why.clone()));
            }
            _ => assert!(refusal(&plan).len() < 8192 && !refusal(&plan).contains(evil)),
        }
    }
    for text in ["garbage", &*"x".repeat(200_000), "{}"] {
        let plan = case(text).was_installed().plan();
        let pattern = "*remove the annotation to choose a bundle again*";
        assert_plan(&plan, "refuse InstallPending", pattern);
        // Nothing was installed, so nothing is lost.
        assert_eq!(case(text).brief(), "have 1.1.0");
        assert_rows!(case(text).was_installed().chosen_in_status("1.0.0").brief() => "have 1.0.0");
    }
}

#[test]
fn a_recreated_instance_that_fails_approves_no_upgrade() {
    for reason in ["UnpackFailed", "Unpacking"] {
        let live = instance(&chosen("1.0.0", None), &is_not("HasValidBundle", reason));
        let case = |versions: &[&str]| {
            let case = Case::new(package(versions)).recorded("1.0.0");
            case.on("4.12").with(live.clone())
        };
        let first = with!(case(&LINE) => operator.status: None);
        assert_rows! {
            case(&["1.0.0", "1.1.0"]).brief() => "have 1.0.0";
            // A patch may help.
            case(&LINE).brief() => match reason { "UnpackFailed" => "have 1.0.1", _ => "have 1.0.0" }, "{reason}";
            // Without an earlier installation, any offered bundle may help.
            first.brief() => match reason { "UnpackFailed" => "have 1.1.0", _ => "have 1.0.0" }, "{reason}";
        }
    }
}

/// A bundle that was never installed is not binding if the catalog no longer contains it.
#[test]
fn record_without_an_installation_is_not_binding() {
    let text = record::annotation(&chosen("1.0.0", None)).unwrap();
    let case = |versions: &[&str]| Case::new(package(versions)).annotated(&text).brief();
    assert_rows!([case(&LINE), case(&["2.0.0"])] => ["have 1.0.0", "have 2.0.0"]);
}

#[test]
fn recorded_catalog_is_used_among_equal_names() {
    let spec = json!({"catalog": {"name": "mine"}});
    let case = Case::new(package(&LINE)).recorded("1.0.0").respec(&spec);
    assert_rows!(requested_catalog(&case.operator, None).unwrap().namespace.as_deref() => Some("c"));
}
