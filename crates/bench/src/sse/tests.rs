use proptest::prelude::*;

use super::{Parser, TooLarge};

/// Parses pieces and writes down what came out.
fn parse(pieces: &[&[u8]], event_bytes_max: usize) -> Result<String, TooLarge> {
    let mut parser = Parser::new(event_bytes_max);
    let mut seen = String::new();
    for piece in pieces {
        parser.push(piece, |event| {
            let text = |bytes| String::from_utf8_lossy(bytes).escape_debug().to_string();
            seen.extend([&text(event.name), "|", &text(event.data), "\n"]);
            Ok::<(), TooLarge>(())
        })?;
    }
    if !parser.is_between_events() {
        seen += "cut\n";
    }
    Ok(seen)
}

#[test]
fn an_event_is_its_data_lines_and_its_name_and_the_rest_is_skipped() {
    for (stream, expected) in [
        ("data: a\n\n", "|a\n"),
        ("data:a\n\ndata:  b\n\n", "|a\n| b\n"),
        ("event: error\ndata: a\ndata: b\n\ndata: c\n\n", "error|a\\nb\n|c\n"),
        ("data\n\n", "|\n"),
        ("data: a: b\n\n", "|a: b\n"),
        (": keep-alive\n\nid: 3\nretry: 10\nfuture\ndata: a\n\n", "|a\n"),
        ("event: x\n\ndata: a\n\n", "|a\n"),
        // Any of the three line ends.
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "|a\n|b\n|c\n"),
        ("data: a\r\n\ndata: b\n\r\n", "|a\n|b\n"),
        // A byte order mark at the start, and one that is not.
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", "|a\n"),
        // [DONE] is an event only as a whole.
        ("data: [DONE]\n\n", "|[DONE]\n"),
        ("data: x [DONE]\n\n", "|x [DONE]\n"),
    ] {
        assert_eq!(parse(&[stream.as_bytes()], 1000).unwrap(), expected, "{stream:?}");
    }
}

#[test]
fn a_stream_that_ends_inside_an_event_is_recognised() {
    for cut in ["data: a", "data: a\n", "event: e\n", ": comm"] {
        assert_eq!(parse(&[cut.as_bytes()], 1000).unwrap(), "cut\n", "{cut:?}");
    }
}

#[test]
fn an_event_beyond_the_bound_is_refused_however_it_comes() {
    let fits = "data: 1234\n\n";
    let too_long_line = "data: 12345\n\n";
    let too_many_lines = "data: 1\ndata: 2\ndata: 3\ndata: 4\ndata: 5\n\n";
    assert_eq!(parse(&[fits.as_bytes()], 10).unwrap(), "|1234\n");
    for large in [too_long_line, too_many_lines, "xxxxxxxxxxx"] {
        assert_eq!(parse(&[large.as_bytes()], 10), Err(TooLarge), "{large:?}");
        let bytes: Vec<_> = large.as_bytes().chunks(1).collect();
        assert_eq!(parse(&bytes, 10), Err(TooLarge), "{large:?}");
    }
}

/// Streams with much structure: the fragments a parser can trip over, in any order.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let fragments: [&[u8]; 13] = [
        b"data: ",
        b"data:",
        b"event: error",
        b"[DONE]",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b":",
        b" ",
        b"\xef\xbb\xbf",
        b"{\"text\":\"\\n\"}",
        b"\xff\x00",
    ];
    let fragment = prop::sample::select(fragments.to_vec());
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        stream in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        event_bytes_max in 1_usize..60,
    ) {
        let whole = parse(&[&stream], event_bytes_max);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| &stream[ends[0]..ends[1]]).collect();
        prop_assert_eq!(&parse(&pieces, event_bytes_max), &whole);
        let bytes: Vec<_> = stream.chunks(1).collect();
        prop_assert_eq!(&parse(&bytes, event_bytes_max), &whole);
    }

    #[test]
    fn what_was_written_as_events_is_read_back(
        events in prop::collection::vec(("[a-z]{0,5}", prop::collection::vec("[^\r\n]{0,20}", 1..4)), 0..8),
        line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
    ) {
        let mut stream = String::new();
        let mut expected = String::new();
        for (name, lines) in &events {
            stream.extend(["event: ", name, line_end]);
            stream.extend(lines.iter().map(|line| format!("data: {line}{line_end}")));
            stream += line_end;
            expected.extend([name, "|", &lines.join("\n").escape_debug().to_string(), "\n"]);
        }
        prop_assert_eq!(parse(&[stream.as_bytes()], 1000).unwrap(), expected);
    }
}
