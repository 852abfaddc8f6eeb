use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Budget, Copies, Full};

proptest! {
    /// Against a map. Chain hashes share their upper bits, so that many want one slot.
    #[test]
    fn counts_are_those_of_a_map(moves in prop::collection::vec((0u64..60, 0u8..5), 0..400)) {
        let (mut copies, mut expected) = (Copies::default(), BTreeMap::<u64, u32>::new());
        let mut budget = Budget::new(1 << 20);
        for (chain, what) in moves {
            match what {
                0..=1 => {
                    copies.add(chain, &mut budget).unwrap();
                    *expected.entry(chain).or_default() += 1;
                }
                2..=3 => {
                    let had = expected.contains_key(&chain);
                    prop_assert_eq!(copies.take(chain, &mut budget), had);
                    if had {
                        *expected.get_mut(&chain).unwrap() -= 1;
                        expected.retain(|_, further| *further > 0);
                    }
                }
                _ => {
                    copies.forget(chain, &mut budget);
                    expected.remove(&chain);
                }
            }
            let mut chains: Vec<u64> = copies.chains().collect();
            chains.sort_unstable();
            prop_assert_eq!(chains, expected.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(copies.is_empty(), expected.is_empty());
            prop_assert_eq!(budget.bytes() == 0, expected.is_empty());
        }
    }
}

#[test]
fn what_does_not_fit_is_not_counted() {
    let (mut copies, mut budget) = (Copies::default(), Budget::new(600));
    let added = (0..100).take_while(|&chain| copies.add(chain, &mut budget).is_ok()).count();
    assert_eq!(added, 12, "three quarters of 16 slots of 16 bytes; 32 slots more do not fit beside them");
    assert_eq!(copies.add(100, &mut budget), Err(Full));
    assert_eq!(copies.add(0, &mut budget), Ok(()), "a known one needs no room");
}
