//! Why something is refused, without the words that each program has of its own.

/// A reason that can be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Texts, sorted where they are leaves of a tree.
    Words(Vec<String>),
    /// A value of this kind, in a field of this path; empty if that is not told.
    Kind(&'static str, Vec<String>),
}

/// What each says in a sentence of its own.
const SAYINGS: [(&str, [&str; 2]); 5] = tests::rows![
    "no schema" => ["' is missing root schema field"; 2];
    "no name of a CRD" => ["couldn't parse plural.group from crd name"; 2];
    "no CRD" => ["no kind \"CustomResourceDefinition\" is registered for version", ": apiVersion must be "];
    "no version" => ["Invalid character(s) found in major number \"x\"", "spec.version must be a semantic version"];
    "no release" => ["release field must be a string or number", "spec.release must be a string or a number"];
];

// === impl Reason ===

impl Reason {
    pub(crate) fn of(said: &str) -> Self {
        for (reason, parts) in SAYINGS {
            if parts.iter().any(|it| said.contains(it)) {
                return Self::Words(vec![reason.to_owned()]);
            }
        }
        // What is before and behind: dates, references, places, and what to do.
        let said = said.trim_end();
        let said = after(said, "render reference \".\": ");
        let said = after(said, "error unmarshaling JSON: while decoding JSON: ");
        let said = match said.split_once(": ") {
            Some((place, rest)) if is_place(place) => rest,
            _ => said,
        };
        let said = before(said, "; ").replace("unexpected EOF", "unexpected end of JSON input");
        if let Some(tree) = said.strip_prefix("invalid index:\n") {
            return Self::Words(paths(tree).iter().map(|it| inner(it)).collect());
        }
        if let Some(kind) = kind(&said) {
            return kind;
        }
        let said = inner(&said);
        // From here on it is no reason.
        let ends = [" at offset ", ", got ", " YAML to JSON: ", ". found: "];
        let said = ends
            .iter()
            .fold(said.as_str(), |said, end| before(said, end));
        Self::Words(vec![match (
            said.strip_prefix("json: offset "),
            said.split_once("to JSON: "),
        ) {
            (Some(rest), _) => after(rest, ": ").to_owned(),
            (None, Some((start, why))) => format!("{start}{}", why.rsplit(": ").next().unwrap()),
            (None, None) => said.replace("\n' is missing", "' is missing"),
        }])
    }

    /// Whether two are the same. Not everybody tells the field.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            // And Go does not go into maps.
            (Self::Kind(ours, path), Self::Kind(theirs, other)) => {
                let meet = path.iter().any(|it| other.contains(it));
                ours == theirs && (meet || path.is_empty() || other.is_empty())
            }
            // Go finds nothing to decode where there is nothing.
            (Self::Kind("null", _), Self::Words(words))
            | (Self::Words(words), Self::Kind("null", _)) => words
                .iter()
                .any(|it| it.contains("unexpected end of JSON input")),
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

/// `catalog:7`.
fn is_place(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(file, line)| !file.contains(' ') && line.parse::<usize>().is_ok())
}

/// A value of another kind than was expected, in Go's words or in ours.
fn kind(said: &str) -> Option<Reason> {
    const KINDS: [(&str, &str); 6] = [
        ("string", "text string"),
        ("bool", "bool boolean"),
        ("object", "object mapping"),
        ("array", "array list"),
        ("number", "number integer"),
        ("null", "null empty"),
    ];
    let named = |word: &str| {
        let kinds = KINDS.iter();
        let mut kinds =
            kinds.filter(|(kind, words)| *kind == word || words.split(' ').any(|it| it == word));
        kinds.next().map(|(kind, _)| *kind)
    };
    let fields = |path: &str| -> Vec<String> {
        path.split('.')
            .map(|it| before(it, "[").to_owned())
            .collect()
    };
    if let Some((_, rest)) = said.split_once("json: cannot unmarshal ") {
        let kind = named(rest.split(' ').next()?)?;
        let path = rest
            .split_once("Go struct field ")
            .map(|(_, it)| fields(before(it, " of type ")));
        return Some(Reason::Kind(kind, path.unwrap_or_default()));
    }
    let (path, rest) = said.split_once(" must be ")?;
    let (_, found) = rest.rsplit_once(", not ")?;
    let found = found.trim_start_matches("a ").trim_start_matches("an ");
    Some(Reason::Kind(
        named(found)?,
        fields(path.rsplit(' ').next()?),
    ))
}

/// Up to where a library goes on: one that reads names, references, versions or ranges.
fn inner(text: &str) -> String {
    const READERS: [&str; 5] = [
        "invalid package name \"",
        "invalid image pull spec \"",
        " version \"",
        "invalid release \"",
        "invalid skipRange \"",
    ];
    let ends = READERS.iter().filter_map(|reader| {
        let from = text.find(reader)? + reader.len();
        Some(from + text.get(from..)?.find("\": ")?)
    });
    let end = ends.min().unwrap_or(text.len());
    text.get(..end).unwrap().to_owned()
}

/// Each leaf of a tree with what is above it, sorted.
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
