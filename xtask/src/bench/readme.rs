//! The README's table of native code next to its peers, from measured cases.
//!
//! `ROWS` defines its rows; unmeasured ones are omitted. Below it is the summary of all cases.

use std::fmt::Write;

use serde::Deserialize;

/// One case, measured; times in milliseconds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    /// The model's name.
    pub(crate) model: String,
    /// Its name: a number, then the shapes of the inputs: `001-1x128_1x128`.
    pub(crate) case: String,
    /// The error against onnxruntime without optimisation, relative, in the 2-norm.
    pub(crate) error: Option<f64>,
    /// onnxruntime's median.
    pub(crate) ort: Option<f64>,
    /// OpenVINO's median.
    pub(crate) ov: Option<f64>,
    /// Kiln's median.
    pub(crate) kiln: Option<f64>,
    /// Kiln's first call.
    pub(crate) first: Option<f64>,
    /// Kernels that it compiled.
    pub(crate) compiles: Option<u64>,
}

/// Models, their names in the README, and cases.
const ROWS: [(&str, &str, &str); 5] = [
    ("ocr-cls", "direction classifier", "6x3x48x192"),
    ("ocr-rec", "recogniser", "1x3x48x320"),
    ("ocr-rec", "recogniser", "6x3x48x320"),
    ("ocr-det", "detector", "1x3x640x480"),
    ("minilm", "all-MiniLM-L6-v2", "1x128_1x128"),
];

const HEAD: &str = "\
| model | inputs | Kiln | onnxruntime | OpenVINO | Kiln / faster peer | first call, compiling included |
|---|---|---|---|---|---|---|
";

/// The table and its closing sentence.
pub(crate) fn table(cases: &[Case]) -> String {
    let mut text = HEAD.to_owned();
    let mut shown = Vec::new();
    for (model, title, shapes) in ROWS {
        let its = || cases.iter().filter(|case| case.model == model);
        let Some(case) = its().find(|case| case.shapes() == shapes) else {
            continue;
        };
        // A model's first row shows the compile cost, which was paid at its first case.
        let first = its().next().filter(|_| !shown.contains(&model));
        shown.push(model);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {title} | {} | {} | {} | {} | {} | {} |",
            case.inputs(),
            milliseconds(case.kiln),
            milliseconds(case.ort),
            milliseconds(case.ov),
            ratio(case),
            first_call(case, first.unwrap_or(case)),
        );
    }
    text + &closing(cases)
}

/// The first call of `case`, or of the previous case at which its kernels were compiled.
fn first_call(case: &Case, compiled_at: &Case) -> String {
    let time = compiled_at
        .first
        .map_or_else(|| "-".to_owned(), |first| format!("{first:.0}"));
    if compiled_at.case != case.case {
        format!("{time} at {}", compiled_at.sizes())
    } else if case.compiles == Some(0) {
        format!("{time}, nothing left to compile")
    } else {
        time
    }
}

fn milliseconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1}"))
}

fn ratio(case: &Case) -> String {
    let ratio = case.kiln.zip(case.faster_peer());
    ratio.map_or_else(
        || "-".to_owned(),
        |(kiln, peer)| format!("{:.2}", kiln / peer),
    )
}

fn closing(cases: &[Case]) -> String {
    let over = |peer: &dyn Fn(&Case) -> Option<f64>| {
        let ratios = cases
            .iter()
            .filter_map(|case| Some(case.kiln? / peer(case)?));
        mean(&ratios.collect::<Vec<_>>())
    };
    let over_ort = over(&|case| case.ort);
    let over_faster = over(&Case::faster_peer);
    let (Some(over_ort), Some(over_faster)) = (over_ort, over_faster) else {
        return "\nNo case was measured on both sides.\n".to_owned();
    };
    let error = cases
        .iter()
        .map(|case| case.error)
        .try_fold(0.0, |most: f64, error| error.map(|error| most.max(error)));
    let error = error.map_or_else(
        || "some answers are missing or have another shape".to_owned(),
        |error| format!("the largest error against onnxruntime is {error:.1e}"),
    );
    format!(
        "\nOver {} cases the geometric mean is {over_ort:.2} times onnxruntime's time and {over_faster:.2} times that of \
         the faster of the two; {error}.\n",
        cases.len()
    )
}

