//! A store of images that goes when the test ends.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A folder with a store in it, and whatever the test puts beside that.
pub(crate) struct Store {
    folder: TempDir,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs buildah and returns what it prints.
    pub(crate) fn buildah(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("buildah");
        command
            .arg("--root")
            .arg(self.path("root"))
            .arg("--runroot")
            .arg(self.path("run"))
            .args(["--storage-driver", "vfs"]) // an overlay of overlays is not possible everywhere
            .args(arguments)
            .current_dir(self.folder.path());
        output(&mut command)
    }

    pub(crate) fn skopeo(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("skopeo");
        command
            .arg("--insecure-policy")
            .args(arguments)
            .current_dir(self.folder.path());
        output(&mut command)
    }

    /// Builds an image from a Dockerfile, with a layer for each step.
    pub(crate) fn build(&self, name: &str, dockerfile: &str) {
        fs::write(self.path("Dockerfile"), dockerfile).unwrap();
        self.buildah(&[
            "bud",
            "--isolation",
            "chroot",
            "--layers",
            "-q",
            "-t",
            name,
            ".",
        ]);
    }

    /// Puts a layer on top of an image: what `change` does to its files.
    pub(crate) fn layer(&self, from: &str, to: &str, change: impl FnOnce(&Path)) {
        let container = self.buildah(&["from", from]);
        let root = self.buildah(&["mount", &container]);
        change(Path::new(&root));
        self.buildah(&["umount", &container]);
        self.buildah(&["commit", "-q", "--rm", &container, to]);
    }

    /// Calls `look` with the files of an image as a container sees them.
    pub(crate) fn mounted<T>(&self, image: &str, look: impl FnOnce(&Path) -> T) -> T {
        let container = self.buildah(&["from", image]);
        let root = self.buildah(&["mount", &container]);
        let seen = look(Path::new(&root));
        self.buildah(&["umount", &container]);
        self.buildah(&["rm", &container]);
        seen
    }

    /// Writes an image in all forms that are read.
    pub(crate) fn save(&self, image: &str) {
        let forms = [
            "oci:layout:v1",
            "oci-archive:oci.tar:v1",
            "docker-archive:docker.tar",
        ];
        for file in ["layout", "oci.tar", "docker.tar"].map(|name| self.path(name)) {
            let _ = fs::remove_dir_all(&file).or_else(|_| fs::remove_file(&file));
        }
        for form in forms {
            self.buildah(&["push", "-q", image, form]);
        }
    }

    /// Writes files with their paths as what they hold.
    pub(crate) fn write(&self, paths: &[&str]) {
        for path in paths {
            write(&self.path(path), path);
        }
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started, is it installed? {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
