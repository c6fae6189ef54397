//! The stories of docs/run-bundle-stories.md: its commands are run word for word, and have to print the output that the page
//! shows.
//!
//! `quay.io/example` stands for the registry of the test, and the namespace `tides` for that of the test. Names that OLM and
//! the command generate are not compared.

use cluster::node;
use tests::{Names, Page, Run, Step};

use super::{command::Space, environment::OPM};

const PAGE: &str = "docs/run-bundle-stories.md";
/// The page's names of the registry, opm's image and the namespace.
const PAGE_REGISTRY: &str = "quay.io/example";
const PAGE_OPM: &str = "quay.io/operator-framework/opm:latest";
const PAGE_NAMESPACE: &str = "namespace tides";
/// Start of a line that the command prints only if OLM takes more than half a minute to connect.
const OPTIONAL_LINE: &str = "OLM does not report a connection to CatalogSource";

/// A command of the page, and its output.
#[derive(Debug)]
pub(crate) struct Command(Step);

pub(crate) fn story<const COUNT: usize>(heading: &str) -> [Command; COUNT] {
    Page::read(PAGE, "text").section(heading).map(Command)
}

impl Command {
    /// Runs the command, with flags that only the test needs, and compares the output.
    #[track_caller]
    pub(crate) fn plays(&self, space: &Space, more: &[&str]) -> Run {
        let names = Names(vec![
            (PAGE_REGISTRY, node::REGISTRY.to_string()),
            (PAGE_OPM, OPM.to_owned()),
            (PAGE_NAMESPACE, format!("namespace {}", space.name)),
        ]);
        let command = names.to_actual(&self.0.command);
        let mut args = command.split_whitespace();
        assert_eq!(args.next(), Some("rukpak"), "{self:?}");
        let args: Vec<&str> = args.chain(more.iter().copied()).collect();
        let run = space.rukpak(&args);
        assert_eq!(run.code, Some(0), "{self:#?} {run:#?}");
        let printed = names.to_page(&format!("{}{}", run.err, run.out));
        self.0.assert_shows(&printed, comparable);
        run
    }
}

/// The lines without generated names, and equal lines in a row once: OLM may create several plans for one upgrade.
fn comparable(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with(OPTIONAL_LINE));
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
    let parts = line.split(' ');
    let parts = parts.map(|word| if is_plan(word) { "install-…" } else { word });
    parts.collect::<Vec<_>>().join(" ")
}

#[test]
fn generated_names_are_not_compared() {
    let text = "Approved InstallPlan install-q7mzb for the Subscription: a\n\
                Approved InstallPlan install-8x2fk for the Subscription: a\nDone\n";
    let approved = "Approved InstallPlan install-… for the Subscription: a";
    assert_eq!(comparable(text), [approved, "Done"]);
    tests::assert_each!(|line, expected| without_names(line) => expected;
        "Deleted previous registry pod with name \"a-1\"" => "Deleted previous registry pod with name ";
        "install-plans of a" => "install-… of a";
        "an install-mode" => "an install-mode";
    );
}
