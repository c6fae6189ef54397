use super::*;

fn version(text: &str) -> Version {
    version::parse_strict(text).unwrap()
}

struct Case {
    installed: Version,
    next: Option<Version>,
    cluster: Option<Release>,
    kept: Option<ApprovedMinors>,
    unblocks_cluster: UnblocksCluster,
    gains: PermissionChange<'static>,
}

impl Case {
    fn new(installed: &str, next: Option<&str>, cluster: &str, recorded: Option<&str>) -> Self {
        let is_known = !cluster.is_empty();
        Self {
            installed: version(installed),
            next: next.map(version),
            cluster: is_known.then(|| Release::read(cluster).unwrap()),
            kept: recorded.map(|minors| minors.parse().unwrap()),
            unblocks_cluster: UnblocksCluster::None,
            gains: PermissionChange::NotChecked,
        }
    }

    /// 1.2.0 is installed, and 4.12 is recorded.
    fn on(cluster: &str, next: &str) -> Self {
        Self::new("1.2.0", Some(next), cluster, Some("4.12 1.2"))
    }

    fn decide<'a>(&'a self, change: impl FnOnce(&mut Input<'a>)) -> Decision {
        let mut input = Input {
            approval: UpgradeApproval::WithCluster,
            approved_version: None,
            permissions: RightsApproval::Automatic,
            approved_rights: None,
            installed: Some(&self.installed),
            cluster: self.cluster,
            kept: self.kept,
            next: self.next.as_ref().map(|version| UpgradeCandidate {
                version,
                unblocks_cluster: self.unblocks_cluster,
                gains: self.gains,
            }),
        };
        change(&mut input);
        decide(&input)
    }
}

fn brief(decision: &Decision) -> (&'static str, Option<String>) {
    let step = match &decision.step {
        ApprovalDecision::NoChange => "none",
        ApprovalDecision::Upgrade(_) => "up",
        ApprovalDecision::CheckPermissions => "look",
        ApprovalDecision::Wait { reason, .. } => reason,
    };
    (step, decision.keep.map(|kept| kept.to_string()))
}

/// Installed, next, cluster, recorded (cluster/package); the decision, and the new record.
const WITH_CLUSTER: &[&str] = &[
    // The first reconcile records the installed version and the cluster version.
    "1.2.0 -      4.12 -        none 4.12/1.2",
    "1.2.0 1.2.1  4.12 -        up   4.12/1.2",
    "1.2.0 1.3.0  4.12 -        wait 4.12/1.2",
    // Patches do not wait for the cluster.
    "1.2.0 1.2.1  4.12 4.12/1.2 up   4.12/1.2",
    "1.2.0 1.2.1  -    4.12/1.2 up   4.12/1.2",
    // A patch of the cluster has no effect.
    "1.2.0 1.3.0  4.12 4.12/1.2 wait 4.12/1.2",
    "1.2.0 2.0.0  4.12 4.12/1.2 wait 4.12/1.2",
    // The cluster was upgraded, also by several versions between two reconciles.
    "1.2.0 1.3.0  4.13 4.12/1.2 up   4.12/1.2",
    "1.2.0 2.0.0  4.15 4.12/1.2 up   4.12/1.2",
    // One edge at a time, up to the head.
    "1.3.0 1.4.0  4.13 4.12/1.2 up   4.12/1.2",
    // The head is reached: the next cluster upgrade counts.
    "1.4.0 -      4.13 4.12/1.2 none 4.13/1.4",
    "1.4.0 1.5.0  4.13 4.13/1.4 wait 4.13/1.4",
    // The catalog for the new cluster version is published later.
    "1.2.0 -      4.13 4.12/1.2 none 4.12/1.2",
    "1.2.3 -      4.13 4.12/1.2 none 4.12/1.2",
    "1.2.3 1.3.0  4.13 4.12/1.2 up   4.12/1.2",
    // Two names of one release are not an upgrade, and neither is a downgrade.
    "1.2.0 1.3.0  5.0  4.23/1.2 wait 4.23/1.2",
    "1.2.0 1.3.0  5.0  4.22/1.2 up   4.22/1.2",
    "1.2.0 1.3.0  4.11 4.12/1.2 wait 4.12/1.2",
    // 4.10 comes after 4.9.
    "1.2.0 1.3.0  4.10 4.9/1.2  up   4.9/1.2",
    // A minor version that was approved otherwise does not count for the next upgrade.
    "1.3.0 -      4.12 4.12/1.2 none 4.12/1.3",
    "1.3.0 1.4.0  4.13 4.12/1.3 up   4.12/1.3",
    // An unknown version is not an upgrade.
    "1.2.0 1.3.0  -    4.12/1.2 wait 4.12/1.2",
    "1.2.0 1.3.0  -    -        wait -",
    // Versions of Kubernetes count alike.
    "1.2.0 1.3.0  1.36 1.35/1.2 up   1.35/1.2",
];

