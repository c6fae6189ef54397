//! Decompression of consecutive zlib streams of declared sizes.

use std::io::BufRead;

use flate2::{Decompress, FlushDecompress, Status};

use super::error::{Problem, Result};

/// Size of the output buffer, in bytes.
const BUFFER_SIZE: usize = 32 << 10;

/// A reusable decompressor. Its setup costs more than the decompression of most objects.
pub(super) struct Inflater {
    state: Decompress,
    out: Vec<u8>,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self {
            state: Decompress::new(true),
            out: vec![0; BUFFER_SIZE],
        }
    }

    /// Decompresses exactly one stream and passes its chunks to `part`. It never passes more than the declared size.
    pub(super) fn run(
        &mut self,
        from: &mut impl BufRead,
        size: u64,
        mut part: impl FnMut(&[u8]),
    ) -> Result<()> {
        self.state.reset(true);
        loop {
            let input = from
                .fill_buf()
                .map_err(|source| Problem::Spool { source })?;
            let is_end = input.is_empty();
            let (read, written) = (self.state.total_in(), self.state.total_out());
            let status = self
                .state
                .decompress(input, &mut self.out, FlushDecompress::None)
                .map_err(|_| Problem::Damaged {
                    problem: "an object has corrupt compressed data",
                })?;
            let read = usize::try_from(self.state.total_in() - read).unwrap_or(usize::MAX);
            let written = usize::try_from(self.state.total_out() - written).unwrap_or(usize::MAX);
            from.consume(read);
            if self.state.total_out() > size {
                return Err(Problem::Damaged {
                    problem: "an object is larger than declared",
                });
            }
            part(self.out.get(..written).unwrap_or_default());
            match status {
                Status::StreamEnd if self.state.total_out() == size => return Ok(()),
                Status::StreamEnd => {
                    return Err(Problem::Damaged {
                        problem: "an object is smaller than declared",
                    });
                }
                Status::Ok | Status::BufError if is_end => {
                    return Err(Problem::Disconnected {
                        during: "within an object",
                    });
                }
                Status::BufError if read == 0 && written == 0 => {
                    return Err(Problem::Damaged {
                        problem: "an object has corrupt compressed data",
                    });
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }
}
