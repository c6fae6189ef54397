//! What is to be done about an operator whose package is its own, given what catalogs offer.

use catalog::{
    choose::{self, Choice, Decision, Offer, Request, Verdict},
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use manifests::{
    api::{
        bounds,
        instance::{Constraint, Override},
        platform::{ChosenBundle, NewRights, NextBundle, UpgradeApproval, reason},
    },
    openshift::{Release, maximum},
    range::Range,
    version::{self, Version},
};

use super::{Act, Bounds, Input, Plan};
use crate::platform::{
    approval::{self, Step},
    operator::{
        declare, fit,
        here::{Bundle, Chosen, Here, Predecessor},
    },
};

/// How many bundles are named that cannot be installed.
const NAMED: usize = 3;

pub(super) struct Chooser<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) here: &'a Here,
    pub(super) openshift: Option<Bounds>,
    pub(super) kubernetes: &'a Version,
    pub(super) offers: &'a [Offer<'a>],
}

impl Chooser<'_> {
    pub(super) fn choose(&self) -> Plan {
        if let Some(catalog) = self.gone() {
            let why = format!(
                "catalog {catalog}, which what is installed was chosen from, is gone or has the package no more; it stays as \
                 it is, and to have it upgraded from another one, name that in spec.catalog"
            );
            let mut plan = self.stay(&why);
            plan.warnings.push(why);
            return plan;
        }
        let decision = self.decide(None, None);
        let mut plan = match &decision.verdict {
            Verdict::Install(choice) => self.install(choice, &decision),
            Verdict::Upgrade(choice) => self.upgrade(choice, &decision),
            Verdict::Stay(why) => self.rest(why, &decision),
            Verdict::Nothing(why) => self.nothing(why, &decision),
        };
        plan.warnings.extend(self.warnings(&plan.act, decision));
        plan
    }

    /// What people should know of what is installed, or about to be.
    fn warnings(&self, act: &Act, decision: Decision) -> Vec<String> {
        match (&decision.verdict, act) {
            (Verdict::Upgrade(next), Act::Have(chosen)) if chosen.bundle.name == next.name => {
                decision.warnings
            }
            // Where no version is welcome, what is said is about the installed one.
            (Verdict::Upgrade(_), _) => self.decide(Some((u64::MAX, u64::MAX)), None).warnings,
            _ => decision.warnings,
        }
    }

    /// The catalog of what is installed, if that has nothing to say any more. It may be back in a moment; and whose
    /// operator this is from then on, nobody but an admin can say.
    fn gone(&self) -> Option<&str> {
        if self.input.operator.spec.catalog.is_some() {
            return None;
        }
        let catalog = self.here.installed.as_ref()?.catalog.as_deref()?;
        let mut offers = self.offers.iter();
        let offer = offers.find(|offer| offer.catalog == catalog);
        let is_gone = offer.is_none_or(|offer| matches!(offer.answer, choose::Answer::Absent));
        is_gone.then_some(catalog)
    }

    /// What an admin says does not count.
    fn overrides(&self) -> impl Iterator<Item = &Override> {
        let bundle = self.input.operator.spec.bundle.as_ref();
        bundle.into_iter().flat_map(|it| &it.overrides)
    }

    /// Asks for the next bundle: of one minor version only, or none that is newer than this.
    fn decide(&self, minor: Option<(u64, u64)>, newest: Option<&Version>) -> Decision {
        let spec = &self.input.operator.spec;
        let range = spec.version.as_deref().and_then(|it| Range::parse(it).ok());
        let installed = self.here.installed.as_ref().map(|it| choose::Installed {
            name: it.name.clone(),
            version: it.version.clone().map(|version| Packed {
                version,
                release: it.release.clone(),
            }),
            catalog: it.catalog.clone(),
        });
        let overrides: Vec<_> = self.overrides().map(overridden).collect();
        let request = Request {
            package: &spec.package.name,
            channel: spec.channel.as_deref(),
            range: range.as_ref(),
            minor,
            newest,
            installed: installed.as_ref(),
            openshift: self.openshift.map(|it| it.highest),
            kubernetes: Some(self.kubernetes),
            media_types: &[REGISTRY_V1, PLAIN_V0],
            overrides: &overrides,
        };
        choose::choose(&request, self.offers)
    }

    /// There is nothing yet, and something to install.
    fn install(&self, choice: &Choice, decision: &Decision) -> Plan {
        // What is on its way already is not given up because its catalog is away.
        if let Some(chosen) = &self.here.chosen
            && (decision.unasked.iter()).any(|it| it.catalog == chosen.bundle.catalog)
        {
            return Plan::have(chosen.clone());
        }
        Plan::have(self.chosen(choice, decision))
    }

    /// There is nothing, and nothing to install.
    fn nothing(&self, why: &str, decision: &Decision) -> Plan {
        if let Some(catalog) = Self::pending(decision) {
            let why = format!("catalog {catalog} has not been read yet");
            return super::stay(self.here, reason::INSTALL_PENDING, &why);
        }
        let why = match ineligible(decision) {
            Some(reasons) => format!("{why}: {reasons}"),
            None => why.to_owned(),
        };
        super::stay(self.here, reason::SOURCE_FAILED, &why)
    }

    /// A catalog that could not be asked because it was never read so far; it will be soon, or it is said why not.
    fn pending(decision: &Decision) -> Option<&String> {
        let mut unasked = decision.unasked.iter();
        Some(&unasked.find(|it| it.is_pending)?.catalog)
    }

    /// There is nothing to go on to.
    fn rest(&self, why: &str, decision: &Decision) -> Plan {
        let mut plan = self.stay(why);
        // Whoever has looked at no bundle does not know whether there is more to come.
        let has_looked = !decision.candidates.is_empty();
        let is_at_the_end = has_looked && decision.next.is_none();
        if let Some(installed) = self.version()
            && (is_at_the_end || self.input.operator.kept().is_none())
        {
            plan.keep = approval::decide(&self.approval(installed, None)).keep;
        }
        if !has_looked && Self::pending(decision).is_none() {
            plan.warnings.push(why.to_owned());
        }
        plan.next = decision.next.as_ref().map(|next| NextBundle {
            name: fit(&next.name, bounds::WORD),
            version: fit(&next.version.to_string(), bounds::WORD),
            waits_for: Some(fit(&next.reasons.join("; "), bounds::LINE))
                .filter(|it| !it.is_empty()),
        });
        plan
    }

    fn upgrade(&self, choice: &Choice, decision: &Decision) -> Plan {
        // On its way already.
        let is_on_its_way = |chosen: &Chosen| {
            !self.here.is_chosen_installed
                && chosen.bundle.name == choice.name
                && chosen.bundle.image == choice.image
        };
        if let Some(chosen) = self.here.chosen.as_ref().filter(|it| is_on_its_way(it)) {
            return Plan::have(chosen.clone());
        }
        let waits = |why: &str| {
            Some(NextBundle {
                name: fit(&choice.name, bounds::WORD),
                version: fit(&choice.version.to_string(), bounds::WORD),
                waits_for: Some(fit(why, bounds::LINE)),
            })
        };
        // What does not come to an end may be replaced by something better.
        let is_settled = self.here.is_chosen_installed || self.here.chosen.is_none();
        if is_settled && !self.here.is_healthy {
            let mut plan = self.stay("what is installed is not healthy");
            plan.next =
                waits("what is installed is not healthy yet; the next bundle waits until it is");
            return plan;
        }
        let Some(installed) = self.version() else {
            // Nobody knows whether it is a patch or more; the way on was found by the channel.
            return Plan::have(self.chosen(choice, decision));
        };
        let (decided, rights) = self.step(installed, choice);
        match decided.step {
            Step::Wait { message, .. } => {
                let mut plan = self
                    .patch(installed, choice)
                    .unwrap_or_else(|| self.stay(&message));
                plan.keep = plan.keep.or(decided.keep);
                plan.next = waits(&message);
                plan.new_rights = rights;
                plan
            }
            Step::Look => Plan::only(look(choice)),
            Step::Go(why) => Plan {
                keep: decided.keep,
                new_rights: rights,
                ..Plan::have(self.approved(choice, decision, &why))
            },
            Step::Stay => self.stay("there is nothing to upgrade to"),
        }
    }

    /// While a new minor version waits, patches of the installed one do not; nor does what is approved, where something
    /// newer is not.
    fn patch(&self, installed: &Version, waiting: &Choice) -> Option<Plan> {
        let version = &waiting.version.version;
        let spec = &self.input.operator.spec;
        let decision = if spec.upgrade_approval == UpgradeApproval::Manual {
            let approved = spec.approved_version.as_deref()?;
            let approved = version::strict(approved).ok()?;
            if version.cmp_precedence(&approved).is_le() {
                return None;
            }
            self.decide(None, Some(&approved))
        } else if (version.major, version.minor) == (installed.major, installed.minor) {
            return None;
        } else {
            self.decide(Some((installed.major, installed.minor)), None)
        };
        let Verdict::Upgrade(choice) = &decision.verdict else {
            return None;
        };
        let (decided, _) = self.step(installed, choice);
        match decided.step {
            Step::Look => Some(Plan::only(look(choice))),
            Step::Go(why) => Some(Plan {
                keep: decided.keep,
                ..Plan::have(self.approved(choice, &decision, &why))
            }),
            Step::Wait { .. } | Step::Stay => None,
        }
    }

    /// Whether a bundle is approved, and which rights it gains, if that was looked at.
    fn step(
        &self,
        installed: &Version,
        choice: &Choice,
    ) -> (approval::Decision, Option<NewRights>) {
        let mut seen = self.input.gains.iter();
        let seen = seen.find(|it| it.image == choice.image);
        let rights = seen.map(|it| it.rights.as_ref());
        let next = approval::Next {
            version: &choice.version.version,
            unblocks: !self.is_blocked_by(&choice.max_openshift),
            gains: match rights {
                None => approval::Gains::Unseen,
                Some(None) => approval::Gains::None,
                Some(Some(rights)) => approval::Gains::These(&rights.digest),
            },
        };
        let decided = approval::decide(&self.approval(installed, Some(next)));
        (decided, rights.flatten().cloned())
    }

    fn approval<'a>(
        &'a self,
        installed: &'a Version,
        next: Option<approval::Next<'a>>,
    ) -> approval::Input<'a> {
        let spec = &self.input.operator.spec;
        let of_kubernetes = Release::new(self.kubernetes.major, self.kubernetes.minor);
        let digest = self
            .here
            .installed
            .as_ref()
            .and_then(|it| it.digest.as_deref());
        let is_overridden = self.overrides().any(|it| {
            it.constraint == Constraint::MaxOpenShiftVersion && Some(it.digest.as_str()) == digest
        });
        let known = self.known_maximum().filter(|_| !is_overridden);
        approval::Input {
            approval: spec.upgrade_approval,
            approved_version: spec.approved_version.as_deref(),
            rights: spec.approve_new_rights,
            approved_rights: spec.approved_rights.as_deref(),
            installed,
            blocks: known.is_some_and(|it| self.is_blocked_by(&[it])),
            cluster: Some(self.openshift.map_or(of_kubernetes, |it| it.completed)),
            kept: self.input.operator.kept(),
            next,
        }
    }

    /// What is said by now of what is installed: by a catalog, or else by the bundle.
    fn known_maximum(&self) -> Option<String> {
        let installed = self.here.installed.as_ref()?;
        match self.listed(installed).map(|(_, it)| &*it.max_openshift) {
            None | Some([]) => self.here.maximum.clone(),
            Some(listed) => Some(listed.join(" and ")),
        }
    }

    /// What is installed, in just this image, as the catalog with the highest priority has it; and which that is.
    fn listed(&self, installed: &Bundle) -> Option<(&Offer<'_>, &catalog::model::Bundle)> {
        let digest = installed.digest.as_deref()?;
        let found = self.offers.iter().filter_map(|offer| match offer.answer {
            choose::Answer::Package(package) => {
                let bundle = package.bundle(&installed.name)?;
                let (_, of) = bundle.image.rsplit_once('@')?;
                (of == digest).then_some((offer, bundle))
            }
            _ => None,
        });
        // Of equal ones the first by name.
        found.min_by_key(|(offer, _)| std::cmp::Reverse(offer.priority))
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

    /// What was chosen stays. Where nobody has kept what that was, it is what is installed.
    fn stay(&self, why: &str) -> Plan {
        let found = || self.found_again(self.here.installed.as_ref()?);
        match self.here.chosen.clone().or_else(found) {
            Some(chosen) => Plan::have(chosen),
            None => super::stay(self.here, reason::SOURCE_FAILED, why),
        }
    }

    /// What is installed, as it would have been chosen: somebody has taken the annotation off that said so.
    fn found_again(&self, installed: &Bundle) -> Option<Chosen> {
        let (offer, bundle) = self.listed(installed)?;
        let choose::Answer::Package(package) = offer.answer else {
            return None;
        };
        let channel = self.input.operator.spec.channel.as_ref();
        Some(Chosen {
            package: self.input.operator.spec.package.name.clone(),
            bundle: ChosenBundle {
                name: bundle.name.clone(),
                version: bundle.version.version.to_string(),
                release: bundle.version.release.as_ref().map(ToString::to_string),
                channel: channel.unwrap_or(&package.default_channel).clone(),
                catalog: offer.catalog.to_owned(),
                image: bundle.image.clone(),
                why: Vec::new(),
            },
            media_type: bundle.media_type().to_owned(),
            after: None,
        })
    }

    fn chosen(&self, choice: &Choice, decision: &Decision) -> Chosen {
        let most = bounds::FINDINGS as usize - 1; // an approval is added
        let steps = decision.steps.iter().take(most);
        Chosen {
            package: self.input.operator.spec.package.name.clone(),
            bundle: ChosenBundle {
                name: choice.name.clone(),
                version: choice.version.version.to_string(),
                release: choice.version.release.as_ref().map(ToString::to_string),
                channel: choice.channel.clone(),
                catalog: choice.catalog.clone(),
                image: choice.image.clone(),
                why: steps.map(|it| fit(it, bounds::LINE)).collect(),
            },
            media_type: choice.media_type.clone(),
            after: self.here.installed.as_ref().map(|it| Predecessor {
                name: it.name.clone(),
                version: it.version.as_ref().map(Version::to_string),
                release: it.release.as_ref().map(ToString::to_string),
            }),
        }
    }

    fn approved(&self, choice: &Choice, decision: &Decision, why: &str) -> Chosen {
        let mut chosen = self.chosen(choice, decision);
        chosen.bundle.why.push(fit(why, bounds::LINE));
        chosen
    }
}

fn overridden(it: &Override) -> choose::Override<'_> {
    choose::Override {
        constraint: match it.constraint {
            Constraint::MaxOpenShiftVersion => choose::Constraint::MaxOpenShiftVersion,
            Constraint::MinKubeVersion => choose::Constraint::MinKubeVersion,
        },
        digest: &it.digest,
    }
}

fn look(choice: &Choice) -> Act {
    Act::Look {
        image: choice.image.clone(),
        class: declare::class(&choice.media_type),
    }
}

/// Why the first of the bundles that were looked at cannot be installed.
fn ineligible(decision: &Decision) -> Option<String> {
    let count = decision.candidates.len() + decision.more_candidates;
    let named = decision.candidates.iter().take(NAMED).map(|it| {
        let reasons = it.reasons.join(", and ");
        fit(&format!("{} {reasons}", it.name), bounds::LINE)
    });
    let mut all: Vec<String> = named.collect();
    if count > NAMED {
        all.push(format!("and {} more", count - NAMED));
    }
    (count > 0).then(|| all.join("; "))
}
