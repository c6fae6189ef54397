//! Mirror sets and lists of registries as rules, as the nodes of OpenShift get them: the machine-config operator writes a
//! `registries.conf` and a `policy.json` from the same objects.
//!
//! All sets of one source are one rule. Mirrors stand in an order that agrees with each set, if there is one; mirrors for
//! digests come before those for tags. What is insecure or blocked is so with all below it, mirrors included.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use manifests::api::pulling::{MirrorSet, MirrorSourcePolicy, RegistrySources};
use unpacker::registry::{
    Mirrors,
    mirrors::{Admission, Mirror, Pull, Rule},
};

use super::{Problem, Source};

/// How many sets and lines of lists are heeded: each rule is compared with each of these.
const MOST: usize = 4096;

/// A mirror set, and the object it stands in.
#[derive(Debug, Clone)]
pub(super) struct Set<'a> {
    pub(super) source: Source,
    pub(super) object: &'a str,
    pub(super) pull: Pull,
    pub(super) entry: &'a MirrorSet,
}

/// What of all sets belongs to one source.
#[derive(Default)]
struct Wanted<'a> {
    digests: Vec<Vec<&'a str>>,
    tags: Vec<Vec<&'a str>>,
    policies: BTreeSet<bool>,
}

/// The rules of all sets and lists. What is wrong is left out, and told.
pub(super) fn rules(sets: &[Set<'_>], registries: &RegistrySources) -> (Mirrors, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut rules: BTreeMap<String, Rule> = BTreeMap::new();
    for (source, wanted) in by_source(sets, &mut problems) {
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
                mirrors(&wanted.digests, Pull::Digests),
                mirrors(&wanted.tags, Pull::Tags),
            ]
            .concat(),
            blocked: wanted.policies.contains(&true),
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
        let is = |list: &[&str], place: &str| list.iter().any(|scope| is_within(place, scope));
        rule.insecure = is(&insecure, &rule.source);
        rule.blocked |= is(&blocked, &rule.source);
        for mirror in &mut rule.mirrors {
            mirror.insecure = is(&insecure, &mirror.location);
        }
    }
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let limits = !registries.allowed_registries.is_empty();
    if limits && !registries.blocked_registries.is_empty() {
        let text = "spec.registrySources has both allowedRegistries and blockedRegistries, of which nodes take only one; \
                    both are heeded: remove one";
        problems.push(Problem::of(Source::Image, "", text));
    }
    // All of it has been checked.
    let mirrors = Mirrors::new(rules.into_values()).unwrap_or_default();
    if !limits && blocked.is_empty() {
        return (mirrors, problems);
    }
    let admission = Admission {
        by: "spec.registrySources of image.config.openshift.io/cluster".to_owned(),
        allowed: limits.then(|| owned(&allowed)),
        blocked: owned(&blocked),
    };
    (mirrors.admitting(admission).unwrap_or_default(), problems)
}

/// What is right in the sets, for each source.
fn by_source<'a>(sets: &[Set<'a>], problems: &mut Vec<Problem>) -> BTreeMap<&'a str, Wanted<'a>> {
    let mut wanted: BTreeMap<&str, Wanted<'_>> = BTreeMap::new();
    if let Some(too_much) = sets.get(MOST) {
        let text = format!(
            "there are {} mirror sets, and {MOST} are heeded; put mirrors of whole registries into place of single ones",
            sets.len()
        );
        problems.push(Problem::of(too_much.source, too_much.object, text));
    }
    for Set {
        source: kind,
        object,
        pull,
        entry,
    } in sets.iter().take(MOST)
    {
        let MirrorSet {
            source,
            mirrors,
            mirror_source_policy,
        } = entry;
        let mut tell = |text: String| problems.push(Problem::of(*kind, object, text));
        // A source that is only its own mirror has none.
        if mirrors.iter().all(|mirror| mirror == source) {
            continue;
        }
        if let Err(error) = checked(source, None) {
            tell(format!("the source of a mirror set is left out: {error}"));
            continue;
        }
        let never =
            mirror_source_policy.unwrap_or_default() == MirrorSourcePolicy::NeverContactSource;
        if never && mirrors.contains(source) {
            tell(format!(
                "{source:?} is never to be contacted, and is among its own mirrors; it is not contacted: remove it there"
            ));
        }
        let mut good = Vec::new();
        for mirror in mirrors {
            match checked(source, Some(mirror)) {
                Ok(()) => good.push(mirror.as_str()),
                Err(error) => tell(format!("a mirror of {source:?} is left out: {error}")),
            }
        }
        let of_source = wanted.entry(source).or_default();
        of_source.policies.insert(never);
        if of_source.policies.len() > 1 && !good.is_empty() {
            tell(format!(
                "{source:?} is to be contacted by some mirror sets and not by others; it is not contacted: make them agree"
            ));
        }
        match pull {
            Pull::Tags => of_source.tags.push(good),
            Pull::Digests | Pull::All => of_source.digests.push(good),
        }
    }
    wanted
}

/// Reports whether a rule can be made of these.
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

/// The lines of a list that make sense.
fn scopes<'a>(list: &'a [String], name: &str, problems: &mut Vec<Problem>) -> Vec<&'a str> {
    let mut tell = |text: String| problems.push(Problem::of(Source::Image, "", text));
    if list.len() > MOST {
        tell(format!(
            "spec.registrySources.{name} has {} lines, and {MOST} are heeded; name whole registries",
            list.len()
        ));
    }
    let lines = list
        .iter()
        .take(MOST)
        .map(|line| line.trim_end_matches('/'));
    lines
        .filter(|line| match checked(line, None) {
            Ok(()) => true,
            Err(error) => {
                tell(format!(
                    "a line of spec.registrySources.{name} is left out: {error}"
                ));
                false
            }
        })
        .collect()
}

/// Reports whether a place is a scope, or a part of it.
fn is_within(place: &str, scope: &str) -> bool {
    if let Some(suffix) = scope.strip_prefix('*') {
        let host = place.split('/').next().unwrap_or_default();
        let bare = host.split_once(':').map_or(host, |(bare, _)| bare);
        return place == scope || bare.len() > suffix.len() && bare.ends_with(suffix);
    }
    let rest = place.strip_prefix(scope);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// All mirrors of a source in an order that agrees with each list, if there is one; where lists contradict each other, the
/// first by name of what is left goes first. The source comes last where no list says otherwise, and is then left out: it
/// is asked last in any case. Of two that could be next, the one that was free first is; of those that became free
/// together, the first by name.
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
    let mut left: BTreeSet<&str> = before.keys().copied().collect();
    let mut order = Vec::with_capacity(left.len());
    while let Some(next) = free.pop_front().or_else(|| left.first().copied()) {
        left.remove(next);
        order.push(next);
        for later in after.get(next).into_iter().flatten() {
            if let Some(waits) = before.get_mut(later) {
                waits.remove(next);
                if waits.is_empty() && left.contains(later) {
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
