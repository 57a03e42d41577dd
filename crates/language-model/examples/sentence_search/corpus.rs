//! The sentences that are searched: the prose of some pages of the book.

/// A sentence, and where it is from.
pub(crate) struct Sentence {
    pub(crate) text: String,
    pub(crate) page: &'static str,
}

/// Shorter ones say little.
const SHORTEST: usize = 40;

macro_rules! pages {
    ($($page:literal),+ $(,)?) => {
        [$(($page, include_str!(concat!("../../../../docs/book/src/", $page)))),+]
    };
}

const PAGES: [(&str, &str); 9] = pages![
    "guide/backends.md",
    "guide/bringing-your-model.md",
    "guide/compiling.md",
    "guide/gpus.md",
    "guide/operations.md",
    "guide/serving.md",
    "guide/sessions.md",
    "guide/sharing-a-store.md",
    "guide/troubleshooting.md",
];

/// The sentences of all pages, in order.
pub(crate) fn sentences() -> Vec<Sentence> {
    let of_page = |&(page, text): &(&'static str, &'static str)| {
        prose(text)
            .into_iter()
            .map(move |text| Sentence { text, page })
    };
    PAGES.iter().flat_map(of_page).collect()
}

/// The sentences of a page's paragraphs and lists; headings, tables and code are left out.
fn prose(page: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut is_code = false;
    let mut paragraph = String::new();
    for line in page.lines().chain([""]) {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let is_prose = !is_code && !line.is_empty() && !line.starts_with(['#', '|', '`']);
        if is_prose {
            paragraph.push_str(line.trim_start_matches("- ").trim());
            paragraph.push(' ');
            continue;
        }
        let parts = paragraph.split_inclusive(". ").map(str::trim);
        let long = parts.filter(|part| part.len() >= SHORTEST);
        sentences.extend(long.map(str::to_owned));
        paragraph.clear();
    }
    sentences
}
