//! What is to be done about an operator whose package is its own, given what catalogs offer.

mod approve;
mod keep;
mod recreate;

use catalog::{
    choose::{self, Choice, Decision, Installed, Offer, Request, Verdict},
    model::{PLAIN_V0, REGISTRY_V1, Release as Packed},
};
use manifests::{
    api::{
        bounds,
        instance::{Constraint, Override},
        platform::{ChosenBundle, Kept, NextBundle, RightsApproval, UpgradeApproval, reason},
    },
    openshift::Release,
    range::Range,
    version::{self, Version},
};

use super::{Act, Bounds, Input, Plan};
use crate::platform::{
    approval::{self, Step},
    operator::{
        declare, fit,
        here::{Chosen, Here, Predecessor},
    },
};

/// How many bundles are named that cannot be installed.
const NAMED: usize = 3;

#[derive(Clone, Copy)]
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
        // It may be one of those that nobody may look at.
        let mut offers = self
            .offers
            .iter()
            .filter(|offer| offer.catalog == catalog || choose::stands_for(offer.catalog, catalog));
        let is_gone = offers.all(|offer| matches!(offer.answer, choose::Answer::Absent));
        is_gone.then_some(catalog)
    }

    /// What an admin says does not count.
    fn overrides(&self) -> impl Iterator<Item = &Override> {
        let bundle = self.input.operator.spec.bundle.as_ref();
        bundle.into_iter().flat_map(|it| &it.overrides)
    }

    /// Asks for the next bundle: of one minor version only, or none that is newer than this.
    fn decide(&self, minor: Option<(u64, u64)>, newest: Option<&Version>) -> Decision {
        self.asked(minor, newest, |request| {
            choose::choose(request, self.offers)
        })
    }

    /// The same, for whatever there is to ask.
    fn asked<T>(
        &self,
        minor: Option<(u64, u64)>,
        newest: Option<&Version>,
        ask: impl FnOnce(&Request<'_>) -> T,
    ) -> T {
        let spec = &self.input.operator.spec;
        let range = spec.version.as_deref().and_then(|it| Range::parse(it).ok());
        let installed = self.here.installed.as_ref().map(|it| Installed {
            name: it.name.clone(),
            version: it.version.clone().map(|version| Packed {
                version,
                release: it.release.clone(),
            }),
            catalog: it.catalog.clone(),
        });
        let overrides: Vec<_> = self.overrides().map(overridden).collect();
        let first = self.approved_first().and_then(Result::ok);
        ask(&Request {
            package: &spec.package.name,
            channel: spec.channel.as_deref(),
            range: range.as_ref(),
            minor,
            newest: newest.or(first.as_ref()),
            installed: installed.as_ref(),
            openshift: self.openshift.map(|it| it.highest),
            kubernetes: Some(self.kubernetes),
            media_types: &[REGISTRY_V1, PLAIN_V0],
            overrides: &overrides,
        })
    }

    /// The newest version that may be installed first, if somebody has said so: whoever makes a PlatformOperator has approved
    /// of the newest one otherwise.
    fn approved_first(&self) -> Option<Result<Version, version::Error>> {
        let spec = &self.input.operator.spec;
        let is_bound =
            self.here.installed.is_none() && spec.upgrade_approval == UpgradeApproval::Manual;
        let approved = spec.approved_version.as_deref().filter(|_| is_bound)?;
        Some(version::strict(approved))
    }

    /// There is nothing yet, and something to install.
    fn install(&self, choice: &Choice, decision: &Decision) -> Plan {
        if let Some(chosen) = self.held(decision) {
            let version = version::strict(&chosen.bundle.version).ok();
            return Plan {
                keep: (self.input.operator.kept())
                    .or_else(|| Some(self.first_kept(version.as_ref()?))),
                ..Plan::have(chosen.clone())
            };
        }
        // A bundle that fails when a deleted BundleInstance is created again approves no upgrade either.
        if let Some(chosen) = &self.here.chosen
            && self.input.operator.active_instance().is_some()
        {
            match self.replace(chosen) {
                Ok(Some(plan)) => return plan,
                Ok(None) => {}
                Err(_) => return Plan::have(chosen.clone()),
            }
        }
        if let Some(plan) = self.unreadable_approval() {
            return plan;
        }
        // The cluster may move before it is installed.
        Plan {
            keep: Some(self.first_kept(&choice.version.version)),
            ..Plan::have(self.chosen(choice, decision))
        }
    }

    /// Nothing new is installed while it cannot be read which version is approved.
    fn unreadable_approval(&self) -> Option<Plan> {
        let problem = self.approved_first()?.err()?;
        let why = format!("spec.approvedVersion cannot be read: {problem}; correct it");
        let why = fit(&why, bounds::LINE);
        Some(super::stay(self.here, reason::INSTALL_PENDING, &why))
    }

    fn first_kept(&self, version: &Version) -> Kept {
        Kept {
            cluster: self.cluster(),
            package: Release::new(version.major, version.minor),
        }
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
        let mut plan = super::stay(self.here, reason::SOURCE_FAILED, &why);
        if matches!(plan.act, Act::Have(_)) {
            plan.warnings.push(fit(&why, bounds::LINE));
        }
        plan
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
        if is_at_the_end || self.input.operator.kept().is_none() {
            plan.keep = approval::decide(&self.approval(None)).keep;
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
        let under_way = self.under_way().filter(|chosen| {
            (chosen.bundle.name.as_str(), chosen.named()) == (&choice.name, &choice.image)
        });
        if let Some(chosen) = under_way.filter(|it| !self.is_called_off(it)) {
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
        let (decided, rights) = self.step(choice);
        match decided.step {
            Step::Wait { message, .. } => {
                let mut plan = self.patch(choice).unwrap_or_else(|| self.stay(&message));
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
    fn patch(&self, waiting: &Choice) -> Option<Plan> {
        let version = &waiting.version.version;
        let spec = &self.input.operator.spec;
        let decision = if spec.upgrade_approval == UpgradeApproval::Manual {
            let approved = spec.approved_version.as_deref()?;
            let approved = version::strict(approved).ok()?;
            if version.cmp_precedence(&approved).is_le() {
                return None;
            }
            self.decide(None, Some(&approved))
        } else {
            let installed = self.version()?;
            let line = (installed.major, installed.minor);
            if (version.major, version.minor) == line {
                return None;
            }
            self.decide(Some(line), None)
        };
        let Verdict::Upgrade(choice) = &decision.verdict else {
            return None;
        };
        let (decided, _) = self.step(choice);
        match decided.step {
            Step::Look => Some(Plan::only(look(choice))),
            Step::Go(why) => Some(Plan {
                keep: decided.keep,
                ..Plan::have(self.approved(choice, &decision, &why))
            }),
            Step::Wait { .. } | Step::Stay => None,
        }
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
            named: None,
        }
    }

    fn approved(&self, choice: &Choice, decision: &Decision, why: &str) -> Chosen {
        let mut chosen = self.chosen(choice, decision);
        chosen.bundle.why.push(fit(why, bounds::LINE));
        // A tag may be something else by the time it is fetched.
        if let Some(looked) = self.looked_at(choice)
            && looked.looked_at != choice.image
            && self.input.operator.spec.approve_new_rights == RightsApproval::Manual
        {
            chosen.bundle.image.clone_from(&looked.looked_at);
            chosen.named = Some(choice.image.clone());
        }
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
