//! Installation of the program into a shared volume, for images without `cp`.

use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
};

use super::Error;

/// Copies this program to `name` in a directory, executable for all users. The file appears atomically.
///
/// # Errors
/// Returns an error if the directory cannot be written.
pub fn install(directory: &Path, name: &str) -> Result<PathBuf, Error> {
    let target = directory.join(name);
    let temp = directory.join(format!(".{name}.{}", process::id()));
    let copied = copy(&temp).and_then(|()| fs::rename(&temp, &target));
    copied.map_err(|source| {
        let _ = fs::remove_file(&temp); // fails if the file could not be created
        Error::Install {
            directory: directory.to_owned(),
            source,
        }
    })?;
    Ok(target)
}

fn copy(to: &Path) -> io::Result<()> {
    let mut program = fs::File::open(env::current_exe()?)?;
    let mut file = fs::File::create_new(to)?;
    io::copy(&mut program, &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    file.sync_all()
}
