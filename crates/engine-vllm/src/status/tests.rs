use super::*;

#[track_caller]
fn check(code: Code, message: &str, expected: &str) {
    let worker = WorkerId::new("w");
    let shown = |progress| {
        let debug = format!("{:?}", engine_error(&worker, &Status::new(code, message), progress, false));
        debug.split('(').next().unwrap_or_default().to_owned()
    };
    let (before, after) = (shown(Progress::Unanswered), shown(Progress::Answered));
    let found = if before == after { before } else { format!("{before}/{after}") };
    assert_eq!(found, expected, "{code:?}");
}

#[test]
fn every_status_has_one_reading() {
    check(Code::InvalidArgument, "bad", "Refused");
    check(Code::FailedPrecondition, "no LoRA", "Refused");
    check(Code::AlreadyExists, "", "Refused");
    check(Code::NotFound, "no model", "NotFound");
    check(Code::OutOfRange, "too large", "TooLarge");
    check(Code::ResourceExhausted, "media", "Overloaded");
    check(Code::Unimplemented, "", "Unsupported");
    check(Code::DeadlineExceeded, "", "Deadline");
    check(Code::Cancelled, "Timeout expired", "Deadline");
    check(Code::Cancelled, "other", "Engine");
    check(Code::Unavailable, "", "Connect/Lost");
    check(Code::Internal, "engine failed", "Engine");
    check(Code::Unknown, "", "Engine");
    check(Code::DataLoss, "", "Engine");
    check(Code::PermissionDenied, "", "Engine");
    check(Code::Unauthenticated, "", "Engine");
    check(Code::Aborted, "", "Engine");
    check(Code::Ok, "", "Truncated");
}

#[test]
fn exhaustion_is_about_size_when_the_request_carried_media() {
    let status = Status::resource_exhausted("inline multimodal payload exceeds 16777216 bytes");
    let error = engine_error(&WorkerId::new("w"), &status, Progress::Unanswered, true);
    assert_eq!(error, EngineError::TooLarge("inline multimodal payload exceeds 16777216 bytes".to_owned()));
}
