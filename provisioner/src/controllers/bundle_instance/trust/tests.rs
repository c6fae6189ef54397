use super::*;

fn instance() -> BundleInstance {
    object!({
        "metadata": {"name": "a", "uid": "instance"},
        "spec": {"template": {"spec": {"source": {"type": "image", "image": {"ref": "example.com/a:1"}}}}},
    })
}

/// Returns a Bundle `a-1` with all fields that a client can copy.
fn bundle(uid: &str, digest: Option<&str>, phase: Phase) -> Bundle {
    let instance = instance();
    let mut bundle = template::bundle(&instance, &template::hash(&instance), "a-1");
    bundle.metadata.uid = Some(uid.to_owned());
    let content_digest = digest.map(str::to_owned);
    let status = with!(manifests::api::bundle::BundleStatus, phase: Some(phase), content_digest);
    bundle.status = Some(status);
    bundle
}

/// Returns such a Bundle with the content of the installed one.
fn good(uid: &str) -> Bundle {
    bundle(uid, Some("good"), Phase::Unpacked)
}

fn record(uid: &str) -> InstalledBundle {
    InstalledBundle {
        name: "a-1".to_owned(),
        uid: uid.to_owned(),
        content_digest: "good".to_owned(),
    }
}

fn created(uid: &str) -> CreatedBundle {
    CreatedBundle {
        name: "a-1".to_owned(),
        uid: uid.to_owned(),
        template_hash: template::hash(&instance()),
    }
}

/// Returns the status after the installation of Bundle `a-1`; an older provisioner records no uid.
fn status(installed: Option<&str>, created_uids: &[&str]) -> BundleInstanceStatus {
    let installed = installed.map(record);
    let bundles = created_uids.iter().map(|uid| created(uid)).collect();
    let (name, content_digest) = (Some("a-1".to_owned()), Some("good".to_owned()));
    with!(BundleInstanceStatus, installed_bundle_name: name, content_digest, installed, bundles)
}

fn verdict(status: &BundleInstanceStatus, found: Option<&Bundle>) -> &'static str {
    match installed(status, &instance(), found) {
        Installed::Trusted(_) => "installed",
        Installed::Missing => "missing",
        Installed::Replaced(_) => "replaced",
    }
}

// parity: rukpak-11
#[test]
fn a_bundle_is_installed_if_uid_and_digest_agree() {
    use Phase::{Failing, Pending, Unpacked};
    let own = status(Some("ours"), &["ours"]);
    let again = status(Some("ours"), &["ours", "again"]);
    assert_each!(|uid, digest, phase, status, expected| verdict(status, Some(&bundle(uid, digest, phase))) => expected;
        "ours", Some("good"), Unpacked, &own => "installed";
        "ours", Some("good"), Failing, &own => "missing";
        "ours", None, Pending, &own => "missing";
        "ours", Some("evil"), Unpacked, &own => "replaced";
        "ours", Some("evil"), Failing, &own => "replaced";
        "theirs", Some("good"), Unpacked, &own => "missing";
        "theirs", Some("evil"), Unpacked, &own => "replaced";
        "theirs", None, Pending, &own => "replaced";
        // The provisioner created it after another client deleted the installed one.
        "again", Some("other"), Unpacked, &again => "missing";
        "again", None, Pending, &again => "missing";
    );
    assert_rows!(verdict(&own, Some(&with!(good("ours") => metadata.owner_references: None))) => "missing");
    assert_eq!(verdict(&own, None), "missing");
}

#[test]
fn an_older_installation_is_adopted_once_by_its_digest() {
    let old = status(None, &[]);
    for (found, is_adopted, expected) in ::tests::rows![
        good("any"), true => "missing";
        bundle("any", Some("good"), Phase::Failing), true => "missing";
        bundle("any", Some("evil"), Phase::Unpacked), false => "replaced";
        bundle("any", None, Phase::Pending), false => "missing";
    ] {
        let adopted = adopt(&old, &instance(), Some(&found), &[]);
        assert_eq!(adopted.is_some(), is_adopted, "{found:?}");
        assert_eq!(verdict(&old, Some(&found)), expected, "{found:?}");
        let Some(adopted) = adopted else {
            continue;
        };
        let installed = Some(record("any"));
        assert_rows!(adopted => with!(old.clone() => installed: installed, bundles: vec![created("any")]));
        // From then on another Bundle is not trusted.
        assert_rows!(adopt(&adopted, &instance(), Some(&good("theirs")), &[]) => None);
    }

    let registry = with!(old.clone() => facts.cluster_service_version: Some("a.v1".to_owned()));
    let of = |class: &str| with!(good("any") => spec.provisioner_class_name: class.to_owned());
    assert_each!(|class, status, expected| adopt(status, &instance(), Some(&of(class)), &[]).is_some() => expected;
        "core-rukpak-io-plain", &old => true;
        "core-rukpak-io-registry", &old => false;
        "core-rukpak-io-plain", &registry => false;
        "core-rukpak-io-registry", &registry => true;
        "core.rukpak.io/converter", &registry => true;
    );

    let released = with!(good("any") => metadata.owner_references: None);
    let nothing = BundleInstanceStatus::default();
    assert_rows! {
        adopt(&old, &instance(), Some(&released), &[]) => None;
        adopt(&old, &instance(), None, &[]) => None;
        adopt(&nothing, &instance(), Some(&good("any")), &[]) => None;
    }
}

