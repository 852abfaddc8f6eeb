//! Requests whose model is an adapter: who may take them, and what of them is held.

use tito_types::Adapter;

use super::blocks::{goes, store};
use super::*;

fn asked(model: &str, tokens: &[u32]) -> GenerateRequest {
    GenerateRequest { model: model.into(), prompt: tokens.into(), ..request(Delivery::Deltas) }
}

impl Bench {
    /// Workers have these adapters from now on, by number of the load.
    fn adapters(&self, of_workers: &[&[(&str, u64)]]) {
        let was = Arc::clone(&self.sender.borrow());
        let workers = was.workers.iter().zip(of_workers).map(|(worker, adapters)| {
            for ((name, id), target) in
                adapters.iter().flat_map(|a| worker.targets.iter().map(move |t| (a, t)))
            {
                target.adapter_loaded(&self.blocks, name, *id);
            }
            let adapter =
                |&(name, id): &(&str, u64)| Adapter { name: name.into(), id, source: format!("org/{id}") };
            let adapters = adapters.iter().map(adapter).collect();
            Arc::new(Worker { adapters, ..Worker::clone(worker) })
        });
        self.sender.send_replace(Arc::new(Snapshot { workers: workers.collect() }));
    }

    fn candidates(&self, model: &str) -> Vec<String> {
        let report = self.route.explain(&asked(model, &[1]));
        let mut names: Vec<_> =
            report.candidates.iter().map(|candidate| candidate.worker.to_string()).collect();
        names.sort();
        names
    }

    /// Under how many namespaces a prompt is looked up.
    fn lookups(&self, model: &str) -> usize {
        let wish = self.route.shared.wish(&asked(model, &[1]), &mut Chains::default());
        wish.view.namespaces(&wish.groups, model).len()
    }
}

#[tokio::test]
async fn only_workers_that_have_the_adapter_take_its_requests() {
    let bench = Bench::new(&[hanging(), hanging(), hanging()]);
    bench.adapters(&[&[], &[("ad", 1)], &[("ad", 4), ("other", 2)]]);
    assert_eq!(bench.candidates("m"), ["a", "b", "c"]);
    assert_eq!(bench.candidates("ad"), ["b", "c"]);
    assert_eq!(bench.candidates("other"), ["c"]);
    assert_eq!(bench.candidates("unknown"), [""; 0]);
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(bench.route.generate(asked("ad", &[1])).await.expect("accepted"));
    }
    assert_eq!(bench.in_flight(), [0, 2, 2]);
    bench.adapters(&[&[], &[], &[]]);
    let Err(refused) = bench.route.generate(asked("ad", &[1])).await else { panic!("nobody has it") };
    assert_eq!(refused.to_string(), "no worker: none is ready for ad");
    assert_eq!(bench.in_flight(), [0, 2, 2], "what is in flight stays booked when the names change");
    drop(streams);
    assert_eq!(bench.in_flight(), [0, 0, 0]);
}

#[test]
fn a_model_and_its_adapter_share_nothing_and_a_reload_is_cold_where_it_happened() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    bench.adapters(&[&[("ad", 1)], &[("ad", 1)]]);
    let prompt: Vec<u32> = (1..=14).collect();
    let (model, adapter) = (asked("m", &prompt), asked("ad", &prompt));
    store(&bench, &bench.target(1, 0), &prompt, Vec::new(), None);
    assert_eq!(goes(&bench, &model), ("b".into(), 12));
    assert_eq!(goes(&bench, &adapter), ("a".into(), 0));
    for worker in [0, 1] {
        bench.store_of(worker, "ad", &prompt[..4 * (worker + 1)]);
    }
    assert_eq!(goes(&bench, &adapter), ("b".into(), 8));
    assert_eq!(bench.lookups("ad"), 1);
    bench.adapters(&[&[("ad", 1)], &[("ad", 2)]]);
    assert_eq!(goes(&bench, &adapter), ("a".into(), 4), "reloaded on b alone");
    assert_eq!(bench.lookups("ad"), 2, "one per generation");
    bench.store_of(1, "ad", &prompt);
    assert_eq!(goes(&bench, &adapter), ("b".into(), 12));
    bench.adapters(&[&[("ad", 7)], &[("ad", 2)]]);
    assert_eq!(goes(&bench, &adapter), ("b".into(), 12), "now on a as well");
    assert_eq!((bench.lookups("ad"), bench.lookups("m")), (1, 1), "and they agree again");
    assert_eq!(goes(&bench, &model), ("b".into(), 12));
}

