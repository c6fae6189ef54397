//! The log: JSON lines on standard error, with a level that can be changed at run time.

use std::{
    panic::{self, PanicHookInfo},
    sync::Arc,
};

use clap::ValueEnum;
use parking_lot::Mutex;
use tracing::{error, info};
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object per line, for machines.
    Json,
    /// Text for people.
    Text,
}

/// Crates whose messages a more verbose level includes.
const OWN_CRATES: [&str; 6] = [
    "provisioner",
    "apply",
    "unpacker",
    "convert",
    "manifests",
    "catalog",
];
/// Maximum length of the logged message of a panic, in bytes.
const MAX_PANIC: usize = 1024;
/// Maximum length of log directives, in bytes.
const MAX_LEVEL: usize = 1024;

/// Handle to change the log level. Clones change the same level.
#[derive(Clone)]
pub(crate) struct LogLevelHandle {
    handle: Option<reload::Handle<EnvFilter, Registry>>,
    current: Arc<Mutex<String>>,
}

/// Starts logging. Panics are logged, too.
pub(crate) fn start(format: LogFormat, level: &str) -> LogLevelHandle {
    let (filter, handle) = reload::Layer::new(filter(level).unwrap_or_default());
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
        LogFormat::Text => lines.compact().with_ansi(false).boxed(),
    };
    // In a test, another logger may already be installed, whose level cannot be changed.
    let started = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .is_ok();
    if started {
        panic::set_hook(Box::new(log_panic));
    }
    LogLevelHandle {
        handle: started.then_some(handle),
        current: Arc::new(Mutex::new(level.to_owned())),
    }
}

impl LogLevelHandle {
    /// Returns the current log level.
    pub(crate) fn get(&self) -> String {
        self.current.lock().clone()
    }

    /// Changes the log level.
    pub(crate) fn set(&self, level: &str) -> Result<(), String> {
        let level = level.trim();
        let filter = filter(level)?;
        let handle = self
            .handle
            .as_ref()
            .ok_or("the log is not managed by the provisioner")?;
        handle.reload(filter).map_err(|error| error.to_string())?;
        level.clone_into(&mut self.current.lock());
        info!(level, "log level changed");
        Ok(())
    }
}

/// Parses a log level. A single word applies to the crates of this program only, because debug lines of libraries would
/// hide theirs.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    const REMEDY: &str =
        "use error, warn, info, debug or trace, or directives such as info,provisioner=debug";
    if text.len() > MAX_LEVEL {
        return Err(format!("the level is too long; {REMEDY}"));
    }
    let directives = match text {
        "error" | "warn" | "info" => text.to_owned(),
        "debug" | "trace" => {
            let directives = OWN_CRATES.map(|name| format!("{name}={text}"));
            format!("info,{}", directives.join(","))
        }
        // A word that is not a level would be parsed as the name of a library.
        text if !text.contains(['=', ',']) => return Err(REMEDY.to_owned()),
        text => text.to_owned(),
    };
    EnvFilter::builder()
        .with_regex(false)
        .parse(directives)
        .map_err(|error| format!("{error}; {REMEDY}"))
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("a value that is not text");
    let message = super::events::truncate(message, MAX_PANIC);
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    error!(location, thread, panic = message, "panicked: this is a bug");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_words_or_directives() {
        for valid in "error warn info debug trace info,kube=debug a=off".split(' ') {
            assert!(filter(valid).is_ok(), "{valid}");
        }
        for bad in "|loud|info kube|kube=loud|info,kube=debug=x".split('|') {
            assert!(filter(bad).is_err(), "{bad}");
        }
        assert!(filter(&"a=info,".repeat(1000)).is_err());
    }

    #[test]
    fn level_applies_to_crates_of_the_project_only() {
        let text = filter("debug").unwrap().to_string();
        assert_rows!(text.contains("provisioner=debug") => true, "{text}");
        assert_rows!(text.contains("apply=debug") => true, "{text}");
        assert_rows!(!text.contains("hyper") => true, "{text}");
        assert_rows!(text.split(',').any(|directive| directive == "info") => true, "{text}");
    }
}
