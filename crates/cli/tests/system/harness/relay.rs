use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// One address whose engine can be exchanged, as when an engine restarts on its port.
///
/// The port stays ours, so that nobody else can take it while no engine is behind it; connections are then closed
/// as soon as they are made.
pub(crate) struct Relay {
    address: SocketAddr,
    engine: Arc<Mutex<Option<SocketAddr>>>,
    _accepting: JoinSet<()>,
}

impl Relay {
    pub(crate) async fn to(engine: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let engine = Arc::new(Mutex::new(engine));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&engine)));
        Self { address, engine, _accepting: accepting }
    }

    /// What `--engine` takes.
    pub(crate) fn url(&self) -> String {
        format!("vllm://{}", self.address)
    }

    /// New connections lead there from now on. Those there are end with their engine.
    pub(crate) fn lead_to(&self, engine: Option<SocketAddr>) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = engine;
    }
}

async fn accept(listener: TcpListener, engine: Arc<Mutex<Option<SocketAddr>>>) {
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let engine = *engine.lock().unwrap_or_else(PoisonError::into_inner);
        connections.spawn(async move {
            let Some(engine) = engine else { return };
            if let Ok(mut engine) = TcpStream::connect(engine).await {
                // Either side may break off; that is what the tests are about.
                let _ = copy_bidirectional(&mut client, &mut engine).await;
            }
        });
    }
}
