//! Cantor expansion: the rank of a permutation among all permutations of its
//! length, in lexicographic order.
//!
//! An item's digit is the number of smaller items to its right; the rank is
//! the sum of the digits times the factorials of their places (G. Cantor,
//! "Über die einfachen Zahlensysteme", 1869; D. H. Lehmer's code, 1960). It
//! turns a state into an index, so a visited set can be an array.

#![expect(
    clippy::cast_possible_truncation,
    reason = "places and digits are at most MAX_ITEMS"
)]

/// The most items whose ranks fit in a `u32`: 12! = 479,001,600.
pub const MAX_ITEMS: usize = 12;

/// The number of permutations of `items` things.
///
/// `items` is at most [`MAX_ITEMS`]; beyond it the product saturates.
pub const fn factorial(items: usize) -> u32 {
    let mut product: u32 = 1;
    let mut factor: u32 = 2;
    let mut left = items;
    while left >= 2 {
        product = product.saturating_mul(factor);
        factor += 1;
        left -= 1;
    }
    product
}

/// The rank of `items`, at most [`MAX_ITEMS`] different values, among all
/// their orders: 0 where they ascend.
///
/// Two orders of the same items whose ranks are `2k` and `2k + 1` differ in
/// the last two items alone, so exactly one of them is even: half the rank is
/// an index of the even (or of the odd) permutations.
///
/// ```
/// use loyd::puzzle::cantor::rank;
/// assert_eq!(rank(&[1, 2, 3, 4, 5, 6, 7, 9, 8]), 1);
/// assert_eq!(rank(&[3, 5, 7, 4, 1, 2, 9, 6, 8]), 98884);
/// ```
pub fn rank(items: &[u8]) -> u32 {
    let mut rank = 0;
    let mut rest = items;
    while let Some((item, right)) = rest.split_first() {
        let digit: u32 = right.iter().map(|other| u32::from(other < item)).sum();
        rank = rank * (right.len() as u32 + 1) + digit;
        rest = right;
    }
    rank
}

/// Writes the order of `0..items.len()` that has this rank into `items`, at
/// most [`MAX_ITEMS`] long. The rank is taken modulo the number of orders.
///
/// ```
/// use loyd::puzzle::cantor::unrank;
/// let mut items = [0; 9];
/// unrank(98884, &mut items);
/// assert_eq!(items.map(|item| item + 1), [3, 5, 7, 4, 1, 2, 9, 6, 8]);
/// ```
pub fn unrank(rank: u32, items: &mut [u8]) {
    // From the right, each place holds its digit; whoever stands to its right
    // and is not smaller moves up by one.
    let mut rest = rank;
    for place in (0..items.len()).rev() {
        let choices = (items.len() - place) as u32;
        let digit = (rest % choices) as u8;
        rest /= choices;
        if let Some((item, right)) = items.get_mut(place..).and_then(<[u8]>::split_first_mut) {
            *item = digit;
            for other in right.iter_mut().filter(|other| **other >= digit) {
                *other += 1;
            }
        }
    }
}