// parity: platform-31
#[test]
fn minor_versions_follow_the_cluster_and_patches_do_not_wait() {
    for row in WITH_CLUSTER {
        let columns = row.split_whitespace();
        let columns = columns.map(|word| (word != "-").then(|| word.replace('/', " ")));
        let [installed, next, cluster, recorded, step, keep] = &columns.collect::<Vec<_>>()[..]
        else {
            panic!("{row}");
        };
        let text = |word: &Option<String>| word.clone().unwrap_or_default();
        let (next, recorded) = (next.as_deref(), recorded.as_deref());
        let decision = Case::new(&text(installed), next, &text(cluster), recorded).decide(|_| ());
        assert_rows!(brief(&decision) => (&*text(step).replace("wait", reason::WITH_CLUSTER), keep.clone()), "{row}");
    }
}

// parity: platform-3
#[test]
fn minor_version_that_unblocks_the_cluster_does_not_wait() {
    let waits = "1.3.0 is a new minor version and is installed when the cluster is upgraded to a new minor version \
                 after 4.12; to install it now, set spec.upgradeApproval to Automatic, or to Manual with \
                 spec.approvedVersion: 1.3.0";
    let blocks = "1.2.0 blocks cluster upgrades and 1.3.0";
    let case = |unblocks| with!(Case::on("4.12", "1.3.0") => unblocks_cluster: unblocks);
    assert_each!(|unblocks_cluster, expected| case(unblocks_cluster).decide(|_| ()).step => expected;
        UnblocksCluster::None => ApprovalDecision::Wait { reason: reason::WITH_CLUSTER, message: waits.into() };
        UnblocksCluster::Now => ApprovalDecision::Upgrade(format!("{blocks} does not"));
        UnblocksCluster::Later => ApprovalDecision::Upgrade(format!("{blocks} leads to a version that does not"));
    );
}

// parity: platform-31
#[test]
fn upgrade_from_an_unknown_version_waits_for_approval() {
    let decided = |approval, approved, cluster| {
        Case::on(cluster, "1.3.0").decide(|input| {
            (input.approval, input.approved_version, input.installed) = (approval, approved, None);
        })
    };
    let recorded = || Some("4.12 1.2".to_owned());
    assert_each!(|approval, approved, cluster, step| brief(&decided(approval, approved, cluster)) => (step, recorded());
        UpgradeApproval::Automatic, None, "4.12" => "up";
        UpgradeApproval::Manual, Some("1.3.0"), "4.12" => "up";
        UpgradeApproval::Manual, None, "4.12" => reason::VERSION;
        UpgradeApproval::WithCluster, None, "4.12" => reason::WITH_CLUSTER;
        UpgradeApproval::WithCluster, None, "4.13" => "up";
    );
    assert_rows! {
        // An unknown version is not recorded.
        brief(&Case::new("1.2.0", None, "4.12", None).decide(|input| input.installed = None)) => ("none", None);
        // Automatic does not wait.
        brief(&Case::on("4.12", "2.0.0").decide(|input| input.approval = UpgradeApproval::Automatic)).0 => "up";
    }
}

