use super::*;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|line| format!("crates/a/src/lib.rs:{line}:9: replace + with -")).collect()
}

fn drawn(seed: u64, count: usize) -> Vec<String> {
    let mut names = names(count);
    draw(seed, &mut names);
    names
}

#[test]
fn a_seed_draws_the_same_order_again_and_another_seed_another_one() {
    assert_eq!(drawn(1, 100), drawn(1, 100));
    assert_ne!(drawn(1, 100), drawn(2, 100));
    assert_ne!(drawn(1, 100), names(100));
}

#[test]
fn a_mutant_keeps_its_place_when_others_go() {
    let mut fewer = drawn(7, 100);
    fewer.retain(|name| !name.contains("3:9"));
    let mut expected = fewer.clone();
    expected.sort();
    draw(7, &mut expected);
    assert_eq!(fewer, expected);
}

#[test]
fn early_and_late_lines_are_drawn_alike() {
    let first = drawn(3, 1_000).into_iter().take(500);
    let early = first.filter(|name| names(500).contains(name)).count();
    assert!((200..=300).contains(&early), "{early} of 500 are from the first half");
}

#[track_caller]
fn check(sample: usize, available: &[usize], shares_are: &[usize]) {
    assert_eq!(shares(sample, available), shares_are);
}

#[test]
fn shares_are_equal_up_to_what_a_crate_has() {
    check(300, &[36, 524, 252, 266, 782, 2381], &[36, 53, 53, 53, 53, 52]);
    check(10, &[100, 0, 100], &[5, 0, 5]);
    check(10, &[3, 2], &[3, 2]);
    check(0, &[3], &[0]);
    check(5, &[], &[]);
}
