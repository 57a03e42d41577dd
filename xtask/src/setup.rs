//! `cargo xtask setup`: installs what the build needs through the system's package manager.
//!
//! The requirements are the table in `needs`; `manager` knows how each system installs them. Invariants: does nothing,
//! fast, when all are present; prints each command before it runs it; where it cannot act it prints instructions and fails.

mod manager;
mod needs;

use anyhow::{Result, bail};

use manager::{Manager, Privilege};
use needs::Need;

pub(crate) use needs::{BROWSERS, succeeds};

/// Installs the missing requirements of the build.
pub(crate) fn run() -> Result<()> {
    install(needs::ALL, "the build")
}

/// Installs the missing requirements of training over MPI.
pub(crate) fn mpi() -> Result<()> {
    install(needs::MPI, "training over MPI")
}

/// Installs a headless browser if there is none.
pub(crate) fn browser() -> Result<()> {
    install(needs::BROWSER, "looking at pages")
}

fn install(all: &[Need], what: &str) -> Result<()> {
    let missing: Vec<&Need> = all.iter().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        println!("setup: everything {what} needs is here");
        return Ok(());
    }
    for need in &missing {
        println!("setup: missing {} ({})", need.name, need.why);
    }
    let Some(manager) = Manager::detect() else {
        bail!(
            "no known package manager here; install by hand: {}",
            names(&missing)
        );
    };
    let commands = manager.install_commands(&packages(&missing, manager));
    let privilege = Privilege::detect(manager);
    if privilege == Privilege::None {
        bail!(
            "root rights are needed; run as root, then repeat:\n{}",
            listed(&commands)
        );
    }
    for command in &commands {
        println!("setup: {}", command.join(" "));
        privilege.run(command)?;
    }
    let still: Vec<&Need> = missing.into_iter().filter(|need| !need.is_met()).collect();
    if !still.is_empty() {
        bail!(
            "installed, yet still missing: {}; install by hand and repeat",
            names(&still)
        );
    }
    println!("setup: done");
    Ok(())
}

fn names(needs: &[&Need]) -> String {
    needs
        .iter()
        .map(|need| need.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn packages(needs: &[&Need], manager: Manager) -> Vec<&'static str> {
    let mut packages: Vec<&str> = needs
        .iter()
        .flat_map(|need| need.packages(manager))
        .copied()
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn listed(commands: &[Vec<&str>]) -> String {
    commands
        .iter()
        .map(|command| format!("  {}", command.join(" ")))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_missing_needs_are_listed_once() {
        let all: Vec<&Need> = needs::ALL.iter().collect();
        let packages = packages(&all, Manager::Apt);
        assert!(
            packages.contains(&"gcc") && packages.contains(&"python3-pip"),
            "{packages:?}"
        );
        let mut unique = packages.clone();
        unique.dedup();
        assert_eq!(unique, packages);
    }

    #[test]
    fn every_need_says_how_each_system_installs_it() {
        for need in needs::ALL.iter().chain(needs::MPI) {
            for manager in Manager::ALL {
                assert!(
                    !need.packages(manager).is_empty(),
                    "{}: {manager:?}",
                    need.name
                );
            }
        }
    }

    #[test]
    fn the_package_list_is_refreshed_before_apt_installs() {
        let commands = Manager::Apt.install_commands(&["gcc"]);
        assert_eq!(
            listed(&commands),
            "  apt-get update\n  apt-get install --yes --no-install-recommends gcc"
        );
    }
}
