//! Ports that stay free for one test.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of the loopback interface that the operating system gives to nothing else while this lives. A test may listen
/// there, go away and listen again, as an engine does that restarts; in between, connections are refused.
///
/// The port is bound and nothing listens. Whoever knows it can bind it as well, as long as its socket may share an
/// address (`SO_REUSEADDR`, which the listeners of the standard library and of tokio set).
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ReservedPort {
    /// Any free one.
    pub fn any() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        bound.set_reuseaddr(true).unwrap();
        bound.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self { address: bound.local_addr().unwrap(), _bound: bound }
    }

    /// The address to listen on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests;
