//! Images built by buildah.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use tempfile::TempDir;

use crate::process::program;

/// `buildah` with a separate storage. Dropping the value removes its images.
#[derive(Debug)]
pub struct Buildah {
    storage: TempDir,
    built: AtomicUsize,
}

impl Default for Buildah {
    fn default() -> Self {
        Self::new()
    }
}

impl Buildah {
    /// Returns a storage without images.
    pub fn new() -> Self {
        let storage = tempfile::Builder::new().prefix("buildah-").tempdir();
        let (storage, built) = (storage.unwrap(), AtomicUsize::new(0));
        Self { storage, built }
    }

    /// Builds a Dockerfile over a directory, and returns the image's name.
    pub fn build(&self, file: &str, context: &Path, flags: &[&str]) -> String {
        let number = self.built.fetch_add(1, Ordering::Relaxed);
        let name = format!("localhost/built-{number}");
        self.build_as(&name, file, context, flags);
        name
    }

    /// Builds an image and pushes it to a registry without TLS.
    pub fn publish(&self, file: &str, context: &Path, image: &str, flags: &[&str]) {
        let flags = [&["--tls-verify=false"], flags].concat();
        self.build_as(&format!("docker://{image}"), file, context, &flags);
    }

    fn build_as(&self, name: &str, file: &str, context: &Path, flags: &[&str]) {
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(path.path(), file).unwrap();
        let path = path.path().to_str().unwrap();
        let mut args = vec!["build", "--quiet", "--tag", name, "--file", path];
        args.extend(flags);
        args.push(context.to_str().unwrap());
        self.run(&args);
    }

    /// Pushes an image to a destination of buildah: `docker://…`, `oci:…`, `docker-archive:…`.
    pub fn push(&self, image: &str, to: &str, flags: &[&str]) {
        self.run(&[&["push", "--quiet"], flags, &[image, to]].concat());
    }

    /// Returns an image with tools of this machine and the libraries that they are linked with.
    pub fn base_of(&self, tools: &[&str]) -> String {
        let root = tempfile::tempdir().unwrap();
        let mut files = BTreeSet::new();
        for tool in tools.iter().map(|tool| program(tool)) {
            let output = Command::new("ldd").arg(&tool).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
            files.extend(paths.map(str::to_owned));
            let name = tool.file_name().unwrap().to_str().unwrap();
            files.insert(format!("/usr/bin/{name}"));
        }
        for file in files {
            let to = root.path().join(file.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&file, &to).unwrap();
        }
        std::os::unix::fs::symlink("usr/bin", root.path().join("bin")).unwrap();
        self.build("FROM scratch\nCOPY . /\n", root.path(), &[])
    }

    /// Runs a command of buildah.
    pub fn run(&self, args: &[&str]) {
        let mut command = self.command();
        let output = command.args(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
    }

    /// Returns the command, for runs that may fail.
    pub fn command(&self) -> Command {
        let dir = |name: &str| self.storage.path().join(name);
        let mut command = Command::new(program("buildah"));
        command
            .args(["--storage-driver", "vfs", "--root"])
            .arg(dir("root"))
            .arg("--runroot")
            .arg(dir("run"))
            .env("BUILDAH_ISOLATION", "chroot")
            .stdin(Stdio::null());
        command
    }
}
