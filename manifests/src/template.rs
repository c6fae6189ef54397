//! Templates of catalog images: references in which `{kube_minor_version}` and the like stand for what the cluster is.
//!
//! ```text
//!  "example.com/v{kube_major_version}/catalog:{ocp_channel}" ──parts──► text, variable, text, variable
//!        └─ resolve(values) ─► Ok(the image) │ Err(every variable that has no value, and what could be put together)
//! ```
//!
//! Read once from left to right: a value is never looked at for braces again. Nothing is half of an image: who gets an
//! error keeps what was there before. There are two dialects. [`resolve`] is the one of the design document, with eleven
//! variables, in the image itself or in an annotation of ours. [`annotated`] is the one that OLM shipped, with three of them
//! in an annotation and words of its own. [`choose`] says which of them counts.

mod annotation;
#[cfg(feature = "api")]
mod holder;

use semver::Version;

pub use annotation::{ANNOTATION, Annotated, annotated};
#[cfg(feature = "api")]
pub use holder::{Choice, Holder, choose};

use crate::image::Reference;

/// What a variable can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// Of the Kubernetes version.
    Kube(Part),
    /// Of the version of the program that serves the catalog: OLM, or the provisioner.
    Olm(Part),
    /// Of the OpenShift version.
    Openshift(Part),
    /// Of the nodes, in the words of Linux: `x86_64`.
    Architecture,
    /// The channel that OpenShift is updated from, without its version: `fast`.
    UpdateChannel,
}

/// A number of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The first.
    Major,
    /// The second.
    Minor,
    /// The third.
    Patch,
}

/// All variables, by name.
pub const VARIABLES: [(&str, Variable); 11] = [
    ("kube_major_version", Variable::Kube(Part::Major)),
    ("kube_minor_version", Variable::Kube(Part::Minor)),
    ("kube_patch_version", Variable::Kube(Part::Patch)),
    ("ocp_major_version", Variable::Openshift(Part::Major)),
    ("ocp_minor_version", Variable::Openshift(Part::Minor)),
    ("ocp_patch_version", Variable::Openshift(Part::Patch)),
    ("ocp_update_channels", Variable::UpdateChannel),
    ("olm_major_version", Variable::Olm(Part::Major)),
    ("olm_minor_version", Variable::Olm(Part::Minor)),
    ("olm_patch_version", Variable::Olm(Part::Patch)),
    ("platform_architecture", Variable::Architecture),
];

/// What the cluster is, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// The server's version, as [`server`] reads it.
    pub kube: Option<Version>,
    /// The version of OLM where OLM serves the catalog, else that of the provisioner.
    pub olm: Option<Version>,
    /// The newest OpenShift version that an update was completed to.
    pub openshift: Option<Version>,
    /// The architecture of all nodes, as [`architecture`] finds it.
    pub architecture: Option<String>,
    /// What `spec.channel` of the ClusterVersion says, as [`update_channel`] cuts it.
    pub update_channel: Option<String>,
}

/// Why a template is no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Variables that there are not, or that have no value here.
    #[error("Cannot construct catalog image reference, {}", .0.in_words())]
    Unresolved(Unresolved),
    /// A brace that belongs to nothing.
    #[error(
        "Cannot construct catalog image reference, {text:?} has a brace without its other half; write variables as {{name}}"
    )]
    Unbalanced {
        /// As it is written, cut to a readable length.
        text: String,
    },
    /// The values make it something else.
    #[error("Cannot construct catalog image reference: {why}")]
    Illegal {
        /// What the values make it.
        text: String,
        /// What is wrong with that.
        why: crate::image::Error,
    },
}

/// Variables without a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Their names in the order of the text, each once, and cut to a readable length.
    pub names: Vec<String>,
    /// Whether one of them is the name of no variable; of the others the cluster has no value now.
    pub has_unknown: bool,
    /// What is known of the image, with the variables in their places.
    pub partial: String,
}

/// Whether a text has variables at all.
pub fn is_template(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// Puts values into a template; a text without variables remains what it is.
///
/// # Errors
/// When a variable has no value, a brace is alone, or what comes out is no image reference.
///
/// ```
/// use manifests::template::{Values, resolve};
/// let values = Values {
///     kube: "1.20.3".parse().ok(),
///     ..Values::default()
/// };
/// let image = resolve("example.com/catalog:v{kube_major_version}.{kube_minor_version}", &values)?;
/// assert_eq!(image, "example.com/catalog:v1.20");
/// let error = resolve("example.com/catalog:v{ocp_minor_version}", &values).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "Cannot construct catalog image reference, variable \"ocp_minor_version\" couldn't be resolved"
/// );
/// # Ok::<(), manifests::template::Error>(())
/// ```
pub fn resolve(text: &str, values: &Values) -> Result<String, Error> {
    let mut image = String::with_capacity(text.len());
    let mut unresolved = Unresolved::default();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => image.push_str(text),
            Piece::Brace(_) => {
                return Err(Error::Unbalanced {
                    text: excerpt(text),
                });
            }
            Piece::Variable(name) => {
                let variable = known(name).map(|(_, variable)| variable);
                if let Some(value) = variable.and_then(|it| values.of(it)) {
                    image.push_str(&value);
                } else {
                    unresolved.has_unknown |= variable.is_none();
                    note(&mut unresolved.names, excerpt(name));
                    put_back(&mut image, name);
                }
            }
        }
    }
    if !unresolved.names.is_empty() {
        unresolved.partial = image;
        return Err(Error::Unresolved(unresolved));
    }
    match image.parse::<Reference>() {
        Ok(_) => Ok(image),
        Err(why) => Err(Error::Illegal { text: image, why }),
    }
}

