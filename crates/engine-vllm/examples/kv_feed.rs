//! Prints what an engine tells of its block tables: `cargo run -p tito-engine-vllm --example kv_feed -- HOST GRPC_PORT`.
#![expect(clippy::print_stdout, reason = "the news is what it is for")]

use std::error::Error;
use std::time::Duration;

use futures_util::StreamExt;
use tito_engine::{Connection, Connector};
use tito_engine_vllm::{VllmConfig, VllmConnector};
use tito_types::{KvEvent, KvNews};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(host), Some(port)) = (arguments.next(), arguments.next()) else {
        return Err("usage: kv_feed HOST GRPC_PORT".into());
    };
    let config = VllmConfig {
        host,
        port: port.parse()?,
        tls: None,
        channels: 1,
        connect_timeout: Duration::from_secs(10),
        stall_timeout: None,
        response_bytes_max: 64 << 20,
        pixels: None,
        metrics: None,
    };
    let connector = VllmConnector::try_new(config, 0)?;
    let Connection { info, mut lost, mut kv, .. } = connector.connect().await?;
    println!("vLLM {}, {:?}", info.engine_version, info.kv_events);
    loop {
        let update = tokio::select! {
            reason = &mut lost => return Err(reason.into()),
            update = kv.next() => update.ok_or("the feed ended")?,
        };
        let news = match update.news {
            KvNews::Events(events) => events.iter().map(shown).collect::<Vec<_>>().join("; "),
            news => format!("{news:?}"),
        };
        println!("rank {}: {news}", update.rank);
    }
}

fn shown(event: &KvEvent) -> String {
    match event {
        KvEvent::Stored(blocks) => format!(
            "stored {} blocks of {} tokens on {:?} after {:?}, salt {:?}, adapter {:?}, extras {:?}: {:x?}",
            blocks.hashes.len(),
            blocks.block_tokens,
            blocks.tier,
            blocks.parent,
            blocks.salt,
            blocks.adapter,
            blocks.extras,
            blocks.hashes
        ),
        KvEvent::Copied { hashes, tier } => format!("copied {hashes:x?} to {tier:?}"),
        KvEvent::Removed { hashes, tier } => format!("removed {hashes:x?} from {tier:?}"),
        KvEvent::Cleared => "cleared".to_owned(),
    }
}
