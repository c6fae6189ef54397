//! Remote sources on the command line: names, flags, passwords and progress.

use std::fs;

use tests::{FileServer, OWNER, Registry};

use crate::bundle::{Args as _, Place};

#[test]
fn bundles_of_different_sources_are_converted_together() {
    let place = Place::with_tide();
    place.good("wave");
    let (registry, files) = (Registry::plain(), FileServer::start(None, None));
    let image = registry.image("acme/tide:v1");
    place.ok(&format!("push tide {image} --tls-verify=false -q"));
    place.ok("unpack wave -q -o wave.tgz");
    let url = files.add("wave-1.0.tgz", fs::read(place.path("wave.tgz")).unwrap());
    let gone = url.replace("wave", "gone");
    let args = format!("convert --tls-verify=false --output-dir out {image} {url} {gone} wave");
    let run = place.run(&args).exits(1);
    let cells = |line: &str| line.split('\t').take(3).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = run.out.lines().map(cells).collect();
    let expected = [
        "tide-v1 tide.v1.2.3 converted",
        "wave-1.0 wave.v1.2.3 converted",
        "gone-1.0  failed",
        "wave wave.v1.2.3 converted",
    ];
    assert_eq!(rows, expected, "{run:?}");
    let files = ["tide-v1.yaml", "wave-1.0.yaml", "wave.yaml"];
    assert_eq!(place.list("out"), files);
    for (file, bundle) in [("tide-v1", "tide"), ("wave-1.0", "wave"), ("wave", "wave")] {
        let local = place.ok(&format!("convert {bundle}")).out;
        assert_eq!(place.read(&format!("out/{file}.yaml")), local);
    }
}

#[test]
fn passwords_come_from_files_pipes_and_the_environment() {
    let place = Place::with_tide();
    place.ok("unpack tide -q -o tide.tgz");
    let files = FileServer::start(Some(OWNER), None);
    let url = files.add("tide.tgz", fs::read(place.path("tide.tgz")).unwrap());
    place.write("word", format!("{}\n", OWNER.password));
    let user = format!("inspect {url} --username {}", OWNER.name);

    place.ok(&format!("{user} --password-file word"));
    let piped = format!("{user} --password-file -");
    place.run_with(&piped, OWNER.password.as_bytes()).exits(0);
    let mut named = place.command();
    let named = named.args(user.words());
    let named = named.env("RUKPAK_PASSWORD", OWNER.password).output();
    assert!(named.unwrap().status.success());
}

#[test]
fn url_signatures_are_never_printed() {
    let place = Place::with_tide();
    place.ok("unpack tide -q -o tide.tgz");
    let files = FileServer::start(None, None);
    let url = files.add("tide.tgz", fs::read(place.path("tide.tgz")).unwrap());
    let signed = format!("{url}?X-Sig=sekret");
    let gone = signed.replace("tide.tgz", "gone.tgz");
    let mut output = String::new();
    for args in [
        format!("unpack {signed}"),
        format!("unpack {signed} --format json --report unpack"),
        format!("unpack {gone}"),
        format!("validate {signed} -o sarif"),
        format!("validate {signed} -o json"),
        format!("inspect {signed}"),
        format!("convert {signed} --report convert --output-dir out"),
        format!("convert {gone} {signed}"),
    ] {
        let run = place.run(&args);
        assert!(run.code != Some(2), "{args:?}: {run:?}");
        output = output + &run.out + &run.err;
    }
    output += &place.read("unpack");
    output += &place.read("convert");
    output += &place.list("out").join(" ");
    assert!(output.contains(&format!("{url}?…#sha256:")), "{output}");
    assert!(!output.contains("sekret"), "{output}");
}