/// The geometric mean.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

impl Case {
    /// The time of the fastest of the measured peers.
    fn faster_peer(&self) -> Option<f64> {
        match (self.ort, self.ov) {
            (Some(ort), Some(ov)) => Some(ort.min(ov)),
            (ort, ov) => ort.or(ov),
        }
    }

    /// The name without its number.
    fn shapes(&self) -> &str {
        self.case
            .split_once('-')
            .map_or(&self.case, |(_, shapes)| shapes)
    }

    /// A time in the README's format.
    fn inputs(&self) -> String {
        match self.model.as_str() {
            "minilm" => format!("{} tokens", self.sizes()),
            _ => self.sizes(),
        }
    }

    /// The shape of the first input; for images of pages, height and width.
    fn sizes(&self) -> String {
        let first = self.shapes().split('_').next().unwrap_or_default();
        let first = match self.model.as_str() {
            "ocr-det" => first.strip_prefix("1x3x").unwrap_or(first),
            _ => first,
        };
        first.replace('x', " x ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(model: &str, case: &str, times: [Option<f64>; 4], compiles: u64) -> Case {
        let [ort, ov, kiln, first] = times;
        Case {
            model: model.to_owned(),
            case: case.to_owned(),
            error: Some(1.25e-6),
            ort,
            ov,
            kiln,
            first,
            compiles: Some(compiles),
        }
    }

    #[test]
    fn the_bench_table_equals_the_one_in_the_readme() {
        let times = |ort, ov, kiln, first| [Some(ort), Some(ov), Some(kiln), Some(first)];
        let cases = [
            case("minilm", "000-1x8_1x8", times(4.0, 8.0, 2.0, 365.4), 11),
            case("minilm", "001-1x128_1x128", times(4.0, 1.0, 2.0, 3.0), 0),
            case(
                "ocr-det",
                "000-1x3x320x320",
                times(4.0, 4.0, 4.0, 906.0),
                47,
            ),
            case(
                "ocr-det",
                "001-1x3x640x480",
                [Some(4.0), None, Some(4.0), Some(50.0)],
                0,
            ),
            case(
                "ocr-rec",
                "000-1x3x48x320",
                times(4.0, 4.0, 4.0, 1007.0),
                49,
            ),
            case("ocr-rec", "001-6x3x48x320", times(4.0, 4.0, 4.0, 92.0), 0),
        ];
        assert_eq!(
            table(&cases),
            "\
| model | inputs | Kiln | onnxruntime | OpenVINO | Kiln / faster peer | first call, compiling included |
|---|---|---|---|---|---|---|
| recogniser | 1 x 3 x 48 x 320 | 4.0 | 4.0 | 4.0 | 1.00 | 1007 |
| recogniser | 6 x 3 x 48 x 320 | 4.0 | 4.0 | 4.0 | 1.00 | 92, nothing left to compile |
| detector | 640 x 480 | 4.0 | 4.0 | - | 1.00 | 906 at 320 x 320 |
| all-MiniLM-L6-v2 | 1 x 128 tokens | 2.0 | 4.0 | 1.0 | 2.00 | 365 at 1 x 8 |

Over 6 cases the geometric mean is 0.79 times onnxruntime's time and 1.00 times that of the faster of the two; \
the largest error against onnxruntime is 1.3e-6.
"
        );
    }

    #[test]
    fn missing_results_are_reported() {
        let mut wrong = case(
            "minilm",
            "000-1x8_1x8",
            [Some(1.0), Some(1.0), Some(1.0), None],
            0,
        );
        wrong.error = None;
        assert!(table(&[wrong.clone()]).contains("some answers are missing"));
        wrong.kiln = None;
        assert!(table(&[wrong]).contains("No case was measured on both sides"));
        assert!(table(&[]).contains("No case"));
    }
}
