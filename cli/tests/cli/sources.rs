//! Bundles from real servers, with the user's own credentials.

mod corpus;
mod file;
mod git;
mod image;
mod login;
pub(crate) mod memory;
mod registry;

use std::{env, process::Command};

use serde_json::Value;
use tests::TENANT;

use crate::bundle::{Args, Place, Run, binary};

pub(crate) const PLAIN: &str = "--tls-verify=false";

/// A user with a home, who has nothing else set up, and a bundle in the folder `tide`.
pub(crate) struct Desk {
    pub(crate) place: Place,
}

/// What a bundle is, wherever it comes from.
#[derive(Debug, PartialEq, Eq)]
struct Same {
    digest: String,
    manifests: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        place.good("tide");
        place.write("home/.keep", "");
        Self { place }
    }

    /// The command, in an environment of its own.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.place.command(&binary());
        let bin = self.place.path("bin").into_os_string();
        let mut path = bin.into_string().unwrap();
        path = format!("{path}:{}", env::var("PATH").unwrap());
        command
            .env_clear()
            .env("HOME", self.place.path("home"))
            .env("PATH", path);
        command
    }

    pub(crate) fn run(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run_with(args, &[])
    }

    /// Runs a command that has to succeed.
    #[track_caller]
    pub(crate) fn ok(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run(args).exits(0)
    }

    /// Runs a command that has to fail.
    #[track_caller]
    pub(crate) fn fail(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run(args).exits(1)
    }

    pub(crate) fn run_with(&self, args: &(impl Args + ?Sized), env: &[(&str, &str)]) -> Run {
        let (args, env) = (args.words(), env.iter().copied());
        self.command().args(args).envs(env).output().unwrap().into()
    }

    /// Writes a file and tells its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        self.place.write(name, text);
        self.place.path(name).to_str().unwrap().to_owned()
    }

    /// What a source resolves to; and it must hold the bundle of this desk, to unpack and to convert.
    pub(crate) fn resolves(&self, source: &str, access: &str, env: &[(&str, &str)]) -> String {
        let (found, resolved) = self.same(source, access, env);
        assert_eq!(found, self.same("tide", "", &[]).0, "{source}");
        resolved
    }

    fn same(&self, source: &str, access: &str, env: &[(&str, &str)]) -> (Same, String) {
        let run = |args: &str| self.run_with(&format!("{args} {access}"), env).exits(0);
        let unpacked = run(&format!("unpack {source} --format json")).json();
        let text = |field: &str| unpacked[field].as_str().unwrap().to_owned();
        let same = Same {
            digest: text("digest"),
            manifests: run(&format!("convert --quiet {source}")).out,
        };
        (same, text("resolved"))
    }

    /// Resolves a source of the tenant behind a private authority with both or without verification. What lacks one of them is
    /// refused; the message about the user has `lack`.
    fn guarded(&self, source: &str, host: &str, ca: &str, word: &str, lack: &str) -> String {
        let user = format!("--username {} --password-file {word}", TENANT.name);
        self.resolves(source, &format!("--tls-verify=false {user}"), &[]);
        self.refuses(source, &user, &[host, "--cacert"]);
        self.refuses(source, &format!("--cacert {ca}"), &[host, lack]);
        self.resolves(source, &format!("--cacert {ca} {user}"), &[])
    }

    /// Checks the message for a source that cannot be fetched, which must not have a secret.
    #[track_caller]
    pub(crate) fn refuses(&self, source: &str, access: &str, parts: &[&str]) {
        let message = self.fails(source, access, &[]);
        says(&message, parts, &[TENANT.password, "PRIVATE KEY"]);
    }

    /// What is said when a source cannot be had.
    #[track_caller]
    pub(crate) fn fails(&self, source: &str, access: &str, env: &[(&str, &str)]) -> String {
        let run = |command: &str| {
            let run = self.run_with(&format!("{command} {source} {access}"), env);
            let run = run.exits(1);
            assert_eq!(run.out, "");
            run.err
        };
        run("convert");
        run("unpack")
    }

    /// Publishes the bundle and tells the reference that is good for ever.
    pub(crate) fn push(&self, image: &str, access: &str, env: &[(&str, &str)]) -> String {
        let args = format!("push tide {image} -o json {access}");
        let pushed: Value = self.run_with(&args, env).exits(0).json();
        pushed["reference"].as_str().unwrap().to_owned()
    }
}

/// Fails unless a message says all of this, and nothing of that.
#[track_caller]
pub(crate) fn says(message: &str, parts: &[&str], secrets: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
    for secret in secrets {
        assert!(!message.contains(secret), "{secret:?} is in: {message}");
    }
}
