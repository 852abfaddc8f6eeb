use proptest::prelude::*;

use super::push_decimal;

proptest! {
    #[test]
    fn numbers_are_written_as_usual(number in prop_oneof![any::<u32>(), 0_u32..1000, Just(u32::MAX)]) {
        let mut text = b",".to_vec();
        push_decimal(&mut text, number);
        prop_assert_eq!(text, format!(",{number}").into_bytes());
    }
}
