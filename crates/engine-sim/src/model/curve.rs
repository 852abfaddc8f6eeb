//! How probability falls with rank: a power law with one of a few slopes.

/// How many shapes there are; each position has one.
pub(crate) const SHAPES: usize = 4;

/// The exponents of the power law, from a flat position to a decided one.
pub(crate) const SLOPES: [f64; SHAPES] = [0.9, 1.3, 1.8, 2.6];

/// Natural logarithms of the normalizers over a whole vocabulary, one per shape.
pub(crate) fn log_normalizers(vocabulary_rows: u32) -> [f64; SHAPES] {
    SLOPES.map(|slope| (1..=vocabulary_rows).map(|rank| f64::from(rank).powf(-slope)).sum::<f64>().ln())
}

/// Cumulative weights by rank at one temperature, one table per shape.
#[derive(Debug)]
pub(crate) struct Curve {
    temperature: f64,
    cumulative: [Vec<f64>; SHAPES],
}

impl Curve {
    pub(crate) fn new(ids: u32, temperature: f32) -> Self {
        let temperature = f64::from(temperature).max(1e-6);
        let table = |slope: f64| {
            let mut sum = 0.0;
            let weight = |rank: u32| f64::from(rank).powf(-slope / temperature);
            (1..=ids)
                .map(|rank| {
                    sum += weight(rank);
                    sum
                })
                .collect()
        };
        Self { temperature, cumulative: SLOPES.map(table) }
    }

    /// How many leading ranks `top_k`, `top_p` and `min_p` leave. At least 1.
    pub(crate) fn support(&self, shape: usize, top_k: u32, top_p: f32, min_p: f32) -> u32 {
        let table = &self.cumulative[shape];
        let mut ranks = table.len();
        if top_k > 0 {
            ranks = ranks.min(top_k as usize);
        }
        if min_p > 0.0 {
            // Weight of rank r relative to rank 1 is r^(-slope / temperature).
            let last = f64::from(min_p).powf(-self.temperature / SLOPES[shape]);
            ranks = ranks.min((last.min(table.len() as f64) as usize).max(1));
        }
        if top_p < 1.0 {
            let wanted = table[ranks - 1] * f64::from(top_p);
            ranks = ranks.min(table.partition_point(|&sum| sum < wanted) + 1);
        }
        ranks.max(1) as u32
    }

    /// The rank at a uniform draw, among the first `support` ranks.
    pub(crate) fn rank(&self, shape: usize, support: u32, draw: f64) -> u32 {
        let table = &self.cumulative[shape][..support as usize];
        let wanted = draw * table[table.len() - 1];
        (table.partition_point(|&sum| sum <= wanted).min(table.len() - 1)) as u32 + 1
    }
}
