use super::*;
use crate::cost::Weights;
use crate::slots::{Group, SlotSpec, Slots};
use tito_types::WorkerId;

const IDLE: Duration = Duration::from_secs(3600);

fn slots() -> [Slot; 2] {
    let mut slots = Slots::new(Weights::STANDARD.to_milli());
    [0, 1].map(|rank| {
        slots.add(SlotSpec {
            worker: WorkerId::new("w"),
            rank,
            group: Group(0),
            capacity_tokens: 0,
            running_max: 0,
            continuations_max: u32::MAX,
        })
    })
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_session_is_remembered_until_it_was_idle_for_an_hour() {
    let [a, b] = slots();
    let mut affinity = Affinity::new(10, IDLE);
    affinity.put(1, a, 100, secs(0));
    assert_eq!(affinity.get(1, secs(3599)), Some((a, 100)));
    affinity.put(1, b, 200, secs(3599));
    assert_eq!(affinity.get(1, secs(7198)), Some((b, 200)));
    assert_eq!(affinity.get(1, secs(7199)), None);
    affinity.put(2, a, 1, secs(7199));
    assert_eq!(affinity.len(), 1);
}

#[test]
fn the_session_idle_the_longest_makes_room() {
    let [a, _] = slots();
    let mut affinity = Affinity::new(3, IDLE);
    for key in 1..=3 {
        affinity.put(key, a, 0, secs(key));
    }
    affinity.put(1, a, 0, secs(4));
    affinity.put(4, a, 0, secs(5));
    let known: Vec<u64> = (1..=4).filter(|&key| affinity.get(key, secs(5)).is_some()).collect();
    assert_eq!(known, [1, 3, 4]);
    for key in 0..1000 {
        affinity.put(key, a, 0, secs(6));
    }
    assert_eq!((affinity.len(), affinity.sessions.len()), (3, 3));
}

#[test]
fn a_map_of_no_sessions_remembers_none() {
    let [a, _] = slots();
    let mut affinity = Affinity::new(0, IDLE);
    affinity.put(1, a, 0, secs(0));
    assert_eq!(affinity.get(1, secs(0)), None);
}
