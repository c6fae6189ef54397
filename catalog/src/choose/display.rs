//! Text representation of a decision.

use std::fmt;

use super::{Candidate, Decision, Next, Outcome};

/// Maximum number of printed candidates.
const MAX_SHOWN: usize = 60;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install(choice) => write!(
                f,
                "install {} {} from channel {} of catalog {}",
                choice.name, choice.version, choice.channel, choice.catalog
            ),
            Self::Upgrade(choice) => write!(
                f,
                "upgrade to {} {} from channel {} of catalog {}",
                choice.name, choice.version, choice.channel, choice.catalog
            ),
            Self::NoUpgrade(reason) => write!(f, "no change: {reason}"),
            Self::NoCandidate(reason) => write!(f, "no bundle to install: {reason}"),
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
        for candidate in self.candidates.iter().take(MAX_SHOWN) {
            writeln!(f, "  {candidate}")?;
        }
        let more = self.candidates.len().saturating_sub(MAX_SHOWN) + self.more_candidates;
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
