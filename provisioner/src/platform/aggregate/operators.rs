//! Platform operators one by one: which are installed, which are not and since when, which are in trouble.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use manifests::{
    api::{
        bounds,
        condition::{self, reason as below},
        config::ObjectReference,
        instance::BundleInstance,
        platform::{PlatformOperator, reason::INSTALL_PENDING},
        platform_status::Details,
    },
    object::shortened,
};

use super::{Input, PATIENCE, conditions::whole_seconds, time};

/// How many operators a message names.
const MOST_NAMED: usize = 50;
/// How much of each message is repeated, in characters.
const REPEATED: usize = 300;
/// How many namespaces are referred to.
const MOST_NAMESPACES: usize = 500;

/// What there is.
pub(super) struct Counted<'a> {
    /// How many platform operators, without those that are about to go.
    pub(super) all: usize,
    /// Those that are not installed, sorted by name.
    pub(super) missing: Vec<Missing<'a>>,
    /// Those that are installed and in trouble for long, with what is wrong, sorted by name.
    pub(super) troubled: Vec<(String, String)>,
    /// Since when those are in trouble of which no condition tells it, to be remembered.
    pub(super) since: BTreeMap<String, String>,
    /// What to look at when something is wrong.
    pub(super) related: Vec<ObjectReference>,
    /// When the first of them will have taken too long.
    pub(super) recheck: Option<Timestamp>,
}

/// A platform operator that is not installed.
#[derive(Debug, Clone)]
pub(super) struct Missing<'a> {
    pub(super) name: String,
    reason: &'a str,
    message: &'a str,
    /// Whether it takes too long.
    pub(super) is_late: bool,
    /// Whether it was installed once.
    pub(super) was_installed: bool,
}

/// Looks at every platform operator, given what was written before.
pub(super) fn count<'a>(
    operators: &[&'a PlatformOperator],
    input: &Input<'a>,
    before: &Details,
) -> Counted<'a> {
    let instances: BTreeMap<String, &BundleInstance> = input
        .instances
        .iter()
        .map(|instance| (instance.name_any(), *instance))
        .collect();
    let mut sorted: Vec<(String, &PlatformOperator)> = operators
        .iter()
        .filter(|operator| operator.metadata.deletion_timestamp.is_none())
        .map(|operator| (operator.name_any(), *operator))
        .collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut deadline = Deadline::new(input.now);
    let (mut missing, mut troubled) = (Vec::new(), Vec::new());
    let mut noted = BTreeMap::new();
    // Whoever has installed it: what keeps the cluster from being upgraded is to be collected, too.
    let concerns = input.gate.concerns.iter();
    let mut namespaces: BTreeSet<&str> = concerns
        .filter_map(|concern| Some(concern.operator.split_once('/')?.0))
        .collect();
    let all = sorted.len();
    for (name, operator) in sorted {
        let instance = instances
            .get(operator.active_instance().unwrap_or(&name))
            .copied();
        namespaces.extend(instance.and_then(|it| it.status.as_ref()?.install_namespace.as_deref()));
        let installed = of_type(
            operator.status.as_ref().map(|it| it.conditions.as_slice()),
            condition::INSTALLED,
        );
        if installed.is_some_and(|it| it.status == "True") {
            let trouble = instance.filter(|_| !input.is_updating).and_then(trouble);
            if let Some(trouble) = trouble {
                let mut since = trouble.since;
                if trouble.has_no_time {
                    let before = before.troubled_since.get(&name);
                    let before = before.and_then(|it| it.parse().ok());
                    let own = whole_seconds(before.unwrap_or(input.now).min(input.now));
                    if noted.len() < bounds::CONCERNS as usize {
                        noted.insert(name.clone(), own.to_string());
                    }
                    since = since.min(own);
                }
                if deadline.has_passed(since) {
                    troubled.push((name, trouble.message));
                }
            }
            continue;
        }
        let since = installed.map(|it| time(&it.last_transition_time));
        let created = operator.metadata.creation_timestamp.as_ref().map(time);
        missing.push(Missing {
            is_late: deadline.has_passed(since.or(created).unwrap_or(input.now)),
            was_installed: operator.active_instance().is_some(),
            // The manager has not looked at it yet.
            reason: installed.map_or(INSTALL_PENDING, |it| it.reason.as_str()),
            message: installed.map_or("", |it| it.message.as_str()),
            name,
        });
    }
    Counted {
        all,
        missing,
        troubled,
        since: noted,
        related: related(all, &namespaces),
        recheck: deadline.next,
    }
}

