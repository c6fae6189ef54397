//! Confirmation of destructive actions.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context, bail};

use super::{message::sanitize, progress};

/// Asks a question on the terminal; returns an error without a terminal.
pub(crate) async fn confirm(question: &str) -> anyhow::Result<bool> {
    let question = sanitize(question);
    let streams = [
        ("input", io::stdin().is_terminal()),
        ("error", io::stderr().is_terminal()),
    ];
    for (stream, is_terminal) in streams {
        if !is_terminal {
            bail!(
                "cannot ask {question:?}: standard {stream} is not a terminal; use --yes to confirm"
            );
        }
    }
    progress::suspend(|| -> io::Result<()> {
        let mut out = io::stderr();
        write!(out, "{question} [y/N] ")?;
        out.flush()
    })
    .context("failed to write the prompt")?;
    // Standard input is read in a thread, so that signals are still handled.
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.map_err(io::Error::other).flatten();
    let answer = answer.context("failed to read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
