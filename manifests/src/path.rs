//! Path of a value in a document: `spec.install.spec.deployments[0].name`.

use std::fmt;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Selects an entry of a mapping by key.
    Key(String),
    /// Selects an item of a sequence by index, from 0.
    Index(usize),
}

/// Path from the root of a document to one of its values.
///
/// ```
/// use manifests::path::Path;
/// let path = Path::from(["metadata", "annotations"]).key("olm.properties").index(1);
/// assert_eq!(path.to_string(), r#"metadata.annotations["olm.properties"][1]"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Step>);

impl Path {
    /// Returns the path of the document root.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Returns this path with a key appended.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.push(Step::Key(key.into()));
        self
    }

    /// Returns this path with a list index appended.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// Returns this path with another path appended.
    #[must_use]
    pub fn join(mut self, rest: &Path) -> Self {
        self.0.extend(rest.0.iter().cloned());
        self
    }

    /// Returns the path without its last step. The parent of the root is the root.
    #[must_use]
    pub fn parent(mut self) -> Self {
        self.0.pop();
        self
    }

    /// Returns the steps, outermost first.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Reports whether this is the path of the document root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const N: usize> From<[&str; N]> for Path {
    fn from(keys: [&str; N]) -> Self {
        Self(keys.iter().map(|k| Step::Key((*k).to_owned())).collect())
    }
}

impl From<Vec<Step>> for Path {
    fn from(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if is_plain(key) => {
                    write!(f, "{}{key}", if at == 0 { "" } else { "." })?;
                }
                Step::Key(key) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}

/// Reports whether a key requires no quotes after a dot.
fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'$')
}
