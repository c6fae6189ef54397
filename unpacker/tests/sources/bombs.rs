//! Small archives that declare a large size or decompress to one.

use crate::*;

pub(crate) struct Counted<R>(pub(crate) R, pub(crate) u64);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1 += count as u64;
        Ok(count)
    }
}

/// Repeats the same bytes: gzip members form one stream, so this decompresses without end.
struct Endless(Vec<u8>, usize);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&self.0[self.1..]).read(buffer)?;
        self.1 = (self.1 + count) % self.0.len();
        Ok(count)
    }
}

/// Returns a reader of bytes, and then of others without end.
pub(crate) fn chained(start: Vec<u8>, endless: Vec<u8>) -> Box<dyn Read> {
    Box::new(io::Cursor::new(start).chain(Endless(endless, 0)))
}

fn limited(total: u64, entries: usize) -> Options {
    with!(Options::default() => limits.total: total, limits.entries: entries)
}

#[test]
fn bombs_are_rejected_at_the_limits() {
    let (default, small) = (Options::default(), limited(1 << 20, 10_000));
    let (tiny, selected) = (
        limited(1 << 10, 100),
        with!(limited(1 << 20, 1000) => select: only(&["manifests"])),
    );
    let zeros = || vec![0; 1 << 20];
    let bomb = || tar().entry(b'0', b"bomb", 10 << 30, b"").open();
    let end = || tar().file("a", "").end();
    let file = "file \"bomb\" is larger than the limit of 16777216 bytes";
    let limit = selected.stream_limit();
    let unselected = format!("more than {limit} bytes");
    let claim = |kind| {
        let header = tar().entry(kind, b"claim", 8 << 30, b"");
        chained(header.open(), vec![b'a'; 1 << 10])
    };
    let name = "exceeds the limit of 1024 bytes; shorten it or raise --max-path-length";
    let extended = "an extended header of more than 1 MiB";
    let numbered = |tar: Tar, number: u8| tar.with(b'0', &number.to_string(), &vec![b'x'; 600_000]);
    let many = (1..75).fold(tar(), numbered).open();
    assert!(many.len() > 40 << 20);
    let directory = tar().with(b'5', "a/", b"").open();
    let global = tar().pax(b'g', &[("comment", "x")]).open();
    // The reader, the options, the error message, and the maximum number of bytes read.
    for (reader, options, expected, most) in tests::rows![
        chained(bomb(), zeros()), &default, file => (16 << 20) + 1024;
        chained(gzip(&bomb()), gzip(&zeros())), &default, file => 256 << 10;
        chained(many, zeros()), &default, "content is larger than the limit of 33554432 bytes (reached in \"56\")" => 33 << 20;
        // Files that are not selected, and bytes after the end.
        chained(bomb(), zeros()), &selected, &unselected => limit + (64 << 10);
        chained(gzip(&bomb()), gzip(&zeros())), &selected, &unselected => 256 << 10;
        chained(end(), zeros()), &selected, &unselected => limit + (64 << 10);
        chained(gzip(&end()), gzip(&zeros())), &selected, &unselected => 256 << 10;
        claim(b'L'), &default, name => 4096;
        claim(b'K'), &default, extended => 1024;
        claim(b'x'), &default, extended => 1024;
        claim(b'g'), &default, extended => 1024;
        chained(Vec::new(), directory), &default, "more than 10000 entries" => 10_001 * 512;
        chained(Vec::new(), global), &small, "including headers and skipped entries" => u64::MAX;
        chained(Vec::new(), gzip(b"")), &tiny, "the archive has more than 413696 bytes" => tiny.stream_limit() + (64 << 10);
    ] {
        let mut counted = Counted(reader, 0);
        let error = stream(&mut counted, options).unwrap_err();
        let text = chain(&error);
        let is_rejected = error.is_terminal() || matches!(error, Error::Truncated { .. });
        assert!(is_rejected && text.contains(expected), "{expected}: {text}");
        assert!(counted.1 <= most, "{} bytes read: {text}", counted.1);
    }
}
