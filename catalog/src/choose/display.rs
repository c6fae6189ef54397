//! A decision as a text, step by step.

use std::fmt;

use super::{Candidate, Decision, Next, Verdict};

/// Candidates that are shown.
const SHOWN: usize = 60;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(it) => write!(
                f,
                "install {} {} from channel {} of catalog {}",
                it.name, it.version, it.channel, it.catalog
            ),
            Self::Upgrade(it) => write!(
                f,
                "upgrade to {} {} from channel {} of catalog {}",
                it.name, it.version, it.channel, it.catalog
            ),
            Self::Stay(why) => write!(f, "no change: {why}"),
            Self::Nothing(why) => write!(f, "nothing to install: {why}"),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Package {}: {}", self.package, self.verdict)?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        if !self.candidates.is_empty() {
            writeln!(f, "Bundles:")?;
        }
        for candidate in self.candidates.iter().take(SHOWN) {
            writeln!(f, "  {candidate}")?;
        }
        let more = self.candidates.len().saturating_sub(SHOWN) + self.more_candidates;
        if more > 0 {
            writeln!(f, "  and {more} more")?;
        }
        if let Some(next) = &self.next {
            writeln!(f, "Next: {next}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "Warning: {warning}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_chosen { '*' } else { '-' };
        let reasons = self.reasons.join("; ");
        write!(
            f,
            "{mark} {} {} ({}): {reasons}",
            self.name, self.version, self.catalog
        )
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)?;
        if !self.reasons.is_empty() {
            write!(f, ", which {}", self.reasons.join("; "))?;
        }
        Ok(())
    }
}
