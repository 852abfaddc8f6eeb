//! Addresses as text: the one place that knows when an IPv6 address needs brackets.

/// `host:port`, with brackets where the host is an IPv6 address. A zone (`fe80::1%eth0`) stays inside the brackets.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The parts of `host:port`; brackets are taken off. The port of an IPv6 address must follow its brackets, except for
/// the wildcard `:::port`, which ZeroMQ writes without them.
pub(crate) fn split(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = authority.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']')?,
        None if host.contains(':') && host != "::" => return None,
        None => host,
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests;
