use proptest::prelude::*;

use super::*;

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let json = serde_json::to_string(text).unwrap();
    let read = read(&json, &mut Budget::new("kwargs_data"), || "p".to_owned());
    read.map(|payload| payload.to_vec()).map_err(|refusal| refusal.to_string())
}

#[test]
fn base64_is_the_standard_alphabet_with_padding() {
    for (text, expected) in [("AAE=", &[0, 1][..]), ("AA==", &[0]), ("/+8B", &[255, 239, 1])] {
        assert_eq!(decode(text).as_deref(), Ok(expected), "{text}");
    }
    let said = "p: must be base64 of the standard alphabet, padded";
    for text in [
        "!!", "A", "AA", "AAE", "AAE=\n", "AA E=", "_-8B", "AAF=", "====", "A===", "AA=A", "AAE==", "é===",
        "AAEC====",
    ] {
        assert_eq!(decode(text), Err(said.to_owned()), "{text}");
    }
    for text in ["", "="] {
        assert!(decode(text).is_err(), "{text:?}");
    }
}

#[test]
fn escapes_of_json_are_understood() {
    let budget = &mut Budget::new("kwargs_data");
    assert_eq!(read(r#""\/+8B""#, budget, String::new).as_deref(), Ok(&[255, 239, 1][..]));
    let refusal = read("7", budget, || "p".to_owned()).unwrap_err();
    assert_eq!(refusal.to_string(), "p: must be a string, got 7");
}

#[test]
fn all_payloads_together_are_bounded_before_they_take_memory() {
    let mut budget = Budget::new("kwargs_data");
    budget.take(PAYLOADS_BYTES_MAX - 3).unwrap();
    let mut read = |json: &str| read(json, &mut budget, || "p".to_owned());
    assert!(read("\"AAAAAA==\"").is_err());
    assert!(read("\"AAAA\"").is_ok());
    let refusal = read("\"AA==\"").unwrap_err();
    assert_eq!(refusal.to_string(), "features.kwargs_data: must hold at most 16777216 bytes in all");
}

proptest! {
    #[test]
    fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
        prop_assert_eq!(decode(&STANDARD.encode(&bytes)), Ok(bytes));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = decode(&text);
    }
}
