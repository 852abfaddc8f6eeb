use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::subscriber::with_default;
use tracing::{debug, info};

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    fn writer(&self) -> impl Fn() -> Self + Send + Sync + 'static {
        let captured = self.clone();
        move || captured.clone()
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn say() {
    info!(tokens = 3, "said");
    debug!("whispered");
    info!(target: "access", "request");
}

#[test]
fn levels_hold_per_target_and_fields_are_kept() {
    let captured = Captured::default();
    with_default(text("info,access=off", false, captured.writer()).unwrap(), say);
    let lines = captured.text();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("said") && lines.contains("tokens=3"), "{lines}");
}

#[test]
fn json_lines_are_objects_with_flat_fields() {
    let captured = Captured::default();
    with_default(json("debug", captured.writer()).unwrap(), say);
    let lines = captured.text();
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
