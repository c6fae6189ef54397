//! Objects that are written as changes to others.

use super::error::{Problem, Result};

const DAMAGED: Problem = Problem::Damaged {
    problem: "a delta does not fit its base",
};

/// The sizes that a delta states: of its base, and of what it makes.
pub(super) struct Head<'a> {
    pub(super) base: u64,
    pub(super) result: u64,
    orders: &'a [u8],
}

impl<'a> Head<'a> {
    pub(super) fn read(delta: &'a [u8]) -> Result<Self> {
        let mut orders = delta;
        let base = number(&mut orders).ok_or(DAMAGED)?;
        let result = number(&mut orders).ok_or(DAMAGED)?;
        Ok(Self {
            base,
            result,
            orders,
        })
    }

    /// Makes the object. The caller has found the stated size acceptable; nothing beyond it is ever written.
    pub(super) fn apply(&self, base: &[u8]) -> Result<Vec<u8>> {
        self.made(base).ok_or(DAMAGED)
    }

    fn made(&self, base: &[u8]) -> Option<Vec<u8>> {
        let size = usize::try_from(self.result).ok()?;
        if self.base != base.len() as u64 {
            return None;
        }
        let mut made = Vec::with_capacity(size);
        let mut orders = self.orders;
        while let Some(order) = byte(&mut orders) {
            let part = if order & 0x80 != 0 {
                let from = packed(&mut orders, order, 4)?;
                let count = match packed(&mut orders, order >> 4, 3)? {
                    0 => 0x1_0000,
                    count => count,
                };
                base.get(from..from.checked_add(count)?)?
            } else {
                // Zero is kept for orders of the future.
                let count = usize::from(order);
                let part = orders.get(..count).filter(|part| !part.is_empty())?;
                orders = orders.get(count..)?;
                part
            };
            if part.len() > size - made.len() {
                return None;
            }
            made.extend_from_slice(part);
        }
        (made.len() == size).then_some(made)
    }
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

/// Seven bits a byte, the lowest first.
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

/// A number of which only the bytes follow that are not zero; the bits of `present` tell which.
fn packed(from: &mut &[u8], present: u8, bytes: usize) -> Option<usize> {
    let mut number = 0;
    for at in 0..bytes {
        if present & (1 << at) != 0 {
            number |= usize::from(byte(from)?) << (8 * at);
        }
    }
    Some(number)
}
