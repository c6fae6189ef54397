//! Template for the image reference of a bundle that is not pushed yet.

use std::str::FromStr;

/// An image reference with the placeholders `{{.Package}}`, `{{.Name}}` and `{{.Version}}`.
///
/// ```
/// use catalog::render::Template;
/// let template: Template = "quay.io/org/{{.Package}}:v{{ .Version }}".parse()?;
/// assert_eq!(template.fill("etcd", "etcd.v0.9.4", "0.9.4"), "quay.io/org/etcd:v0.9.4");
/// assert!("{{ printf .Name }}".parse::<Template>().is_err());
/// # Ok::<(), catalog::render::TemplateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    chunks: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Package,
    Name,
    Version,
}

/// The error for a text that is not a valid template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid image reference template: {problem}; only {{{{.Package}}}}, {{{{.Name}}}} and {{{{.Version}}}} are supported"
)]
pub struct TemplateError {
    problem: String,
}

// === impl Template ===

impl Template {
    /// Returns the image reference of a bundle.
    pub fn fill(&self, package: &str, name: &str, version: &str) -> String {
        let parts = self.chunks.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Package => package,
            Part::Name => name,
            Part::Version => version,
        });
        parts.collect()
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let Some((action, behind)) = behind.split_once("}}") else {
                let problem = "a \"{{\" without \"}}\"".to_owned();
                return Err(TemplateError { problem });
            };
            parts.push(match action.trim_matches([' ', '\t', '\r', '\n']) {
                ".Package" => Part::Package,
                ".Name" => Part::Name,
                ".Version" => Part::Version,
                other => {
                    let other: String = other.chars().take(100).collect();
                    let problem = format!("{other:?} is not supported");
                    return Err(TemplateError { problem });
                }
            });
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { chunks: parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: render-3
    #[test]
    fn template_fills_only_its_three_variables() {
        let filled = |text: &str| Some(text.parse::<Template>().ok()?.fill("p", "n", "v"));
        assert_each!(|text, expected| filled(text).as_deref() => expected;
            "a" => Some("a");
            "" => Some("");
            "{{.Name}}" => Some("n");
            "x/{{ .Package\t}}:{{.Version}}-{{.Name}}}}" => Some("x/p:v-n}}");
            "{{.Name" => None;
            "{{.name}}" => None;
            "{{.}}" => None;
            "{{}}" => None;
            "{{/* a */}}" => None;
            "{{.Name | len}}" => None;
            "{{ {{.Name}} }}" => None;
        );
    }
}
