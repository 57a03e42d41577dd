//! The status page at `/`: models, their states and counters. It needs no script and no other file.

use super::answer;
use crate::core::Core;
use crate::model::ServedModel;
use crate::repository::VersionStatus;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use std::fmt::Write;
use std::sync::Arc;

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>\
<title>Kiln</title><style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ccc;\
vertical-align:top}td.n,th.n{text-align:right}.READY{color:#060}.LOADING{color:#850}.UNAVAILABLE{color:#a00}\
small{color:#555}</style><h1>Kiln</h1>";

const COLUMNS: &str = "<table><tr><th>model<th>version<th>state<th class=n>requests<th class=n>failed\
<th class=n>waiting<th class=n>calls<th class=n>ms per call<th>joined along";

/// The page.
pub(super) async fn page(core: &Core) -> Response<Full<Bytes>> {
    let mut text = String::from(HEAD);
    let state = match core.is_ready() {
        true => "ready",
        false if core.gate.is_draining() => "shutting down",
        false => "loading models",
    };
    let gate = &core.gate;
    push(
        &mut text,
        format_args!(
            "<p>Version {}, {state}. {} requests now, {} connections, {} bytes of requests in memory. \
         <a href=/metrics>Metrics</a>, <a href=/v2>protocol</a>.</p>",
            env!("CARGO_PKG_VERSION"),
            gate.requests(),
            gate.connections(),
            gate.bytes(),
        ),
    );
    match core.repository.index().await {
        Ok(index) => {
            text.push_str(COLUMNS);
            let served = core.repository.catalog().served();
            for status in &index {
                row(&mut text, status, &served);
            }
            text.push_str("</table>");
        }
        Err(error) => push(
            &mut text,
            format_args!("<p>{}</p>", escaped(&error.to_string())),
        ),
    }
    answer::page(text)
}

fn row(text: &mut String, status: &VersionStatus, served: &[Arc<ServedModel>]) {
    let VersionStatus {
        model,
        version,
        state,
        reason,
    } = status;
    push(
        text,
        format_args!(
            "<tr><td>{}<td>{}<td class={state}>{state}",
            escaped(model),
            escaped(version),
        ),
    );
    if !reason.is_empty() {
        push(text, format_args!("<br><small>{}</small>", escaped(reason)));
    }
    let found = served
        .iter()
        .find(|served| &served.labels.model == model && &served.labels.version == version);
    let Some(served) = found else {
        text.push_str("<td class=n><td class=n><td class=n><td class=n><td class=n><td>");
        return;
    };
    let stats = served.stats.snapshot();
    let ms = match stats.executions {
        0 => String::new(),
        calls => format!(
            "{:.2}",
            stats.compute_infer.time.as_secs_f64() * 1e3 / calls as f64
        ),
    };
    let joined = match &served.plan {
        Ok(plan) => escaped(&plan.symbol),
        Err(refusal) => format!(
            "<small>not joined: {}</small>",
            escaped(&refusal.to_string())
        ),
    };
    push(
        text,
        format_args!(
            "<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{ms}<td>{joined}",
            stats.success.count + stats.fail.count,
            stats.fail.count,
            served.waiting(),
            stats.executions,
        ),
    );
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    if text.write_fmt(arguments).is_err() {
        unreachable!("writing into a string does not fail");
    }
}

/// Text for a page.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_text_and_not_markup() {
        assert_eq!(super::escaped("<b a='\"&"), "&lt;b a=&#39;&quot;&amp;");
    }
}
