use super::{RunSigns, RunVerdict};
use crate::report::Requests;

#[test]
fn a_late_generator_is_told_apart_from_a_server_that_failed() {
    let right = Requests { succeeded: 9, ..Requests::default() };
    let none = Requests::default();
    let (failed, shed) = (Requests { failed: 1, ..right }, Requests { shed: 1, ..right });
    let cold = Requests { warmup_failed: 1, ..right };
    for (requests, broken, late, late_allowed, verdict) in [
        (right, false, false, false, RunVerdict::Ok),
        (right, false, true, true, RunVerdict::Late),
        (right, false, true, false, RunVerdict::Invalid),
        (failed, false, true, false, RunVerdict::Invalid),
        (failed, false, true, true, RunVerdict::Failed),
        (failed, false, false, false, RunVerdict::Failed),
        (shed, false, false, false, RunVerdict::Failed),
        (cold, false, false, false, RunVerdict::Failed),
        (none, false, false, false, RunVerdict::Failed),
        (right, true, false, false, RunVerdict::Failed),
    ] {
        let signs = RunSigns { requests, broken, late, late_allowed };
        assert_eq!(RunVerdict::of(signs), verdict, "{signs:?}");
        assert_eq!(verdict.ok(), matches!(verdict, RunVerdict::Ok | RunVerdict::Late));
    }
}
