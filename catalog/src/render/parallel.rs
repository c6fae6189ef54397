//! Parallel conversion of blobs to text while earlier text is written.

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

/// Size of the chunks that a thread converts at once, in bytes of JSON.
const CHUNK_SIZE: usize = 1 << 20;
/// Maximum number of threads. More threads would only wait for the writer.
const MAX_THREADS: usize = 8;

/// Converts chunks of blobs on several threads and writes them in order, while the threads convert the next chunks.
pub(super) fn write(blobs: &[Blob], format: Format, out: &mut dyn Write) -> io::Result<()> {
    let chunks = chunks(blobs);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(MAX_THREADS).min(chunks.len());
    if threads < 2 {
        let mut buffer = Vec::new();
        return chunks
            .into_iter()
            .try_for_each(|chunk| out.write_all(text(chunk, format, &mut buffer)?));
    }
    let next = AtomicUsize::new(0);
    let (full, filled) = mpsc::channel::<(usize, io::Result<Vec<u8>>)>();
    let (empty, emptied) = mpsc::channel::<Vec<u8>>();
    // Two buffers per thread, one to fill and one to write. A thread without a buffer waits for the writer.
    for _ in 0..threads * 2 {
        // The receiver exists until the end of this function.
        let _ = empty.send(Vec::new());
    }
    let emptied = Mutex::new(emptied);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (full, emptied, next, chunks) = (full.clone(), &emptied, &next, &chunks);
            scope.spawn(move || {
                loop {
                    // The buffer is taken before the chunk, so the chunk that is written next always has one.
                    let buffer = emptied
                        .lock()
                        .ok()
                        .and_then(|receiver| receiver.recv().ok());
                    let Some(mut buffer) = buffer else { return };
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(chunk) = chunks.get(at) else { return };
                    let result = text(chunk, format, &mut buffer).map(drop);
                    if full.send((at, result.map(|()| buffer))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(full);
        let empty = empty;
        let mut early = BTreeMap::new();
        let mut turn = 0;
        for (at, result) in filled {
            early.insert(at, result);
            while let Some(result) = early.remove(&turn) {
                let buffer = result?;
                out.write_all(&buffer)?;
                turn += 1;
                // Sending fails after all chunks were taken; the buffer is then not needed.
                let _ = empty.send(buffer);
            }
        }
        Ok(())
    })
}

/// Splits blobs into chunks of about the chunk size.
fn chunks(mut blobs: &[Blob]) -> Vec<&[Blob]> {
    let mut chunks = Vec::new();
    while !blobs.is_empty() {
        let mut size = 0;
        let is_in = |blob: &&Blob| {
            let is_in = size < CHUNK_SIZE;
            size += blob.json.len();
            is_in
        };
        let (chunk, after) = blobs.split_at(blobs.iter().take_while(is_in).count());
        chunks.push(chunk);
        blobs = after;
    }
    chunks
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
        testing::{content, list},
    };

    use super::*;

    /// Returns blobs of several parts. One of them can be nested deeper than the writer allows.
    fn rendered(count: usize, deep: Option<usize>) -> Rendered {
        let fill = "x".repeat(CHUNK_SIZE / 20);
        let text = list(0..count, |at| {
            let depth = if deep == Some(at) { 2000 } else { 1 };
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!("{{\"schema\": \"a\", \"at\": {at}, \"v\": {open}\"{fill}\"{close}}}\n")
        });
        let content = content(&[("a.json", text)]);
        let mut render = Render::new(Level::None);
        let read = render.catalog(Source::Content(&content), &Limits::default());
        read.unwrap();
        render.finish()
    }

    #[test]
    fn parts_are_written_in_order() {
        for count in [0, 1, 19, 20, 21, 200] {
            let rendered = rendered(count, None);
            let mut out = Vec::new();
            rendered.write(Format::Json, &mut out).unwrap();
            let read = serde_json::Deserializer::from_slice(&out).into_iter::<serde_json::Value>();
            let numbers = read.map(|value| value.unwrap()["at"].as_u64().unwrap());
            assert_rows!(numbers.collect::<Vec<_>>() => (0..count as u64).collect::<Vec<_>>());
        }
    }

    /// Accepts this number of bytes.
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
    fn first_error_ends_the_output() {
        let rendered = rendered(200, None);
        for room in [0, CHUNK_SIZE * 3, CHUNK_SIZE * 8] {
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
