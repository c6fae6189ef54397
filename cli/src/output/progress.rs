//! Progress line on the terminal. Other output replaces it.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use terminal_size::{Width, terminal_size_of};
use unpacker::Progress;

use super::message::sanitize;

/// Age of a transfer after which it is shown.
const SHOW_AFTER: Duration = Duration::from_millis(400);
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Whether the line is visible. Writers to the terminal hold the lock.
static IS_SHOWN: Mutex<bool> = Mutex::new(false);

/// Erases the line while `write` writes other output.
pub(crate) fn suspend<T>(write: impl FnOnce() -> T) -> T {
    let mut is_shown = IS_SHOWN.lock();
    erase(&mut is_shown);
    write()
}

/// Erases the line.
pub(crate) fn clear() {
    erase(&mut IS_SHOWN.lock());
}

/// Shows a text as the progress line if standard error is a terminal.
pub(crate) fn display(text: &str) {
    if io::stderr().is_terminal() {
        redraw(&sanitize(text));
    }
}

fn redraw(text: &str) {
    let mut is_shown = IS_SHOWN.lock();
    let width = terminal_size_of(io::stderr()).map_or(80, |(Width(width), _)| usize::from(width));
    let text: String = text.chars().take(width.saturating_sub(1)).collect();
    let _ = io::stderr().write_all(format!("\r{text}\x1b[K").as_bytes());
    *is_shown = true;
}

fn erase(is_shown: &mut bool) {
    if std::mem::take(is_shown) {
        let _ = io::stderr().write_all(b"\r\x1b[K");
    }
}

/// Progress line of the running transfers.
#[derive(Debug, Default)]
pub(crate) struct ProgressLine {
    transfers: Arc<Mutex<Vec<Transfer>>>,
    is_finished: Arc<AtomicBool>,
    drawing: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Transfer {
    name: String,
    since: Instant,
    progress: Progress,
}

impl ProgressLine {
    /// Starts a thread that draws the line if standard error is a terminal.
    pub(crate) fn new(is_quiet: bool) -> Self {
        let mut line = Self::default();
        if !is_quiet && io::stderr().is_terminal() {
            let transfers = Arc::clone(&line.transfers);
            let is_finished = Arc::clone(&line.is_finished);
            let draw = move || {
                while !is_finished.load(Ordering::Relaxed) {
                    draw(&transfers.lock());
                    thread::park_timeout(REFRESH_INTERVAL);
                }
            };
            // Without the thread, only the progress line is missing.
            line.drawing = thread::Builder::new().spawn(draw).ok();
        }
        line
    }

    /// Shows a transfer while `work` runs.
    pub(crate) fn during<T>(&self, name: &str, work: impl FnOnce(&Progress) -> T) -> T {
        let progress = Progress::default();
        let since = Instant::now();
        self.transfers.lock().push(Transfer {
            name: sanitize(name),
            since,
            progress: progress.clone(),
        });
        let result = work(&progress);
        let mut transfers = self.transfers.lock();
        if let Some(at) = transfers
            .iter()
            .position(|other| other.since == since && other.name == sanitize(name))
        {
            transfers.remove(at);
        }
        result
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.is_finished.store(true, Ordering::Relaxed);
        if let Some(drawing) = self.drawing.take() {
            drawing.thread().unpark();
            let _ = drawing.join();
        }
        clear();
    }
}

fn draw(transfers: &[Transfer]) {
    let text = describe(transfers, Instant::now());
    if text.is_empty() {
        clear();
    } else {
        redraw(&text);
    }
}

/// Formats the line: `quay.io/org/app:v1: 1.2 of 3.4 MB, 5.6 MB/s`.
fn describe(transfers: &[Transfer], now: Instant) -> String {
    let visible = || {
        transfers
            .iter()
            .filter(|transfer| now.duration_since(transfer.since) >= SHOW_AFTER)
    };
    let Some(first) = visible().next() else {
        return String::new();
    };
    let name = match visible().count() {
        1 => first.name.clone(),
        several => format!("{} and {} more", first.name, several - 1),
    };
    let done: u64 = visible().map(|transfer| transfer.progress.done()).sum();
    let total: u64 = visible()
        .map(|transfer| transfer.progress.total().max(transfer.progress.done()))
        .sum();
    let time = now.duration_since(first.since).as_millis().max(1);
    let speed = u64::try_from(u128::from(done) * 1000 / time).unwrap_or(u64::MAX);
    if done == 0 {
        format!("{name}: waiting")
    } else if total > done {
        format!(
            "{name}: {} of {}, {}/s",
            size(done),
            size(total),
            size(speed)
        )
    } else {
        format!("{name}: {}, {}/s", size(done), size(speed))
    }
}

/// Formats a number of bytes with a decimal unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_described_in_one_line() {
        let since = Instant::now();
        let transfer = |name: &str, done, total| {
            let progress = Progress::default();
            progress.add(done);
            progress.set_total(total);
            Transfer {
                name: name.to_owned(),
                since,
                progress,
            }
        };
        let after = |millis| since + Duration::from_millis(millis);
        for (transfers, millis, expected) in ::tests::rows![
            vec![], 1000 => "";
            vec![transfer("a", 1, 2)], 100 => "";
            vec![transfer("a", 0, 0)], 1000 => "a: waiting";
            vec![transfer("a", 1_250_000, 3_000_000)], 2000 => "a: 1.2 MB of 3.0 MB, 625.0 kB/s";
            vec![transfer("a", 999, 0)], 1000 => "a: 999 B, 999 B/s";
            vec![transfer("a", 1000, 1000), transfer("b", 1000, 2000)], 1000 => "a and 1 more: 2.0 kB of 3.0 kB, 2.0 kB/s";
        ] {
            assert_eq!(describe(&transfers, after(millis)), expected);
        }
    }
}
