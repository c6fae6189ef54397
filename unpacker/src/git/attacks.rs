//! Packs and frames that only a hostile or broken server sends.

use std::io::{self, Read, Write as _};

use bytes::Bytes;
use flate2::{Compression, write::ZlibEncoder};
use futures::{StreamExt as _, stream};

use super::error::{Problem, Result};
use super::object_id::{Kind, ObjectId};
use super::pack::{Bounds, Pack};
use super::pack_parser::receive;
use super::pkt_line::{ByteSource, PktLine, PktReader};

const BOUNDS: Bounds = Bounds {
    received: 1 << 20,
    memory: 1 << 10,
    objects: 100,
    object: 1 << 12,
    work: 1 << 16,
    depth: 4,
};

/// A writer of valid and invalid packs.
#[derive(Debug, Default)]
struct Writer {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Writer {
    fn blob(self, bytes: &[u8]) -> Self {
        self.entry(3, bytes.len(), &[], bytes)
    }

    /// Adds a delta of the entry with this number.
    fn on(self, base: usize, delta: &[u8]) -> Self {
        let distance = self.bytes.len() - self.starts[base];
        let mut written = vec![u8::try_from(distance & 0x7f).unwrap()];
        let mut rest = distance >> 7;
        while rest > 0 {
            rest -= 1;
            written.insert(0, u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        self.entry(6, delta.len(), &written, delta)
    }

    fn on_id(self, base: [u8; 20], delta: &[u8]) -> Self {
        self.entry(7, delta.len(), &base, delta)
    }

    fn entry(mut self, kind: u8, size: usize, base: &[u8], bytes: &[u8]) -> Self {
        self.starts.push(self.bytes.len());
        let first = kind << 4 | u8::try_from(size & 15).unwrap();
        let head = match size >> 4 {
            0 => vec![first],
            rest => [vec![first | 0x80], varint(rest)].concat(),
        };
        self.bytes.extend([&*head, base].concat());
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        self.bytes.extend(encoder.finish().unwrap());
        self
    }

    fn end(self) -> Vec<u8> {
        let count = u32::try_from(self.starts.len()).unwrap();
        self.end_with(count)
    }

    fn end_with(self, count: u32) -> Vec<u8> {
        let mut pack = [b"PACK\0\0\0\x02", &count.to_be_bytes()[..], &self.bytes].concat();
        seal(&mut pack, 0);
        pack
    }
}

/// Returns a number in groups of seven bits, the lowest first.
fn varint(mut rest: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while rest > 0x7f {
        bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// Replaces this number of bytes at the end by the checksum of the others.
fn seal(pack: &mut Vec<u8>, replaced: usize) {
    pack.truncate(pack.len() - replaced);
    pack.extend(sha1(pack));
}

fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut hasher = sha1dc::Hasher::new();
    hasher.update(bytes);
    hasher.finalize().unwrap().into()
}

/// Returns the bytes of [`id`].
fn raw(bytes: &[u8]) -> [u8; 20] {
    sha1(&[format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat())
}

/// Returns a delta of two sizes and instructions.
fn delta(base: usize, result: usize, orders: &[u8]) -> Vec<u8> {
    [varint(base), varint(result), orders.to_vec()].concat()
}

/// Returns the instruction that copies the first bytes of the base.
fn copy(count: u16) -> [u8; 3] {
    let [low, high] = count.to_le_bytes();
    [0xb0, low, high]
}

fn id(bytes: &[u8]) -> ObjectId {
    ObjectId::compute(Kind::Blob, bytes).unwrap()
}

fn resolved(pack: &[u8], bounds: Bounds) -> Result<Pack> {
    let mut pack = receive(pack, bounds)?;
    pack.resolve(&[Kind::Blob, Kind::Tree, Kind::Commit, Kind::Tag], None)?;
    Ok(pack)
}

fn message(result: Result<Pack>) -> String {
    match result {
        Ok(_) => "valid".to_owned(),
        Err(problem) => problem.to_string(),
    }
}

#[test]
fn objects_and_both_kinds_of_deltas_are_found_by_hash() {
    let twice = delta(3, 6, &[copy(3), copy(3)].concat());
    let more = delta(6, 7, &[&copy(6)[..], b"\x01!"].concat());
    let pack = Writer::default()
        .on_id(raw(b"abcabc"), &more)
        .on_id(raw(b"abc"), &twice)
        .blob(b"abc")
        .blob(b"abc")
        .on(2, &delta(3, 2, &copy(2)))
        .end();
    let mut pack = resolved(&pack, BOUNDS).unwrap();
    for bytes in [&b"abc"[..], b"abcabc", b"abcabc!", b"ab"] {
        assert_eq!(pack.read(id(bytes), Kind::Blob).unwrap(), bytes);
    }
    assert_rows!(matches!(pack.read(id(b"abc"), Kind::Tree), Err(Problem::Missing { .. })) => true);
    assert_rows!(matches!(pack.read(id(b"other"), Kind::Blob), Err(Problem::Missing { .. })) => true);
}

#[test]
fn delta_bomb_ends_at_the_limit() {
    // Each object is sixteen times as large as its base.
    let mut size = 1 << 8;
    let mut writer = Writer::default().blob(&vec![b'x'; size]);
    for base in 0..4 {
        let count = u16::try_from(size).unwrap_or(u16::MAX);
        writer = writer.on(base, &delta(size, size * 16, &copy(count).repeat(16)));
        size *= 16;
    }
    assert!(resolved(&writer.end(), BOUNDS).unwrap().has_oversized());
    // Many objects, each of the maximum size.
    let mut writer = Writer::default().blob(&vec![b'x'; 1 << 8]);
    for _ in 0..50 {
        writer = writer.on(0, &delta(1 << 8, 1 << 12, &copy(1 << 8).repeat(16)));
    }
    assert_rows!(message(resolved(&writer.end(), BOUNDS)).contains("its unpacked bytes exceed the limit of 65536") => true);
}

#[test]
fn dropped_delta_bases_are_rebuilt() {
    let large = vec![b'x'; 4000];
    let mut writer = Writer::default().blob(&large);
    let mut expected = vec![large.clone()];
    // A comb: each object has two deltas, of which the first has two again.
    for base in 0..4_u8 {
        for mark in [base, 100 + base] {
            let from = usize::from(base) * 2;
            let from = if from == 0 { 0 } else { from - 1 };
            let orders = [&copy(3999)[..], &[1, mark]].concat();
            writer = writer.on(from, &delta(4000, 4000, &orders));
            expected.push([&large[..3999], &[mark]].concat());
        }
    }
    let bounds = with!(Bounds, object: 4000, work: 1 << 20, depth: 10; ..BOUNDS);
    let mut pack = resolved(&writer.end(), bounds).unwrap();
    for bytes in expected {
        assert_eq!(pack.read(id(&bytes), Kind::Blob).unwrap(), bytes);
    }
}

#[test]
fn false_sizes_are_detected_before_objects_are_built() {
    let huge = 1 << 55;
    assert_each!(|writer, expected| message(resolved(&writer.end(), BOUNDS)) => has expected;
        Writer::default().entry(3, 2, &[], b"abc") => "larger than declared";
        Writer::default().entry(3, 4, &[], b"abc") => "smaller than declared";
        Writer::default().entry(3, huge, &[], b"abc") => "its unpacked bytes exceed";
        Writer::default().entry(3, 70_000, &[], &vec![0; 70_000]) => "its unpacked bytes exceed";
        Writer::default().entry(5, 3, &[], b"abc") => "of an unknown kind";
        Writer::default().entry(0, 3, &[], b"abc") => "of an unknown kind";
        Writer::default().blob(b"abc").on(0, &delta(4, 3, &copy(3))) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &delta(3, 3, &copy(4))) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &delta(3, 2, &copy(3))) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &delta(3, 4, &copy(3))) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &delta(3, 3, &[0])) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &delta(3, 3, &[5, 1])) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &delta(3, 3, &[0xff])) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &[0xff; 12]) => "does not match its base";
        Writer::default().blob(b"abc").on(0, &[]) => "does not match its base";
        Writer::default().entry(6, 3, &[1], b"abc") => "base of a delta is missing";
        Writer::default().blob(b"a").entry(6, 3, &[3], b"abc") => "base of a delta is missing";
        Writer::default().entry(6, 3, &[0xff; 12], b"abc") => "base of a delta is missing";
        Writer::default().entry(6, 3, &[0], b"abc") => "base of a delta is missing";
    );
    // An object above the limit is not built, and neither are the objects that depend on it.
    let large = Writer::default()
        .blob(b"abc")
        .on(0, &delta(3, huge, &copy(3)));
    assert!(resolved(&large.end(), BOUNDS).unwrap().has_oversized());
}

