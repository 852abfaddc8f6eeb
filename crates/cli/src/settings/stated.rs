//! What the operator says about one engine behind its address, `?NAME=VALUE&…`.

use tito_engine_vllm::MetricsAddress;
use tito_types::Pixels;

use crate::plain_http::PlainUrl;

/// Where engines serve their metrics, unless said otherwise.
const METRICS_PATH: &str = "/metrics";

/// The address as it may be shown: what should not stand in it may be a secret.
pub(crate) fn shown(engine: &str) -> String {
    let (address, options) =
        engine.split_once('?').map_or((engine, None), |(address, options)| (address, Some(options)));
    let address = match address.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => address.to_owned(),
    };
    let Some(options) = options else { return address };
    let options = options.split('&').map(|option| match option.split_once('=') {
        Some(("pixels", word)) if pixels(word).is_ok() => option.to_owned(),
        Some(("metrics", url)) if metrics(url).is_ok() => option.to_owned(),
        Some((name, _)) => format!("{name}=…"),
        None => "…".to_owned(),
    });
    format!("{address}?{}", options.collect::<Vec<_>>().join("&"))
}

#[derive(Debug, Default)]
pub(super) struct Stated {
    pub(super) pixels: Option<Pixels>,
    pub(super) metrics: Option<MetricsAddress>,
}

impl Stated {
    pub(super) fn read(options: &str) -> Result<Self, String> {
        let mut stated = Self::default();
        for option in options.split('&') {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let twice = match name {
                "pixels" => stated.pixels.replace(pixels(value)?).is_some(),
                "metrics" => stated.metrics.replace(metrics(value)?).is_some(),
                _ => return Err("an unknown option: there are pixels= and metrics=".to_owned()),
            };
            if twice {
                return Err(format!("{name}= is given twice"));
            }
        }
        Ok(stated)
    }
}

fn pixels(word: &str) -> Result<Pixels, String> {
    match word {
        "raw" => Ok(Pixels::Raw),
        "normalized" => Ok(Pixels::Normalized),
        _ => Err("pixels= must be pixels=raw or pixels=normalized".to_owned()),
    }
}

fn metrics(url: &str) -> Result<MetricsAddress, String> {
    let PlainUrl { authority, path } = PlainUrl::parse(url)
        .map_err(|why| format!("metrics= {why}; write it as metrics=http://HOST:PORT[/PATH]"))?;
    let path = if path == "/" { METRICS_PATH.to_owned() } else { path };
    Ok(MetricsAddress { authority, path })
}
