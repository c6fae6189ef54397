//! Reasons of rejections, without the wording of each program.

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Texts, sorted if they are leaves of a tree.
    Words(Vec<String>),
    /// A value of this type, in the field of this path; the path is empty if it is not reported.
    Kind(&'static str, Vec<String>),
}

/// Texts that are sentences in one of the programs.
const SAYINGS: [(&str, [&str; 2]); 5] = tests::rows![
    "no schema" => ["' is missing root schema field"; 2];
    "no name of a CRD" => ["couldn't parse plural.group from crd name"; 2];
    "no CRD" => ["no kind \"CustomResourceDefinition\" is registered for version", ": apiVersion must be "];
    "no version" => ["Invalid character(s) found in major number \"x\"", "spec.version must be a semantic version"];
    "no release" => ["release field must be a string or number", "spec.release must be a string or a number"];
];

// === impl Reason ===

impl Reason {
    pub(crate) fn from_message(message: &str) -> Self {
        for (reason, parts) in SAYINGS {
            if parts.iter().any(|part| message.contains(part)) {
                return Self::Words(vec![reason.to_owned()]);
            }
        }
        // Skips the surrounding text: dates, references, locations and remedies.
        let message = message.trim_end();
        let message = after(message, "render reference \".\": ");
        let message = after(message, "error unmarshaling JSON: while decoding JSON: ");
        let message = match message.split_once(": ") {
            Some((place, rest)) if is_place(place) => rest,
            _ => message,
        };
        let message =
            before(message, "; ").replace("unexpected EOF", "unexpected end of JSON input");
        if let Some(tree) = message.strip_prefix("invalid index:\n") {
            return Self::Words(paths(tree).iter().map(|path| inner(path)).collect());
        }
        if let Some(kind) = kind(&message) {
            return kind;
        }
        let message = inner(&message);
        // The remaining text is not a reason.
        let ends = [" at offset ", ", got ", " YAML to JSON: ", ". found: "];
        let message = ends
            .iter()
            .fold(message.as_str(), |message, end| before(message, end));
        Self::Words(vec![match (
            message.strip_prefix("json: offset "),
            message.split_once("to JSON: "),
        ) {
            (Some(rest), _) => after(rest, ": ").to_owned(),
            (None, Some((start, why))) => format!("{start}{}", why.rsplit(": ").next().unwrap()),
            (None, None) => message.replace("\n' is missing", "' is missing"),
        }])
    }

    /// Reports whether two reasons are equal. Not every message names the field.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            // Go does not descend into maps.
            (Self::Kind(rukpak, path), Self::Kind(theirs, other)) => {
                let meet = path.iter().any(|field| other.contains(field));
                rukpak == theirs && (meet || path.is_empty() || other.is_empty())
            }
            // Go does not decode an absent value.
            (Self::Kind("null", _), Self::Words(texts))
            | (Self::Words(texts), Self::Kind("null", _)) => texts
                .iter()
                .any(|text| text.contains("unexpected end of JSON input")),
            _ => self == other,
        }
    }
}

fn before<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or(text, |(before, _)| before)
}

fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or(text, |(_, after)| after)
}

/// Matches a location such as `catalog:7`.
fn is_place(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(file, line)| !file.contains(' ') && line.parse::<usize>().is_ok())
}

/// Parses the message about a value of the wrong type, in Go's wording or in ours.
fn kind(message: &str) -> Option<Reason> {
    let named = |word: &str| match word {
        "string" | "text" => Some("string"),
        "bool" | "boolean" => Some("bool"),
        "object" | "mapping" => Some("object"),
        "array" | "list" => Some("array"),
        "number" | "integer" => Some("number"),
        "null" | "empty" => Some("null"),
        _ => None,
    };
    let fields = |path: &str| -> Vec<String> {
        let fields = path.split('.');
        fields.map(|field| before(field, "[").to_owned()).collect()
    };
    if let Some((_, rest)) = message.split_once("json: cannot unmarshal ") {
        let kind = named(rest.split(' ').next()?)?;
        let path = rest
            .split_once("Go struct field ")
            .map(|(_, path)| fields(before(path, " of type ")));
        return Some(Reason::Kind(kind, path.unwrap_or_default()));
    }
    let (path, rest) = message.split_once(" must be ")?;
    let (_, found) = rest.rsplit_once(", not ")?;
    let found = found.trim_start_matches("a ").trim_start_matches("an ");
    Some(Reason::Kind(
        named(found)?,
        fields(path.rsplit(' ').next()?),
    ))
}

/// Cuts the text of libraries that parse names, references, versions or ranges.
fn inner(text: &str) -> String {
    let readers = "invalid package name \"|invalid image pull spec \"| version \"|invalid release \"|invalid skipRange \"";
    let ends = readers.split('|').filter_map(|reader| {
        let from = text.find(reader)? + reader.len();
        Some(from + text.get(from..)?.find("\": ")?)
    });
    let end = ends.min().unwrap_or(text.len());
    text.get(..end).unwrap().to_owned()
}

/// Returns each leaf of a tree with its ancestors, sorted.
fn paths(tree: &str) -> Vec<String> {
    let mut above: Vec<&str> = Vec::new();
    let mut paths = Vec::new();
    for line in tree.lines() {
        let label = line.trim_start_matches(['├', '└', '│', '─', ' ', '\u{a0}']);
        let indent = line.chars().count() - label.chars().count();
        above.truncate((indent / 4).saturating_sub(1));
        above.push(label);
        if !label.ends_with(':') {
            paths.push(above.join(" "));
        }
    }
    paths.sort();
    paths
}
