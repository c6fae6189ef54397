//! Copying the program to where another container finds it: an image from scratch has no `cp`.

use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
};

use super::Error;

/// Copies this program to a file of this name in a folder, executable for everyone. It is there whole or not at all.
///
/// # Errors
/// When the folder cannot be written to.
pub fn install(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let target = folder.join(name);
    let part = folder.join(format!(".{name}.{}", process::id()));
    let copied = copy(&part).and_then(|()| fs::rename(&part, &target));
    copied.map_err(|source| {
        let _ = fs::remove_file(&part); // not there, if it could not be made
        Error::Install {
            folder: folder.to_owned(),
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
