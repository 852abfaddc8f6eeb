//! Block identity and the prefix index over every (worker, rank). Pure.