#[test]
fn circular_and_deep_delta_chains_end() {
    let same = delta(3, 3, &copy(3));
    let circle = Writer::default()
        .on_id(raw(b"one"), &same)
        .on_id(raw(b"two"), &same)
        .end();
    let mut pack = resolved(&circle, BOUNDS).unwrap();
    assert_rows!(matches!(pack.read(id(b"one"), Kind::Blob), Err(Problem::Missing { .. })) => true);
    // A delta whose result is its own base.
    let own = Writer::default().blob(b"abc").on_id(raw(b"abc"), &same);
    assert_rows!(resolved(&own.end(), BOUNDS).unwrap().read(id(b"abc"), Kind::Blob).unwrap() => b"abc");

    let chain = |count: usize| {
        let mut writer = Writer::default().blob(b"abc");
        for base in 0..count {
            let mark = u8::try_from(base).unwrap();
            writer = writer.on(base, &delta(3, 3, &[&copy(2)[..], &[1, mark]].concat()));
        }
        writer.end()
    };
    assert_eq!(message(resolved(&chain(4), BOUNDS)), "valid");
    assert!(message(resolved(&chain(9), BOUNDS)).contains("too deeply"));
}

#[test]
fn pack_is_accepted_only_whole_and_unchanged() {
    let good = Writer::default()
        .blob(b"abc")
        .on(0, &delta(3, 2, &copy(2)))
        .blob(&[7; 300])
        .end();
    assert_eq!(message(resolved(&good, BOUNDS)), "valid");
    for end in 0..good.len() {
        let found = resolved(&good[..end], BOUNDS);
        assert_rows!(matches!(found, Err(Problem::Disconnected { .. })) => true, "{end}: {}", message(found));
    }
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        assert!(resolved(&changed, BOUNDS).is_err(), "{at}");
    }
    assert_rows!(message(resolved(&[&good[..], b"x"].concat(), BOUNDS)).contains("bytes follow the end") => true);
    assert_rows!(resolved(&Writer::default().blob(b"abc").end_with(0), BOUNDS).is_err() => true);
    assert_rows!(resolved(&Writer::default().blob(b"abc").end_with(2), BOUNDS).is_err() => true);
    let millions = Writer::default().end_with(u32::MAX);
    assert!(message(resolved(&millions, BOUNDS)).contains("its objects exceed the limit of 100"));
}

