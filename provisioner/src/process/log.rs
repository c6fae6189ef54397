//! The log: JSON lines on standard error, with a level that can be changed while the process runs.

use std::{
    panic::{self, PanicHookInfo},
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{error, info};
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

use super::args::LogFormat;

/// What is ours, and told more about when more is asked for.
const OURS: [&str; 5] = ["provisioner", "unpacker", "convert", "manifests", "catalog"];
/// How much of a panic's message is logged.
const MAX_PANIC: usize = 1024;
/// How long directives may be.
const MAX_LEVEL: usize = 1024;

/// Changes what is logged. Clones change the same.
#[derive(Clone)]
pub(super) struct Level {
    handle: Option<reload::Handle<EnvFilter, Registry>>,
    now: Arc<Mutex<String>>,
}

/// Begins to log. Panics are logged, too.
pub(super) fn start(format: LogFormat, level: &str) -> Level {
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
    // In a test somebody else may log already; then there is nothing to change.
    let started = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .is_ok();
    if started {
        panic::set_hook(Box::new(log_panic));
    }
    Level {
        handle: started.then_some(handle),
        now: Arc::new(Mutex::new(level.to_owned())),
    }
}

impl Level {
    /// What is logged now.
    pub(super) fn get(&self) -> String {
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Logs something else from now on.
    pub(super) fn set(&self, level: &str) -> Result<(), String> {
        let level = level.trim();
        let filter = filter(level)?;
        let handle = self
            .handle
            .as_ref()
            .ok_or("the log belongs to somebody else")?;
        handle.reload(filter).map_err(|error| error.to_string())?;
        level.clone_into(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        info!(level, "log level changed");
        Ok(())
    }
}

/// Reads a level: one word is about this program and not about its libraries, whose debug lines would bury ours.
pub(super) fn filter(text: &str) -> Result<EnvFilter, String> {
    const REMEDY: &str =
        "write error, warn, info, debug or trace, or directives such as info,provisioner=debug";
    if text.len() > MAX_LEVEL {
        return Err(format!("this is too long; {REMEDY}"));
    }
    let directives = match text {
        "error" | "warn" | "info" => text.to_owned(),
        "debug" | "trace" => {
            let ours = OURS.map(|name| format!("{name}={text}"));
            format!("info,{}", ours.join(","))
        }
        // A word that is no level would be taken for the name of a library.
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
    let message = message.unwrap_or("a value that is no text");
    let message = crate::events::cut(message, MAX_PANIC);
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
        for good in "error warn info debug trace info,kube=debug a=off".split(' ') {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in "|loud|info kube|kube=loud|info,kube=debug=x".split('|') {
            assert!(filter(bad).is_err(), "{bad}");
        }
        assert!(filter(&"a=info,".repeat(1000)).is_err());
    }

    #[test]
    fn one_word_is_about_us_and_not_about_libraries() {
        let text = filter("debug").unwrap().to_string();
        assert_rows!(text.contains("provisioner=debug") => true, "{text}");
        assert_rows!(!text.contains("hyper") => true, "{text}");
        assert_rows!(text.split(',').any(|directive| directive == "info") => true, "{text}");
    }
}
