use super::*;

#[test]
fn times_have_three_decimals_at_most() {
    for (micros, shown) in [(0, "0"), (1, "0.001"), (1_004_638, "1004.638"), (2_675, "2.675"), (5_000, "5")] {
        assert_eq!(millis(Duration::from_micros(micros)).to_string(), shown);
        assert_eq!(millis(Duration::from_nanos(micros * 1_000 + 702)).to_string(), shown);
    }
}
