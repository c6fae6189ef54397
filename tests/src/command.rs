//! Commands that tests run, and their results.

use std::process::Output;

use serde_json::Value;

/// Arguments of a command: a text that is split at spaces, or the items of a list.
pub trait Args {
    /// Returns the single words.
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

/// The result of a command.
#[derive(Debug)]
pub struct Run {
    /// The exit code; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The expected standard output.
#[derive(Debug)]
pub enum Out {
    /// Any output.
    Any,
    /// Exactly this text.
    Is(String),
    /// A text with these parts.
    Has(Vec<String>),
}

/// Runs commands in their order, with method `run` of the value before the semicolon. A row has a command, its exit code, its
/// standard output (`_` for any, or parts of it in brackets), and parts of its standard error. All texts are formatted. As in
/// [`rows!`](crate::rows), rustfmt does not change the rows.
///
/// ```
/// # struct Shell;
/// # impl Shell {
/// #     fn run(&self, script: &str) -> tests::Run {
/// #         std::process::Command::new("sh").args(["-c", script]).output().unwrap().into()
/// #     }
/// # }
/// let (shell, name) = (Shell, "tide");
/// tests::assert_runs! { shell;
///     "echo {name}" => 0, "tide\n";
///     "echo {name}" => 0, ["ti", "de"];
///     "echo no {name} >&2; exit 3" => 3, "", "no tide";
///     "date; echo warning: late >&2" => 0, _, "warning", "late";
/// }
/// ```
#[macro_export]
macro_rules! assert_runs {
    (@text $text:literal) => { ::std::format_args!($text).to_string() };
    (@out _) => { $crate::Out::Any };
    (@out [$($part:literal),+]) => { $crate::Out::Has(vec![$($crate::assert_runs!(@text $part)),+]) };
    (@out $out:literal) => { $crate::Out::Is($crate::assert_runs!(@text $out)) };
    ($runner:expr; $($command:literal => $code:literal, $out:tt $(, $err_parts:literal)*;)+) => {
        $({
            let command = $crate::assert_runs!(@text $command);
            let (out, err_parts) = ($crate::assert_runs!(@out $out), [$($crate::assert_runs!(@text $err_parts)),*]);
            $runner.run(&command).assert(&command, $code, &out, &err_parts);
        })+
    };
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
    /// Asserts the exit code. The message shows the output.
    #[expect(clippy::return_self_not_must_use, reason = "the check alone is a use")]
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts all expectations of a row of [`assert_runs!`](crate::assert_runs).
    #[track_caller]
    pub fn assert(&self, command: &str, code: i32, out: &Out, err_parts: &[String]) {
        let has_out = match out {
            Out::Any => true,
            Out::Is(text) => self.out == *text,
            Out::Has(parts) => parts.iter().all(|part| self.out.contains(part)),
        };
        let missing = err_parts.iter().filter(|part| !self.err.contains(*part));
        let missing: Vec<_> = missing.collect();
        assert!(
            self.code == Some(code) && has_out && missing.is_empty(),
            "{command}: not {code}, {out:?}, {missing:?}: {self:#?}"
        );
    }

    /// Returns the JSON on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("no JSON: {self:#?}"))
    }

    /// Asserts that standard output has a part.
    #[track_caller]
    pub fn out_has(&self, part: impl AsRef<str>) {
        self.check(self.out.contains(part.as_ref()), part.as_ref());
    }

    /// Asserts that standard output does not have a part.
    #[track_caller]
    pub fn out_lacks(&self, part: impl AsRef<str>) {
        self.check(!self.out.contains(part.as_ref()), part.as_ref());
    }

    /// Asserts the start of standard output.
    #[track_caller]
    pub fn out_starts_with(&self, start: impl AsRef<str>) {
        self.check(self.out.starts_with(start.as_ref()), start.as_ref());
    }

    /// Asserts that standard error has a part.
    #[track_caller]
    pub fn err_has(&self, part: impl AsRef<str>) {
        self.check(self.err.contains(part.as_ref()), part.as_ref());
    }

    /// Asserts that standard error does not have a part.
    #[track_caller]
    pub fn err_lacks(&self, part: impl AsRef<str>) {
        self.check(!self.err.contains(part.as_ref()), part.as_ref());
    }

    #[track_caller]
    fn check(&self, is_expected: bool, part: &str) {
        assert!(is_expected, "{part:?}: {self:.2000?}");
    }
}
