use super::*;

#[track_caller]
fn check(code: Code, message: &str, expected: &str) {
    let worker = WorkerId::new("w");
    let shown = |progress| {
        let debug =
            format!("{:?}", engine_error(&worker, &Status::new(code, message), progress, Carried::Nothing));
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
    let error = engine_error(&WorkerId::new("w"), &status, Progress::Unanswered, Carried::Features);
    assert_eq!(error, EngineError::TooLarge("inline multimodal payload exceeds 16777216 bytes".to_owned()));
}

/// What a client is told of an INTERNAL with these words; nothing if the engine is blamed.
fn told(words: &str, progress: Progress, carried: Carried) -> Option<String> {
    match engine_error(&WorkerId::new("w"), &Status::internal(words), progress, carried) {
        EngineError::Invalid { param, message } => Some(format!("{param} {message}")),
        EngineError::Engine(..) => None,
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn raw_media_that_the_engine_cannot_use_are_the_clients_and_their_details_stay_here() {
    // All as vLLM 0.32 says them.
    for (words, kind) in [
        ("image decode error: The image format could not be determined", "image decode error"),
        ("base64 decode error: Invalid symbol 64, offset 0.", "base64 decode error"),
        ("data URL parse error: missing comma in data url", "data URL parse error"),
        (
            "HTTP error while fetching media: error sending request for url (http://10.0.0.1/?key=k): client error \
             (Connect): tcp connect error: Connection refused (os error 111)",
            "HTTP error while fetching media",
        ),
        ("video decode error: ffmpeg executable not found; install ffmpeg", "video decode error"),
        (
            "placeholder token `<|image_pad|>` was not found in tokenized prompt for 1 remaining `image` item(s)",
            "placeholder token `<|image_pad|>` was not found in tokenized prompt for 1 remaining `image` item(s)",
        ),
        ("cannot open /opt/models/processor at 10.0.0.1", "preprocessing failed"),
        ("", ""),
    ] {
        let words = format!("multimodal preprocessing error: {words}");
        let expected = format!("content_parts cannot be used by the engine: {kind}");
        assert_eq!(told(&words, Progress::Unanswered, Carried::Raw), Some(expected));
        assert_eq!(told(&words, Progress::Answered, Carried::Raw), None, "decoding comes before any output");
        for carried in [Carried::Nothing, Carried::Features] {
            assert_eq!(told(&words, Progress::Unanswered, carried), None, "there was nothing to decode");
        }
    }
    let long = format!("multimodal preprocessing error: {}", "é".repeat(1000));
    let said = told(&long, Progress::Unanswered, Carried::Raw).unwrap();
    assert_eq!(said.matches('é').count(), RAW_MEDIA_BYTES_MAX / 2);
}

#[test]
fn an_engine_that_failed_is_blamed_whatever_media_it_was_sent() {
    for words in
        ["engine-core error: engine core reported fatal failure", "engine failed during generation", ""]
    {
        assert_eq!(told(words, Progress::Unanswered, Carried::Raw), None, "{words}");
    }
}

#[test]
fn the_log_has_no_secret_of_an_address() {
    for (words, logged) in [
        ("image decode error: unexpected end of file", "image decode error: unexpected end of file"),
        (
            "error sending request for url (https://host:1/a/b.png?sig=s): Connection refused",
            "error sending request for url (https://host:1 Connection refused",
        ),
        ("at http://user:key@host/a and https://h?k=1, twice", "at … and https://h twice"),
        ("at https://user:key@h", "at …"),
        ("://", "://"),
        ("", ""),
    ] {
        assert_eq!(without_secrets(words), logged);
    }
    assert_eq!(without_secrets(&"é".repeat(1000)).len(), LOGGED_BYTES_MAX);
}
