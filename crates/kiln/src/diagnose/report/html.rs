//! The page of a report: a self-contained HTML file, which works without a mouse and can be printed.
//!
//! Drawings are SVG, laid out here; a small script adds zooming and the details of a step. Invariants: every text from
//! outside goes through [`escape`]; everything that is drawn or tabulated can be read without the script.

mod graph;
mod memory;
mod tables;
mod text;
mod timeline;

use super::CallReport;
use super::advice::time;
use text::{bytes, count, escape, json};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The sections, by the name that links use, and their headings.
const SECTIONS: [(&str, &str); 7] = [
    ("next", "What to try next"),
    ("timeline", "Timeline"),
    ("graph", "Fused graph"),
    ("steps", "Steps"),
    ("apart", "Near misses"),
    ("memory", "Memory"),
    ("compiles", "Compile account"),
];

impl CallReport {
    /// The report as one self-contained HTML page.
    pub fn to_html(&self) -> String {
        let title = escape(&self.model);
        let mut page = String::with_capacity(64 * 1024 + self.steps.len() * 2048);
        page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n");
        page.push_str(&format!("<title>{title}: a call in detail</title>\n"));
        page.push_str(&format!("<style>\n{STYLE}</style>\n</head>\n<body>\n"));
        page.push_str("<a class=\"skip\" href=\"#next\">Skip to the contents</a>\n");
        page.push_str(&self.header());
        page.push_str("<main>\n");
        for (name, heading) in SECTIONS {
            let body = match name {
                "next" => tables::advice(self),
                "timeline" => timeline::section(self),
                "graph" => graph::section(self),
                "steps" => tables::steps(self),
                "apart" => tables::apart(self),
                "memory" => memory::section(self),
                _ => tables::compiles(self),
            };
            page.push_str(&format!(
                "<section id=\"{name}\" aria-labelledby=\"{name}-heading\">\n<h2 id=\"{name}-heading\">{heading}</h2>\n{body}</section>\n"
            ));
        }
        page.push_str("</main>\n");
        page.push_str(&self.footer());
        page.push_str(&format!(
            "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            json(&self.steps)
        ));
        page
    }

    fn header(&self) -> String {
        let kernels = self.n_kernels();
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .map(|(name, size)| format!("<span class=\"size\">{} = {size}</span>", escape(name)))
            .collect();
        let target = self
            .target
            .as_deref()
            .map_or(String::new(), |target| format!(" for {}", escape(target)));
        let mut header = format!(
            "<header>\n<p class=\"eyebrow\">A call in detail</p>\n<h1>{}</h1>\n<p class=\"lede\">{} ops became {} steps, which launch {kernels} different kernels on device <b>{}</b>{target}, with {} {}.</p>\n",
            escape(&self.model),
            self.n_ops,
            self.steps.len(),
            escape(&self.device),
            self.threads,
            if self.threads == 1 {
                "thread"
            } else {
                "threads"
            },
        );
        if !sizes.is_empty() {
            header.push_str(&format!("<p class=\"sizes\">{}</p>\n", sizes.join(" ")));
        }
        header.push_str("<dl class=\"tiles\">\n");
        for (label, value, note) in self.tiles() {
            header.push_str(&format!(
                "<div><dt>{label}</dt><dd>{value}</dd><dd class=\"note\">{note}</dd></div>\n"
            ));
        }
        header.push_str("</dl>\n<nav aria-label=\"Sections\">");
        for (name, heading) in SECTIONS {
            header.push_str(&format!("<a href=\"#{name}\">{heading}</a>"));
        }
        header.push_str("</nav>\n</header>\n");
        header
    }

    fn n_kernels(&self) -> usize {
        let kernels = self.steps.iter().filter_map(|step| step.kernel.as_deref());
        kernels.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Label, figure, and explanation.
    fn tiles(&self) -> Vec<(&'static str, String, String)> {
        let compiling: f64 = self.compiles.iter().map(|compile| compile.ms).sum();
        let mut tiles = vec![
            (
                "A call",
                time(self.call_ms),
                format!("the median of {}", count(self.calls as f64)),
            ),
            (
                "The first call",
                time(self.first_ms),
                match self.compiles.len() {
                    0 => format!("{} kernels from a store", self.kernels_loaded),
                    n => format!("{n} kernels compiled in {}", time(compiling)),
                },
            ),
        ];
        if let Some(share) = self.of_roofline() {
            let rates = self.rates.map_or(String::new(), |rates| {
                format!(
                    "of {} GB/s and {} GFLOP/s, measured here",
                    count(rates.bytes_per_second / 1e9),
                    count(rates.operations_per_second / 1e9)
                )
            });
            tiles.push((
                "Share of roofline",
                format!("{:.0} %", share * 100.0),
                rates,
            ));
        }
        if let Some(memory) = &self.memory {
            tiles.push((
                "Memory",
                bytes((memory.arena + memory.results + memory.scratch) as f64),
                format!("{} live at most", bytes(memory.largest_live_set as f64)),
            ));
        }
        tiles
    }

    /// The minimum possible time of all kernels, divided by the time they took.
    fn of_roofline(&self) -> Option<f64> {
        let rated = || {
            let steps = self.steps.iter();
            steps.filter_map(|step| Some((step.ms, step.of_roofline?)))
        };
        let ms: f64 = rated().map(|(ms, _)| ms).sum();
        let least: f64 = rated().map(|(ms, share)| ms * share.min(1.0)).sum();
        (ms > 0.0).then(|| least / ms)
    }

    fn footer(&self) -> String {
        let mut footer = String::from("<footer>\n<p>");
        footer.push_str(&format!(
            "Times of steps are medians of {} calls; the timeline is one of them. The share of roofline is the time that this machine’s best rates allow for a step’s bytes and operations, over the time it took; the rates are those of a stream through 128 MiB (for steps of at most 1 MiB: through 512 KiB) and of a product of 768 × 768 × 768, measured beside the call. What a near miss would save is an estimate: its values would not be written and read again. ",
            self.calls
        ));
        footer.push_str(&format!("Made by kiln {}", env!("CARGO_PKG_VERSION")));
        footer.push_str(if self.debug_build {
            ", a debug build.</p>\n"
        } else {
            ".</p>\n"
        });
        for input in &self.inputs {
            footer.push_str(&format!(
                "<p class=\"input\">{} <span>given {:?}</span></p>\n",
                escape(&input.description),
                input.shape
            ));
        }
        footer.push_str("</footer>\n");
        footer
    }
}
