//! A model, its cases and a way to run the command, in a temporary folder.

use kiln::Tensor;
use kiln::internals::tensor::{read_npy, write_npy};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Two inputs whose `N` must agree; an output whose name has a slash.
const MODEL: &str = "
graph @scaled(%x: f32[N, 3], %scale: f32[3]) -> (f32[N, 3], f32[3]) {
  %y: f32[N, 3] = mul %x, %scale
  %unused: f32[N, 3] = neg %x
  %total: f32[3] = reduce %y {function = sum, axes = [0]}
  return \"out/y\" = %y, %total
}";

/// A folder with a model and two cases; on request the second has a wrong shape.
pub(crate) struct Workshop {
    pub(crate) folder: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("model.kiln"), MODEL).unwrap();
        let workshop = Self { folder };
        workshop.case("a", &[2, 3]);
        workshop.case("b", &[1, 3]);
        workshop
    }

    /// Writes a case whose `x` has this shape.
    pub(crate) fn case(&self, name: &str, shape: &[usize]) {
        let elements: Vec<f32> = (0..shape.iter().product::<usize>())
            .map(|index| index as f32)
            .collect();
        self.tensor(
            &format!("cases/{name}/x.npy"),
            &Tensor::from_slice(shape, &elements).unwrap(),
        );
        let scale = Tensor::from_slice(&[3], &[1.0_f32, 10.0, 100.0]).unwrap();
        self.tensor(&format!("cases/{name}/scale.npy"), &scale);
    }

    pub(crate) fn tensor(&self, path: &str, tensor: &Tensor) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_npy(tensor, &mut File::create(path).unwrap()).unwrap();
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Runs the command in the folder.
    pub(crate) fn kiln(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The command in the folder, not yet run.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command
            .current_dir(self.folder.path())
            .env_remove("KILN_LOG")
            .args(arguments);
        command
    }
}

impl Workshop {
    /// Like [`kiln`](Self::kiln), with input on standard input.
    pub(crate) fn kiln_fed(&self, arguments: &[&str], input: &str) -> Output {
        fs::write(self.path("input"), input).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command
            .current_dir(self.folder.path())
            .stdin(File::open(self.path("input")).unwrap())
            .env_remove("KILN_LOG");
        command.args(arguments).output().unwrap()
    }
}

pub(crate) fn read(path: &Path) -> Tensor {
    read_npy(&mut File::open(path).unwrap()).unwrap()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The JSON lines of standard output, which must contain nothing else.
pub(crate) fn json(output: &Output) -> Vec<serde_json::Value> {
    stdout(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
