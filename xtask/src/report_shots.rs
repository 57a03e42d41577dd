//! `cargo xtask report-shots`: pages of `kiln report` for the example models, opened in a headless browser: checked, and
//! photographed in a light and a dark theme and on paper.
//!
//! Needs the example models (`cargo xtask models`); installs Chromium if there is none. The pictures are in
//! `target/report-shots`, and those of the book are copied from there by hand.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{models, setup, step, workspace};

/// Models, by their names in the pinned files, and the sizes of the call that is shown.
const SHOWN: [(&str, &str); 3] = [
    (
        "ocr-det",
        "p2o.DynamicDimension.1=320,p2o.DynamicDimension.2=320",
    ),
    ("ocr-rec", "p2o.DynamicDimension.1=320,x_2=48"),
    ("minilm", "batch=2,seq=64"),
];

/// The time limit for opening a page, on an idle machine.
const OPENS_WITHIN: Duration = Duration::from_secs(2);

/// The number of times it is opened, of which the shortest counts.
const OPENINGS: usize = 3;

/// The number of steps of the page whose opening is measured; the facade's test that writes it has the same number.
const LARGE: usize = 2000;

/// The test that writes the page to the file named by a variable.
const WRITER: &str = "a_page_of_2000_ops_is_below_5_mb_and_made_in_a_moment";
const WRITER_VARIABLE: &str = "KILN_WRITE_LARGE_REPORT";

/// Makes, checks and photographs the pages.
pub(crate) fn run() -> Result<()> {
    models::run()?;
    let browser = browser()?;
    let root = workspace::root();
    let folder = root.join("target/report-shots");
    std::fs::create_dir_all(&folder)?;
    for (model, sizes) in SHOWN {
        let page = folder.join(format!("{model}.html"));
        let mut command = Command::new(workspace::cargo());
        command
            .current_dir(&root)
            .args(["run", "--quiet", "--package", "kiln-cli", "--", "report"])
            .arg(models::folder(&root).join(model).join("model.onnx"))
            .args(["--size", sizes, "--cache", "off", "--output"])
            .arg(&page);
        step::run(&format!("report on {model}"), &mut command)?;
        step::timed(&format!("check {model}"), || check(browser, &page, None))?;
        step::timed(&format!("pictures of {model}"), || {
            pictures(browser, &page, &folder, model)
        })?;
    }
    step::timed("open a large page", || {
        let page = folder.join("large.html");
        large(&root, &page)?;
        check(browser, &page, Some(LARGE))
    })
}

/// The browser's name; it is installed if there is none.
fn browser() -> Result<&'static str> {
    setup::browser()?;
    let mut names = setup::BROWSERS.into_iter();
    names
        .find(|name| setup::succeeds(&[name, "--version"]))
        .context("the browser is installed and does not run")
}

fn headless(browser: &str, profile: &Path) -> Command {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command
}

fn profile(page: &Path) -> PathBuf {
    page.with_extension("profile")
}

fn address(page: &Path) -> String {
    format!("file://{}", page.display())
}

/// Opens a page, and checks that its script ran to its end, and drew everything on the page.
fn check(browser: &str, page: &Path, n_steps: Option<usize>) -> Result<()> {
    // The first start makes the browser's profile.
    let blank = headless(browser, &profile(page))
        .args(["--dump-dom", "about:blank"])
        .output()?;
    ensure!(
        blank.status.success(),
        "{browser} ended with {}",
        blank.status
    );
    let open = |address: &str| {
        let start = Instant::now();
        let opened = headless(browser, &profile(page))
            .args(["--dump-dom", address])
            .output()?;
        Ok::<_, anyhow::Error>((start.elapsed(), opened))
    };
    let mut opening = Duration::MAX;
    let mut printed = Vec::new();
    for _ in 0..OPENINGS {
        let (idle, _) = open("about:blank")?;
        let (elapsed, opened) = open(&address(page))?;
        opening = opening.min(elapsed.saturating_sub(idle));
        printed = opened.stdout;
    }
    let dom = String::from_utf8_lossy(&printed);
    let n_nodes = dom.matches("<g class=\"node").count();
    ensure!(
        dom.contains("data-ready=\"true\""),
        "the script of {} did not end",
        page.display()
    );
    ensure!(n_nodes > 0, "{} has no graph", page.display());
    ensure!(
        dom.contains("class=\"axis\" aria-hidden=\"true\"><span"),
        "the timeline has no axis"
    );
    if let Some(n_steps) = n_steps {
        ensure!(
            n_nodes == n_steps,
            "expected {n_steps} steps, found {n_nodes}"
        );
    }
    println!(
        "{}: {n_nodes} steps, {} kB, opens in {opening:.2?}",
        page.display(),
        std::fs::metadata(page)?.len() / 1000
    );
    if opening > OPENS_WITHIN {
        bail!("expected the page to open within {OPENS_WITHIN:?}");
    }
    Ok(())
}

/// Light, dark, and on paper.
fn pictures(browser: &str, page: &Path, folder: &Path, model: &str) -> Result<()> {
    for (theme, setting) in [("light", "1"), ("dark", "0")] {
        let mut command = headless(browser, &profile(page));
        command
            .arg("--window-size=1320,2400")
            .arg(format!("--blink-settings=preferredColorScheme={setting}"))
            .arg("--virtual-time-budget=3000")
            .arg(format!(
                "--screenshot={}",
                folder.join(format!("{model}-{theme}.png")).display()
            ))
            // Without a step's anchor, because the browser would still be scrolling to it.
            .arg(address(page));
        ensure!(
            command.output()?.status.success(),
            "no picture of {}",
            page.display()
        );
    }
    let mut command = headless(browser, &profile(page));
    command
        .arg("--no-pdf-header-footer")
        .arg(format!(
            "--print-to-pdf={}",
            folder.join(format!("{model}.pdf")).display()
        ))
        .arg(address(page));
    ensure!(
        command.output()?.status.success(),
        "{} cannot be printed",
        page.display()
    );
    Ok(())
}

/// Writes the page of a generated report, through the facade's test.
fn large(root: &Path, page: &Path) -> Result<()> {
    let status = Command::new(workspace::cargo())
        .current_dir(root)
        .args(["test", "--quiet", "--package", "kiln", "--lib", WRITER])
        .env(WRITER_VARIABLE, page)
        .status()?;
    ensure!(
        status.success() && page.exists(),
        "no large page was written"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_that_writes_the_large_page_exists() {
        let tests = workspace::root().join("crates/kiln/src/diagnose/report/tests.rs");
        let text = std::fs::read_to_string(tests).unwrap();
        assert!(text.contains(&format!("fn {WRITER}()")));
        assert!(text.contains(&format!("\"{WRITER_VARIABLE}\"")));
        assert!(text.contains(&format!("generated({LARGE})")));
    }
}
