//! What the operator says about one engine behind its address, `?NAME=VALUE&…`.

use hyper::Uri;
use tito_engine_vllm::MetricsAddress;
use tito_types::Pixels;

/// Where engines serve their metrics, unless said otherwise.
const METRICS_PATH: &str = "/metrics";

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
                _ => return Err(format!("unknown option `{option}`: there are pixels= and metrics=")),
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
        _ => Err(format!("pixels={word}: use pixels=raw or pixels=normalized")),
    }
}

fn metrics(url: &str) -> Result<MetricsAddress, String> {
    let wrong = |what: &str| format!("metrics={url}: {what}; write it as metrics=http://HOST:PORT[/PATH]");
    let uri: Uri = url.parse().map_err(|_| wrong("is no URL"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(wrong("metrics are read over plain HTTP, not TLS")),
        _ => return Err(wrong("must begin with http://")),
    }
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    let authority = authority.ok_or_else(|| wrong("names no host, or a user"))?;
    let port = match authority.port_u16() {
        None if authority.as_str() == authority.host() => 80,
        None | Some(0) => return Err(wrong("has no such port")),
        Some(port) => port,
    };
    if uri.query().is_some() {
        return Err(wrong("must have no query"));
    }
    let path = if uri.path() == "/" { METRICS_PATH } else { uri.path() };
    Ok(MetricsAddress { authority: format!("{}:{port}", authority.host()), path: path.to_owned() })
}
