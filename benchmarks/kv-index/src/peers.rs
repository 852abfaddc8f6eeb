//! The structures of other routers.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::*;
use kv_index::{ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock};

use crate::backend::{Backend, Writer};
use crate::measure::{cpu, cpu_clock, cpu_of};
use crate::workload::Load;

/// Dynamo's indexers, which apply events in a loop of their own.
pub struct Dynamo<T>(pub T);

struct DynamoWriter {
    tasks: flume::Sender<WorkerTask>,
    gate: mpsc::Sender<()>,
    clock: libc::clockid_t,
    thread: Option<JoinHandle<()>>,
}

impl<T: SyncIndexer> Backend for Dynamo<T> {
    fn find(&self, query: &[u64]) -> usize {
        // A content hash is a plain word there.
        let query: &[LocalBlockHash] = unsafe { std::slice::from_raw_parts(query.as_ptr().cast(), query.len()) };
        self.0.find_matches(query, false).scores.len()
    }
    fn scores(&self, query: &[u64]) -> HashMap<u32, u32> {
        let query: Vec<_> = query.iter().map(|&content| LocalBlockHash(content)).collect();
        let matches = self.0.find_matches(&query, false);
        matches.scores.iter().map(|(worker, blocks)| (worker.worker_id as u32, *blocks)).collect()
    }
    fn writer(self: Arc<Self>) -> Box<dyn Writer> {
        let (tasks, inbox) = flume::unbounded();
        let (gate, opened) = mpsc::channel::<()>();
        let (told, clock) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            told.send(cpu_clock()).expect("the starter waits");
            let _ = opened.recv();
            self.0.worker(inbox, None).expect("the loop ends when told");
        });
        let clock = clock.recv().expect("the thread runs");
        Box::new(DynamoWriter { tasks, gate, clock, thread: Some(thread) })
    }
}

impl DynamoWriter {
    /// CPU time of the loop until it has done `tasks`. Before the first call the loop has not begun.
    fn run(&mut self, tasks: impl Iterator<Item = WorkerTask>, done: impl FnOnce()) -> Duration {
        let start = cpu_of(self.clock);
        for task in tasks {
            let _ = self.tasks.send(task);
        }
        let _ = self.gate.send(());
        done();
        cpu_of(self.clock) - start
    }
}

impl Writer for DynamoWriter {
    fn apply(&mut self, events: Vec<RouterEvent>) -> Duration {
        let (flushed, wait) = tokio::sync::oneshot::channel();
        let tasks = events.into_iter().map(WorkerTask::Event).chain([WorkerTask::Flush(flushed)]);
        self.run(tasks, || { let _ = wait.blocking_recv(); })
    }
    fn clear(&mut self, worker: u32) -> Duration {
        let (resp, wait) = tokio::sync::oneshot::channel();
        let task = WorkerTask::RemoveWorker { worker_id: u64::from(worker), sweep_tree: true, resp };
        self.run([task].into_iter(), || { let _ = wait.blocking_recv(); })
    }
}

