//! A just-in-time compiler for tensor programs whose shapes change from call to call.