/// The variables of a text that there are, in its order.
pub fn variables(text: &str) -> impl Iterator<Item = Variable> {
    pieces(text).filter_map(|piece| match piece {
        Piece::Variable(name) => Some(known(name)?.1),
        Piece::Text(_) | Piece::Brace(_) => None,
    })
}

/// What a server says of itself (`gitVersion`): `v1.17.1+6af3663`. Nothing if that is no version.
pub fn server(git_version: &str) -> Option<Version> {
    crate::version::tolerant(git_version).ok()
}

/// The architecture of a cluster, from its nodes' or its server's words for theirs (`amd64`); nothing if they differ, or
/// there are none.
pub fn architecture<'a>(all: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut all = all.into_iter();
    let first = all.next().filter(|it| !it.is_empty())?;
    let name = match first {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    all.all(|it| it == first).then(|| name.to_owned())
}

/// The name of an update channel without the version that follows it: `fast` of `fast-4.8`.
pub fn update_channel(channel: &str) -> Option<String> {
    let name = channel.split('-').next().unwrap_or_default();
    (!name.is_empty()).then(|| name.to_owned())
}

// === impl Values ===

impl Values {
    fn of(&self, variable: Variable) -> Option<String> {
        let number = |version: &Option<Version>, part| {
            let version = version.as_ref()?;
            let number = match part {
                Part::Major => version.major,
                Part::Minor => version.minor,
                Part::Patch => version.patch,
            };
            Some(number.to_string())
        };
        match variable {
            Variable::Kube(part) => number(&self.kube, part),
            Variable::Olm(part) => number(&self.olm, part),
            Variable::Openshift(part) => number(&self.openshift, part),
            Variable::Architecture => self.architecture.clone(),
            Variable::UpdateChannel => self.update_channel.clone(),
        }
    }
}

// === impl Error ===

impl Error {
    /// Whether only somebody who edits the template can help; otherwise the cluster may have a value later.
    pub fn is_for_good(&self) -> bool {
        match self {
            Self::Unresolved(unresolved) => unresolved.has_unknown,
            Self::Unbalanced { .. } | Self::Illegal { .. } => true,
        }
    }

    /// What helps whoever has written a name that is none. The message itself ends where the design document's does.
    pub fn hint(&self) -> Option<String> {
        let is_for_names = matches!(self, Self::Unresolved(unresolved) if unresolved.has_unknown);
        is_for_names.then(|| {
            let names = VARIABLES.map(|(name, _)| name);
            format!("the variables are {}", names.join(", "))
        })
    }
}

// === impl Unresolved ===

impl Unresolved {
    /// All of them: the words of the design document.
    fn in_words(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|it| format!("{it:?}")).collect();
        let one_or_more = if names.len() == 1 {
            "variable"
        } else {
            "variables"
        };
        format!("{one_or_more} {} couldn't be resolved", names.join(", "))
    }
}

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// What stands between two braces.
    Variable(&'a str),
    /// One that opens and is not closed, or the other way round.
    Brace(char),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find(['{', '}']) else {
            return Some(Piece::Text(std::mem::take(&mut rest)));
        };
        let (before, from) = rest.split_at(at);
        if !before.is_empty() {
            rest = from;
            return Some(Piece::Text(before));
        }
        let inside = from.strip_prefix('{').unwrap_or_default();
        match inside.find(['{', '}']) {
            Some(end) if inside.get(end..).is_some_and(|it| it.starts_with('}')) => {
                let (name, end) = inside.split_at(end);
                rest = end.get(1..).unwrap_or_default();
                Some(Piece::Variable(name))
            }
            _ => {
                rest = from.get(1..).unwrap_or_default();
                from.chars().next().map(Piece::Brace)
            }
        }
    })
}

fn known(name: &str) -> Option<(&'static str, Variable)> {
    VARIABLES.into_iter().find(|(known, _)| *known == name)
}

/// Each is told once.
fn note<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

fn put_back(image: &mut String, name: &str) {
    image.push('{');
    image.push_str(name);
    image.push('}');
}

fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
