//! Large arrays, and how to empty those that are kept by index.

#![expect(
    clippy::indexing_slicing,
    reason = "there is room for all half ranks of each cell"
)]

use super::index::HALVES;
use super::transitions::{HALF_BITS, INDICES};
use crate::puzzle::MAX_CELLS;

/// Makes all that is kept of states 0, and leaves the gaps between indices
/// alone: their memory was never taken.
pub(super) fn clear<T: Copy + Default>(array: &mut [T; INDICES]) {
    fill(array, T::default());
}

/// Makes all that is kept of states this value.
pub(super) fn fill<T: Copy>(array: &mut [T; INDICES], value: T) {
    for of_cell in array.chunks_mut(1 << HALF_BITS).take(MAX_CELLS) {
        of_cell[..HALVES as usize].fill(value);
    }
}

/// An array that was never on the stack. The memory of zeros is taken page by
/// page as it is written to.
pub(super) fn filled_box<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        // The vector is `N` long, so this is not reached.
        Err(_) => from_the_stack(value),
    }
}

/// Apart from [`filled_box`]: what its callers are given of the stack would
/// have room for the array where the compiler does not optimise.
#[cold]
#[inline(never)]
fn from_the_stack<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    Box::new([value; N])
}
