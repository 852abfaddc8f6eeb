use super::*;

const WORKERS: &str = r#"{"workers":[
    {"id":"10.0.0.5:50051","state":"ready","reason":null,"engine":{"models":["m","alias"],"new":1,"pixels":"raw","kv_replay":false},"targets":[
        {"rank":0,"capacity_tokens":4096,"load":{"in_flight":2,"prefill_tokens":300,"decode_tokens":70},
         "index":{"state":"complete","reason":null,"block_tokens":16,"blocks":{"gpu":1024,"cpu":0,"storage":0},
                  "media_inexact":null,"counters":{"gaps":0}}},
        {"rank":1,"capacity_tokens":4096,"load":{"in_flight":0,"prefill_tokens":0,"decode_tokens":0},
         "index":{"state":"partial","reason":"batch 7\u001b[2J is missing","block_tokens":16,
                  "blocks":{"gpu":10,"cpu":4,"storage":1},"media_inexact":"no offsets","not_compared":"a\u0007 window","counters":{"gaps":1}}}]},
    {"id":"10.0.0.6:50051","state":"unreachable","reason":"Connection refused","engine":null,"targets":[]}]}"#;

#[test]
fn every_target_has_a_line_and_every_reason_another() {
    let listed: Listed = serde_json::from_str(WORKERS).unwrap();
    let expected = "\
WORKER          RANK  STATE        MODEL  IN-FLIGHT  PREFILL  DECODE  INDEX     BLOCKS  GAPS
10.0.0.5:50051     0  ready        m              2      300      70  complete    1024     0
10.0.0.5:50051     1  ready        m              0        0       0  partial   10+4+1     1
10.0.0.6:50051     -  unreachable  -              -        -       -  -              -     -

10.0.0.5:50051 takes raw pixels, as --engine says
10.0.0.5:50051 cannot replay its KV events: what is known is lost with every gap
10.0.0.5:50051 rank 1: index partial: batch 7?[2J is missing
10.0.0.5:50051 rank 1: media are matched up to the first item only: no offsets
10.0.0.5:50051 rank 1: its cached tokens are not compared: a? window
10.0.0.6:50051 is unreachable: Connection refused
";
    assert_eq!(table::render(&listed.workers), expected);
    assert_eq!(table::render(&[]), "no worker is configured\n");
}

#[test]
fn what_others_have_sent_has_a_column_where_an_engine_tells() {
    let first = "\"decode_tokens\":70";
    let told = WORKERS.replace(first, &format!("{first},\"other_requests\":3,\"other_tokens\":4096"));
    let listed: Listed = serde_json::from_str(&told).unwrap();
    let expected = "\
WORKER          RANK  STATE        MODEL  IN-FLIGHT  PREFILL  DECODE  OTHERS  INDEX     BLOCKS  GAPS
10.0.0.5:50051     0  ready        m              2      300      70  3/4096  complete    1024     0
10.0.0.5:50051     1  ready        m              0        0       0       -  partial   10+4+1     1
10.0.0.6:50051     -  unreachable  -              -        -       -       -  -              -     -
";
    assert!(table::render(&listed.workers).starts_with(expected), "{}", table::render(&listed.workers));
    let asked = WORKERS.replace("\"rank\":0,", "\"rank\":0,\"others_unknown\":\"Connection refused\",");
    let text = table::render(&serde_json::from_str::<Listed>(&asked).unwrap().workers);
    assert!(text.contains(" OTHERS "), "{text}");
    let reason = "10.0.0.5:50051 rank 0: what others have sent is not known: Connection refused\n";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn the_first_key_of_a_file_is_presented() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    for (text, expected) in [
        ("# teams\n\n  one \ntwo\n", Ok("Bearer one")),
        ("", Err("it holds no key")),
        ("# none\n", Err("it holds no key")),
        ("a\u{1}b\n", Err("no header value")),
    ] {
        std::fs::write(&path, text).unwrap();
        match (key_of(&path), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_str().unwrap(), expected),
            (Err(error), Err(expected)) => assert!(format!("{error:#}").contains(expected), "{error:#}"),
            (found, expected) => panic!("{text:?}: {found:?}, expected {expected:?}"),
        }
    }
    let missing = key_of(&folder.path().join("missing")).unwrap_err();
    assert!(missing.to_string().starts_with("--key-file "), "{missing:#}");
}
