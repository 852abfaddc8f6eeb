use super::*;

#[test]
fn a_seed_decides_every_number() {
    let mut random = Random::new(1);
    // The first numbers of the published generator.
    assert_eq!([random.next(), random.next()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
    let (mut one, mut other) = (Random::new(2), Random::new(3));
    assert_ne!(one.next(), other.next());
    assert_eq!(one.clone().next(), one.next());
}

#[test]
fn draws_stay_below_their_bounds_and_reach_all_of_them() {
    let mut random = Random::new(7);
    let mut seen = [false; 5];
    for _ in 0..200 {
        seen[random.index(5)] = true;
        assert!(random.below(3) < 3);
        assert!([4, 9].contains(&random.pick(&[4, 9])));
        assert!(!random.percent(0) && random.percent(100) && random.one_in(1));
    }
    assert_eq!(seen, [true; 5]);
    for draw in [|random: &mut Random| random.percent(20), |random: &mut Random| random.one_in(5)] {
        let hits = (0..10_000).filter(|_| draw(&mut random)).count();
        assert!((1_800..2_200).contains(&hits), "{hits} of 10,000 at 20 %");
    }
}
