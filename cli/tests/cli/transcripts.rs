//! Transcripts of commands that need no server. The commands of a page in `transcripts/` run in one directory, and their output
//! must match the page. Lines of standard error follow with `2> `, and an exit code that is not 0. The directory has the bundles
//! `tide` and `bad`, which has two problems, and a `catalog`. `RUKPAK_DOCS=write` writes what the commands print into the pages.

use std::{iter, path::Path, thread};

use tests::{Names, Page};

use crate::bundle::{Run, Workspace};

/// A package of three versions in two channels, as `opm` would write it.
const CATALOG: &str = include_str!("../../../examples/catalog/tidewatch/catalog.yaml");

/// Plays pages, each of which has at least the given number of commands. All failed pages are reported.
fn play(pages: &[(&'static str, usize)]) {
    thread::scope(|scope| {
        for &(page, min) in pages {
            scope.spawn(move || {
                let workspace = Workspace::with_tide();
                workspace.bad("bad");
                workspace.write("catalog/tidewatch/catalog.yaml", CATALOG);
                let path = workspace.path("x").parent().unwrap().display().to_string();
                let names = Names(vec![("/place", path)]);
                Page::read(page, "console")
                    .play(min, &names, |command| printed(&workspace, command));
            });
        }
    });
}

fn printed(workspace: &Workspace, command: &str) -> String {
    let opm = tests::opm_command(&workspace.path(""));
    let programs = Path::new(opm.get_program()).parent().unwrap().display();
    // A pipe fails if one of its commands does.
    let script = format!("set -o pipefail\nPATH=$PATH:{programs}\n{command}");
    let mut shell = workspace.shell(&script);
    let run = Run::from(shell.output().unwrap());
    let is_line = run.out.is_empty() || run.out.ends_with('\n');
    let end = if is_line { "" } else { "\n(no newline)\n" };
    let space = |line: &str| if line.is_empty() { "" } else { " " };
    let errors = run.err.lines();
    let errors = errors.map(|line| format!("2>{}{line}\n", space(line)));
    let code = run.code.filter(|code| *code != 0);
    iter::once(run.out + end)
        .chain(errors)
        .chain(code.map(|code| format!("exit {code}\n")))
        .collect()
}

// parity: load-1, max-4, max-5, max-9, render-3, render-5, render-8, render-10, render-11, render-12, render-13, render-14, validate-10
#[test]
fn pages_about_catalogs_show_the_output() {
    play(&[
        ("cli/tests/cli/transcripts/catalog.md", 34),
        ("cli/tests/cli/transcripts/catalog-init.md", 20),
        ("cli/tests/cli/transcripts/catalog-render.md", 29),
        ("cli/tests/cli/transcripts/catalog-template.md", 19),
        ("cli/tests/cli/transcripts/max-openshift.md", 36),
    ]);
}

// parity: openshift-26, source-14, source-19, switch-13, switch-20
#[test]
fn pages_about_manifests_for_clusters_show_the_output() {
    play(&[
        ("cli/tests/cli/transcripts/catalogsource.md", 18),
        ("cli/tests/cli/transcripts/catalogsource-validate.md", 22),
        ("cli/tests/cli/transcripts/platform.md", 26),
    ]);
}

// parity: check-1, check-4, check-23, complaint-15, platform-14
#[test]
fn pages_about_bundles_show_the_output() {
    play(&[
        ("cli/tests/cli/transcripts/convert.md", 38),
        ("cli/tests/cli/transcripts/general.md", 29),
        ("cli/tests/cli/transcripts/inspect.md", 6),
        ("cli/tests/cli/transcripts/irregular.md", 30),
        ("cli/tests/cli/transcripts/push.md", 24),
        ("cli/tests/cli/transcripts/several.md", 15),
        ("cli/tests/cli/transcripts/unpack.md", 46),
        ("cli/tests/cli/transcripts/validate.md", 9),
    ]);
}

#[test]
fn json_of_objects_is_well_formed() {
    let workspace = Workspace::with_tide();
    workspace.write("catalog/tidewatch/catalog.yaml", CATALOG);
    for (command, count) in [
        ("convert tide -o json", 6),
        ("platform render --catalog catalog tidewatch -o json", 41),
    ] {
        tests::assert_rows!(workspace.ok(command).json()["items"].as_array().unwrap().len() => count, "{command}");
    }
}

#[test]
fn version_includes_the_newest_known_kubernetes() {
    let workspace = Workspace::new();
    let newest = manifests::version::KubeVersion::NEWEST.to_string();
    let text = workspace.ok("version");
    text.out_starts_with("rukpak ");
    text.out_has(&newest);
    let json = workspace.ok("version -o json").json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["kubernetes"], newest);
}