/// What is wrong with something that is installed.
struct Trouble {
    /// Since when, by the conditions that tell.
    since: Timestamp,
    /// Whether there is one that does not.
    has_no_time: bool,
    message: String,
}

fn trouble(instance: &BundleInstance) -> Option<Trouble> {
    let conditions = instance
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let of = |type_| of_type(conditions, type_);
    // It has been True all along, whatever has failed since.
    let failed = of(condition::INSTALLED).filter(|it| FAILED.contains(&it.reason.as_str()));
    let timed = [
        // The bundle that it is to be upgraded to.
        of(condition::HAS_VALID_BUNDLE)
            .filter(|it| it.status != "True" && it.reason != below::PAUSED),
        of(condition::HEALTHY).filter(|it| it.status == "False"),
    ];
    let timed = timed.into_iter().flatten();
    let since = timed.clone().map(|it| time(&it.last_transition_time)).min();
    let messages: Vec<&str> = failed
        .into_iter()
        .chain(timed)
        .map(|it| it.message.as_str())
        .collect();
    (!messages.is_empty()).then(|| Trouble {
        since: since.unwrap_or(Timestamp::MAX),
        has_no_time: failed.is_some(),
        message: messages.join("; "),
    })
}

/// What is installed and not as it should be.
const FAILED: [&str; 4] = [
    below::INSTALLED_BUNDLE_REPLACED,
    below::UPGRADE_FAILED,
    below::RECONCILE_FAILED,
    below::ROLLED_BACK,
];

fn of_type<'a>(conditions: Option<&'a [Condition]>, type_: &str) -> Option<&'a Condition> {
    conditions?.iter().find(|it| it.type_ == type_)
}

/// What must-gather collects: nothing besides the platform operators while there is nothing.
fn related(operators: usize, namespaces: &BTreeSet<&str>) -> Vec<ObjectReference> {
    if operators == 0 && namespaces.is_empty() {
        return Vec::new();
    }
    let ours = ["bundleinstances", "bundles"]
        .map(|resource| ObjectReference::new("core.rukpak.io", resource, ""));
    let theirs = namespaces
        .iter()
        .filter(|name| !name.is_empty())
        .take(MOST_NAMESPACES)
        .map(|name| ObjectReference::new("", "namespaces", name));
    ours.into_iter().chain(theirs).collect()
}

/// When patience ends.
struct Deadline {
    now: Timestamp,
    next: Option<Timestamp>,
}

impl Deadline {
    fn new(now: Timestamp) -> Self {
        Self { now, next: None }
    }

    /// Reports whether something takes too long already; if not, notes when it will.
    fn has_passed(&mut self, since: Timestamp) -> bool {
        // A time that cannot be said is none that will come.
        let Ok(end) = since.checked_add(PATIENCE) else {
            return false;
        };
        if end <= self.now {
            return true;
        }
        self.next = Some(self.next.map_or(end, |next| next.min(end)));
        false
    }
}

/// Which operators fail and with what reason; below it, what each of them says.
pub(super) fn failing(missing: &[Missing<'_>]) -> String {
    let each: Vec<String> = missing
        .iter()
        .take(MOST_NAMED)
        .map(|it| {
            format!(
                "encountered the failing {} platform operator with reason \"{}\"",
                it.name, it.reason
            )
        })
        .collect();
    let more = missing.len() - each.len();
    let mut text = match each.as_slice() {
        [only] => only.clone(),
        several if more == 0 => format!("[{}]", several.join(", ")),
        several => format!("[{}, and {more} more]", several.join(", ")),
    };
    for it in missing
        .iter()
        .take(MOST_NAMED)
        .filter(|it| !it.message.is_empty())
    {
        text.push_str(&line(&it.name, it.message));
    }
    text
}

/// Which operators are in trouble, and what is wrong with each.
pub(super) fn troubled(troubled: &[(String, String)]) -> String {
    let names: Vec<&str> = troubled
        .iter()
        .take(MOST_NAMED)
        .map(|(name, _)| name.as_str())
        .collect();
    let more = match troubled.len() - names.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let mut text = format!(
        "Platform operators that are installed and have been in trouble for more than {} minutes: {}{more}",
        PATIENCE.as_secs() / 60,
        names.join(", ")
    );
    for (name, message) in troubled.iter().take(MOST_NAMED) {
        text.push_str(&line(name, message));
    }
    text
}

fn line(name: &str, message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().take(REPEATED).collect();
    format!("\n- {name}: {}", shortened(&words.join(" "), REPEATED))
}
