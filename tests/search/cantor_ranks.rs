//! Cantor ranks are a bijection, and those of the literature.

use loyd::puzzle::cantor::{MAX_ITEMS, factorial, rank, unrank};

#[test]
fn known_ranks() {
    for (items, expected) in [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 0),
        ([1, 2, 3, 4, 5, 6, 7, 9, 8], 1),
        ([3, 5, 7, 4, 1, 2, 9, 6, 8], 98_884),
        ([5, 6, 7, 8, 1, 2, 3, 4, 9], 184_800),
        ([9, 8, 7, 6, 5, 4, 3, 2, 1], 362_879),
    ] {
        assert_eq!(rank(&items), expected, "{items:?}");
    }
}

#[test]
fn every_rank_is_that_of_one_order() {
    let mut before = Vec::new();
    for number in 0..factorial(9) {
        let mut items = [0; 9];
        unrank(number, &mut items);
        assert_eq!(rank(&items), number);
        // Lexicographic order: so no two are the same.
        assert!(before.as_slice() < items.as_slice());
        before = items.to_vec();
    }
}

#[test]
fn ranks_fit_up_to_the_most_items() {
    assert_eq!(factorial(0), 1);
    assert_eq!(factorial(MAX_ITEMS), 479_001_600);
    let mut items = [0; MAX_ITEMS];
    unrank(factorial(MAX_ITEMS) - 1, &mut items);
    assert!(items.is_sorted_by(|a, b| a > b));
    assert_eq!(rank(&items), factorial(MAX_ITEMS) - 1);
}
