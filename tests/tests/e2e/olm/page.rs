//! The stories as docs/run-bundle.md shows them: its commands are run word for word, and have to print what is shown there.
//!
//! Images of `quay.io/example` stand for those of the registry here, and the namespace `tides` for that of the test. Names
//! that OLM and the command make up are not compared.

use cluster::worker;
use tests::{Names, Page, Run, Step};

use super::{
    command::rukpak,
    world::{OPM, World},
};

const PAGE: &str = "docs/run-bundle.md";
/// What the page calls the registry, opm's image and the namespace.
const REGISTRY_THERE: &str = "quay.io/example";
const OPM_THERE: &str = "quay.io/operator-framework/opm:latest";
const NAMESPACE_THERE: &str = "namespace tides";
/// Whether OLM has noticed the catalog within half a minute is chance.
const CHANCE: &str = "OLM does not report a connection to CatalogSource";

/// A command of the page, and what it prints.
#[derive(Debug)]
pub(crate) struct Command(Step);

/// All commands of a story, in their order.
pub(crate) fn story<const COUNT: usize>(heading: &str) -> [Command; COUNT] {
    Page::read(PAGE, "text").section(heading).map(Command)
}

// === impl Command ===

impl Command {
    /// Runs it, with flags that only the test needs, and compares what it prints.
    #[track_caller]
    pub(crate) fn plays(&self, world: &World, namespace: &str, more: &[&str]) -> Run {
        let names = Names(vec![
            (REGISTRY_THERE, worker::REGISTRY.to_string()),
            (OPM_THERE, OPM.to_owned()),
            (NAMESPACE_THERE, format!("namespace {namespace}")),
        ]);
        let command = names.to_actual(&self.0.command);
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("rukpak"), "{self:?}");
        let args: Vec<&str> = words.chain(more.iter().copied()).collect();
        let run = rukpak(world, namespace, &args);
        assert_eq!(run.code, Some(0), "{self:#?} {run:#?}");
        let printed = names.to_page(&format!("{}{}", run.err, run.out));
        self.0.assert_shows(&printed, comparable);
        run
    }
}

/// Without names that are made up, and what is said several times in a row once: how many plans OLM makes for one upgrade is
/// its own affair.
fn comparable(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with(CHANCE));
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
    let text = "Approved InstallPlan install-q7mzb for the Subscription: a\n\
                Approved InstallPlan install-8x2fk for the Subscription: a\nDone\n";
    assert_eq!(
        comparable(text),
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