// parity: platform-31, complaint-8
#[test]
fn manual_policy_upgrades_up_to_the_approved_version() {
    for (next, approved, expected) in ::tests::rows![
        "1.3.0", None => Err("1.3.0 is waiting for approval");
        "1.3.0", Some("1.3.0") => Ok(());
        // A version below the approved one.
        "1.3.0", Some("1.4.0") => Ok(());
        "1.3.0-rc.1", Some("1.3.0") => Ok(());
        "1.3.0+b", Some("1.3.0") => Ok(());
        "1.3.0", Some("1.2.9") => Err("1.3.0 is newer than spec.approvedVersion 1.2.9");
        "1.2.1", Some("1.2.0") => Err("1.2.1 is newer than spec.approvedVersion 1.2.0");
        "1.3.0", Some("latest") => Err("invalid spec.approvedVersion");
    ] {
        let decision = Case::on("4.13", next).decide(|input| {
            (input.approval, input.approved_version) = (UpgradeApproval::Manual, approved);
        });
        match (decision.step, expected) {
            (ApprovalDecision::Upgrade(_), Ok(())) => {}
            (ApprovalDecision::Wait { reason, message }, Err(problem)) => {
                assert_eq!(reason, reason::VERSION);
                assert!(message.starts_with(problem), "{message}");
                assert_rows!(message.ends_with(&format!("set spec.approvedVersion: {next} to install it")) => true);
            }
            (step, expected) => panic!("{next} {approved:?}: {step:?}, not {expected:?}"),
        }
    }
}

// parity: platform-31
#[test]
fn manual_permission_approval_waits_for_the_digest() {
    let digest = "sha256:abc";
    let these = PermissionChange::Digest(digest);
    let decided = |next, permissions, gains, approved| {
        let case = with!(Case::on("4.12", next) => gains: gains);
        case.decide(|input| (input.permissions, input.approved_rights) = (permissions, approved))
    };
    for (permissions, gains, approved, expected) in ::tests::rows![
        RightsApproval::Automatic, these, None => "up";
        // The permissions are not checked unless the policy requires it.
        RightsApproval::Automatic, PermissionChange::NotChecked, None => "up";
        RightsApproval::Manual, PermissionChange::NotChecked, None => "look";
        // The approved digest may be that of another bundle.
        RightsApproval::Manual, PermissionChange::NotChecked, Some(digest) => "look";
        RightsApproval::Manual, PermissionChange::None, None => "up";
        RightsApproval::Manual, these, None => reason::RIGHTS;
        RightsApproval::Automatic, PermissionChange::Unknown("away"), None => "up";
        RightsApproval::Manual, these, Some("sha256:other") => reason::RIGHTS;
        RightsApproval::Manual, these, Some(digest) => "up";
    ] {
        let decision = decided("1.2.1", permissions, gains, approved);
        assert_rows!(brief(&decision).0 => expected, "{permissions:?} {gains:?} {approved:?}");
        if let ApprovalDecision::Wait { message, .. } = decision.step {
            assert_rows!(message.ends_with("set spec.approvedRights: sha256:abc") => true, "{message}");
        }
    }
    let manual = RightsApproval::Manual;
    assert_rows! {
        decided("1.2.1", manual, PermissionChange::Unknown("the registry is away"), Some(digest)).step
            => ApprovalDecision::Wait { reason: reason::RIGHTS, message: "cannot determine the permissions of 1.2.1: \
                                                                          the registry is away".into() };
        // The version is decided first, and then no check is needed.
        brief(&decided("1.3.0", manual, these, None)).0 => reason::WITH_CLUSTER;
        brief(&decided("1.3.0", manual, PermissionChange::NotChecked, None)).0 => reason::WITH_CLUSTER;
    }
}

#[test]
fn long_permission_lists_are_counted_under_one_digest() {
    let listed = |lines| {
        let digest = "sha256:abc".to_owned();
        let permissions = listed(&PermissionDiff { digest, lines });
        assert_eq!(permissions.digest, "sha256:abc");
        permissions.rules
    };
    let lines = |count| (0..count).map(|n| format!("line {n}")).collect();
    assert_each!(|count, listed_count, last| (listed(lines(count)).len(), &**listed(lines(count)).last().unwrap()) => (listed_count, last);
        1, 1 => "line 0";
        64, 64 => "line 63";
        65, 64 => "and 2 more";
        1000, 64 => "and 937 more";
    );
    assert!(listed(vec!["ä".repeat(100_000)])[0].len() <= limits::LINE as usize);
}
