//! Transcripts on pages: commands, and the lines that they print.
//!
//! A command follows `$ `. A line that ends with `\` continues in the next one, and a here document ends with its mark. The
//! lines below are the output of the command; a line that is `…` stands for any number of lines.

use std::{env, fs, ops::Range, path::Path};

/// The project's directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Names on a page, and their values in a test. A name that contains another one comes first.
#[derive(Debug, Default)]
pub struct Names(pub Vec<(&'static str, String)>);

impl Names {
    /// Returns a command of the page as the test runs it.
    pub fn to_actual(&self, command: &str) -> String {
        let replace = |text: String, (name, actual): &(&str, String)| text.replace(name, actual);
        self.0.iter().fold(command.to_owned(), replace)
    }

    /// Returns printed text as the page shows it.
    pub fn to_page(&self, printed: &str) -> String {
        let replace = |text: String, (name, actual): &(&str, String)| text.replace(actual, name);
        self.0.iter().fold(printed.to_owned(), replace)
    }
}

/// A command of a page, and the output that the page shows.
#[derive(Debug)]
pub struct Step {
    /// The command, which may have several lines.
    pub command: String,
    /// The page, and the number of the command's last line.
    location: String,
    page_output: String,
    /// The range of the output's lines on the page, from 0.
    lines: Range<usize>,
}

impl Step {
    /// Panics unless the page shows the printed text, both after `normalize`.
    #[track_caller]
    pub fn assert_shows(&self, printed: &str, normalize: impl Fn(&str) -> Vec<String>) {
        let is_shown = stands_for(&normalize(&self.page_output), &normalize(printed));
        let (location, command, output) = (&self.location, &self.command, &self.page_output);
        assert!(
            is_shown,
            "{location}: {command}\nprinted\n{printed}\nand not\n{output}"
        );
    }
}

/// A page and its transcripts.
#[derive(Debug)]
pub struct Page {
    path: &'static str,
    text: String,
    steps: Vec<Step>,
}

impl Page {
    /// Returns the page at this path below the project's directory, with the steps of its blocks of a language.
    pub fn read(path: &'static str, language: &str) -> Self {
        let text = fs::read_to_string(root().join(path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        let steps = steps(path, &text, language);
        Self { path, text, steps }
    }

    /// Keeps the steps before the first heading of the second level.
    #[must_use]
    pub fn introduction(mut self) -> Self {
        let end = self.text.lines().position(|line| line.starts_with("## "));
        self.steps
            .retain(|step| end.is_none_or(|end| step.lines.start < end));
        self
    }

    /// Returns the steps between a heading and the next one.
    pub fn section<const COUNT: usize>(self, heading: &str) -> [Step; COUNT] {
        let mut lines = self.text.lines().enumerate();
        let start = lines.find(|(_, line)| *line == heading);
        let (start, _) = start.unwrap_or_else(|| panic!("{}: no {heading:?}", self.path));
        let end = lines.find(|(_, line)| line.starts_with('#'));
        let section = start..end.map_or(usize::MAX, |(end, _)| end);
        let steps = self.steps.into_iter();
        let steps = steps.filter(|step| section.contains(&step.lines.start));
        let steps = steps.collect::<Vec<_>>().try_into();
        steps.unwrap_or_else(|steps| panic!("{heading:?} has not {COUNT} commands: {steps:#?}"))
    }

    /// Runs at least `min` steps in their order, each of which has to print what the page shows. `RUKPAK_DOCS=write` writes
    /// the output into the page instead.
    pub fn play(&self, min: usize, names: &Names, mut run: impl FnMut(&str) -> String) {
        assert!(self.steps.len() >= min, "{}: too few steps", self.path);
        let is_write = env::var("RUKPAK_DOCS").is_ok_and(|mode| mode == "write");
        let (page, mut played, mut end) = (lines(&self.text), Vec::new(), 0);
        for step in &self.steps {
            let printed = names.to_page(&run(&names.to_actual(&step.command)));
            if !is_write {
                step.assert_shows(&printed, lines);
            } else if !stands_for(&lines(&step.page_output), &lines(&printed)) {
                played.extend_from_slice(&page[end..step.lines.start]);
                played.extend(lines(&printed));
                end = step.lines.end;
            }
        }
        played.extend_from_slice(&page[end..]);
        if is_write {
            fs::write(root().join(self.path), played.join("\n") + "\n").unwrap();
        }
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn steps(path: &str, text: &str, language: &str) -> Vec<Step> {
    let (mut steps, mut is_block, mut is_first) = (Vec::<Step>::new(), false, true);
    let mut lines = (1..).zip(text.lines());
    while let Some((mut number, line)) = lines.next() {
        if let Some(name) = line.strip_prefix("```") {
            (is_block, is_first) = (name == language, true);
            continue;
        }
        if !is_block {
            continue;
        }
        if let Some(mut last) = line.strip_prefix("$ ") {
            let mut command = last.to_owned();
            let mark = last.split_once("<< ").map(|(_, mark)| mark);
            while last.ends_with('\\') || mark.is_some_and(|mark| last != mark) {
                let next = lines.next();
                (number, last) = next.unwrap_or_else(|| panic!("{path}: {command} has no end"));
                command = format!("{command}\n{last}");
            }
            steps.push(Step {
                command,
                location: format!("{path}:{number}"),
                page_output: String::new(),
                lines: number..number,
            });
        } else {
            let step = steps.last_mut().filter(|_| !is_first);
            let step = step.unwrap_or_else(|| panic!("{path}:{number}: output before a command"));
            step.page_output.extend([line, "\n"]);
            step.lines.end = number;
        }
        is_first = false;
    }
    steps
}

fn stands_for(page_output: &[String], printed: &[String]) -> bool {
    match page_output.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=printed.len()).any(|skipped| stands_for(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, more)| first == line && stands_for(rest, more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_number_of_lines() {
        for (page_output, printed, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("…", "", true),
            ("a\n…", "a\nb\nc", true),
            ("a\n…\nc", "a\nb\nc", true),
            ("a\n…\nd", "a\nb\nc", false),
            ("a", "a\nb", false),
            ("a\nb", "a", false),
        ] {
            let found = stands_for(&lines(page_output), &lines(printed));
            assert_eq!(found, expected, "{page_output:?} {printed:?}");
        }
    }

    const PAGE: &str = "\
```sh
$ other
```
```console
$ one \\
  more
out

$ two << EOF
$ text
EOF
```
## Part
```console
$ three
…
```
# End
```console
$ four
```
";

    fn page() -> Page {
        let (path, text) = ("page.md", PAGE.to_owned());
        let steps = steps(path, PAGE, "console");
        Page { path, text, steps }
    }

    #[test]
    fn steps_have_a_command_and_its_output() {
        let page = page();
        let steps = page.steps.iter();
        let steps = steps.map(|step| (&*step.command, &*step.page_output, step.lines.clone()));
        let expected = [
            ("one \\\n  more", "out\n\n", 6..8),
            ("two << EOF\n$ text\nEOF", "", 11..11),
            ("three", "…\n", 15..16),
            ("four", "", 20..20),
        ];
        assert!(steps.eq(expected), "{page:?}");
        assert_eq!(page.steps[2].location, "page.md:15");
    }

    #[test]
    fn parts_of_a_page_have_their_steps() {
        let introduction = page().introduction().steps;
        assert_eq!((introduction.len(), &*introduction[1].page_output), (2, ""));
        let [three] = page().section("## Part");
        assert_eq!(three.command, "three");
    }

    #[test]
    #[should_panic(expected = "page.md:5: output before a command")]
    fn output_of_no_command_is_rejected() {
        steps("page.md", "```a\n$ one\n```\n```a\nout\n```\n", "a");
    }
}
