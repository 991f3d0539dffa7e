//! Cantor expansion.

use loyd::puzzle::cantor::{factorial, rank, unrank};

#[test]
fn known_ranks() {
    assert_eq!(rank(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0);
    assert_eq!(rank(&[1, 2, 3, 4, 5, 6, 7, 9, 8]), 1);
    assert_eq!(rank(&[3, 5, 7, 4, 1, 2, 9, 6, 8]), 98_884);
    assert_eq!(rank(&[5, 6, 7, 8, 1, 2, 3, 4, 9]), 184_800);
}

/// All 9! orders come up, in lexicographic order, and have the rank that they
/// come up at.
#[test]
fn ranks_count_the_orders_without_a_gap() {
    let mut before = [0; 9];
    for expected in 0..factorial(9) {
        let mut items = [0; 9];
        unrank(expected, &mut items);
        assert_eq!(rank(&items), expected);
        assert!(
            expected == 0 || items > before,
            "{items:?} after {before:?}"
        );
        before = items;
    }
    assert_eq!(before, [8, 7, 6, 5, 4, 3, 2, 1, 0]);
}