// parity: rukpak-21
#[test]
fn endless_pack_ends_at_the_limit() {
    // Empty blocks of a zlib stream: they produce no output, without end.
    let head = [b"PACK\0\0\0\x02\0\0\0\x01\x33\x78\x01"];
    let blocks = io::repeat(0).take(u64::MAX);
    let found = message(receive(head[0].chain(Stored(0)), BOUNDS));
    ::tests::assert_has(&found, "the bytes to transfer exceed the limit of 1048576");
    ::tests::assert_has(message(receive(head[0].chain(blocks), BOUNDS)), "corrupt");
}

/// Stored blocks without content.
struct Stored(usize);

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for byte in buffer.iter_mut() {
            *byte = [0, 0, 0, 0xff, 0xff][self.0 % 5];
            self.0 += 1;
        }
        Ok(buffer.len())
    }
}

fn lines(parts: &[&[u8]]) -> PktReader {
    let part = |part: &&[u8]| Ok(Bytes::copy_from_slice(part));
    let parts: Vec<_> = parts.iter().map(part).collect();
    let mut lines = PktReader::new(ByteSource::Http(stream::iter(parts).boxed()));
    lines.allow(1000, "the lines");
    lines
}

#[tokio::test]
async fn split_frames_are_read_and_false_lengths_are_rejected() {
    let mut good = lines(&[b"00", b"06a", b"b0001", b"0000000200", b"04"]);
    let data = |bytes: &'static [u8]| PktLine::Data(Bytes::from_static(bytes));
    let start = [data(b"ab"), PktLine::Delimiter, PktLine::Flush];
    let end = [PktLine::End, data(b""), PktLine::Eof, PktLine::Eof];
    for expected in start.into_iter().chain(end) {
        assert_eq!(good.next().await.unwrap(), expected);
    }
    assert_each!(|bytes, expected| lines(&[bytes]).next().await.unwrap_err() => has expected;
        &b"0003"[..] => "a line has an invalid length";
        b"ffff" => "a line has an invalid length";
        b"fff1" => "a line has an invalid length";
        b"+005a" => "not in pkt-line format";
        b"<html>" => "not in pkt-line format";
        b"000" => "ended within a line";
        b"0006a" => "ended within a line";
        b"0011ERR bad\x1b[2Jly" => "the server rejected the request: bad [2Jly";
        b"0047ERR GitLab is currently unable to handle this request due to load.\n" => "due to load.; try again";
        b"001eERR upload-pack: not our r" => "the server rejected the request: upload-pack: not our r";
        &[b'a'; 1001] => "the lines exceed the limit of 1000";
    );
}

