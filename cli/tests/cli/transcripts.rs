//! Transcripts of commands that need no server. The commands of a page in `transcripts/` run in one directory, and their output
//! must match the page. Lines of standard error follow with `2> `, and an exit code that is not 0. The directory has the bundles
//! `tide` and `bad`, which has two problems, and a `catalog`. `RUKPAK_DOCS=write` writes what the commands print into the pages.

use std::{iter, path::Path};

use tests::{Names, Page};

use crate::bundle::{Place, Run};

/// A package of three versions in two channels, as `opm` would write it.
const CATALOG: &str = include_str!("../../../examples/catalog/tidewatch/catalog.yaml");

/// Plays a page, which has at least `min` commands.
fn play(page: &'static str, min: usize) {
    let place = Place::with_tide();
    place.bad("bad");
    place.write("catalog/tidewatch/catalog.yaml", CATALOG);
    let path = place.path("x").parent().unwrap().display().to_string();
    let names = Names(vec![("/place", path)]);
    Page::read(page, "console").play(min, &names, |command| printed(&place, command));
}

/// Runs a command in the shell and returns what it prints.
fn printed(place: &Place, command: &str) -> String {
    let opm = tests::opm_command(&place.path(""));
    let programs = Path::new(opm.get_program()).parent().unwrap().display();
    // A pipe fails if one of its commands does.
    let script = format!("set -o pipefail\nPATH=$PATH:{programs}\n{command}");
    let mut shell = place.shell(&script);
    let run = Run::from(shell.output().unwrap());
    let is_line = run.out.is_empty() || run.out.ends_with('\n');
    let end = if is_line { "" } else { "\n(no newline)\n" };
    let space = |line: &str| if line.is_empty() { "" } else { " " };
    let errors = run.err.lines();
    let errors = errors.map(|line| format!("2>{}{line}\n", space(line)));
    let code = run.code.filter(|code| *code != 0);
    let code = code.map(|code| format!("exit {code}\n"));
    iter::once(run.out + end)
        .chain(errors)
        .chain(code)
        .collect()
}

// parity: load-1, validate-10, render-14
#[test]
fn catalog_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/catalog.md", 34);
}

// parity: render-12
#[test]
fn catalog_init_and_dockerfile_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/catalog-init.md", 20);
}

// parity: render-3, render-5, render-8, render-10, render-11
#[test]
fn catalog_render_and_migrate_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/catalog-render.md", 29);
}

// parity: render-13
#[test]
fn catalog_render_template_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/catalog-template.md", 19);
}

// parity: source-14, source-19, switch-13, switch-20
#[test]
fn catalogsource_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/catalogsource.md", 18);
}

#[test]
fn catalogsource_validate_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/catalogsource-validate.md", 22);
}

// parity: platform-14
#[test]
fn convert_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/convert.md", 38);
}

#[test]
fn json_of_objects_is_well_formed() {
    let place = Place::with_tide();
    place.write("catalog/tidewatch/catalog.yaml", CATALOG);
    for (command, count) in [
        ("convert tide -o json", 6),
        ("platform render --catalog catalog tidewatch -o json", 41),
    ] {
        let list = place.ok(command).json();
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{command}");
    }
}

#[test]
fn general_options_and_failures_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/general.md", 29);
}

#[test]
fn inspect_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/inspect.md", 6);
}

#[test]
fn irregular_entries_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/irregular.md", 30);
}

// parity: max-4, max-5, max-9
#[test]
fn max_openshift_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/max-openshift.md", 36);
}

// parity: openshift-26
#[test]
fn platform_render_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/platform.md", 26);
}

// parity: check-23
#[test]
fn push_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/push.md", 24);
}

#[test]
fn several_bundles_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/several.md", 15);
}

// parity: check-23
#[test]
fn unpack_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/unpack.md", 46);
}

// parity: check-1, check-4, complaint-15
#[test]
fn validate_prints_what_the_page_shows() {
    play("cli/tests/cli/transcripts/validate.md", 9);
}

#[test]
fn version_includes_the_newest_known_kubernetes() {
    let place = Place::new();
    let newest = manifests::version::KubeVersion::NEWEST.to_string();
    let text = place.ok("version");
    text.out_starts_with("rukpak ");
    text.out_has(&newest);
    let json = place.ok("version -o json").json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["kubernetes"], newest);
}
