use super::*;

#[test]
fn a_seed_gives_the_published_words_of_splitmix64() {
    let mut random = Random::new(0);
    let words: Vec<u64> = (0..4).map(|_| random.word()).collect();
    let published =
        [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f, 0xf88b_b8a8_724c_81ec];
    assert_eq!(words, published);
}

#[test]
fn a_number_below_a_bound_is_the_words_share_of_it() {
    let mut random = Random::new(0);
    assert_eq!([1_000; 5].map(|bound| random.below(bound)), [883, 431, 26, 970, 106]);
    assert_eq!([1, 0].map(|bound| random.below(bound)), [0, 0]);
}

#[test]
fn a_unit_is_the_words_share_of_one() {
    let mut random = Random::new(0);
    for expected in [0.883_310, 0.431_527, 0.026_433, 0.970_881, 0.106_346] {
        let unit = random.unit();
        assert!((expected..expected + 1e-6).contains(&unit), "{unit} instead of {expected}");
    }
}
