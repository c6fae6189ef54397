//! Passwords and signed URLs of remote sources. docs/sources.md covers the kinds of sources, and files with passwords.

use std::fs;

use tests::{FileServer, OWNER};

use crate::bundle::{Args as _, Workspace};

#[test]
fn passwords_come_from_pipes_and_the_environment() {
    let workspace = Workspace::with_tide();
    workspace.ok("unpack tide -q -o tide.tgz");
    let files = FileServer::start(Some(OWNER), None);
    let url = files.add("tide.tgz", fs::read(workspace.path("tide.tgz")).unwrap());
    let user = format!("inspect {url} --username {}", OWNER.name);
    let piped = format!("{user} --password-file -");
    let run = workspace.run_with(&piped, OWNER.password.as_bytes());
    run.exits(0);
    let mut named = workspace.command();
    let named = named.args(user.words());
    let named = named.env("RUKPAK_PASSWORD", OWNER.password).output();
    assert!(named.unwrap().status.success());
}

#[test]
fn url_signatures_are_never_printed() {
    let workspace = Workspace::with_tide();
    workspace.ok("unpack tide -q -o tide.tgz");
    let files = FileServer::start(None, None);
    let url = files.add("tide.tgz", fs::read(workspace.path("tide.tgz")).unwrap());
    let signed = format!("{url}?X-Sig=sekret");
    let missing = signed.replace("tide.tgz", "missing.tgz");
    let mut output = String::new();
    for args in [
        format!("unpack {signed}"),
        format!("unpack {signed} --format json --report unpack"),
        format!("unpack {missing}"),
        format!("validate {signed} -o sarif"),
        format!("validate {signed} -o json"),
        format!("inspect {signed}"),
        format!("convert {signed} --report convert --output-dir out"),
        format!("convert {missing} {signed}"),
    ] {
        let run = workspace.run(&args);
        assert!(run.code != Some(2), "{args:?}: {run:?}");
        output = output + &run.out + &run.err;
    }
    output += &[workspace.read("unpack"), workspace.read("convert")].concat();
    output += &workspace.list("out").join(" ");
    assert!(output.contains(&format!("{url}?…#sha256:")), "{output}");
    assert!(!output.contains("sekret"), "{output}");
}
