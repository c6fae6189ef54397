//! An image store that is removed at the end of the test.

use crate::*;

/// A directory with a store, and with the files of the test.
pub(crate) struct Store {
    buildah: Buildah,
    directory: TempDir,
}

impl Store {
    /// Writes files with their paths as content, and builds images from Dockerfiles with one layer per step.
    pub(crate) fn new(paths: &str, images: &[(&str, &str)]) -> Self {
        let store = Self {
            buildah: Buildah::new(),
            directory: tempfile::tempdir().unwrap(),
        };
        for path in paths.split_whitespace() {
            write(store.directory.path(), path, path);
        }
        for (name, dockerfile) in images {
            fs::write(store.path("Dockerfile"), dockerfile).unwrap();
            let options = ["bud", "--isolation", "chroot", "--layers", "-q"];
            store.buildah(&[&options[..], &["-t", name, "."]].concat());
        }
        store
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn buildah(&self, args: &[&str]) -> String {
        let mut command = self.buildah.command();
        command.args(args).current_dir(self.directory.path());
        let output = command.output();
        let output = output.unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Adds a layer to an image: the changes of a script to its files.
    pub(crate) fn layer(&self, from: &str, to: &str, script: &str) {
        let container = self.buildah(&["from", from]);
        let root = self.buildah(&["mount", &container]);
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(root);
        assert!(shell.status().unwrap().success(), "{script}");
        self.buildah(&["umount", &container]);
        self.buildah(&["commit", "-q", "--rm", &container, to]);
    }

    /// Reads the files of an image as a container sees them.
    pub(crate) fn mounted<T>(&self, image: &str, read: impl FnOnce(&Path) -> T) -> T {
        let container = self.buildah(&["from", image]);
        let result = read(Path::new(&self.buildah(&["mount", &container])));
        self.buildah(&["umount", &container]);
        self.buildah(&["rm", &container]);
        result
    }

    /// Writes an image in all forms that are read.
    pub(crate) fn save(&self, image: &str) {
        let forms = "layout oci:layout:v1, oci.tar oci-archive:oci.tar:v1, docker.tar docker-archive:docker.tar";
        for (file, form) in pairs(forms) {
            let file = self.path(file);
            let _ = fs::remove_dir_all(&file).or_else(|_| fs::remove_file(&file));
            self.buildah(&["push", "-q", image, form]);
        }
    }
}
