//! What Go knows about the fields of Kubernetes' built-in kinds and of OLM's ClusterServiceVersion.
//!
//! The Go peers decode a manifest into typed structs and print those again. That silently drops every field that
//! the struct does not have, and fails on the first value of a wrong type. [`conform`] does the same to a value in
//! place, but says every place where it did. The tables are written by `tests/cluster/gotypes` from the Go types
//! themselves (`make generate`).
//!
//! ```
//! use manifests::schema;
//! use serde_json::json;
//!
//! let deployment = schema::kind("apps/v1", "Deployment").unwrap();
//! let mut value = json!({"spec": {"replicaCount": 2, "template": {"spec": {"hostNetwork": "yes"}}}});
//! let problems: Vec<_> = schema::conform(&mut value, deployment.ty).iter().map(ToString::to_string).collect();
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
mod hint;
mod quantity;
mod scalar;

pub use conform::{Hint, MAX_PROBLEMS, Problem, What, check, conform, prune};

/// What a value must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    /// Whatever it is: Go keeps it as raw JSON.
    Any,
    /// A boolean.
    Bool,
    /// An integer of 32 bits. Like Go's converter this takes `1.0`, but not `1.5`.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// Any number.
    Float,
    /// A string, and nothing that merely looks like one.
    String,
    /// A string that carries bytes as base64.
    Bytes,
    /// A string that carries a time as RFC 3339.
    Time,
    /// A number or a string such as `500m` or `2Gi`.
    Quantity,
    /// An integer of 32 bits, or a string.
    IntOrString,
    /// A string that carries a semantic version, as [`crate::version::tolerant`] reads it.
    Version,
    /// A string that carries an operator release: identifiers separated by dots.
    Release,
    /// A JSON schema, or a boolean.
    SchemaOrBool(&'static Struct),
    /// A JSON schema, or a list of them.
    SchemaOrList(&'static Struct),
    /// A JSON schema, or a list of strings.
    SchemaOrStrings(&'static Struct),
    /// A list.
    List(&'static Type),
    /// A mapping with free keys.
    Map(&'static Type),
    /// A mapping with known keys.
    Struct(&'static Struct),
}

impl From<&'static Struct> for Type {
    fn from(ty: &'static Struct) -> Self {
        Self::Struct(ty)
    }
}

/// A Go struct as JSON shows it: embedded structs are part of it.
pub struct Struct {
    /// The Go name without its package.
    pub name: &'static str,
    /// Sorted by name.
    pub fields: &'static [Field],
}

/// One field of a [`Struct`].
#[derive(Debug, PartialEq)]
pub struct Field {
    /// The JSON name. Case counts.
    pub name: &'static str,
    /// What its value must be; a Go pointer is what it points to.
    pub ty: Type,
    /// Whether Go leaves out a zero value (`""`, `0`, `false`, `[]`, `{}`) that the manifest writes down:
    /// `omitempty` on anything but a pointer or a struct.
    pub omits_zero: bool,
    /// Whether Go prints a zero value even where the manifest leaves the field out: no `omitempty`.
    /// This does not make the field a mandatory one.
    pub prints_zero: bool,
}

/// A kind of object that an API server serves without any custom resource definition.
#[derive(Debug, PartialEq)]
pub struct Kind {
    /// Group and version, or the version alone for the core group.
    pub api_version: &'static str,
    /// As `kind:` says it.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Its fields.
    pub ty: &'static Struct,
}

/// The built-in kind of that name.
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

/// All built-in kinds, sorted by API version and name.
pub fn kinds() -> &'static [Kind] {
    generated::KINDS
}

/// OLM's ClusterServiceVersion, `operators.coreos.com/v1alpha1`.
pub fn csv() -> &'static Struct {
    generated::CSV
}

/// OLM's SubscriptionConfig, which is also the `deploymentConfig` of an installation.
pub fn deployment_config() -> &'static Struct {
    generated::DEPLOYMENT_CONFIG
}

// === impl Struct ===

impl Struct {
    /// The field of exactly that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let at = self.fields.binary_search_by(|f| f.name.cmp(name)).ok()?;
        self.fields.get(at)
    }

    /// The type of a field further down, by the names on the way; `*` is an element of a list or a free mapping.
    ///
    /// ```
    /// use manifests::schema::{self, Type};
    /// let deployment = schema::kind("apps/v1", "Deployment").unwrap().ty;
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

// Types refer to themselves (a JSON schema's properties are JSON schemas), so name and identity have to do.

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
