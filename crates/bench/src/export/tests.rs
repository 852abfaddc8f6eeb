use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Export, ExportError, QUEUE_LINES_MAX, RequestRecord};
use crate::config::{Api, BenchConfig, Load, Stop};
use crate::pacer::Pacer;
use crate::progress::{Progress, Silent, Total};
use crate::run::run_over;
use crate::testing::{Answer, Memory, STREAM, config};

fn lines(file: &NamedTempFile) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs with an export over a server that fails every third request after its first event.
async fn run_exported(config: &BenchConfig, file: &NamedTempFile) {
    let (export, writer) = Export::create(file.path(), Arc::new(Silent)).unwrap();
    let server = Memory::new(1 << 16, |asked| match asked.number % 3 {
        2 => Answer::events(&[STREAM[0], "data: {\"error\":{\"code\":\"lost\"}}\n\n"]),
        _ => Answer::events(&STREAM),
    });
    let progress: Arc<dyn Progress> = Arc::<Export>::clone(&export);
    run_over(config, server, &Pacer::Runtime, &progress).await.unwrap();
    export.finish(writer).unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_measured_request_is_a_line_and_no_other() {
    let file = NamedTempFile::new().unwrap();
    let mut config = config(Api::Generate, true);
    config.warmup_requests = 3;
    config.load = Load::Closed { concurrency: 1, stop: Stop::Requests(6) };
    run_exported(&config, &file).await;
    let lines = lines(&file);
    assert_eq!(lines.len(), 6);
    let failures: Vec<_> = lines.iter().map(|line| line["failure"].as_str()).collect();
    assert_eq!(failures, [None, None, Some("error_reply"), None, None, Some("error_reply")]);
    let fixed = |line: &Value| {
        let mut line = line.clone();
        // Times on a paused clock move by the few milliseconds that timers round to.
        for key in ["due_s", "sent_s", "ended_s", "ttft_ms", "itl_event_ms_max", "tpot_ms", "e2e_ms"] {
            line[key] = line[key].as_f64().map_or(Value::Null, |time| (time >= 0.0).into());
        }
        line
    };
    let right = json!({"target": "it", "number": 1, "due_s": true, "sent_s": true, "ended_s": true,
        "prompt_tokens": 4, "output_tokens": 2, "output_events": 2, "ttft_ms": true, "itl_event_ms_max": true,
        "tpot_ms": true, "e2e_ms": true, "good": true, "steady": true, "failure": null, "detail": null});
    let lost = json!({"target": "it", "number": 2, "due_s": true, "sent_s": true, "ended_s": true,
        "prompt_tokens": 4, "output_tokens": null, "output_events": 1, "ttft_ms": true, "itl_event_ms_max": null,
        "tpot_ms": null, "e2e_ms": true, "good": false, "steady": true, "failure": "error_reply",
        "detail": "{\"code\":\"lost\"}"});
    assert_eq!([fixed(&lines[1]), fixed(&lines[2])], [right, lost]);
}

#[test]
fn what_the_run_says_is_passed_on() {
    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);
    impl Progress for Log {
        fn begin(&self, phase: &str, _: Total) {
            self.0.lock().unwrap().push(format!("begin {phase}"));
        }
        fn finished(&self, succeeded: bool) {
            self.0.lock().unwrap().push(format!("finished {succeeded}"));
        }
        fn measured(&self, record: &RequestRecord<'_>) {
            self.0.lock().unwrap().push(format!("measured {}", record.number));
        }
        fn end(&self) {
            self.0.lock().unwrap().push("end".to_owned());
        }
    }
    let (log, file) = (Arc::new(Log::default()), NamedTempFile::new().unwrap());
    let (export, writer) = Export::create(file.path(), Arc::<Log>::clone(&log)).unwrap();
    export.begin("x", Total::Requests(1));
    export.measured(&record(7));
    export.finished(true);
    export.end();
    export.finish(writer).unwrap();
    assert_eq!(*log.0.lock().unwrap(), ["begin x", "measured 7", "finished true", "end"]);
    assert_eq!(lines(&file).len(), 1);
}

fn record(number: u64) -> RequestRecord<'static> {
    RequestRecord {
        target: "it",
        number,
        due_s: 0.0,
        sent_s: 0.0,
        ended_s: 1.0,
        prompt_tokens: 4,
        output_tokens: Some(2),
        output_events: 0,
        ttft_ms: None,
        itl_event_ms_max: None,
        tpot_ms: None,
        e2e_ms: 1000.0,
        good: true,
        steady: false,
        failure: None,
        detail: None,
    }
}

#[test]
fn a_disk_that_cannot_keep_up_costs_lines_and_says_how_many() {
    let (queue, queued) = std::sync::mpsc::sync_channel(QUEUE_LINES_MAX);
    let export = Export { progress: Arc::new(Silent), queue, lost: 0.into() };
    for number in 0..QUEUE_LINES_MAX as u64 + 5 {
        export.measured(&record(number));
    }
    // The writer begins only now that the queue has overflowed.
    let file = NamedTempFile::new().unwrap();
    let sink = std::io::BufWriter::new(file.reopen().unwrap());
    let writer = std::thread::spawn(move || super::write(sink, &queued));
    let error = export.finish(super::ExportWriter(writer)).unwrap_err();
    assert!(matches!(error, ExportError::Lost(5)), "{error}");
    assert_eq!(lines(&file).len(), QUEUE_LINES_MAX);
}

#[test]
fn a_file_is_emptied_when_the_run_has_begun_and_not_before() {
    for (begun, finished, left) in [(false, false, 2), (false, true, 0), (true, true, 1)] {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(&file, "{\"old\":1}\n{\"older\":1}\n").unwrap();
        let (export, writer) = Export::create(file.path(), Arc::new(Silent)).unwrap();
        if begun {
            export.measured(&record(1));
        }
        if finished {
            export.finish(writer).unwrap();
        } else {
            drop(export);
            writer.0.join().unwrap().unwrap();
        }
        assert_eq!(lines(&file).len(), left);
    }
}

#[test]
fn a_file_that_cannot_be_made_or_written_is_an_error() {
    assert!(Export::create(&std::env::temp_dir(), Arc::new(Silent)).is_err(), "a folder is no file");
    #[cfg(target_os = "linux")]
    {
        let (export, writer) = Export::create("/dev/full".as_ref(), Arc::new(Silent)).unwrap();
        (0..10_000).for_each(|number| export.measured(&record(number)));
        let error = export.finish(writer).unwrap_err();
        assert!(matches!(error, ExportError::Write(_)), "{error}");
    }
}
