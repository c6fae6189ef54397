//! Go's field types of Kubernetes' built-in kinds and of OLM's ClusterServiceVersion.
//!
//! Go programs decode a manifest into typed structs and print these again. This silently drops every field that the struct
//! lacks, and fails at the first value of a wrong type. [`conform`] applies the same conversion to a value in place, and
//! reports every affected location. `tests/cluster/gotypes` generates the tables from the Go types (`make generate`).
//!
//! ```
//! use manifests::go_types;
//! use serde_json::json;
//!
//! let deployment = go_types::kind("apps/v1", "Deployment").unwrap();
//! let mut value = json!({"spec": {"replicaCount": 2, "template": {"spec": {"hostNetwork": "yes"}}}});
//! let problems: Vec<_> = go_types::conform(&mut value, deployment.ty).iter().map(ToString::to_string).collect();
//! assert_eq!(problems, [
//!     "spec.replicaCount: unknown field",
//!     r#"spec.template.spec.hostNetwork: expected a boolean, found a string ("yes")"#,
//! ]);
//! assert_eq!(value, json!({"spec": {"template": {"spec": {"hostNetwork": "yes"}}}}));
//! ```

mod conform;
#[rustfmt::skip]
#[allow(clippy::enum_glob_use, clippy::large_stack_arrays)]
mod generated;
pub mod quantity;
mod scalar;
mod suggest;

pub use conform::{MAX_PROBLEMS, Problem, ProblemKind, Suggestion, check, conform, prune};
pub use suggest::edit_distance;

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    /// Any value, which Go stores as raw JSON.
    Any,
    /// True or false.
    Bool,
    /// A 32-bit integer. Like Go's converter, it accepts `1.0`, but not `1.5`.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A JSON number of any size.
    Float,
    /// A string, without conversion of other scalars.
    String,
    /// A string of base64-encoded bytes.
    Bytes,
    /// A string with a time in RFC 3339 format.
    Time,
    /// A number or a string such as `500m` or `2Gi`.
    Quantity,
    /// A 32-bit integer, or a string.
    IntOrString,
    /// A string with a semantic version, parsed by [`crate::version::parse_lenient`].
    Version,
    /// A string with an operator release: identifiers separated by dots.
    Release,
    /// A JSON schema, or a boolean.
    SchemaOrBool(&'static Struct),
    /// A JSON schema, or a list of them.
    SchemaOrList(&'static Struct),
    /// A JSON schema, or a list of strings.
    SchemaOrStrings(&'static Struct),
    /// A list of one type.
    List(&'static Type),
    /// A mapping with arbitrary keys.
    Map(&'static Type),
    /// A mapping with fixed keys.
    Struct(&'static Struct),
}

impl From<&'static Struct> for Type {
    fn from(ty: &'static Struct) -> Self {
        Self::Struct(ty)
    }
}

/// A Go struct in its JSON form, with the fields of embedded structs.
pub struct Struct {
    /// Go name without the package.
    pub name: &'static str,
    /// Fields, sorted by name.
    pub fields: &'static [Field],
}

/// One field of a [`Struct`].
#[derive(Debug, PartialEq)]
pub struct Field {
    /// Case-sensitive JSON name.
    pub name: &'static str,
    /// Type of the value; for a Go pointer, that of its target.
    pub ty: Type,
    /// Whether Go omits a zero value (`""`, `0`, `false`, `[]`, `{}`) that the manifest contains: `omitempty` on a field
    /// that is neither a pointer nor a struct.
    pub omits_zero: bool,
    /// Whether Go prints a zero value even if the manifest omits the field: no `omitempty`. The field is still optional.
    pub prints_zero: bool,
}

/// A built-in kind, which an API server serves without a CRD.
#[derive(Debug, PartialEq)]
pub struct Kind {
    /// Group and version, or only the version for the core group.
    pub api_version: &'static str,
    /// Value of `kind:`.
    pub kind: &'static str,
    /// Whether the objects are namespaced.
    pub namespaced: bool,
    /// Fields of the objects.
    pub ty: &'static Struct,
}

/// Returns the built-in kind of that name.
pub fn kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let kinds = kinds();
    let at = kinds
        .binary_search_by(|k| {
            k.api_version
                .cmp(api_version)
                .then_with(|| k.kind.cmp(kind))
        })
        .ok()?;
    kinds.get(at)
}

/// Returns all built-in kinds, sorted by API version and name.
pub fn kinds() -> &'static [Kind] {
    generated::KINDS
}

/// Returns the type of OLM's ClusterServiceVersion, `operators.coreos.com/v1alpha1`.
pub fn csv() -> &'static Struct {
    generated::CSV
}

/// Returns the type of OLM's SubscriptionConfig, which is also the `deploymentConfig` of an installation.
pub fn deployment_config() -> &'static Struct {
    generated::DEPLOYMENT_CONFIG
}

// === impl Struct ===

impl Struct {
    /// Returns the field of exactly that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let at = self.fields.binary_search_by(|f| f.name.cmp(name)).ok()?;
        self.fields.get(at)
    }

    /// Returns the type of a nested field by its path; `*` is an element of a list or of a mapping with arbitrary keys.
    ///
    /// ```
    /// use manifests::go_types::{self, Type};
    /// let deployment = go_types::kind("apps/v1", "Deployment").unwrap().ty;
    /// let Some(Type::Struct(container)) = deployment.at(&["spec", "template", "spec", "containers", "*"]) else {
    ///     panic!("no such field");
    /// };
    /// assert_eq!(container.name, "Container");
    /// ```
    pub fn at(&self, path: &[&str]) -> Option<Type> {
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.field(first)?.ty, |ty, name| match ty {
                Type::List(of) | Type::Map(of) if *name == "*" => Some(*of),
                Type::Struct(of)
                | Type::SchemaOrBool(of)
                | Type::SchemaOrList(of)
                | Type::SchemaOrStrings(of) => Some(of.field(name)?.ty),
                _ => None,
            })
    }
}

// Types are recursive (the properties of a JSON schema are JSON schemas), so comparison and output use identity and name.

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Struct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Struct").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests;
