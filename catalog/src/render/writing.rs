//! Blobs to text, on several threads, while the text before is written.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    num::NonZero,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use super::{Format, blob::Blob};

/// Bytes of blobs that a thread makes text of at once.
const PART: usize = 1 << 20;
/// More threads would wait for whoever takes the text.
const MOST_THREADS: usize = 8;

/// Several threads make text of a part of the blobs each, which is written in order while they go on with the next parts.
pub(super) fn write(blobs: &[Blob], format: Format, out: &mut dyn Write) -> io::Result<()> {
    let parts = parts(blobs);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(MOST_THREADS).min(parts.len());
    if threads < 2 {
        let mut buffer = Vec::new();
        return parts
            .into_iter()
            .try_for_each(|part| out.write_all(text(part, format, &mut buffer)?));
    }
    let next = AtomicUsize::new(0);
    let (full, filled) = mpsc::channel::<(usize, io::Result<Vec<u8>>)>();
    let (empty, emptied) = mpsc::channel::<Vec<u8>>();
    // One that is filled and one that is written for each: whoever has none waits for the writer.
    for _ in 0..threads * 2 {
        // The other end is right here.
        let _ = empty.send(Vec::new());
    }
    let emptied = Mutex::new(emptied);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (full, emptied, next, parts) = (full.clone(), &emptied, &next, &parts);
            scope.spawn(move || {
                loop {
                    // First the buffer, then the part: so the one that is to be written next always has one.
                    let buffer = emptied.lock().ok().and_then(|it| it.recv().ok());
                    let Some(mut buffer) = buffer else { return };
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(part) = parts.get(at) else { return };
                    let made = text(part, format, &mut buffer).map(drop);
                    if full.send((at, made.map(|()| buffer))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(full);
        let empty = empty;
        let mut early = BTreeMap::new();
        let mut turn = 0;
        for (at, made) in filled {
            early.insert(at, made);
            while let Some(made) = early.remove(&turn) {
                let buffer = made?;
                out.write_all(&buffer)?;
                turn += 1;
                // Nobody takes it once all parts are given out.
                let _ = empty.send(buffer);
            }
        }
        Ok(())
    })
}

/// Each of about as many blobs as a part has bytes.
fn parts(mut blobs: &[Blob]) -> Vec<&[Blob]> {
    let mut parts = Vec::new();
    while !blobs.is_empty() {
        let mut size = 0;
        let is_in = |blob: &&Blob| {
            let is_in = size < PART;
            size += blob.json.len();
            is_in
        };
        let (part, after) = blobs.split_at(blobs.iter().take_while(is_in).count());
        parts.push(part);
        blobs = after;
    }
    parts
}

fn text<'a>(blobs: &[Blob], format: Format, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    buffer.clear();
    for blob in blobs {
        format.write(blob, buffer)?;
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use crate::{
        Limits, Source,
        render::{Level, Render, Rendered},
        testing::content,
    };

    use super::*;

    /// Blobs of several parts, one of which may be nested deeper than what is written.
    fn rendered(count: usize, deep: Option<usize>) -> Rendered {
        use std::fmt::Write as _;
        let mut text = String::new();
        for at in 0..count {
            let depth = if deep == Some(at) { 2000 } else { 1 };
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            let fill = "x".repeat(PART / 20);
            writeln!(
                text,
                "{{\"schema\": \"a\", \"at\": {at}, \"v\": {open}\"{fill}\"{close}}}"
            )
            .unwrap();
        }
        let content = content(&[("a.json", text)]);
        let mut render = Render::new(Level::None);
        let read = render.catalog(Source::Content(&content), &Limits::default());
        read.unwrap();
        render.finish()
    }

    #[test]
    fn parts_come_in_their_order() {
        for count in [0, 1, 19, 20, 21, 200] {
            let rendered = rendered(count, None);
            let mut out = Vec::new();
            rendered.write(Format::Json, &mut out).unwrap();
            let read = serde_json::Deserializer::from_slice(&out).into_iter::<serde_json::Value>();
            let read: Vec<_> = read.map(|it| it.unwrap()["at"].as_u64().unwrap()).collect();
            let expected: Vec<_> = (0..count as u64).collect();
            assert_eq!(read, expected);
        }
    }

    /// Takes so many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let left = self.0.checked_sub(bytes.len());
            self.0 = left.ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whatever_fails_ends_it() {
        let rendered = rendered(200, None);
        for room in [0, PART * 3, PART * 8] {
            let error = rendered.write(Format::Json, &mut Full(room)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room}");
        }
        for deep in [0, 90, 199] {
            let rendered = self::rendered(200, Some(deep));
            let error = rendered.write(Format::Json, &mut io::sink()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{deep}");
        }
    }
}
