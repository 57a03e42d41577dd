//! What fuses and what does not, rule by rule.
