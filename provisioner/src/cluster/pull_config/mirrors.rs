//! Rules for mirrors and registries, as the nodes of OpenShift get them: the machine-config operator generates
//! `registries.conf` and `policy.json` from the same objects.
//!
//! All sets of one source form one rule. Mirrors are in an order that agrees with each set, if such an order exists.
//! Mirrors for digests come before mirrors for tags. The settings insecure and blocked apply to the whole scope, including
//! mirrors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use manifests::api::pulling::{MirrorSet, MirrorSourcePolicy, RegistrySources};
use unpacker::registry::{
    Mirrors,
    mirrors::{ImageAdmission, Mirror, Pull, Rule},
};

use super::{ConfigProblem, Source};

/// Maximum number of mirror sets, and of lines in each list. The limit is needed because each rule is compared with each
/// line.
const MAX_ENTRIES: usize = 4096;

/// Entry of a mirror set, and the object that contains it.
#[derive(Debug, Clone)]
pub(super) struct SetEntry<'a> {
    pub(super) source: Source,
    pub(super) object: &'a str,
    pub(super) pull: Pull,
    pub(super) entry: &'a MirrorSet,
}

/// Settings for one source from all mirror sets.
#[derive(Default)]
struct SourceRules<'a> {
    digests: Vec<Vec<&'a str>>,
    tags: Vec<Vec<&'a str>>,
    policies: BTreeSet<bool>,
}

/// Returns the rules from all sets and lists. Invalid entries are ignored and returned as problems.
pub(super) fn rules(
    sets: &[SetEntry<'_>],
    registries: &RegistrySources,
) -> (Mirrors, Vec<ConfigProblem>) {
    let mut problems = Vec::new();
    let mut rules: BTreeMap<String, Rule> = BTreeMap::new();
    for (source, settings) in by_source(sets, &mut problems) {
        let mirrors = |lists: &[Vec<&str>], pull| {
            let mirrors = ordered(source, lists).into_iter();
            let mirrors = mirrors.map(|location| Mirror {
                location: location.to_owned(),
                pull,
                insecure: false,
            });
            mirrors.collect::<Vec<_>>()
        };
        let rule = Rule {
            source: source.to_owned(),
            mirrors: [
                mirrors(&settings.digests, Pull::Digests),
                mirrors(&settings.tags, Pull::Tags),
            ]
            .concat(),
            blocked: settings.policies.contains(&true),
            ..Rule::default()
        };
        rules.insert(source.to_owned(), rule);
    }
    let insecure = scopes(
        &registries.insecure_registries,
        "insecureRegistries",
        &mut problems,
    );
    let blocked = scopes(
        &registries.blocked_registries,
        "blockedRegistries",
        &mut problems,
    );
    let allowed = scopes(
        &registries.allowed_registries,
        "allowedRegistries",
        &mut problems,
    );
    for scope in insecure.iter().chain(&blocked) {
        let rule = rules.entry((*scope).to_owned()).or_default();
        (*scope).clone_into(&mut rule.source);
    }
    for rule in rules.values_mut() {
        let is =
            |list: &[&str], location: &str| list.iter().any(|scope| is_within(location, scope));
        rule.insecure = is(&insecure, &rule.source);
        rule.blocked |= is(&blocked, &rule.source);
        for mirror in &mut rule.mirrors {
            mirror.insecure = is(&insecure, &mirror.location);
        }
    }
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let limits = !registries.allowed_registries.is_empty();
    if limits && !registries.blocked_registries.is_empty() {
        let text = "spec.registrySources has both allowedRegistries and blockedRegistries, but nodes accept only one \
                    of them; both are applied; remove one";
        problems.push(ConfigProblem::new(Source::Image, "", text));
    }
    // All entries have been validated before.
    let mirrors = Mirrors::new(rules.into_values()).unwrap_or_default();
    if !limits && blocked.is_empty() {
        return (mirrors, problems);
    }
    let admission = ImageAdmission {
        by: "spec.registrySources of image.config.openshift.io/cluster".to_owned(),
        allowed: limits.then(|| owned(&allowed)),
        blocked: owned(&blocked),
    };
    (
        mirrors.with_admissions(admission).unwrap_or_default(),
        problems,
    )
}

/// Returns the valid entries of the sets by source.
fn by_source<'a>(
    sets: &[SetEntry<'a>],
    problems: &mut Vec<ConfigProblem>,
) -> BTreeMap<&'a str, SourceRules<'a>> {
    let mut settings: BTreeMap<&str, SourceRules<'_>> = BTreeMap::new();
    if let Some(too_much) = sets.get(MAX_ENTRIES) {
        let text = format!(
            "{} mirror sets exceed the limit of {MAX_ENTRIES}, and the rest are ignored; replace mirrors of single \
             repositories with mirrors of whole registries",
            sets.len()
        );
        problems.push(ConfigProblem::new(too_much.source, too_much.object, text));
    }
    for SetEntry {
        source: kind,
        object,
        pull,
        entry,
    } in sets.iter().take(MAX_ENTRIES)
    {
        let MirrorSet {
            source,
            mirrors,
            mirror_source_policy,
        } = entry;
        let mut report = |text: String| problems.push(ConfigProblem::new(*kind, object, text));
        // A source whose only mirror is itself has no mirrors.
        if mirrors.iter().all(|mirror| mirror == source) {
            continue;
        }
        if let Err(error) = checked(source, None) {
            report(format!("the source of a mirror set is ignored: {error}"));
            continue;
        }
        let never =
            mirror_source_policy.unwrap_or_default() == MirrorSourcePolicy::NeverContactSource;
        if never && mirrors.contains(source) {
            report(format!(
                "source {source:?} must not be contacted (NeverContactSource) but is listed as its own mirror; it is \
                 not contacted; remove it from the mirrors"
            ));
        }
        let mut valid = Vec::new();
        for mirror in mirrors {
            match checked(source, Some(mirror)) {
                Ok(()) => valid.push(mirror.as_str()),
                Err(error) => report(format!("a mirror of {source:?} is ignored: {error}")),
            }
        }
        let source_settings = settings.entry(source).or_default();
        source_settings.policies.insert(never);
        if source_settings.policies.len() > 1 && !valid.is_empty() {
            report(format!(
                "mirror sets have different values of mirrorSourcePolicy for source {source:?}; the source is not \
                 contacted; use the same value in all of them"
            ));
        }
        match pull {
            Pull::Tags => source_settings.tags.push(valid),
            Pull::Digests | Pull::All => source_settings.digests.push(valid),
        }
    }
    settings
}

/// Checks whether the source and the mirror form a valid rule.
fn checked(source: &str, mirror: Option<&str>) -> Result<(), unpacker::registry::mirrors::Error> {
    let mirror = mirror.map(|location| Mirror {
        location: location.to_owned(),
        pull: Pull::All,
        insecure: false,
    });
    let rule = Rule {
        source: source.to_owned(),
        mirrors: mirror.into_iter().collect(),
        ..Rule::default()
    };
    Mirrors::new([rule]).map(drop)
}

/// Returns the valid lines of a list.
fn scopes<'a>(list: &'a [String], name: &str, problems: &mut Vec<ConfigProblem>) -> Vec<&'a str> {
    let mut report = |text: String| problems.push(ConfigProblem::new(Source::Image, "", text));
    if list.len() > MAX_ENTRIES {
        report(format!(
            "spec.registrySources.{name} has {} entries, and only {MAX_ENTRIES} are used; list whole registries",
            list.len()
        ));
    }
    let lines = list
        .iter()
        .take(MAX_ENTRIES)
        .map(|line| line.trim_end_matches('/'));
    lines
        .filter(|line| match checked(line, None) {
            Ok(()) => true,
            Err(error) => {
                report(format!(
                    "an entry of spec.registrySources.{name} is ignored: {error}"
                ));
                false
            }
        })
        .collect()
}

