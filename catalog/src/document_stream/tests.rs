use super::*;

/// A reader that returns this number of bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(buffer.len()).min(self.0.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn cuts(text: &str, step: usize) -> (Vec<(String, usize)>, Option<String>) {
    let mut stream = DocumentStream::new(Slow(text.as_bytes(), step), 1 << 20);
    let mut cuts = Vec::new();
    loop {
        match stream.next() {
            Ok(Some(cut)) => {
                let text = String::from_utf8(stream.text(&cut).to_vec()).unwrap();
                cuts.push((text, cut.line));
            }
            Ok(None) => return (cuts, None),
            Err(StreamError::Separator(junk)) => {
                return (cuts, Some(format!("{}: {junk}", stream.line())));
            }
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

// parity: load-5
#[test]
fn documents_are_split_as_in_go_for_every_read_size() {
    for (text, documents, junk) in ::tests::rows![
        "", &[][..] => None;
        " \n ", &[(" \n ", 1)] => None;
        // YAML without a value.
        "{}", &[("{}", 1)] => None;
        "\n{}{\"a\":\"}\"}\n\n[\"]\"] 1 \"x y\"", &[("{}", 2), ("{\"a\":\"}\"}", 2), ("[\"]\"]", 4), ("1", 4), ("\"x y\"", 4)]
            => None;
        "{\"a\\\"}\": 1}{", &[("{\"a\\\"}\": 1}", 1), ("{", 1)] => None;
        "{}nul{}", &[("{}", 1), ("nul", 1), ("{}", 1)] => None;
        "{}}{}", &[("{}", 1), ("}", 1), ("{}", 1)] => None;
        "a", &[("a", 1)] => None;
        "a\n---\nb\n", &[("a\n", 1), ("b\n", 3)] => None;
        "---\na\n---\n", &[("a\n", 2)] => None;
        "---\n---\na", &[("a", 3)] => None;
        "---", &[] => None;
        "a\n---", &[("a\n", 1)] => None;
        "a\r\n--- \r\nb", &[("a\r\n", 1), ("b", 3)] => None;
        "a\n--- # x\n# y\n", &[("a\n", 1), ("# y\n", 3)] => None;
        "a\n\n--- b\nc\n", &[] => Some("3: b");
        "---a\n", &[] => Some("1: a");
        "a\n---\nb\n----\n", &[("a\n", 1)] => Some("4: -");
        "a\n ---\n", &[("a\n ---\n", 1)] => None;
    ] {
        let owned = |&(text, line): &(&str, _)| (text.to_owned(), line);
        let documents: Vec<_> = documents.iter().map(owned).collect();
        let expected = (documents, junk.map(str::to_owned));
        for step in [1, 3, usize::MAX] {
            assert_eq!(cuts(text, step), expected, "{text:?} by {step}");
        }
    }
}

#[test]
fn documents_longer_than_a_read_are_complete() {
    for separator in ["", "\n---\n"] {
        let start = if separator.is_empty() { "" } else { "# yaml\n" };
        let text = |at: usize| format!("{{\"a{at}\": \"{}\"}}", "\\\"x".repeat(200_000 + at));
        let text: Vec<String> = (0..5).map(text).collect();
        let (found, _) = cuts(&format!("{start}{}", text.join(separator)), usize::MAX);
        let found = found.iter();
        assert_rows!(found.map(|(text, _)| text.trim_start_matches(start).trim()).collect::<Vec<_>>() => text);
    }
}

#[test]
fn endless_document_exceeds_the_limit() {
    let mut stream = DocumentStream::new(io::repeat(b'{'), 1 << 20);
    let is_limited = matches!(stream.next(), Err(StreamError::TooLarge(0x10_0000)));
    assert!(is_limited);
    assert!(stream.buffer.len() < 4 << 20);
}
