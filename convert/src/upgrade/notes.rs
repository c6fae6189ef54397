//! Collects what an upgrade has to say about one object.

use manifests::path::Path;

use super::Change;
use crate::{code::Code, report::Level};

/// The changes of one object; whoever shows them says which object that is.
pub(super) struct Notes<'a>(pub(super) &'a mut Vec<Change>);

impl Notes<'_> {
    pub(super) fn add(
        &mut self,
        level: Level,
        code: Code,
        path: Path,
        message: impl Into<String>,
        remedy: Option<String>,
    ) {
        self.0.push(Change {
            level,
            code,
            path,
            message: message.into(),
            remedy,
        });
    }

    /// Something now reads differently but means the same.
    pub(super) fn change(&mut self, code: Code, path: Path, message: impl Into<String>) {
        self.add(Level::Change, code, path, message, None);
    }

    /// Something no longer means quite the same.
    pub(super) fn warn(&mut self, code: Code, path: Path, message: impl Into<String>) {
        self.add(Level::Warning, code, path, message, None);
    }

    /// The object cannot be upgraded because a value is not what its API says.
    pub(super) fn refuse(&mut self, path: Path, problem: impl AsRef<str>) {
        let message = format!("cannot be upgraded: {}", problem.as_ref());
        self.add(Level::Error, Code::WrongShape, path, message, None);
    }
}
