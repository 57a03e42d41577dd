//! The colours of boxes by kind; one palette for every kind of drawing.

use super::scene::NodeKind;

impl NodeKind {
    /// Every kind, for legends and style sheets.
    pub(super) const ALL: [Self; 9] = [
        Self::Input,
        Self::Output,
        Self::Constant,
        Self::ElementWise,
        Self::Movement,
        Self::Contraction,
        Self::Reduction,
        Self::Control,
        Self::Note,
    ];

    /// Its name in style sheets.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Constant => "constant",
            Self::ElementWise => "element-wise",
            Self::Movement => "movement",
            Self::Contraction => "contraction",
            Self::Reduction => "reduction",
            Self::Control => "control",
            Self::Note => "note",
        }
    }

    /// The box's background, light enough for dark text.
    pub(super) fn fill(self) -> &'static str {
        match self {
            Self::Input => "#d8f0d8",
            Self::Output => "#d6e6fa",
            Self::Constant => "#eeeeee",
            Self::ElementWise => "#ffffff",
            Self::Movement => "#f3ead9",
            Self::Contraction => "#fbdcc4",
            Self::Reduction => "#fdf3c0",
            Self::Control => "#f1ebfc",
            Self::Note => "#f8f8f8",
        }
    }
}
