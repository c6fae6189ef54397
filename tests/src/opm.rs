//! The real `opm`, for comparisons.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

/// Runs `opm`, which is built from its Go module if it is missing. The command has no registry and no home directory.
pub fn opm(dir: &Path, args: &[&str]) -> Output {
    // opm leaves caches behind.
    let caches = tempfile::tempdir().unwrap();
    let mut command = opm_command(dir);
    command.args(args).env("TMPDIR", caches.path());
    command.output().unwrap()
}

/// Returns the command, for `opm serve`, which does not end by itself.
pub fn opm_command(dir: &Path) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/build.sh");
        let mut build = Command::new(script);
        let built = build.arg("opm").stderr(Stdio::inherit()).output().unwrap();
        assert!(built.status.success(), "opm cannot be built");
        let dir = PathBuf::from(String::from_utf8(built.stdout).unwrap().trim_end());
        dir.join("opm")
    });
    let mut command = Command::new(program);
    command.current_dir(dir);
    command
}
