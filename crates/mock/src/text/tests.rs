use super::{Detokenizer, HELD_BYTES_MAX, StopStrings, append_id, tokenize};
use crate::config::MockConfig;

/// What each id adds to the text, then what the end adds.
fn deltas(ids: &[u32], skip_special: bool) -> Vec<String> {
    deltas_after(&[], ids, skip_special)
}

/// The same behind a prompt.
fn deltas_after(prompt: &[u32], ids: &[u32], skip_special: bool) -> Vec<String> {
    let vocabulary = MockConfig::new().vocabulary;
    let mut detokenizer = Detokenizer::after(&vocabulary, prompt, skip_special);
    let mut deltas = vec![String::new(); ids.len() + 1];
    for (&id, text) in ids.iter().zip(&mut deltas) {
        detokenizer.push(&vocabulary, id, text);
    }
    detokenizer.finish(&mut deltas[ids.len()]);
    deltas
}

#[test]
fn halves_of_characters_wait_for_the_rest() {
    assert_eq!(deltas(&[65, 0xc3, 0xa9, 66], true), ["A", "", "é", "B", ""]);
    assert_eq!(deltas(&[255, 254, 0xc3, 0xa9], true), ["", "", "", "��é", ""]);
    assert_eq!(deltas(&[0xf0, 0x9f, 0x98, 0x80], true), ["", "", "", "😀", ""]);
    assert_eq!(deltas(&[65, 0xc3], true), ["A", "", "�"]);
    assert_eq!(deltas(&[0xc3, 1001, 0xa9], true), ["", "", "é", ""], "a skipped id does not part them");
}

#[test]
fn a_prompt_that_ends_inside_a_character_comes_out_with_the_output() {
    assert_eq!(deltas_after(&[65, 66, 200], &[67, 68], true), ["AB\u{fffd}C", "D", ""]);
    assert_eq!(deltas_after(&[65, 0xc3], &[0xa9, 66], true), ["Aé", "B", ""]);
    assert_eq!(deltas_after(&[65, 0xc3, 1001], &[0xa9], true), ["Aé", ""], "a skipped id ends nothing");
    assert_eq!(deltas_after(&[65, 0xc3, 1001], &[66], false), ["B", ""], "a shown one does");
    for whole in [&[65, 200, 66][..], &[0xc3, 0xa9], &[0xf0, 0x9f, 0x98, 0x80], &[300], &[1015]] {
        assert_eq!(deltas_after(whole, &[67], true), ["C", ""], "{whole:?}");
    }
    let long = [vec![65; 100], vec![0xf0]].concat();
    let split = deltas_after(&long, &[0x9f, 0x98, 0x80], true);
    assert_eq!(split[..2], ["", ""], "the prompt does not count as held");
}

#[test]
fn what_waits_is_bounded() {
    let ids = vec![255; HELD_BYTES_MAX + 2];
    let deltas = deltas(&ids, true);
    assert_eq!(deltas[HELD_BYTES_MAX].chars().count(), HELD_BYTES_MAX + 1);
}

#[test]
fn special_ids_have_a_name_and_padding_has_none() {
    assert_eq!(deltas(&[1002, 1015], false), ["<|1002|>", "", ""]);
    assert_eq!(deltas(&[1002, 1015], true), ["", "", ""]);
}

#[test]
fn every_ordinary_id_has_text_of_its_own() {
    let vocabulary = MockConfig::new().vocabulary;
    let mut seen = std::collections::BTreeSet::new();
    for id in 0..vocabulary.special_from {
        let mut bytes = Vec::new();
        append_id(&vocabulary, id, &mut bytes);
        assert!(!bytes.is_empty());
        assert!(seen.insert(bytes), "{id}");
    }
}

#[test]
fn a_text_survives_the_way_through_ids() {
    let text = "a é 😀\0";
    let ids = tokenize(text);
    assert_eq!(deltas(&ids, true).concat(), text);
}

#[test]
fn the_stop_string_that_is_complete_first_wins_then_the_first_in_the_list() {
    let check = |stops: &[&str], text: &str, seen, expected: Option<(usize, usize)>| {
        let stops = StopStrings::new(stops.iter().map(|&stop| stop.to_owned()).collect(), false);
        let found = stops.find(text, seen).map(|hit| (hit.index, hit.text_end));
        assert_eq!(found, expected, "{stops:?} in {text}");
    };
    check(&["CDE", "D", "BC"], "ABCDE", 0, Some((2, 1)));
    check(&["CD", "BCD", "D"], "ABCD", 3, Some((0, 2)));
    check(&["CC"], "CCC", 2, Some((0, 1)));
    check(&["B"], "AB", 2, None);
    check(&["é"], "aéé", 3, Some((0, 3)));
    check(&["ab", "b"], "xéab", 3, Some((0, 3)));
    check(&[], "A", 0, None);
}

#[test]
fn text_that_could_become_a_stop_string_is_held_back() {
    let held = |stops: &[&str], include, text: &str| {
        StopStrings::new(stops.iter().map(|&stop| stop.to_owned()).collect(), include).held_back(text)
    };
    assert_eq!(held(&["X"], false, "abc"), 0);
    assert_eq!(held(&["XYZ", "X"], false, "abc"), 2);
    assert_eq!(held(&["XYZ"], false, "é"), 2);
    assert_eq!(held(&["XYZ"], true, "abc"), 0, "nothing is cut when the string is included");
}
