//! Random sizes, starts and goals.

use loyd::puzzle::{Board, Problem, Shape, cantor, text};
use loyd::search::{Heuristic, Method, Outcome, Workspace};
use proptest::prelude::*;

use crate::common::{a_star, board, method, run, solved};

fn pairs() -> impl Strategy<Value = (Board, Board)> {
    proptest::sample::select(Shape::ALL.to_vec()).prop_flat_map(|shape| {
        let ranks = 0..cantor::factorial(shape.cells());
        (ranks.clone(), ranks)
            .prop_map(move |(start, goal)| (board(shape, start), board(shape, goal)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn all_methods_agree((start, goal) in pairs()) {
        let problem = Problem::new(start, goal).unwrap();
        let mut workspace = Workspace::new();
        let mut moves = String::new();
        let optimal = [
            method(Method::GoalTable),
            method(Method::Bfs),
            a_star(Heuristic::Manhattan, 1.0),
            a_star(Heuristic::MisplacedTiles, 1.0),
            a_star(Heuristic::LinearConflict, 1.0),
        ];
        let any = [method(Method::GreedyBestFirst), a_star(Heuristic::Manhattan, 1.7)];
        let default = method(Method::BidirectionalBfs);
        if problem.is_solvable() {
            let (least, _) = solved(&mut workspace, &problem, &default, &mut moves);
            for options in optimal {
                let answer = solved(&mut workspace, &problem, &options, &mut moves);
                prop_assert_eq!(answer, (least, true), "{:?}", options);
            }
            for options in any {
                let (length, _) = solved(&mut workspace, &problem, &options, &mut moves);
                prop_assert!(length >= least);
            }
        } else {
            for options in optimal.into_iter().chain(any).chain([default]) {
                let solution = run(&mut workspace, &problem, &options, &mut moves);
                prop_assert_eq!(solution.outcome, Outcome::Unsolvable);
            }
        }
    }

    #[test]
    fn there_and_back_are_equally_long((start, goal) in pairs()) {
        let there = Problem::new(start, goal).unwrap();
        let back = Problem::new(goal, start).unwrap();
        prop_assert_eq!(there.is_solvable(), back.is_solvable());
        if there.is_solvable() {
            let mut workspace = Workspace::new();
            let options = method(Method::GoalTable);
            let mut moves = String::new();
            let (length, _) = solved(&mut workspace, &there, &options, &mut moves);
            prop_assert_eq!(solved(&mut workspace, &back, &options, &mut moves).0, length);
        }
    }

    #[test]
    fn text_is_read_back((board, _) in pairs()) {
        prop_assert_eq!(text::parse(&board.to_string(), None), Ok(board));
        let columns = Some(board.shape().columns());
        let flat = board.to_string().replace(" / ", ",");
        prop_assert_eq!(text::parse(&flat, columns), Ok(board));
    }

    #[test]
    fn no_text_is_too_much_for_the_parser(text in "[0-9xX_./, a-z]{0,80}") {
        if let Ok(board) = text::parse(&text, None) {
            prop_assert_eq!(text::parse(&board.to_string(), None), Ok(board));
        }
    }
}
