//! `rukpak catalog init` and `dockerfile`, beside the real opm.

use std::fs;

use tests::opm;

use crate::bundle::{Place, Run};

// parity: render-12
#[test]
fn a_package_is_begun_as_by_opm() {
    let place = Place::new();
    place.write("icon.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    place.write("icon.gif", b"GIF89a tide");
    place.write(
        "README.md",
        "# Tide\n\n<b>Tells</b> \"who\" must move: \u{2028} \u{1f30a}\n",
    );
    for args in [
        &["tide"][..],
        &["tide", "-o", "yaml"],
        &["tide", "-c", "stable", "-d", "README.md"],
        &[
            "tide",
            "--default-channel",
            "4.10",
            "--icon=icon.png",
            "--output=yaml",
        ],
        &["tide", "-i", "icon.gif", "--description", "README.md"],
    ] {
        let theirs: Run = opm(&place.path(""), &[&["init"][..], args].concat()).into();
        let ours = place.run(&[&["catalog", "init"][..], args].concat());
        assert_eq!(ours.exits(0).out, theirs.exits(0).out, "{args:?}");
    }
    // It is a catalog already, as far as it goes.
    let begun = place.run("catalog init tide -c stable");
    place.write("catalog/tide.json", begun.exits(0).out);
    let checked = place.fail("catalog validate catalog");
    checked.out_has("channel must contain at least one bundle");
}

#[test]
fn what_is_no_package_is_refused() {
    let place = Place::new();
    place.write("icon.svg", "<?xml version=\"1.0\"?><svg/>");
    place.write("icon.txt", "tide");
    place.write("latin", b"tid\xe9");
    place.write("large", vec![b' '; (4 << 20) + 1]);
    let init = |args: &[&str]| place.run(&[&["catalog", "init"][..], args].concat());
    let svg = init(&["tide", "-i", "icon.svg"]).exits(0);
    svg.out_has("\"mediatype\": \"image/svg+xml\"");
    for (args, part) in [
        (&["Tide"][..], "invalid package name \"Tide\""),
        (&["tide", "-i", "icon.txt"], "the icon is no image"),
        (&["tide", "-i", "absent"], "failed to read absent"),
        (&["tide", "-d", "latin"], "write it in UTF-8"),
        (&["tide", "-d", "large"], "larger than 4194304 bytes"),
    ] {
        let run = init(args).exits(1);
        run.err_has(part);
        assert_eq!(run.out, "");
    }
}

/// Comments and empty lines are everybody's own.
fn instructions(text: &str) -> Vec<&str> {
    let is_one = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(is_one).collect()
}

// parity: render-12
#[test]
fn a_dockerfile_has_the_instructions_of_opm() {
    for args in [
        &[][..],
        &["-i", "scratch"],
        &[
            "--base-image",
            "quay.io/a/base:v1",
            "-b",
            "quay.io/a/builder:v1",
        ],
        &["-l", "b=2,a=1 x", "--extra-labels", "c=d=e", "-l", "a=3"],
    ] {
        let place = Place::new();
        place.write("ours/catalog/.keep", "");
        place.write("theirs/catalog/.keep", "");
        let generate = [&["generate", "dockerfile", "theirs/catalog"][..], args].concat();
        Run::from(opm(&place.path(""), &generate)).exits(0);
        place.ok(&[&["catalog", "dockerfile", "ours/catalog/"][..], args].concat());
        let ours = place.read("ours/catalog.Dockerfile");
        let theirs = place.read("theirs/catalog.Dockerfile");
        assert_eq!(instructions(&ours), instructions(&theirs), "{args:?}");
        assert!(instructions(&ours).len() > 5, "{ours}");
    }
}

#[test]
fn nothing_is_written_over_and_nothing_beside_no_folder() {
    let place = Place::new();
    place.write("catalog/.keep", "");
    place.write("a b/.keep", "");
    place.write("file", "");
    place.write("there/.keep", "");
    place.write("there.Dockerfile", "mine");
    let run = |args: &[&str]| place.run(&[&["catalog", "dockerfile"][..], args].concat());
    for (args, part) in [
        (&["there"][..], "there.Dockerfile is there already"),
        (&["absent"], "absent"),
        (&["file"], "file is no folder"),
        (&["."], "from the one above it"),
        (&["a b"], "cannot stand in a Dockerfile"),
        (&["catalog", "-b", "scratch"], "invalid builder image"),
        (&["catalog", "-i", "a b"], "invalid base image"),
        (&["catalog", "-l", "a=\"b"], "invalid label"),
    ] {
        let run = run(args).exits(1);
        run.err_has(part);
    }
    run(&["catalog", "-l", "a"]).exits(2);
    assert_eq!(place.read("there.Dockerfile"), "mine");
    assert!(!fs::exists(place.path("catalog.Dockerfile")).unwrap());
}
