//! What holds for any start, any goal and any text.

use loyd::puzzle::{Board, Problem, Shape, cantor, text};
use loyd::search::{Heuristic, Method, Outcome, SearchOptions, Workspace};
use proptest::prelude::*;

use crate::common::{a_star, board, method, run, solved};

/// Any two boards of any one shape.
fn problems() -> impl Strategy<Value = Problem> {
    (0..Shape::ALL.len(), any::<u32>(), any::<u32>()).prop_map(|(shape, start, goal)| {
        let shape = Shape::ALL[shape];
        let states = cantor::factorial(shape.cells());
        Problem::new(board(shape, start % states), board(shape, goal % states)).unwrap()
    })
}

fn heuristics() -> impl Strategy<Value = Heuristic> {
    prop_oneof![
        Just(Heuristic::Manhattan),
        Just(Heuristic::MisplacedTiles),
        Just(Heuristic::LinearConflict),
    ]
}

fn boards() -> impl Strategy<Value = Board> {
    problems().prop_map(|problem| *problem.start())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_methods_agree(
        problem in problems(),
        heuristic in heuristics(),
        weight in 1.0..50.0_f64,
    ) {
        let mut workspace = Workspace::new();
        let mut moves = String::new();
        let greedy = SearchOptions { heuristic, ..method(Method::GreedyBestFirst) };
        let weighted = a_star(heuristic, weight);
        let optimal = [
            method(Method::BidirectionalBfs),
            method(Method::GoalTable),
            method(Method::Bfs),
            a_star(heuristic, 1.0),
        ];
        if !problem.is_solvable() {
            for options in optimal.iter().chain([&greedy, &weighted]) {
                let solution = run(&mut workspace, &problem, options, &mut moves);
                prop_assert_eq!(solution.outcome, Outcome::Unsolvable);
                prop_assert_eq!((solution.expanded, solution.generated), (0, 0));
            }
            return Ok(());
        }
        let (least, _) = solved(&mut workspace, &problem, &optimal[0], &mut moves);
        for options in &optimal {
            let answer = solved(&mut workspace, &problem, options, &mut moves);
            prop_assert_eq!(answer, (least, true), "{:?}", options);
        }
        for options in [&greedy, &weighted] {
            let (length, is_optimal) = solved(&mut workspace, &problem, options, &mut moves);
            prop_assert!(length >= least);
            prop_assert!(!is_optimal || length == least, "{:?}", options);
            if options == &weighted {
                prop_assert!(f64::from(length) <= weight * f64::from(least));
            }
        }
    }

    #[test]
    fn there_and_back_are_equally_long(problem in problems()) {
        let back = Problem::new(*problem.goal(), *problem.start()).unwrap();
        prop_assert_eq!(problem.is_solvable(), back.is_solvable());
        if problem.is_solvable() {
            let mut workspace = Workspace::new();
            let mut moves = String::new();
            let options = method(Method::GoalTable);
            let there = solved(&mut workspace, &problem, &options, &mut moves);
            prop_assert_eq!(solved(&mut workspace, &back, &options, &mut moves), there);
        }
    }

    #[test]
    fn a_board_is_read_as_it_was_written(board in boards(), blank in "[x0X_.]", gap in "[ ,\t]+") {
        prop_assert_eq!(text::parse(&board.to_string(), None), Ok(board));
        let columns = Some(board.shape().columns());
        let cells: Vec<String> = board
            .tiles()
            .iter()
            .map(|tile| if *tile == 0 { blank.clone() } else { tile.to_string() })
            .collect();
        prop_assert_eq!(text::parse(&cells.join(&gap), columns), Ok(board));
        prop_assert_eq!(text::parse(&cells.concat(), columns), Ok(board));
        prop_assert_eq!(text::parse(&format!("\r\n{}{gap}\r\n", cells.join(&gap)), columns), Ok(board));
    }

    #[test]
    fn no_text_is_too_much(text in any::<String>(), columns in proptest::option::of(0..12_usize)) {
        if let Ok(board) = text::parse(&text, columns) {
            prop_assert_eq!(text::parse(&board.to_string(), None), Ok(board));
        }
    }

    #[test]
    fn texts_of_cells_are_read_or_refused(text in "[0-9x_./ ,]{0,24}", columns in 0..5_usize) {
        for columns in [None, Some(columns)] {
            if let Ok(board) = text::parse(&text, columns) {
                prop_assert_eq!(text::parse(&board.to_string(), None), Ok(board));
            }
        }
    }

    #[test]
    fn bytes_and_numbers_are_the_same_board(shape in 0..Shape::ALL.len(), tiles in proptest::collection::vec(0..10_u8, 0..11)) {
        let shape = Shape::ALL[shape];
        let wide: Vec<u32> = tiles.iter().map(|&tile| tile.into()).collect();
        let (rows, columns) = (shape.rows() as u32, shape.columns() as u32);
        prop_assert_eq!(Board::from_bytes(shape, &tiles), Board::new(&wide, rows, columns));
    }
}