#[test]
fn adoption_keeps_records_within_their_bound() {
    let uids: Vec<String> = (0..MAX_CREATED).map(|number| number.to_string()).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    let all = uids.iter().map(|uid| bundle(uid, None, Phase::Pending));
    let all: Vec<_> = all.map(Arc::new).collect();
    let adopted = adopt(&status(None, &uids), &instance(), Some(&good("any")), &all).unwrap();
    assert_rows! {
        (adopted.bundles.len(), adopted.bundles.last()) => (MAX_CREATED, Some(&created("any")));
        // Its record exists already.
        adopt(&status(None, &["any"]), &instance(), Some(&good("any")), &[]).unwrap().bundles => [created("any")];
    }
}

// parity: rukpak-26
#[test]
fn template_uses_only_created_bundles() {
    let (instance, hash) = (instance(), template::hash(&instance()));
    let own = Arc::new(bundle("ours", None, Phase::Pending));
    let theirs = Arc::new(bundle("theirs", Some("evil"), Phase::Unpacked));
    let both = [theirs, Arc::clone(&own)];
    let found = |status: &BundleInstanceStatus, bundles: &[Arc<Bundle>]| {
        let found = of_template(status, &instance, &hash, bundles);
        found.and_then(|bundle| bundle.metadata.uid.clone())
    };
    let uid = Some("ours".to_owned());
    let of_ours = |bundle| found(&status(None, &["ours"]), &[Arc::new(bundle)]);
    let installed = |bundle| found(&status(Some("ours"), &["ours"]), &[Arc::new(bundle)]);
    let pending = |uid| bundle(uid, None, Phase::Pending);
    let class = "core-rukpak-io-registry".to_owned();
    let newer = [Arc::clone(&own), Arc::new(pending("newer"))];
    let other_template = with!(status(None, &["ours"]) => |status| status.bundles[0].template_hash = "other".to_owned());
    assert_rows! {
        found(&status(None, &["ours"]), &both) => uid;
        found(&status(None, &[]), &both) => None;
        found(&status(None, &["ours"]), &both[..1]) => None;
        // The newer of two created Bundles counts.
        found(&status(None, &["ours", "newer"]), &newer).as_deref() => Some("newer");
        found(&other_template, &both) => None;
        of_ours(with!(pending("ours") => spec.provisioner_class_name: class)) => None;
        // Labels do not matter: clients can change them.
        of_ours(with!(pending("ours") => metadata.labels: None)) => uid;
        // Installed once, it has the content that was installed.
        installed(bundle("ours", Some("evil"), Phase::Unpacked)) => None;
        installed(good("ours")) => uid;
    }
}

#[test]
fn records_are_bounded_and_keep_what_is_installed() {
    let mut status = status(Some("installed"), &["installed", "deleted", "exists"]);
    let exists = [Arc::new(bundle("exists", None, Phase::Pending))];
    let uids = |status: &BundleInstanceStatus, bundles: &[Arc<Bundle>]| -> Vec<String> {
        let records = super::record(status, bundles, created("new"));
        records.into_iter().map(|created| created.uid).collect()
    };
    assert_eq!(uids(&status, &exists), ["installed", "exists", "new"]);

    let names = (0..100).map(|number| number.to_string());
    let many = names.clone().map(|uid| bundle(&uid, None, Phase::Pending));
    let many: Vec<_> = many.map(Arc::new).collect();
    status.bundles = names.map(|uid| created(&uid)).collect();
    let left = uids(&status, &many);
    assert_eq!(left.len(), MAX_CREATED);
    assert_eq!(left.last().map(String::as_str), Some("new"));
}
