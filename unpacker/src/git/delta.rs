//! Delta objects: objects that a pack encodes as changes to a base object.

use super::error::{Problem, Result};

const CORRUPT: Problem = Problem::Damaged {
    problem: "a delta does not match its base",
};

/// The header of a delta: the sizes of its base and of its result.
pub(super) struct DeltaHeader<'a> {
    pub(super) base: u64,
    pub(super) result: u64,
    instructions: &'a [u8],
}

impl<'a> DeltaHeader<'a> {
    pub(super) fn read(delta: &'a [u8]) -> Result<Self> {
        let mut instructions = delta;
        let base = number(&mut instructions).ok_or(CORRUPT)?;
        let result = number(&mut instructions).ok_or(CORRUPT)?;
        Ok(Self {
            base,
            result,
            instructions,
        })
    }

    /// Reconstructs the object. The caller has checked the size of the result, and nothing beyond this size is
    /// written.
    pub(super) fn apply(&self, base: &[u8]) -> Result<Vec<u8>> {
        self.reconstruct(base).ok_or(CORRUPT)
    }

    fn reconstruct(&self, base: &[u8]) -> Option<Vec<u8>> {
        let size = usize::try_from(self.result).ok()?;
        if self.base != base.len() as u64 {
            return None;
        }
        let mut object = Vec::with_capacity(size);
        let mut instructions = self.instructions;
        while let Some(instruction) = byte(&mut instructions) {
            let part = if instruction & 0x80 != 0 {
                let from = packed(&mut instructions, instruction, 4)?;
                let count = match packed(&mut instructions, instruction >> 4, 3)? {
                    0 => 0x1_0000,
                    count => count,
                };
                base.get(from..from.checked_add(count)?)?
            } else {
                // Zero is reserved for future instructions.
                let count = usize::from(instruction);
                let part = instructions.get(..count).filter(|part| !part.is_empty())?;
                instructions = instructions.get(count..)?;
                part
            };
            if part.len() > size - object.len() {
                return None;
            }
            object.extend_from_slice(part);
        }
        (object.len() == size).then_some(object)
    }
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

/// Reads a variable-length number with seven bits per byte, least significant first.
fn number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let next = byte(from)?;
        number |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads a number of which only selected bytes are stored; the bits of `present` select them.
fn packed(from: &mut &[u8], present: u8, bytes: usize) -> Option<usize> {
    let mut number = 0;
    for at in 0..bytes {
        if present & (1 << at) != 0 {
            number |= usize::from(byte(from)?) << (8 * at);
        }
    }
    Some(number)
}