#[tokio::test]
async fn endless_frames_end_at_the_limit() {
    let endless = stream::repeat_with(|| Ok(Bytes::from_static(b"0005\x020000"))).boxed();
    let mut lines = PktReader::new(ByteSource::Http(endless));
    lines.allow(1 << 16, "the lines");
    let mut count = 0;
    let problem = loop {
        match lines.next().await {
            Ok(_) => count += 1,
            Err(problem) => break problem,
        }
        assert!(count < 1 << 16);
    };
    assert!(matches!(problem, Problem::TooLarge { limit: 65_536, .. }));
}

#[test]
fn fuzz_changed_packs_never_yield_objects_of_another_hash() {
    ::tests::fuzz::fuzz(20_000, 5, |random| {
        // The instructions are changed before they are compressed: few of the later changes would get so far.
        let mut orders = delta(9, 12, &[&copy(9)[..], b"\x03end"].concat());
        let mut base = b"some base".to_vec();
        for _ in 0..random.below(3) {
            let bytes = match random.below(2) {
                0 => &mut orders,
                _ => &mut base,
            };
            let at = random.below(bytes.len());
            bytes[at] = random.byte();
        }
        let mut pack = Writer::default()
            .blob(&base)
            .on(0, &orders)
            .on_id(raw(b"some base"), &orders)
            .entry(2, 0, &[], b"")
            .on(1, &delta(12, 3, &copy(3)))
            .end();
        if random.below(2) == 0 {
            for _ in 0..=random.below(3) {
                let at = random.below(pack.len());
                pack[at] = random.byte();
            }
            seal(&mut pack, 20);
        }
        let Ok(mut pack) = resolved(&pack, BOUNDS) else {
            return 0;
        };
        let mut is_read = false;
        for object in [&b"some base"[..], b"some baseend", b"som"] {
            let Some(kind) = pack.kind(id(object)) else {
                continue;
            };
            if let Ok(bytes) = pack.read(id(object), kind) {
                assert_eq!(bytes, object);
                is_read = true;
            }
        }
        usize::from(is_read)
    });
}