#[test]
fn a_name_that_is_a_model_here_and_an_adapter_there_is_looked_up_as_either() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let was = Arc::clone(&bench.sender.borrow());
    let mut other = info(1);
    other.identity.model.names = vec!["k".into()];
    let adapter = Adapter { name: "m".into(), id: 1, source: "s".into() };
    let second =
        Worker { info: Some(Arc::new(other)), adapters: [adapter].into(), ..Worker::clone(&was.workers[1]) };
    let workers = vec![Arc::clone(&was.workers[0]), Arc::new(second)];
    bench.sender.send_replace(Arc::new(Snapshot { workers }));
    let prompt: Vec<u32> = (1..=14).collect();
    bench.store_of(1, "m", &prompt[..8]);
    assert_eq!(goes(&bench, &asked("m", &prompt)), ("b".into(), 8));
    store(&bench, &bench.target(0, 0), &prompt, Vec::new(), None);
    assert_eq!(goes(&bench, &asked("m", &prompt)), ("a".into(), 12));
}

#[test]
fn a_refusal_by_a_view_that_is_not_the_latest_is_looked_at_again() {
    let bench = Bench::new(&[answering(1)]);
    let shared = &bench.route.shared;
    let asked = asked("m", &[1]);
    let chosen = |wish: &Wish| {
        let mut waiting = Waiting::new(shared, Line::new("m", &Pin::default(), &[]));
        match shared.choose(wish, &[], &mut waiting) {
            Chosen::Place(..) => "a place",
            Chosen::Wait => "look again",
            Chosen::Refused(_) => "refused",
        }
    };
    let early = shared.wish(&asked, &mut Chains::default());
    bench.adapters(&[&[("ad", 1)]]);
    let late = shared.wish(&asked, &mut Chains::default());
    assert_eq!((chosen(&early), chosen(&late)), ("look again", "a place"));
}

#[test]
fn a_prompt_that_is_looked_up_again_is_hashed_again_only_where_its_blocks_are_others_now() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    bench.adapters(&[&[("ad", 1)], &[("ad", 1)]]);
    let (prompt, mut chains) = (asked("ad", &[1; 14]), Chains::default());
    let mut look = || {
        let held = bench.route.shared.wish(&prompt, &mut chains).held;
        held.prefix.expect("three full blocks").chain
    };
    let first = look();
    bench.target(0, 0).apply(&bench.blocks, KvNews::Complete);
    assert!(Arc::ptr_eq(&first, &look()), "the same hashes, not equal ones");
    // Both have loaded it again, so nothing is looked up as it was.
    bench.adapters(&[&[("ad", 2)], &[("ad", 2)]]);
    let second = look();
    assert!(first.iter().zip(&*second).all(|(first, second)| first != second));
    assert!(Arc::ptr_eq(&second, &look()));
    assert_eq!(Arc::strong_count(&first), 1, "what cannot match any more is not kept");
}

#[tokio::test]
async fn a_whole_reply_of_an_adapter_is_watched_where_its_prompt_was_looked_up() {
    let bench = Bench::new(&[hanging(), hanging()]);
    let watched = || bench.route.shared.silent().watched();
    let prompt: Vec<u32> = (1..=8).collect();
    let whole = |worker: &str| GenerateRequest {
        delivery: Delivery::Whole,
        worker: Some(WorkerId::new(worker)),
        ..asked("ad", &prompt)
    };
    bench.adapters(&[&[("ad", 1)], &[("ad", 1)]]);
    let _first = bench.route.generate(whole("a")).await.expect("accepted");
    assert_eq!(watched(), 1);
    // Loads of different number: blocks have other names on b, and those on a are what is looked up first.
    bench.adapters(&[&[("ad", 1)], &[("ad", 2)]]);
    let _second = bench.route.generate(whole("a")).await.expect("accepted");
    let _third = bench.route.generate(whole("b")).await.expect("accepted");
    assert_eq!(watched(), 2);
}