/// Reports whether a location is equal to a scope or within it.
fn is_within(location: &str, scope: &str) -> bool {
    if let Some(suffix) = scope.strip_prefix('*') {
        let host = location.split('/').next().unwrap_or_default();
        let bare = host.split_once(':').map_or(host, |(bare, _)| bare);
        return location == scope || bare.len() > suffix.len() && bare.ends_with(suffix);
    }
    let remaining = location.strip_prefix(scope);
    remaining.is_some_and(|remaining| remaining.is_empty() || remaining.starts_with('/'))
}

/// Returns all mirrors of a source in an order that agrees with each list, if such an order exists. Where lists contradict
/// each other, the first remaining mirror by name is next. The source comes last unless a list has another position for it.
/// It is then omitted, because the source is always the last attempt. Of several candidates, the one that became free first is next;
/// of those that became free together, the first by name.
fn ordered<'a>(source: &'a str, lists: &[Vec<&'a str>]) -> Vec<&'a str> {
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut after: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        let end = (!list.contains(&source)).then_some(source);
        let list: Vec<_> = list.iter().copied().chain(end).collect();
        for (first, second) in list.iter().zip(list.iter().skip(1)) {
            after.entry(first).or_default().insert(second);
            before.entry(second).or_default().insert(first);
            before.entry(first).or_default();
        }
    }
    let mut free: VecDeque<&str> = before
        .iter()
        .filter(|(_, before)| before.is_empty())
        .map(|(name, _)| *name)
        .collect();
    let mut remaining: BTreeSet<&str> = before.keys().copied().collect();
    let mut order = Vec::with_capacity(remaining.len());
    while let Some(next) = free.pop_front().or_else(|| remaining.first().copied()) {
        remaining.remove(next);
        order.push(next);
        for later in after.get(next).into_iter().flatten() {
            if let Some(waits) = before.get_mut(later) {
                waits.remove(next);
                if waits.is_empty() && remaining.contains(later) {
                    free.push_back(later);
                }
            }
        }
    }
    if order.last() == Some(&source) {
        order.pop();
    }
    order
}

#[cfg(test)]
mod tests;
