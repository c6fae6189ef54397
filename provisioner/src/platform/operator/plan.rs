//! What is to be done about a platform operator. No I/O.
//!
//! | there is | the catalogs offer | then |
//! | --- | --- | --- |
//! | nothing | a bundle | it is installed |
//! | nothing, and a choice is recorded | the recorded bundle | the recorded bundle is installed again |
//! | nothing, and a choice is recorded | other bundles | an approved upgrade of the recorded bundle is installed, if any |
//! | nothing | none | it is said why |
//! | nothing | a bundle, and one that comes first has not been read yet | it waits |
//! | a bundle, healthy | the next one | it is approved, or waits and says for what; patches go on meanwhile |
//! | a bundle, not healthy or not complete | the next one | it waits |
//! | a bundle | nothing, or cannot be asked | it stays |
//! | a bundle of another package | anything | it stays, and it is said why |
//! | a bundle, and an upgrade on its way | that one no more | the bundle stays |

mod chooser;

use catalog::choose::Offer;
use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        instance::BundleInstance,
        labels,
        platform::{CatalogRef, Kept, NewRights, NextBundle, PlatformOperator, reason},
    },
    object::shortened,
    openshift::Release,
    version::Version,
};

use self::chooser::Chooser;
use super::{
    here::{self, Chosen, Here},
    record,
};
use crate::platform::conflict::Conflict;

/// What is known.
pub struct Input<'a> {
    /// The operator.
    pub operator: &'a PlatformOperator,
    /// Whose its package is, if somebody else's.
    pub conflict: Option<Conflict>,
    /// The BundleInstance of the same name.
    pub there: There<'a>,
    /// What catalogs offer; nothing as long as it is not known which there are.
    pub offers: Option<&'a [Offer<'a>]>,
    /// The releases of OpenShift, where there is one; or why they are not known.
    pub openshift: Result<Option<Bounds>, &'a str>,
    /// The version of Kubernetes; or why it is not known.
    pub kubernetes: Result<&'a Version, &'a str>,
    /// Why it is not known what OLM manages, if that is so.
    pub olm: Option<&'a str>,
    /// The rights that bundles gain over what is installed, as far as that was looked at.
    pub gains: &'a [Gains],
}

/// Whose the BundleInstance of an operator's name is.
#[derive(Debug, Clone, Copy)]
pub enum There<'a> {
    /// There is none.
    Nothing,
    /// It was made for this operator.
    Ours(&'a BundleInstance),
    /// Somebody else has made it.
    Others {
        /// Whether it is being deleted.
        is_leaving: bool,
    },
    /// It was made for a PlatformOperator of the same name that is gone, and goes as soon as that is noticed.
    Former,
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
    /// The image of the bundle, as the catalog names it.
    pub image: String,
    /// The same by its digest, if it was found.
    pub looked_at: String,
    /// The rights, nothing if they are none; or why they are not known.
    pub rights: Result<Option<NewRights>, String>,
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
    /// The rights of a bundle are to be looked at first.
    Look {
        /// The image of the bundle.
        image: String,
        /// What it is to be installed as.
        class: Class,
    },
    /// The BundleInstance goes, or is not to be touched.
    Leave,
}

// === impl There ===

impl<'a> There<'a> {
    /// The BundleInstance, if it is this operator's.
    pub fn ours(self) -> Option<&'a BundleInstance> {
        match self {
            Self::Ours(instance) => Some(instance),
            Self::Nothing | Self::Others { .. } | Self::Former => None,
        }
    }
}

// === impl Plan ===

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

    fn have(chosen: Chosen) -> Self {
        Self::only(Act::Have(Box::new(chosen)))
    }
}

/// The catalog that is to be asked: of `spec.catalog` without a namespace the one that was chosen from before, as long as that
/// has the name.
pub fn asked_catalog(
    operator: &PlatformOperator,
    instance: Option<&BundleInstance>,
) -> Option<CatalogRef> {
    let mut wanted = operator.spec.catalog.clone()?;
    if wanted.namespace.is_none()
        && let Some(chosen) = instance
            .and_then(here::chosen)
            .or_else(|| record::read(operator).ok().flatten())
        && let Some((namespace, name)) = chosen.bundle.catalog.split_once('/')
        && name == wanted.name
    {
        wanted.namespace = Some(namespace.to_owned());
    }
    Some(wanted)
}

