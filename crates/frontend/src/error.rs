use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the frontend could not be built. Nothing was accepted yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("listen on {0}; another port may be free")]
    Listen(SocketAddr, #[source] io::Error),
    /// The same, or unusable keys, of the socket for orders.
    #[error("control")]
    Control(#[source] Box<Self>),
    /// The key file says nothing usable.
    #[error("key file {path}")]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
    /// A key from a flag or the environment is unusable.
    #[error("key number {number}")]
    Key {
        /// Counted from 1.
        number: usize,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
    /// A key of those who give orders is one of the clients' too.
    #[error("key number {number} is also a client's")]
    SharedKey {
        /// Counted from 1: keys from flags or the environment, then those of the file.
        number: usize,
    },
    /// A TLS file cannot be used.
    #[error("TLS file {path}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: TlsError,
    },
    /// Two formats claim one path, or a format claims a built-in one.
    #[error("path {0} is served twice")]
    Path(&'static str),
}

/// What is wrong with a key or a key file. Never shows a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// Larger than any list of keys.
    #[error("is larger than {0} bytes")]
    TooLarge(u64),
    /// A file that must hold keys holds none: serving on would let everyone in, or no one.
    #[error("holds no key")]
    Empty,
    /// More keys than are compared per request.
    #[error("more than {0} keys")]
    TooMany(usize),
    /// Where a flag or a variable names a key, the text of a flag.
    #[error("begins with --: was the key left out?")]
    Flag,
    /// A key that no header could carry.
    #[error("is not 1 to {max} visible ASCII characters")]
    Malformed {
        /// Longest key, in characters.
        max: usize,
    },
    /// A line of the file is no key.
    #[error("line {line} is not 1 to {max} visible ASCII characters")]
    MalformedLine {
        /// Counted from 1.
        line: usize,
        /// Longest key, in characters.
        max: usize,
    },
}

/// What is wrong with a TLS file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No such file, or no PEM.
    #[error("cannot be read as PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// No certificate in it.
    #[error("holds no certificate")]
    Empty,
    /// The parts do not fit each other, or use an algorithm we do not have.
    #[error("cannot be used")]
    Unusable(#[source] rustls::Error),
    /// The authorities cannot verify anyone.
    #[error("cannot verify clients")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}
