use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};

use super::*;

#[tokio::test]
async fn a_reserved_port_is_listened_on_again_and_again_and_refuses_in_between() {
    let reserved = ReservedPort::any();
    for _ in 0..3 {
        assert!(TcpStream::connect(reserved.address()).is_err(), "nothing listens");
        let listener = TcpListener::bind(reserved.address()).unwrap();
        let client = TcpStream::connect(reserved.address()).unwrap();
        // The server closes first, so that its side of the connection lingers.
        drop(listener.accept().unwrap());
        drop((listener, client));
    }
}

#[tokio::test]
async fn no_one_else_is_given_a_reserved_port() {
    let reserved: Vec<ReservedPort> = (0..100).map(|_| ReservedPort::any()).collect();
    let taken: BTreeSet<u16> = reserved.iter().map(ReservedPort::port).collect();
    assert_eq!(taken.len(), reserved.len());
    let listeners: Vec<TcpListener> = (0..100).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    assert!(listeners.iter().all(|listener| !taken.contains(&listener.local_addr().unwrap().port())));
}
