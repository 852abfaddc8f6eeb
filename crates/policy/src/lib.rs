//! Cost and choice of (worker, rank) from loads, overlaps and `now`. Pure.
