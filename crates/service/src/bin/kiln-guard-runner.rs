//! The program that runs memory checks, for callers that cannot run themselves as one.

fn main() {
    kiln_service::validate::guard::main_if_guard();
    // Reached only if the program is started by hand.
    std::process::exit(2);
}
