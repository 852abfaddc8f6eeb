use std::fs::{File, read_to_string};
use std::sync::Arc;

use tracing::subscriber::with_default;
use tracing::{debug, info};

use super::*;

fn say() {
    info!(tokens = 3, "said");
    debug!("whispered");
    info!(target: "access", "request");
}

/// What [`say`] leaves in a file that this subscriber writes.
fn logged<S: Subscriber + Send + Sync + 'static>(subscriber: impl FnOnce(Arc<File>) -> S) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    with_default(subscriber(Arc::new(file.reopen().unwrap())), say);
    read_to_string(file.path()).unwrap()
}

#[test]
fn levels_hold_per_target_and_fields_are_kept() {
    let lines = logged(|file| text("info,access=off", false, file).unwrap());
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("said") && lines.contains("tokens=3"), "{lines}");
}

#[test]
fn json_lines_are_objects_with_flat_fields() {
    let lines = logged(|file| json("debug", file).unwrap());
    assert_eq!(lines.lines().count(), 3, "{lines}");
    let first = lines.lines().next().unwrap();
    assert!(first.starts_with('{') && first.ends_with('}'), "{first}");
    assert!(first.contains(r#""tokens":3"#) && first.contains(r#""message":"said""#), "{first}");
}

#[test]
fn a_level_that_means_nothing_is_refused_by_name() {
    for level in
        ["info", "WARN", "off", "info,access=off", "tito_router[route]=debug", "[route{worker}]=info"]
    {
        check(level).expect(level);
    }
    for level in ["loud", "info,loud", "access=loud", "access", "info,[route=debug", "", "info,", "3"] {
        let error = check(level).expect_err(level);
        let words =
            "is no level: use error, warn, info, debug, trace or off, or TARGET=LEVEL, joined by commas";
        assert_eq!(error.to_string(), format!("{level:?} {words}"));
    }
}