impl Drop for DynamoWriter {
    fn drop(&mut self) {
        let _ = self.tasks.send(WorkerTask::Terminate);
        let _ = self.gate.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// kv-index's chain index; with a map as result if `map`.
pub struct Chain {
    index: ChainIndex,
    workers: Vec<u32>,
    map: bool,
}

impl Chain {
    pub fn new(load: &Load, map: bool) -> Self {
        let index = ChainIndex::with_max_workers(load.workers as usize);
        let worker = |worker| index.intern_worker(&format!("w{worker}")).expect("there is room for it");
        Self { workers: (0..load.workers).map(worker).collect(), index, map }
    }
}

struct ChainWriter {
    chain: Arc<Chain>,
    maps: Vec<ChainBlockMap>,
}

impl Backend for Chain {
    fn find(&self, query: &[u64]) -> usize {
        if self.map {
            let query: &[ContentHash] = unsafe { std::slice::from_raw_parts(query.as_ptr().cast(), query.len()) };
            return self.index.find_matches(query, false).scores.len();
        }
        let mut found = 0;
        self.index.score_into(query, |content| *content, false, |_, _| found += 1);
        found
    }
    fn scores(&self, query: &[u64]) -> HashMap<u32, u32> {
        let query: Vec<_> = query.iter().map(|&content| ContentHash(content)).collect();
        self.index.find_matches(&query, false).scores.iter().map(|(worker, blocks)| (*worker, *blocks)).collect()
    }
    fn writer(self: Arc<Self>) -> Box<dyn Writer> {
        let maps = self.workers.iter().map(|_| ChainBlockMap::new()).collect();
        Box::new(ChainWriter { chain: self, maps })
    }
}

impl Writer for ChainWriter {
    fn apply(&mut self, events: Vec<RouterEvent>) -> Duration {
        let start = cpu();
        let (mut blocks, mut names) = (Vec::new(), Vec::new());
        for event in events {
            let worker = event.worker_id as usize;
            let (id, map) = (self.chain.workers[worker], &mut self.maps[worker]);
            match event.event.data {
                KvCacheEventData::Stored(stored) => {
                    blocks.clear();
                    blocks.extend(stored.blocks.iter().map(|block| StoredBlock {
                        seq_hash: SequenceHash(block.block_hash.0),
                        content_hash: ContentHash(block.tokens_hash.0),
                    }));
                    let parent = stored.parent_hash.map(|parent| SequenceHash(parent.0));
                    self.chain.index.apply_stored(id, &blocks, parent, map).expect("the parent is known");
                }
                KvCacheEventData::Removed(removed) => {
                    names.clear();
                    names.extend(removed.block_hashes.iter().map(|hash| SequenceHash(hash.0)));
                    self.chain.index.apply_removed(id, &names, map);
                }
                KvCacheEventData::Cleared => self.chain.index.apply_cleared(id, map),
            }
        }
        cpu() - start
    }
    fn clear(&mut self, worker: u32) -> Duration {
        let start = cpu();
        self.chain.index.apply_cleared(self.chain.workers[worker as usize], &mut self.maps[worker as usize]);
        cpu() - start
    }
}

/// smg's radix tree, for one thread.
pub struct Smg {
    tree: Mutex<Tree>,
    holders: Vec<radix_tree::HolderId>,
}

struct Tree {
    tree: radix_tree::RadixTree,
    scratch: radix_tree::OverlapScratch,
    found: Vec<radix_tree::Overlap>,
}

impl Smg {
    pub fn new(load: &Load) -> Self {
        let mut tree = radix_tree::RadixTree::new(radix_tree::Config::default());
        let holders = (0..load.workers).map(|worker| tree.create_holder(&format!("w{worker}"))).collect();
        Self { tree: Mutex::new(Tree { tree, scratch: Default::default(), found: vec![] }), holders }
    }
}

impl Backend for Smg {
    fn find(&self, query: &[u64]) -> usize {
        let mut guard = self.tree.lock().expect("no panic before");
        let Tree { tree, scratch, found } = &mut *guard;
        tree.overlap(query, scratch, found);
        found.len()
    }
    fn scores(&self, query: &[u64]) -> HashMap<u32, u32> {
        self.find(query);
        let tree = self.tree.lock().expect("no panic before");
        tree.found.iter().map(|found| (found.holder.parts().0, found.depth)).collect()
    }
    fn writer(self: Arc<Self>) -> Box<dyn Writer> {
        Box::new(SmgWriter(self))
    }
    fn shared(&self) -> bool {
        false
    }
}

struct SmgWriter(Arc<Smg>);

impl Writer for SmgWriter {
    fn apply(&mut self, events: Vec<RouterEvent>) -> Duration {
        let start = cpu();
        let tree = &mut self.0.tree.lock().expect("no panic before").tree;
        let (mut blocks, mut names) = (Vec::new(), Vec::new());
        for event in events {
            let holder = self.0.holders[event.worker_id as usize];
            match event.event.data {
                KvCacheEventData::Stored(stored) => {
                    blocks.clear();
                    blocks.extend(stored.blocks.iter().map(|block| (block.block_hash.0, block.tokens_hash.0)));
                    tree.store(holder, stored.parent_hash.map(|parent| parent.0), &blocks).expect("the parent is known");
                }
                KvCacheEventData::Removed(removed) => {
                    names.clear();
                    names.extend(removed.block_hashes.iter().map(|hash| hash.0));
                    tree.remove(holder, &names);
                }
                KvCacheEventData::Cleared => { tree.clear(holder); }
            }
        }
        cpu() - start
    }
    fn clear(&mut self, worker: u32) -> Duration {
        let start = cpu();
        self.0.tree.lock().expect("no panic before").tree.clear(self.0.holders[worker as usize]);
        cpu() - start
    }
}
