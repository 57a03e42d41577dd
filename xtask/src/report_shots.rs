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

/// Models, and the sizes of the call that is shown.
const SHOWN: [(&str, &str); 3] = [
    ("ocr-det", "H=320,W=320"),
    ("ocr-rec", "W=320"),
    ("minilm", "batch=2,seq=64"),
];

/// A page opens in less, on a machine that does nothing else.
const OPENS_WITHIN: Duration = Duration::from_secs(2);

/// The steps of the page whose opening is measured; the facade's test that writes it has the same number.
const LARGE: usize = 2000;

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

/// Opens a page, and checks what its script has left: it ran to its end, and drew what the page has.
fn check(browser: &str, page: &Path, n_steps: Option<usize>) -> Result<()> {
    // A first start makes the browser's profile.
    let blank = headless(browser, &profile(page))
        .args(["--dump-dom", "about:blank"])
        .output()?;
    ensure!(
        blank.status.success(),
        "{browser} ended with {}",
        blank.status
    );
    let time = |address: &str| {
        let start = Instant::now();
        let opened = headless(browser, &profile(page))
            .args(["--dump-dom", address])
            .output()?;
        Ok::<_, anyhow::Error>((start.elapsed(), opened))
    };
    let (idle, _) = time("about:blank")?;
    let (elapsed, opened) = time(&address(page))?;
    let dom = String::from_utf8_lossy(&opened.stdout);
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
    let opening = elapsed.saturating_sub(idle);
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
            .arg(format!("{}#n1", address(page)));
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
        .args([
            "test",
            "--quiet",
            "--package",
            "kiln",
            "--lib",
            "a_page_of_2000_steps",
        ])
        .env("KILN_WRITE_LARGE_REPORT", page)
        .status()?;
    ensure!(
        status.success() && page.exists(),
        "no large page was written"
    );
    Ok(())
}
