use super::*;

#[test]
fn an_ipv6_address_is_joined_and_split_with_brackets() {
    for (host, port, text) in [
        ("engine", 1, "engine:1"),
        ("10.0.0.1", 65535, "10.0.0.1:65535"),
        ("2001:db8::1", 5557, "[2001:db8::1]:5557"),
        ("fe80::1%eth0", 5557, "[fe80::1%eth0]:5557"),
    ] {
        assert_eq!(authority(host, port), text);
        assert_eq!(split(text), Some((host, port)));
    }
    assert_eq!(authority("[2001:db8::1]", 1), "[2001:db8::1]:1");
    assert_eq!(split(":::5557"), Some(("::", 5557)));
    for broken in
        ["", "engine", ":1", "engine:", "engine:65536", "2001:db8::1:5557", "[2001:db8::1:5557", "[]:1"]
    {
        assert_eq!(split(broken), None, "{broken}");
    }
}
