use super::*;

/// The order, as `workers|running`, or the refusal.
#[track_caller]
fn check(query: &str, body: &str, expected: &str) {
    let parsed = match ResetPrefixCache::parse(query, body.as_bytes()) {
        Ok(ResetPrefixCache { workers, running }) => {
            let names: Vec<_> = workers.iter().map(WorkerId::as_str).collect();
            format!("{}|{running}", names.join(","))
        }
        Err(refusal) => refusal.to_string(),
    };
    assert_eq!(parsed, expected, "{query} with {body}");
}

#[test]
fn options_come_in_the_query_or_the_body() {
    check("", "", "|false");
    check("reset_running_requests=true", "", "|true");
    check("reset_running_requests=0&reset_external=1", " {} ", "|false");
    check("worker=10.0.0.5:50051&worker=%5B2001%3Adb8::1%5D:9", "", "10.0.0.5:50051,[2001:db8::1]:9|false");
    check("", r#"{"reset_running_requests":true,"reset_external":true}"#, "|true");
    check("worker=a", r#"{"reset_running_requests":true}"#, "a|true");
    check("reset_running_requests=true", r#"{"reset_running_requests":true}"#, "|true");
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let options = "is not an option: there are worker, reset_running_requests and reset_external";
    check("force=true", "", &format!("force: {options}"));
    check("WORKER=a", "", &format!("WORKER: {options}"));
    check("", r#"{"level":1}"#, &format!("level: {options}"));
    check("", r#"{"worker":"a"}"#, "worker: is an option of the query only");
    check("reset_running_requests=yes", "", "reset_running_requests: must be true or false");
    check("reset_running_requests", "", "reset_running_requests: must be true or false");
    check("", r#"{"reset_running_requests":null}"#, "reset_running_requests: must be true or false");
    let twice = "reset_running_requests: is given twice, and not the same";
    check("reset_running_requests=true&reset_running_requests=false", "", twice);
    check("reset_running_requests=true", r#"{"reset_running_requests":false}"#, twice);
    let external = "reset_external: cannot be false: the engine drops what its connector holds together with its own cache";
    check("reset_external=false", "", external);
    check("", r#"{"reset_external":false}"#, external);
    check("worker=", "", "worker: must name a worker");
    let object = "the body must be empty or a JSON object";
    check("", "[]", &format!("{object}: invalid type: sequence, expected an object at line 1 column 0"));
    check("", "{", &format!("{object}: EOF while parsing an object at line 1 column 1"));
    check("", r#"{"reset_external":true}{}"#, &format!("{object}: trailing characters at line 1 column 24"));
    check("", r#"{"reset_running_requests":true,"reset_running_requests":false}"#, twice);
    let many = vec!["worker=a"; RESET_WORKERS_MAX + 1].join("&");
    check(&many, "", "worker: must not be given more than 4096 times");
}

#[test]
fn the_answer_is_a_success_when_every_worker_did() {
    let report = |worker: &str, error: Option<&str>| ClearReport {
        worker: WorkerId::new(worker),
        error: error.map(str::to_owned),
    };
    let body = |reports: &[ClearReport]| String::from_utf8(reset_body(reports)).unwrap();
    let done = r#"{"success":true,"workers":[{"id":"a","success":true,"error":null}]}"#;
    assert_eq!(body(&[report("a", None)]), done);
    let failed = r#"{"success":false,"workers":[{"id":"a","success":true,"error":null},{"id":"b","success":false,"error":"no"}]}"#;
    assert_eq!(body(&[report("a", None), report("b", Some("no"))]), failed);
    assert_eq!(body(&[]), r#"{"success":true,"workers":[]}"#);
}
