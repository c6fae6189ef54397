//! The stories as docs/run-bundle.md shows them: its commands are run word for word, and have to print what is shown there.
//!
//! Images of `quay.io/example` stand for those of the registry here, and the namespace `tides` for that of the test. Names
//! that OLM and the command make up are not compared.

use cluster::worker;

use super::{
    super::documents,
    command::{Run, rukpak},
    world::{OPM, World},
};

const PAGE: &str = "run-bundle.md";
/// What the page calls the registry, opm's image and the namespace.
const REGISTRY_THERE: &str = "quay.io/example";
const OPM_THERE: &str = "quay.io/operator-framework/opm:latest";
const NAMESPACE_THERE: &str = "tides";
/// Whether OLM has noticed the catalog within half a minute is chance.
const CHANCE: &str = "OLM does not say yet that it is connected";

/// A command of the page, and what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    command: String,
    shown: Vec<String>,
}

/// All commands of a story, in their order.
pub(crate) fn story<const COUNT: usize>(heading: &str) -> [Step; COUNT] {
    let steps = steps(&documents::shown(PAGE, heading));
    steps.try_into().unwrap_or_else(|steps| {
        panic!("{heading:?} of {PAGE} has not {COUNT} commands: {steps:#?}")
    })
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step {
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            (None, Some(step)) => step.shown.push(line.to_owned()),
            (None, None) => panic!("{PAGE}: {line:?} comes before any command"),
        }
    }
    steps
}

// === impl Step ===

impl Step {
    /// Runs it, with flags that only the test needs, and compares what it prints.
    #[track_caller]
    pub(crate) fn plays(&self, world: &World, namespace: &str, more: &[&str]) -> Run {
        let registry = worker::REGISTRY.to_string();
        let command = self
            .command
            .replace(REGISTRY_THERE, &registry)
            .replace(OPM_THERE, OPM);
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("rukpak"), "{self:?}");
        let args: Vec<&str> = words.chain(more.iter().copied()).collect();
        let run = rukpak(world, namespace, &args);
        let there = format!("namespace {NAMESPACE_THERE}");
        let printed = format!("{}{}", run.err, run.out)
            .replace(&registry, REGISTRY_THERE)
            .replace(&format!("namespace {namespace}"), &there);
        let printed = comparable(printed.lines());
        let shown = comparable(self.shown.iter().map(String::as_str));
        assert_eq!((run.code, printed), (Some(0), shown), "{self:#?} {run:#?}");
        run
    }
}

/// Without names that are made up, and what is said several times in a row once: how many plans OLM makes for one upgrade is
/// its own affair.
fn comparable<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lines = lines.filter(|line| !line.starts_with(CHANCE));
    let mut lines: Vec<String> = lines.map(without_names).collect();
    lines.dedup();
    lines
}

fn without_names(line: &str) -> String {
    const POD: &str = "Deleted previous registry pod with name ";
    if line.starts_with(POD) {
        return POD.to_owned();
    }
    let is_plan = |word: &str| word.starts_with("install-") && word.len() == "install-".len() + 5;
    let words = line.split(' ');
    let words = words.map(|word| if is_plan(word) { "install-…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn names_that_are_made_up_are_not_compared() {
    let text = "$ rukpak run a\nApproved InstallPlan install-q7mzb for the Subscription: a\n\
                Approved InstallPlan install-8x2fk for the Subscription: a\nDone\n$ rukpak cleanup a\n";
    let [run, cleanup] = steps(text).try_into().unwrap();
    assert_eq!(run.command, "rukpak run a");
    assert_eq!(cleanup.shown, [""; 0]);
    assert_eq!(
        comparable(run.shown.iter().map(String::as_str)),
        [
            "Approved InstallPlan install-… for the Subscription: a",
            "Done"
        ]
    );
    let pods = ["a-1", "b-2"].map(|it| format!("Deleted previous registry pod with name {it:?}"));
    assert_eq!(without_names(&pods[0]), without_names(&pods[1]));
    assert_eq!(without_names("install-plans of a"), "install-… of a");
    assert_eq!(without_names("an install-mode"), "an install-mode");
}
