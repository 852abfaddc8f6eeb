use super::*;

fn package(name: &str) -> Crate {
    Crate {
        name: name.to_owned(),
        folder: format!("crates/{name}"),
        layer: None,
        dependencies: Vec::new(),
        manifest: String::new(),
    }
}

/// A crate whose mutants `0`, `1`, … have these outcomes, and a share of it.
#[track_caller]
fn with_outcomes(share: usize, outcomes: &[Option<Outcome>], check: impl FnOnce(&Stratum<'_>, &Record)) {
    let folder = tempfile::tempdir().unwrap();
    let package = package("a");
    let mut record = Record::open(&folder.path().join("record.tsv")).unwrap();
    let drawn: Vec<String> = (0..outcomes.len()).map(|name| name.to_string()).collect();
    for (name, outcome) in drawn.iter().zip(outcomes) {
        if let Some(outcome) = outcome {
            record.set("a", name, *outcome).unwrap();
        }
    }
    check(&Stratum { package: &package, drawn, share }, &record);
}

#[test]
fn a_mutant_that_does_not_compile_is_replaced_by_the_next_one() {
    let outcomes = [Some(Outcome::Caught), Some(Outcome::Unviable), Some(Outcome::Missed), None, None];
    with_outcomes(3, &outcomes, |stratum, record| {
        assert_eq!(stratum.sample(record), ["0", "2", "3"]);
        assert_eq!((stratum.caught(record), stratum.tested(record)), (1, 2));
    });
}

#[test]
fn an_outcome_counts_when_it_is_final() {
    let outcomes = [
        Some(Outcome::Caught),
        Some(Outcome::CaughtAbove),
        Some(Outcome::Hung),
        Some(Outcome::TimedOut),
        Some(Outcome::MissedByOwn),
        Some(Outcome::Missed),
    ];
    with_outcomes(10, &outcomes, |stratum, record| {
        assert_eq!((stratum.caught(record), stratum.tested(record)), (3, 4));
    });
}

#[track_caller]
fn check_verdict(outcomes: &[Option<Outcome>], at_least: u64, expected: Verdict) {
    with_outcomes(outcomes.len(), outcomes, |stratum, record| {
        let strata =
            [Stratum { package: stratum.package, drawn: stratum.drawn.clone(), share: stratum.share }];
        assert_eq!(verdict(&strata, record, at_least), expected, "{outcomes:?}");
    });
}

#[test]
fn a_sample_holds_when_it_is_whole_and_enough_is_caught() {
    let (caught, missed) = (Some(Outcome::Caught), Some(Outcome::Missed));
    check_verdict(&[caught, caught, caught, missed], 75, Verdict::Holds);
    check_verdict(&[caught, caught, caught, missed], 76, Verdict::Broken);
    check_verdict(&[caught, caught, caught, None], 75, Verdict::Partial);
    check_verdict(&[caught, missed, None, None], 75, Verdict::Broken);
}

#[test]
fn a_sample_of_which_nothing_was_tested_does_not_hold() {
    check_verdict(&[], 95, Verdict::Partial);
    check_verdict(&[], 0, Verdict::Partial);
    check_verdict(&[None, None], 95, Verdict::Partial);
    with_outcomes(0, &[], |_, record| {
        assert!(report(&[], record).ends_with("mutants: 0 of 0 caught, nothing was tested\n"));
    });
}

#[test]
fn the_report_names_every_survivor() {
    let outcomes = [Some(Outcome::Caught), Some(Outcome::Missed), Some(Outcome::Unviable), None];
    let expected = "\
| crate | mutants | sample | unviable | caught | caught above | hung | missed | not tested |
| ----- | ------- | ------ | -------- | ------ | ------------ | ---- | ------ | ---------- |
| a     | 4       | 3      | 1        | 1      | 0            | 0    | 1      | 1          |
missed: 1
mutants: 1 of 2 caught, 50.0 %
";
    with_outcomes(4, &outcomes, |stratum, record| {
        let strata =
            [Stratum { package: stratum.package, drawn: stratum.drawn.clone(), share: stratum.share }];
        assert_eq!(report(&strata, record), expected);
    });
}
