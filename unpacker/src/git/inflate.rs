//! One zlib stream after the other, each of a stated size.

use std::io::BufRead;

use flate2::{Decompress, FlushDecompress, Status};

use super::error::{Problem, Result};

/// What can be inflated in one step.
const STEP: usize = 32 << 10;

/// Kept from one stream to the next: setting it up costs more than most objects.
pub(super) struct Inflater {
    state: Decompress,
    out: Vec<u8>,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self {
            state: Decompress::new(true),
            out: vec![0; STEP],
        }
    }

    /// Reads exactly one stream, and gives its parts as they come. More than the stated size is never given.
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
            let (read, made) = (self.state.total_in(), self.state.total_out());
            let status = self
                .state
                .decompress(input, &mut self.out, FlushDecompress::None)
                .map_err(|_| Problem::Damaged {
                    problem: "an object is not well compressed",
                })?;
            let read = usize::try_from(self.state.total_in() - read).unwrap_or(usize::MAX);
            let made = usize::try_from(self.state.total_out() - made).unwrap_or(usize::MAX);
            from.consume(read);
            if self.state.total_out() > size {
                return Err(Problem::Damaged {
                    problem: "an object is larger than it says",
                });
            }
            part(self.out.get(..made).unwrap_or_default());
            match status {
                Status::StreamEnd if self.state.total_out() == size => return Ok(()),
                Status::StreamEnd => {
                    return Err(Problem::Damaged {
                        problem: "an object is smaller than it says",
                    });
                }
                Status::Ok | Status::BufError if is_end => {
                    return Err(Problem::CutShort {
                        during: "within an object",
                    });
                }
                Status::BufError if read == 0 && made == 0 => {
                    return Err(Problem::Damaged {
                        problem: "an object is not well compressed",
                    });
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }
}
