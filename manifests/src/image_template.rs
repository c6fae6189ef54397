//! Templates of catalog images: references with variables such as `{kube_minor_version}`, which stand for properties of the
//! cluster.
//!
//! ```text
//!  "example.com/v{kube_major_version}/catalog:{ocp_channel}" ──parts──► text, variable, text, variable
//!        └─ resolve(values) ─► Ok(the image) │ Err(every variable that has no value, and what could be put together)
//! ```
//!
//! A template is evaluated once from left to right; braces in values have no meaning. An error never yields a partial
//! image, so that callers keep their previous image. Two dialects exist. [`resolve`] implements that of the design
//! document, with eleven variables, in the image field or in our annotation. [`annotated`] implements that of OLM, with
//! three of these variables in an annotation, and with OLM's messages. [`choose`] selects the effective template.

mod olm_annotation;
#[cfg(feature = "api")]
mod source;

use semver::Version;

pub use olm_annotation::{ANNOTATION, AnnotationResult, annotated};
#[cfg(feature = "api")]
pub use source::{ChosenTemplate, TemplateSource, choose};

use crate::image::Reference;

/// Variable of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A part of the Kubernetes version.
    Kube(Part),
    /// A part of the version of the catalog server: OLM or the provisioner.
    Olm(Part),
    /// A part of the OpenShift version.
    Openshift(Part),
    /// The architecture of the nodes, with its Linux name: `x86_64`.
    Architecture,
    /// The update channel of OpenShift without its version: `fast`.
    UpdateChannel,
}

/// Part of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The major version.
    Major,
    /// The minor version.
    Minor,
    /// The patch version.
    Patch,
}

/// Maximum number of variables without a value that an error names.
const MAX_UNRESOLVED: usize = 64;

/// All variables by name.
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

/// Values of the variables, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateValues {
    /// The API server's version, parsed by [`server`].
    pub kube: Option<Version>,
    /// The version of OLM if OLM serves the catalog, else that of the provisioner.
    pub olm: Option<Version>,
    /// The newest OpenShift version to which an update completed.
    pub openshift: Option<Version>,
    /// The architecture of all nodes, determined by [`architecture`].
    pub architecture: Option<String>,
    /// The update channel in `spec.channel` of the ClusterVersion, parsed by [`update_channel`].
    pub update_channel: Option<String>,
}

/// Reason why a template does not resolve to an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Some variables do not exist, or have no value in this cluster.
    #[error("Cannot construct catalog image reference, {}", .0.describe())]
    Unresolved(Unresolved),
    /// A brace has no counterpart.
    #[error(
        "Cannot construct catalog image reference, {text:?} has an unmatched brace; use {{name}} for a variable"
    )]
    Unbalanced {
        /// The template, truncated.
        text: String,
    },
    /// The result is not an image reference.
    #[error("Cannot construct catalog image reference: {why}")]
    Illegal {
        /// The result of the template.
        text: String,
        /// The problem of the result.
        why: crate::image::Error,
    },
}

/// Variables without a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Names of the first variables in the order of the text, each once; long names are truncated.
    pub names: Vec<String>,
    /// Whether one of them is unknown. All others currently have no value in the cluster.
    pub has_unknown: bool,
    /// The partly resolved image, with the unresolved variables.
    pub partial: String,
}

/// Reports whether text contains variables.
pub fn is_template(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// Resolves a template. Text without variables is unchanged.
///
/// # Errors
/// Returns an error if a variable has no value, a brace has no counterpart, or the result is not an image reference.
///
/// ```
/// use manifests::image_template::{TemplateValues, resolve};
/// let values = TemplateValues {
///     kube: "1.20.3".parse().ok(),
///     ..TemplateValues::default()
/// };
/// let image = resolve("example.com/catalog:v{kube_major_version}.{kube_minor_version}", &values)?;
/// assert_eq!(image, "example.com/catalog:v1.20");
/// let error = resolve("example.com/catalog:v{ocp_minor_version}", &values).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "Cannot construct catalog image reference, variable \"ocp_minor_version\" couldn't be resolved"
/// );
/// # Ok::<(), manifests::image_template::Error>(())
/// ```
pub fn resolve(text: &str, values: &TemplateValues) -> Result<String, Error> {
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
                let variable = find_variable(name).map(|(_, variable)| variable);
                if let Some(value) = variable.and_then(|variable| values.value(variable)) {
                    image.push_str(&value);
                } else {
                    unresolved.has_unknown |= variable.is_none();
                    if unresolved.names.len() < MAX_UNRESOLVED {
                        push_unique(&mut unresolved.names, excerpt(name));
                    }
                    push_variable(&mut image, name);
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

/// Returns the known variables of the text, in order.
pub fn variables(text: &str) -> impl Iterator<Item = Variable> {
    pieces(text).filter_map(|piece| match piece {
        Piece::Variable(name) => Some(find_variable(name)?.1),
        Piece::Text(_) | Piece::Brace(_) => None,
    })
}

/// Parses the version that an API server reports (`gitVersion`): `v1.17.1+6af3663`. Returns `None` if it is malformed.
pub fn server(git_version: &str) -> Option<Version> {
    crate::version::parse_lenient(git_version).ok()
}

/// Returns the architecture of a cluster from the architectures (`amd64`) that its nodes or its API server report. Returns
/// `None` if they differ, or if the list is empty.
pub fn architecture<'a>(all: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut all = all.into_iter();
    let first = all.next().filter(|name| !name.is_empty())?;
    let name = match first {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    all.all(|other| other == first).then(|| name.to_owned())
}

/// Returns the name of an update channel without the version: `fast` for `fast-4.8`.
pub fn update_channel(channel: &str) -> Option<String> {
    let name = channel.split('-').next().unwrap_or_default();
    (!name.is_empty()).then(|| name.to_owned())
}

// === impl TemplateValues ===

impl TemplateValues {
    fn value(&self, variable: Variable) -> Option<String> {
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
    /// Reports whether only a change of the template helps. Otherwise, the cluster may have a value later.
    pub fn is_for_good(&self) -> bool {
        match self {
            Self::Unresolved(unresolved) => unresolved.has_unknown,
            Self::Unbalanced { .. } | Self::Illegal { .. } => true,
        }
    }

    /// Suggests the valid names if one is unknown. The message itself ends like that of the design document.
    pub fn hint(&self) -> Option<String> {
        let is_for_names = matches!(self, Self::Unresolved(unresolved) if unresolved.has_unknown);
        is_for_names.then(|| {
            let names = VARIABLES.map(|(name, _)| name);
            format!("supported variables: {}", names.join(", "))
        })
    }
}

// === impl Unresolved ===

impl Unresolved {
    /// Describes all of them in the wording of the design document.
    fn describe(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("{name:?}")).collect();
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
    /// The text between two braces.
    Variable(&'a str),
    /// A brace without a counterpart.
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
            Some(end) if inside.get(end..).is_some_and(|text| text.starts_with('}')) => {
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

fn find_variable(name: &str) -> Option<(&'static str, Variable)> {
    VARIABLES
        .into_iter()
        .find(|(candidate, _)| *candidate == name)
}

/// Adds a value that the list does not contain yet.
fn push_unique<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

fn push_variable(image: &mut String, name: &str) {
    image.push('{');
    image.push_str(name);
    image.push('}');
}

fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
