use super::*;

#[test]
fn times_are_seconds_unless_they_say_otherwise() {
    let check = |text: &str, expected: Result<u64, &str>| {
        let found = duration(text).map(|time| time.as_millis() as u64);
        assert_eq!(found, expected.map_err(ToOwned::to_owned), "{text}");
    };
    check("10", Ok(10_000));
    check("0.5", Ok(500));
    check("250ms", Ok(250));
    check("5m", Ok(300_000));
    check("1h", Ok(3_600_000));
    check("0", Ok(0));
    check("720h", Ok(2_592_000_000));
    check("720.01h", Err("must be a time from 0 to 720h"));
    check("-1", Err("must be a time from 0 to 720h"));
    check("1e300", Err("must be a time from 0 to 720h"));
    check("nan", Err("unknown unit `nan`: use ms, s, m or h"));
    check("", Err("a number with an optional unit: 10, 250ms, 5m"));
    check("5d", Err("unknown unit `d`: use ms, s, m or h"));
    assert_eq!(limit("0"), Ok(Limit(None)));
    assert_eq!(positive("0"), Err("must be longer than 0".into()));
    assert_eq!(positive("1ms"), Ok(Duration::from_millis(1)));
    assert_eq!(limit("2"), Ok(Limit(Some(Duration::from_secs(2)))));
}

#[test]
fn sizes_are_bytes_unless_they_say_otherwise() {
    assert_eq!(bytes("64MiB"), Ok(64 << 20));
    assert_eq!(bytes("7"), Ok(7));
    assert_eq!(bytes("2GiB"), Ok(BYTES_MAX));
    for outside in ["0", "0MiB", "2147483649", "99999999999GiB"] {
        assert_eq!(bytes(outside), Err("must be a size from 1 byte to 2GiB".into()), "{outside}");
    }
    assert_eq!(bytes("1MB"), Err("unknown unit `MB`: use B, KiB, MiB or GiB".into()));
    assert_eq!(bytes("1.5MiB"), Err("a whole number with an optional unit: 64MiB".into()));
}