/// Decides.
pub fn plan(input: &Input<'_>) -> Plan {
    let operator = input.operator;
    let name = operator.name_any();
    if let Err(unserved) = operator.check() {
        return Plan::refuse(reason::SOURCE_FAILED, unserved.to_string());
    }
    let ours = match input.there {
        There::Nothing => None,
        There::Others { is_leaving: true } => return Plan::only(Act::Leave),
        There::Others { is_leaving: false } => {
            let message = format!(
                "BundleInstance {name} exists and was not made for this PlatformOperator; delete it, or give the \
                 PlatformOperator another name"
            );
            return Plan::refuse(reason::INSTALL_FAILED, message);
        }
        There::Former => {
            let message = format!(
                "BundleInstance {name} belongs to a PlatformOperator of the same name that is gone; it is waited for until it \
                 is removed"
            );
            return Plan::refuse(reason::INSTALL_PENDING, message);
        }
        There::Ours(instance) if instance.metadata.deletion_timestamp.is_some() => {
            return Plan::only(Act::Leave);
        }
        There::Ours(instance) => Some(instance),
    };
    let here = ours.map(here::of).unwrap_or_default();
    let package = &operator.spec.package.name;
    if let Some(other) = here.package.as_ref().filter(|it| *it != package) {
        let other = shortened(other, 80);
        let message = format!(
            "BundleInstance {name} is of package {other}, and another package is no upgrade of it: set spec.package.name to \
             {other} again, and create another PlatformOperator for {package}"
        );
        return Plan::refuse(reason::SOURCE_FAILED, message);
    }
    if let Some(conflict) = &input.conflict {
        return Plan::refuse(reason::SOURCE_FAILED, conflict.to_string());
    }
    let openshift = match input.openshift {
        Ok(openshift) => openshift,
        Err(why) => {
            let why = format!("the cluster's version is not known: {why}");
            return stay(&here, reason::SOURCE_FAILED, &why);
        }
    };
    let kubernetes = match input.kubernetes {
        Ok(version) => version,
        Err(why) => {
            let why = format!("the version of Kubernetes is not known: {why}");
            return stay(&here, reason::SOURCE_FAILED, &why);
        }
    };
    if let Some(why) = input.olm.filter(|_| here.chosen.is_none()) {
        let why = format!("it is not known which packages OLM manages: {why}");
        return Plan::refuse(reason::INSTALL_PENDING, why);
    }
    let Some(offers) = input.offers else {
        let why = "it is not known yet which catalogs there are";
        return stay(&here, reason::INSTALL_PENDING, why);
    };
    let chooser = Chooser {
        input,
        here: &here,
        openshift,
        kubernetes,
        offers,
    };
    if ours.is_some() {
        return chooser.choose();
    }
    match record::read(operator) {
        Ok(None) => chooser.choose(),
        Ok(Some(recorded)) => chooser.recreate(&recorded),
        // A choice that never was in the cluster restricts nothing.
        Err(_) if operator.active_instance().is_none() => chooser.choose(),
        Err(malformed) => {
            let annotation = labels::CHOSEN_BUNDLE;
            let message = format!(
                "the BundleInstance is missing, and the annotation {annotation} that records its bundle {malformed}; remove the \
                 annotation to have a bundle chosen anew"
            );
            Plan::refuse(reason::INSTALL_PENDING, message)
        }
    }
}

/// What was chosen stays; if nothing was, it is said why.
fn stay(here: &Here, reason: &'static str, why: &str) -> Plan {
    match &here.chosen {
        Some(chosen) => Plan::have(chosen.clone()),
        None if reason == reason::SOURCE_FAILED => {
            Plan::refuse(reason, format!("{why}: failed to run sourcing logic"))
        }
        None => Plan::refuse(reason, why),
    }
}

#[cfg(test)]
mod tests;
