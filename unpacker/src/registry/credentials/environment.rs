//! Credentials files of container tools on the machine of a user.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Config, Credentials, Error};

impl Credentials {
    /// Loads the credentials of the current user from the files that Podman, Skopeo and Docker use. If
    /// `$REGISTRY_AUTH_FILE` is set, only that file is read. Otherwise the files are, in this order:
    /// `$XDG_RUNTIME_DIR/containers/auth.json` (`/run/containers/UID/auth.json` if that variable is not set),
    /// `~/.config/containers/auth.json`, `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`, and `~/.dockercfg`. The
    /// first file with an entry for a registry is used. Credential helpers run on demand.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be read or is invalid.
    pub fn from_user_environment() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Loads the credentials from one file of the user. The file may name credential helpers.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub fn from_user_file(path: &Path) -> Result<Self, Error> {
        let config = read(path.to_owned())?.ok_or_else(|| Error::Read {
            path: path.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        })?;
        Ok(Self {
            configs: vec![config],
        })
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let variable_path =
            |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(path) = variable_path("REGISTRY_AUTH_FILE") {
            return Self::from_user_file(&path);
        }
        let home = variable_path("HOME");
        let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let candidates = [
            match variable_path("XDG_RUNTIME_DIR") {
                Some(run) => Some(run.join("containers/auth.json")),
                // The file may be in a directory that this user may not read.
                None => Some(sessionless_file(rustix::process::getuid().as_raw()))
                    .filter(|path| path.is_file()),
            },
            variable_path("XDG_CONFIG_HOME")
                .or_else(|| at_home(".config"))
                .map(|config| config.join("containers/auth.json")),
            variable_path("DOCKER_CONFIG")
                .or_else(|| at_home(".docker"))
                .map(|docker| docker.join("config.json")),
            at_home(".dockercfg"),
        ];
        let configs = candidates.into_iter().flatten().map(read);
        let configs: Vec<Option<Config>> = configs.collect::<Result<_, _>>()?;
        Ok(Self {
            configs: configs.into_iter().flatten().collect(),
        })
    }
}

/// Returns the file that `podman login` writes if `$XDG_RUNTIME_DIR` is not set, for example for root.
fn sessionless_file(uid: u32) -> PathBuf {
    format!("/run/containers/{uid}/auth.json").into()
}

/// Reads a credentials file. Returns `None` if the file does not exist.
fn read(path: PathBuf) -> Result<Option<Config>, Error> {
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(source) => return Err(Error::Read { path, source }),
    };
    match Config::parse(&json) {
        Ok(config) => Ok(Some(Config {
            allow_helpers: true,
            ..config
        })),
        Err(source) => Err(Error::File {
            path,
            source: Box::new(source),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_file_replaces_the_default_files() {
        let home = tempfile::tempdir().unwrap();
        let at = |rest: &str| OsString::from(home.path().join(rest));
        for (path, registry) in [
            ("run/containers/auth.json", "run"),
            (".config/containers/auth.json", "config"),
            ("docker/config.json", "set"),
            (".docker/config.json", "docker"),
            (".dockercfg", "cfg"),
            ("named.json", "named"),
        ] {
            let entry =
                format!(r#"{{"{registry}.example": {{"username": "u", "password": "p"}}}}"#);
            ::tests::write(home.path(), path, format!(r#"{{"auths": {entry}}}"#));
        }
        let all = ["run", "config", "set", "docker", "cfg", "named"];
        for (variables, expected) in ::tests::rows![
            vec![("HOME", "")] => vec!["config", "docker", "cfg"];
            vec![("HOME", ""), ("XDG_RUNTIME_DIR", "run")] => vec!["run", "config", "docker", "cfg"];
            vec![("HOME", ""), ("DOCKER_CONFIG", "docker")] => vec!["config", "set", "cfg"];
            vec![("HOME", "none"), ("REGISTRY_AUTH_FILE", "named.json")] => vec!["named"];
            vec![] => vec![];
        ] {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, rest)| at(rest))
            };
            let credentials = Credentials::from_variables(lookup).unwrap();
            let found = all.into_iter();
            let found = found.filter(|name| credentials.names(&format!("{name}.example"), "app"));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{variables:?}");
        }
    }

    #[test]
    fn missing_and_malformed_named_files_are_reported() {
        let home = tempfile::tempdir().unwrap();
        let named = |rest: &str| {
            let path = OsString::from(home.path().join(rest));
            Credentials::from_variables(|name| (name == "REGISTRY_AUTH_FILE").then(|| path.clone()))
        };
        assert!(matches!(named("none.json"), Err(Error::Read { .. })));
        fs::write(home.path().join("bad.json"), "no").unwrap();
        let error = named("bad.json").unwrap_err();
        assert!(error.to_string().contains("bad.json") && error.is_terminal());
    }
}
