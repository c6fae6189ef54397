//! What is to be done about a platform operator. No I/O.
//!
//! | there is | the catalogs offer | then |
//! | --- | --- | --- |
//! | nothing | a bundle | it is installed |
//! | nothing | none | it is said why |
//! | a bundle, healthy | the next one | it is approved, or waits and says for what; patches go on meanwhile |
//! | a bundle, not healthy or not complete | the next one | it waits |
//! | a bundle | nothing, or cannot be asked | it stays |

use catalog::{
    choose::{self, Choice, Decision, Offer, Request, Verdict},
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use kube::ResourceExt as _;
use manifests::{
    api::{
        bounds,
        instance::BundleInstance,
        platform::{ChosenBundle, Kept, NewRights, NextBundle, PlatformOperator, reason},
    },
    object::shortened,
    openshift::{Release, maximum},
    range::Range,
    version::Version,
};

use super::here::{self, Chosen, Here};
use crate::platform::{
    approval::{self, Step},
    conflict::Conflict,
};

/// What is known.
pub struct Input<'a> {
    /// The operator.
    pub operator: &'a PlatformOperator,
    /// Whose its package is, if somebody else's.
    pub conflict: Option<Conflict>,
    /// The BundleInstance of the same name, whoever made it.
    pub instance: Option<&'a BundleInstance>,
    /// What catalogs offer; nothing as long as it is not known which there are.
    pub offers: Option<&'a [Offer<'a>]>,
    /// The releases of OpenShift, where there is one; or why they are not known.
    pub openshift: Result<Option<Bounds>, &'a str>,
    /// Of Kubernetes.
    pub kubernetes: Option<&'a Version>,
    /// The rights that a bundle gains over what is installed, if that was looked at.
    pub gains: Option<&'a Gains>,
}

/// The releases of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The one that was reached last.
    pub completed: Release,
    /// During an update the higher of both.
    pub highest: Release,
}

/// What a bundle gains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gains {
    /// The image of the bundle.
    pub image: String,
    /// The rights; nothing if they are none.
    pub rights: Option<NewRights>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In the cluster.
    pub act: Act,
    /// To be written down where it differs.
    pub keep: Option<Kept>,
    /// What could be next, and what it waits for.
    pub next: Option<NextBundle>,
    /// What it would gain.
    pub new_rights: Option<NewRights>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// What is to be done in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Nothing can be done for it.
    Refuse {
        /// In one word.
        reason: &'static str,
        /// In words.
        message: String,
    },
    /// What was chosen is to be installed, or stays.
    Have(Box<Chosen>),
    /// The rights of this bundle are to be looked at first.
    Look(String),
    /// The BundleInstance goes, or is not to be touched.
    Leave,
}

impl Plan {
    fn only(act: Act) -> Self {
        Self {
            act,
            keep: None,
            next: None,
            new_rights: None,
            warnings: Vec::new(),
        }
    }

    fn refuse(reason: &'static str, message: impl Into<String>) -> Self {
        Self::only(Act::Refuse {
            reason,
            message: message.into(),
        })
    }
}

/// Decides.
pub fn plan(input: &Input<'_>) -> Plan {
    let operator = input.operator;
    let name = operator.name_any();
    if let Err(unserved) = operator.check() {
        return Plan::refuse(reason::SOURCE_FAILED, unserved.to_string());
    }
    let ours = input.instance.filter(|it| is_of(it, operator));
    if let Some(instance) = input.instance
        && ours.is_none()
    {
        let message = format!(
            "BundleInstance {name} exists and was not made for this PlatformOperator; delete it, or give the \
             PlatformOperator another name"
        );
        return if instance.metadata.deletion_timestamp.is_some() {
            Plan::only(Act::Leave)
        } else {
            Plan::refuse(reason::INSTALL_FAILED, message)
        };
    }
    if ours.is_some_and(|it| it.metadata.deletion_timestamp.is_some()) {
        return Plan::only(Act::Leave);
    }
    if let Some(conflict) = &input.conflict {
        return Plan::refuse(reason::SOURCE_FAILED, conflict.to_string());
    }
    let here = ours.map(here::of).unwrap_or_default();
    let openshift = match input.openshift {
        Ok(openshift) => openshift,
        Err(why) => return stay(&here, &format!("the cluster's version is not known: {why}")),
    };
    let Some(offers) = input.offers else {
        return stay(&here, "it is not known yet which catalogs there are");
    };
    Chooser {
        input,
        here: &here,
        openshift,
        offers,
    }
    .choose()
}

