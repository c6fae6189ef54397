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
    let hash = template::hash(&instance);
    let mut bundle = template::bundle(&instance, &hash, "a-1");
    bundle.metadata.uid = Some(uid.to_owned());
    let content_digest = digest.map(str::to_owned);
    let status = with!(manifests::api::bundle::BundleStatus, phase: Some(phase), content_digest);
    bundle.status = Some(status);
    bundle
}

fn record(uid: &str, digest: &str) -> InstalledBundle {
    InstalledBundle {
        name: "a-1".to_owned(),
        uid: uid.to_owned(),
        content_digest: digest.to_owned(),
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
    let installed = installed.map(|uid| record(uid, "good"));
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
    for (status, uid, digest, phase, expected) in [
        (&own, "ours", Some("good"), Unpacked, "installed"),
        (&own, "ours", Some("good"), Failing, "missing"),
        (&own, "ours", None, Pending, "missing"),
        (&own, "ours", Some("evil"), Unpacked, "replaced"),
        (&own, "ours", Some("evil"), Failing, "replaced"),
        (&own, "theirs", Some("good"), Unpacked, "missing"),
        (&own, "theirs", Some("evil"), Unpacked, "replaced"),
        (&own, "theirs", None, Pending, "replaced"),
        // The provisioner created it after another client deleted the installed one.
        (&again, "again", Some("other"), Unpacked, "missing"),
        (&again, "again", None, Pending, "missing"),
    ] {
        let found = bundle(uid, digest, phase);
        assert_rows!(verdict(status, Some(&found)) => expected, "{uid} {digest:?} {phase:?}");
    }
    assert_eq!(verdict(&own, None), "missing");
}

#[test]
fn a_bundle_without_reference_is_not_installed() {
    let released =
        with!(bundle("ours", Some("good"), Phase::Unpacked) => metadata.owner_references: None);
    assert_rows!(verdict(&status(Some("ours"), &["ours"]), Some(&released)) => "missing");
}

#[test]
fn an_older_installation_is_adopted_once_by_its_digest() {
    let old = status(None, &[]);
    for (found, is_adopted, expected) in ::tests::rows![
        bundle("any", Some("good"), Phase::Unpacked), true => "missing";
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
        let installed = Some(record("any", "good"));
        assert_rows!(adopted => with!(old.clone() => installed: installed, bundles: vec![created("any")]));
        // From then on another Bundle is not trusted.
        let theirs = bundle("theirs", Some("good"), Phase::Unpacked);
        assert_eq!(adopt(&adopted, &instance(), Some(&theirs), &[]), None);
    }

    let registry = with!(old.clone() => facts.cluster_service_version: Some("a.v1".to_owned()));
    for (status, class, expected) in [
        (&old, "core-rukpak-io-plain", true),
        (&old, "core-rukpak-io-registry", false),
        (&registry, "core-rukpak-io-plain", false),
        (&registry, "core-rukpak-io-registry", true),
        (&registry, "core.rukpak.io/converter", true),
    ] {
        let found = with!(bundle("any", Some("good"), Phase::Unpacked) => spec.provisioner_class_name: class.to_owned());
        assert_rows!(adopt(status, &instance(), Some(&found), &[]).is_some() => expected, "{class}");
    }

    let released =
        with!(bundle("any", Some("good"), Phase::Unpacked) => metadata.owner_references: None);
    assert_eq!(adopt(&old, &instance(), Some(&released), &[]), None);
    assert_eq!(adopt(&old, &instance(), None, &[]), None);
    let nothing = BundleInstanceStatus::default();
    assert_rows!(adopt(&nothing, &instance(), Some(&bundle("any", Some("good"), Phase::Unpacked)), &[]) => None);
}

#[test]
fn adoption_keeps_records_within_their_bound() {
    let uids: Vec<String> = (0..MAX_CREATED).map(|number| number.to_string()).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    let found = bundle("any", Some("good"), Phase::Unpacked);
    let all = uids.iter().map(|uid| bundle(uid, None, Phase::Pending));
    let all: Vec<_> = all.map(Arc::new).collect();
    let adopted = adopt(&status(None, &uids), &instance(), Some(&found), &all).unwrap();
    assert_eq!(adopted.bundles.len(), MAX_CREATED);
    assert_eq!(adopted.bundles.last(), Some(&created("any")));
    // Its record exists already.
    assert_rows!(adopt(&status(None, &["any"]), &instance(), Some(&found), &[]).unwrap().bundles => [created("any")]);
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
    assert_eq!(found(&status(None, &["ours"]), &both), uid);
    assert_eq!(found(&status(None, &[]), &both), None);
    assert_eq!(found(&status(None, &["ours"]), &both[..1]), None);

    // The newer of two created Bundles counts.
    let newer = Arc::new(bundle("newer", None, Phase::Pending));
    assert_rows!(found(&status(None, &["ours", "newer"]), &[Arc::clone(&own), newer]).as_deref() => Some("newer"));

    let mut other_template = status(None, &["ours"]);
    other_template.bundles[0].template_hash = "other".to_owned();
    assert_eq!(found(&other_template, &both), None);
    let mut other_spec = bundle("ours", None, Phase::Pending);
    other_spec.spec.provisioner_class_name = "core-rukpak-io-registry".to_owned();
    assert_rows!(found(&status(None, &["ours"]), &[Arc::new(other_spec)]) => None);

    // Labels do not matter: clients can change them.
    let unlabeled = with!(bundle("ours", None, Phase::Pending) => metadata.labels: None);
    assert_rows!(found(&status(None, &["ours"]), &[Arc::new(unlabeled)]) => uid);

    // Installed once, it has the content that was installed.
    let altered = [Arc::new(bundle("ours", Some("evil"), Phase::Unpacked))];
    assert_eq!(found(&status(Some("ours"), &["ours"]), &altered), None);
    let same = [Arc::new(bundle("ours", Some("good"), Phase::Unpacked))];
    assert_eq!(found(&status(Some("ours"), &["ours"]), &same), uid);
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
