//! Commands that tests run, and what they leave behind.

use std::process::Output;

use serde_json::Value;

/// Arguments of a command: the words of a text, or the items of a list.
pub trait Args {
    /// The single words.
    fn words(&self) -> Vec<&str>;
}

impl Args for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Args for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Args for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Args for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl<T: Args + ?Sized> Args for &T {
    fn words(&self) -> Vec<&str> {
        (**self).words()
    }
}

/// What a run left behind.
#[derive(Debug)]
pub struct Run {
    /// The exit code; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    /// Checks the exit code and shows what was said when it is another one.
    #[expect(clippy::return_self_not_must_use, reason = "the check alone is a use")]
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that standard error says something.
    #[expect(clippy::return_self_not_must_use, reason = "the check alone is a use")]
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        self.err_has(part);
        self
    }

    /// The JSON on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("no JSON: {self:#?}"))
    }

    /// Checks that standard output has a part.
    #[track_caller]
    pub fn out_has(&self, part: impl AsRef<str>) {
        self.check(self.out.contains(part.as_ref()), part.as_ref());
    }

    /// Checks that standard output does not have a part.
    #[track_caller]
    pub fn out_lacks(&self, part: impl AsRef<str>) {
        self.check(!self.out.contains(part.as_ref()), part.as_ref());
    }

    /// Checks how standard output starts.
    #[track_caller]
    pub fn out_starts_with(&self, start: impl AsRef<str>) {
        self.check(self.out.starts_with(start.as_ref()), start.as_ref());
    }

    /// Checks that standard error has a part.
    #[track_caller]
    pub fn err_has(&self, part: impl AsRef<str>) {
        self.check(self.err.contains(part.as_ref()), part.as_ref());
    }

    /// Checks that standard error does not have a part.
    #[track_caller]
    pub fn err_lacks(&self, part: impl AsRef<str>) {
        self.check(!self.err.contains(part.as_ref()), part.as_ref());
    }

    /// Checks how standard error starts.
    #[track_caller]
    pub fn err_starts_with(&self, start: impl AsRef<str>) {
        self.check(self.err.starts_with(start.as_ref()), start.as_ref());
    }

    /// Checks how standard error ends.
    #[track_caller]
    pub fn err_ends_with(&self, end: impl AsRef<str>) {
        self.check(self.err.ends_with(end.as_ref()), end.as_ref());
    }

    #[track_caller]
    fn check(&self, is_expected: bool, part: &str) {
        assert!(is_expected, "{part:?}: {self:.2000?}");
    }
}