/// Whether a BundleInstance was made for this operator, and not for one of the same name that is gone.
pub(super) fn is_of(instance: &BundleInstance, operator: &PlatformOperator) -> bool {
    let uid = operator.uid();
    let mut owners = instance.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid.as_ref())
}

/// What was chosen stays; if nothing was, it is said why.
fn stay(here: &Here, why: &str) -> Plan {
    match &here.chosen {
        Some(chosen) => Plan::only(Act::Have(Box::new(chosen.clone()))),
        None => Plan::refuse(
            reason::SOURCE_FAILED,
            format!("{why}: failed to run sourcing logic"),
        ),
    }
}

struct Chooser<'a> {
    input: &'a Input<'a>,
    here: &'a Here,
    openshift: Option<Bounds>,
    offers: &'a [Offer<'a>],
}

impl Chooser<'_> {
    fn choose(&self) -> Plan {
        let decision = self.decide(None);
        let mut plan = match &decision.verdict {
            Verdict::Install(choice) => Plan::only(chosen(choice, &decision)),
            Verdict::Upgrade(choice) => self.upgrade(choice, &decision),
            Verdict::Stay(why) | Verdict::Nothing(why) => self.rest(why, &decision),
        };
        plan.warnings.extend(decision.warnings.iter().cloned());
        plan
    }

    fn decide(&self, minor: Option<(u64, u64)>) -> Decision {
        let spec = &self.input.operator.spec;
        let range = spec.version.as_deref().and_then(|it| Range::parse(it).ok());
        let installed = self.here.installed.as_ref().map(|it| choose::Installed {
            name: it.name.clone(),
            version: it.version.clone().map(|version| Packed {
                version,
                release: None,
            }),
            catalog: it.catalog.clone(),
        });
        let request = Request {
            package: &spec.package.name,
            channel: spec.channel.as_deref(),
            range: range.as_ref(),
            minor,
            installed: installed.as_ref(),
            openshift: self.openshift.map(|it| it.highest),
            kubernetes: self.input.kubernetes,
            media_types: &[REGISTRY_V1, PLAIN_V0],
            overrides: &[],
        };
        choose::choose(&request, self.offers)
    }

    /// There is nothing to go on to.
    fn rest(&self, why: &str, decision: &Decision) -> Plan {
        let mut plan = stay(self.here, why);
        if let Some(installed) = self.version() {
            plan.keep = approval::decide(&self.approval(installed, None)).keep;
        }
        plan.next = decision.next.as_ref().map(|next| NextBundle {
            name: cut(&next.name),
            version: cut(&next.version.to_string()),
            waits_for: Some(line(&next.reasons.join("; "))).filter(|it| !it.is_empty()),
        });
        plan
    }

    fn upgrade(&self, choice: &Choice, decision: &Decision) -> Plan {
        // On its way already.
        let on_its_way = self.here.chosen.as_ref().filter(|chosen| {
            !self.here.is_chosen_installed
                && chosen.bundle.name == choice.name
                && chosen.bundle.image == choice.image
        });
        if on_its_way.is_some() {
            return Plan::only(chosen(choice, decision));
        }
        let waits = |why: String| {
            Some(NextBundle {
                name: cut(&choice.name),
                version: cut(&choice.version.to_string()),
                waits_for: Some(line(&why)),
            })
        };
        if self.here.is_chosen_installed && !self.here.is_healthy {
            let mut plan = stay(self.here, "");
            plan.next = waits(
                "what is installed is not healthy yet; the next bundle waits until it is".into(),
            );
            return plan;
        }
        let Some(installed) = self.version() else {
            // Nobody knows whether it is a patch or more; the way on was found by the channel.
            return Plan::only(chosen(choice, decision));
        };
        match self.step(installed, choice) {
            Err(plan) => plan,
            Ok((Step::Wait { message, .. }, keep, rights)) => {
                let mut plan = self
                    .patch(installed, choice)
                    .unwrap_or_else(|| stay(self.here, ""));
                plan.keep = plan.keep.or(keep);
                plan.next = waits(message);
                plan.new_rights = rights;
                plan
            }
            Ok((Step::Go(why), keep, rights)) => {
                let mut act = chosen(choice, decision);
                if let Act::Have(chosen) = &mut act {
                    chosen.bundle.why.push(line(&why));
                }
                Plan {
                    keep,
                    new_rights: rights,
                    ..Plan::only(act)
                }
            }
            Ok((Step::Stay, keep, _)) => Plan {
                keep,
                ..stay(self.here, "")
            },
        }
    }

    /// While a new minor version waits, patches of the installed one do not.
    fn patch(&self, installed: &Version, waiting: &Choice) -> Option<Plan> {
        let version = &waiting.version.version;
        if (version.major, version.minor) == (installed.major, installed.minor) {
            return None;
        }
        let decision = self.decide(Some((installed.major, installed.minor)));
        let Verdict::Upgrade(choice) = &decision.verdict else {
            return None;
        };
        match self.step(installed, choice) {
            Err(plan) => Some(plan),
            Ok((Step::Go(_), keep, rights)) => Some(Plan {
                keep,
                new_rights: rights,
                ..Plan::only(chosen(choice, &decision))
            }),
            Ok(_) => None,
        }
    }

    /// Whether a bundle is approved. An error says what to look at first.
    #[expect(clippy::result_large_err)] // both are ends
    fn step(
        &self,
        installed: &Version,
        choice: &Choice,
    ) -> Result<(Step, Option<Kept>, Option<NewRights>), Plan> {
        let gains = self.input.gains.filter(|it| it.image == choice.image);
        let rights = gains.and_then(|it| it.rights.as_ref());
        let next = approval::Next {
            version: &choice.version.version,
            unblocks: !self.is_blocked_by(&choice.max_openshift),
            new_rights: rights.map(|it| it.digest.as_str()),
        };
        let decided = approval::decide(&self.approval(installed, Some(next)));
        let needs_a_look = self.input.operator.spec.approve_new_rights
            == manifests::api::platform::RightsApproval::Manual
            && gains.is_none();
        if needs_a_look && matches!(decided.step, Step::Go(_)) {
            return Err(Plan::only(Act::Look(choice.image.clone())));
        }
        Ok((decided.step, decided.keep, rights.cloned()))
    }

    fn approval<'a>(
        &'a self,
        installed: &'a Version,
        next: Option<approval::Next<'a>>,
    ) -> approval::Input<'a> {
        let spec = &self.input.operator.spec;
        let of_kubernetes = self
            .input
            .kubernetes
            .map(|version| Release::new(version.major, version.minor));
        let known = self.known_maximum();
        approval::Input {
            approval: spec.upgrade_approval,
            approved_version: spec.approved_version.as_deref(),
            rights: spec.approve_new_rights,
            approved_rights: spec.approved_rights.as_deref(),
            installed,
            blocks: known.is_some_and(|it| self.is_blocked_by(&[it])),
            cluster: self.openshift.map(|it| it.completed).or(of_kubernetes),
            kept: self.input.operator.kept(),
            next,
        }
    }

    /// What is said by now of what is installed: by a catalog, or else by the bundle.
    fn known_maximum(&self) -> Option<String> {
        let installed = self.here.installed.as_ref()?;
        let listed = self.offers.iter().find_map(|offer| match offer.answer {
            choose::Answer::Package(package) => package.bundle(&installed.name),
            _ => None,
        });
        match listed.map(|it| it.max_openshift.as_slice()) {
            Some([one]) => Some(one.clone()),
            _ => self.here.maximum.clone(),
        }
    }

    /// Whether a bundle with these maxima keeps the cluster from its next release.
    fn is_blocked_by(&self, maxima: &[String]) -> bool {
        match (maxima, self.openshift) {
            ([one], Some(cluster)) => maximum(one).is_ok_and(|it| !it.outlasts(cluster.completed)),
            _ => false,
        }
    }

    fn version(&self) -> Option<&Version> {
        self.here.installed.as_ref()?.version.as_ref()
    }
}

fn chosen(choice: &Choice, decision: &Decision) -> Act {
    let most = bounds::FINDINGS as usize - 1; // an approval is added
    let bundle = ChosenBundle {
        name: choice.name.clone(),
        version: choice.version.version.to_string(),
        channel: choice.channel.clone(),
        catalog: choice.catalog.clone(),
        image: choice.image.clone(),
        why: decision
            .steps
            .iter()
            .take(most)
            .map(|it| line(it))
            .collect(),
    };
    Act::Have(Box::new(Chosen {
        bundle,
        media_type: choice.media_type.clone(),
    }))
}

/// What a status takes as one line; characters have up to four bytes.
fn line(text: &str) -> String {
    shortened(text, bounds::LINE as usize / 4)
}

fn cut(text: &str) -> String {
    shortened(text, bounds::WORD as usize / 4)
}
