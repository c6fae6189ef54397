//! Collector of the changes to one object.

use manifests::path::Path;

use super::UpgradeNote;
use crate::finding::{Level, code::Code};

/// The changes of one object. The caller adds the name of the object to messages.
pub(super) struct UpgradeNotes<'a>(pub(super) &'a mut Vec<UpgradeNote>);

impl UpgradeNotes<'_> {
    pub(super) fn add(
        &mut self,
        level: Level,
        code: Code,
        path: Path,
        message: impl Into<String>,
        remedy: Option<String>,
    ) {
        self.0.push(UpgradeNote {
            level,
            code,
            path,
            message: message.into(),
            remedy,
        });
    }

    /// Adds a change of the form that preserves the meaning.
    pub(super) fn change(&mut self, code: Code, path: Path, message: impl Into<String>) {
        self.add(Level::Change, code, path, message, None);
    }

    /// Adds a change that alters the meaning.
    pub(super) fn warn(&mut self, code: Code, path: Path, message: impl Into<String>) {
        self.add(Level::Warning, code, path, message, None);
    }

    /// Adds an error: the object cannot be upgraded because a value is invalid for its API.
    pub(super) fn reject(&mut self, path: Path, problem: impl AsRef<str>) {
        let message = format!("cannot be upgraded: {}", problem.as_ref());
        self.add(Level::Error, Code::WrongShape, path, message, None);
    }
}
