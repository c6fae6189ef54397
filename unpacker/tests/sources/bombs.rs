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
pub(crate) struct Endless(pub(crate) Vec<u8>, pub(crate) usize);

impl Endless {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes, 0)
    }
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&self.0[self.1..]).read(buffer)?;
        self.1 = (self.1 + count) % self.0.len();
        Ok(count)
    }
}

/// Checks the error message and the maximum number of bytes read.
#[track_caller]
fn assert_rejected(reader: impl Read, options: &Options, expected: &str, most: u64) {
    let mut counted = Counted(reader, 0);
    let error = stream(&mut counted, options).unwrap_err();
    let text = chain(&error);
    assert_rows!((error.is_terminal() || matches!(error, Error::Truncated { .. })) && text.contains(expected) => true, "{text}");
    assert!(counted.1 <= most, "{} bytes read: {text}", counted.1);
}

fn limited(total: u64, entries: usize) -> Options {
    with!(Options::default() => limits.total: total, limits.entries: entries)
}

#[test]
fn ten_gigabytes_of_zeros_are_rejected_at_the_file_limit() {
    let options = Options::default();
    let header = tar().entry(b'0', b"bomb", 10 << 30, b"").open();
    let text = "file \"bomb\" is larger than the limit of 16777216 bytes";
    let plain = header.as_slice().chain(io::repeat(0));
    assert_rejected(plain, &options, text, (16 << 20) + 1024);
    let (start, zeros) = (gzip(&header), Endless::new(gzip(&vec![0; 1 << 20])));
    assert_rejected(start.as_slice().chain(zeros), &options, text, 256 << 10);
}

#[test]
fn many_files_are_rejected_at_the_limit_of_all_files() {
    let mut files = tar();
    for number in 1..75 {
        files = files.with(b'0', &number.to_string(), &vec![b'x'; 600_000]);
    }
    let text = "content is larger than the limit of 33554432 bytes (reached in \"56\")";
    let files = files.open();
    assert!(files.len() > 40 << 20);
    assert_rejected(&*files, &Options::default(), text, (32 << 20) + (1 << 20));
}

#[test]
fn unselected_and_trailing_bombs_end_at_the_stream_limit() {
    let options = with!(limited(1 << 20, 1000) => select: only(&["manifests"]));
    let limit = options.stream_limit();
    let text = format!("more than {limit} bytes");
    let bomb = tar().entry(b'0', b"bomb", 10 << 30, b"").open();
    for start in [bomb, tar().file("a", "").end()] {
        let plain = start.as_slice().chain(io::repeat(0));
        assert_rejected(plain, &options, &text, limit + (64 << 10));
        let (compressed, zeros) = (gzip(&start), Endless::new(gzip(&vec![0; 1 << 20])));
        let compressed = compressed.as_slice().chain(zeros);
        assert_rejected(compressed, &options, &text, 256 << 10);
    }
}

#[test]
fn headers_that_claim_gigabytes_are_rejected_unread() {
    let name = "exceeds the limit of 1024 bytes; shorten it or raise --max-path-length";
    let extended = "an extended header of more than 1 MiB";
    for (kind, expected, most) in [
        (b'L', name, 4096),
        (b'K', extended, 1024),
        (b'x', extended, 1024),
        (b'g', extended, 1024),
    ] {
        let header = tar().entry(kind, b"claim", 8 << 30, b"").open();
        let claim = header.as_slice().chain(io::repeat(b'a'));
        assert_rejected(claim, &Options::default(), expected, most);
    }
}

#[test]
fn endless_entries_headers_and_gzip_members_are_rejected() {
    let directory = Endless::new(tar().with(b'5', "a/", b"").open());
    let text = "more than 10000 entries";
    assert_rejected(directory, &Options::default(), text, 10_001 * 512);
    let options = limited(1 << 20, Options::default().limits.entries);
    let global = Endless::new(tar().pax(b'g', &[("comment", "x")]).open());
    let text = "including headers and skipped entries";
    assert_rejected(global, &options, text, u64::MAX);
    let options = limited(1 << 10, 100);
    let text = "the archive has more than 413696 bytes";
    let most = options.stream_limit() + (64 << 10);
    assert_rejected(Endless::new(gzip(b"")), &options, text, most);
}
