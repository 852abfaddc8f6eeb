//! The least of many keys, kept in order as they change: a binary tree whose every node is the lesser of its children.

/// What a slot is ordered by: a load or a cost, then its place in the fixed order. One wide number, so that the least
/// of many is found without a branch that cannot be foreseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    pub(crate) fn new(value: u64, order: u32) -> Self {
        Self(u128::from(value) << 32 | u128::from(order))
    }

    /// The load or cost.
    pub(crate) fn value(self) -> u64 {
        (self.0 >> 32) as u64
    }

    /// The place in the order.
    pub(crate) fn order(self) -> u32 {
        self.0 as u32
    }
}

/// Nobody: greater than every slot.
const NOBODY: Key = Key(u128::MAX);

/// Keys of a fixed number of places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tournament {
    /// Node 1 is the root, node `i` has the children `2i` and `2i + 1`, the second half are the places.
    nodes: Vec<Key>,
}

impl Tournament {
    /// Places in the order of `keys`; a place without a key takes no part.
    pub(crate) fn new(keys: impl ExactSizeIterator<Item = Option<Key>>) -> Self {
        let places = keys.len().next_power_of_two();
        let mut nodes = vec![NOBODY; 2 * places];
        for (place, key) in keys.enumerate() {
            nodes[places + place] = key.unwrap_or(NOBODY);
        }
        for node in (1..places).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        Self { nodes }
    }

    /// Gives a place another key, or none. O(log places), less where the change does not reach the top.
    pub(crate) fn set(&mut self, place: u32, key: Option<Key>) {
        let mut node = self.nodes.len() / 2 + place as usize;
        self.nodes[node] = key.unwrap_or(NOBODY);
        while node > 1 {
            node /= 2;
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == least {
                break;
            }
            self.nodes[node] = least;
        }
    }

    /// The least key that is accepted and less than `below`. Branches that cannot win are not entered, so nothing
    /// but the root is read when the least key of all is accepted.
    pub(crate) fn least(&self, below: Option<Key>, mut accept: impl FnMut(u32) -> bool) -> Option<Key> {
        let places = self.nodes.len() / 2;
        let mut best = below.unwrap_or(NOBODY);
        let root = *self.nodes.get(1)?;
        if root >= best {
            return None;
        }
        if accept(root.order()) {
            return Some(root);
        }
        let mut found = None;
        // Two nodes per level at most: 32 levels name 2³² places.
        let mut stack = [0usize; 66];
        let mut depth = 1;
        stack[0] = 1;
        while depth > 0 {
            depth -= 1;
            let node = stack[depth];
            let key = self.nodes[node];
            if key >= best {
                continue;
            }
            if node >= places {
                if accept(key.order()) {
                    best = key;
                    found = Some(key);
                }
                continue;
            }
            let (left, right) = (2 * node, 2 * node + 1);
            let (first, second) =
                if self.nodes[left] <= self.nodes[right] { (left, right) } else { (right, left) };
            stack[depth] = second;
            stack[depth + 1] = first;
            depth += 2;
        }
        found
    }
}

#[cfg(test)]
mod tests;
