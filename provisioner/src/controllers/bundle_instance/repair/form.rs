//! Selects the recorded form of an object to apply while a revision is rolled out. Pure; no I/O.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    informers::InstanceView,
    plan::{ApplyStep, Wave},
    revision::ObjectHash,
};
use manifests::object::Identity;

/// Objects of a revision, ready to be applied.
pub(crate) type Steps = BTreeMap<Identity, ApplyStep>;

/// Objects of the live revisions.
pub(crate) struct Forms {
    /// Objects of the newest revision.
    pub(crate) newest: Steps,
    /// Objects of the active revision, while a newer one is rolled out.
    pub(crate) older: Option<Steps>,
    /// Waves of the rollout that have started.
    started: BTreeSet<Wave>,
    is_applied: bool,
}

/// Desired form of an object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form<'a> {
    /// Form of the newest revision.
    Newest(&'a ApplyStep),
    /// Form of the active revision, until the wave of the object starts or the object is pruned.
    Older(&'a ApplyStep),
    /// The object has no form yet: the rollout creates it.
    Later,
    /// The object has no form: it is not part of a live revision.
    Removed,
}

impl Forms {
    /// Creates the forms. `is_applied` reports that all objects of the newest revision were applied.
    pub(crate) fn new(
        newest: Steps,
        older: Option<Steps>,
        is_applied: bool,
        view: &InstanceView,
    ) -> Self {
        let hash = |identity: &Identity| {
            view.objects
                .get(identity)
                .and_then(|observed| observed.hash)
        };
        let is_new = |(identity, step): &(&Identity, &ApplyStep)| {
            let before = older.as_ref().and_then(|older| older.get(*identity));
            is_applied
                || hash(identity) == Some(step.hash)
                    && before.map(|old| old.hash) != Some(step.hash)
        };
        let started = newest
            .iter()
            .filter(is_new)
            .map(|(_, step)| step.wave)
            .collect();
        Self {
            newest,
            older,
            started,
            is_applied,
        }
    }

    /// Returns the desired form of an object. `hash` is that of the live object. `is_deleted` reports that the object is
    /// missing and that the rollout recreates it.
    pub(crate) fn form(
        &self,
        identity: &Identity,
        hash: Option<ObjectHash>,
        is_deleted: bool,
    ) -> Form<'_> {
        let newest = self.newest.get(identity);
        let Some(older) = &self.older else {
            return newest.map_or(Form::Removed, Form::Newest);
        };
        match (newest, older.get(identity)) {
            (None, None) => Form::Removed,
            (None, Some(older)) => Form::Older(older),
            (Some(newest), None) if self.started.contains(&newest.wave) => Form::Newest(newest),
            (Some(_), None) => Form::Later,
            // Another client restored the older form, or the object was deleted to be recreated.
            (Some(newest), Some(_)) if self.is_applied || is_deleted => Form::Newest(newest),
            (Some(newest), Some(older)) => {
                let is_older = hash == Some(older.hash) && older.hash != newest.hash;
                let is_newest = hash == Some(newest.hash);
                if !is_older && (is_newest || self.started.contains(&newest.wave)) {
                    Form::Newest(newest)
                } else {
                    Form::Older(older)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apply::informers::ObservedObject;
    use serde_json::json;

    use super::*;

    fn step(name: &str, data: &str, wave: Wave) -> (Identity, ApplyStep) {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": data}});
        let step = crate::fixtures::step(value, wave);
        (step.object.identity(), step)
    }

    /// `name=data` of the objects of a wave, and of the wave after it.
    fn steps(configuration: &str, workloads: &str) -> Steps {
        use Wave::{Configuration, Workloads};
        let waves = [(configuration, Configuration), (workloads, Workloads)];
        let steps = waves.into_iter().flat_map(|(text, wave)| {
            let rows = text.split(' ').map(|row| row.split_once('=').unwrap());
            rows.map(move |(name, data)| step(name, data, wave))
        });
        steps.collect()
    }

    #[test]
    fn forms_change_with_their_waves() {
        use Wave::Configuration;
        let newest = || steps("same=1 changed=2 other=2 added=1", "late=2 later=1");
        let older = steps("same=1 changed=1 other=1 left=1", "late=1");
        let hash = |name: &str, data: &str| Some(step(name, data, Configuration).1.hash);
        let live = |rows: &[(&str, &str)]| {
            let objects = rows.iter().map(|(name, data)| {
                let observed = with!(ObservedObject, hash: hash(name, data));
                (step(name, data, Configuration).0, observed)
            });
            with!(InstanceView, objects: objects.collect())
        };
        // Live objects with their forms; whether all is applied; the object, its live form, whether it was deleted to be
        // recreated, the expected form.
        let none: &[(&str, &str)] = &[];
        let begun: &[(&str, &str)] = &[("changed", "2"), ("other", "1")];
        for (view, is_applied, name, form, is_deleted, expected) in [
            (none, false, "same", Some("1"), false, "newest 1"),
            (none, false, "changed", Some("1"), false, "older 1"),
            (none, false, "changed", None, false, "older 1"),
            (none, false, "added", None, false, "later"),
            (none, false, "left", None, false, "older 1"),
            (none, false, "unknown", None, false, "removed"),
            // An object of the wave was applied: missing objects get the new form, and objects in the old form keep it.
            (begun, false, "other", Some("1"), false, "older 1"),
            (begun, false, "other", None, false, "newest 2"),
            (begun, false, "added", None, false, "newest 1"),
            (begun, false, "late", None, false, "older 1"),
            (begun, false, "later", None, false, "later"),
            (none, true, "late", None, false, "newest 2"),
            (none, true, "changed", Some("1"), false, "newest 2"),
            (none, true, "left", None, false, "older 1"),
            (none, false, "changed", None, true, "newest 2"),
            (none, false, "late", None, true, "newest 2"),
            (none, false, "added", None, true, "later"),
            (none, false, "left", None, true, "older 1"),
        ] {
            let forms = Forms::new(newest(), Some(older.clone()), is_applied, &live(view));
            let identity = step(name, "", Configuration).0;
            let live = form.and_then(|form| hash(name, form));
            let found = forms.form(&identity, live, is_deleted);
            let data = |step: &ApplyStep| {
                let data = &step.object.value()["data"]["a"];
                data.as_str().unwrap().to_owned()
            };
            let found = match found {
                Form::Newest(step) => format!("newest {}", data(step)),
                Form::Older(step) => format!("older {}", data(step)),
                Form::Later => "later".to_owned(),
                Form::Removed => "removed".to_owned(),
            };
            assert_eq!(found, expected, "{name} {form:?} {is_deleted} {view:?}");
        }
        let forms = Forms::new(newest(), None, true, &InstanceView::default());
        assert_rows!(forms.form(&step("left", "", Configuration).0, hash("left", "1"), false) => Form::Removed);
    }
}
