//! Names that a model must not use, on a real file system. Each case is tried with `openat2`, and with the path walk
//! that replaces it.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// A folder `model` next to a file `secret` that no model may read.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        fs::create_dir_all(root.path().join("model/inner")).unwrap();
        fs::write(root.path().join("model/weights"), "weights").unwrap();
        fs::write(root.path().join("model/inner/weights"), "inner").unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn folder(&self) -> Folder {
        Folder::open(&self.path("model")).unwrap()
    }
}

/// Opens `name` in both ways, which must agree, and reads the file.
fn open_both_ways(folder: &Folder, name: &str) -> Result<Vec<u8>, FileError> {
    let location = Location::parse(name)?;
    let walked = folder
        .admit(&location, folder.walk(&location))
        .map(|file| read_all(&file));
    let opened = folder.open(&location).map(|file| read_all(&*file));
    assert_eq!(format!("{opened:?}"), format!("{walked:?}"), "{name}");
    opened
}

fn read_all(file: &dyn DataFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.size()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn assert_refused(folder: &Folder, name: &str, expected: Refusal) {
    match open_both_ways(folder, name) {
        Err(FileError::Refused(refusal)) => assert_eq!(refusal, expected, "{name}"),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn files_beneath_the_folder_are_read() {
    let world = World::new();
    assert_eq!(
        open_both_ways(&world.folder(), "weights").unwrap(),
        b"weights"
    );
    assert_eq!(
        open_both_ways(&world.folder(), "inner/weights").unwrap(),
        b"inner"
    );
    for name in ["absent", "inner/absent", "absent/weights", "weights/x"] {
        assert!(
            matches!(open_both_ways(&world.folder(), name), Err(FileError::Io(_))),
            "{name}"
        );
    }
}

#[test]
fn importer_path_escapes_are_refused_before_reading() {
    let world = World::new();
    symlink(world.path("secret"), world.path("model/link")).unwrap();
    symlink("weights", world.path("model/near")).unwrap();
    symlink(world.path(""), world.path("model/up")).unwrap();
    symlink("inner", world.path("model/side")).unwrap();
    symlink("gone", world.path("model/dangling")).unwrap();
    fs::hard_link(world.path("secret"), world.path("model/hard")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, world.path("model/pipe"), fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(world.path("model/socket")).unwrap();
    let absolute = world.path("secret");
    for (name, refusal) in [
        ("../secret", Refusal::Dots),
        ("inner/../../secret", Refusal::Dots),
        (absolute.to_str().unwrap(), Refusal::Absolute),
        ("/proc/self/environ", Refusal::Absolute),
        ("/dev/zero", Refusal::Absolute),
        ("link", Refusal::SymbolicLink),
        ("near", Refusal::SymbolicLink),
        ("dangling", Refusal::SymbolicLink),
        ("up/secret", Refusal::SymbolicLink),
        ("side/weights", Refusal::SymbolicLink),
        ("hard", Refusal::HardLink),
        ("pipe", Refusal::NotRegular),
        ("socket", Refusal::NotRegular),
        ("inner", Refusal::NotRegular),
    ] {
        assert_refused(&world.folder(), name, refusal);
    }
    assert_refused(
        &Folder::open(Path::new("/dev")).unwrap(),
        "null",
        Refusal::NotRegular,
    );
    let processes = Folder::open(Path::new("/proc/self")).unwrap();
    assert_refused(&processes, "exe", Refusal::SymbolicLink);
    assert_refused(&processes, "cwd/Cargo.toml", Refusal::SymbolicLink);
    let allowing = world.folder().allow_hard_links(true);
    assert_eq!(open_both_ways(&allowing, "hard").unwrap(), b"secret");
}

#[test]
fn a_link_put_in_place_meanwhile_is_never_followed() {
    let world = World::new();
    let (file, link, name) = (
        world.path("plain"),
        world.path("link"),
        world.path("model/target"),
    );
    fs::write(&file, "plain").unwrap();
    fs::copy(&file, &name).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                symlink(world.path("secret"), &link).unwrap();
                fs::rename(&link, &name).unwrap();
                fs::copy(&file, world.path("copy")).unwrap();
                fs::rename(world.path("copy"), &name).unwrap();
            }
        });
        let folder = world.folder();
        let location = Location::parse("target").unwrap();
        for _ in 0..2000 {
            for opened in [folder.resolve(&location), folder.walk(&location)] {
                match folder.admit(&location, opened) {
                    Ok(file) => {
                        assert_eq!(read_all(&file), b"plain");
                    }
                    Err(FileError::Refused(refusal)) => assert_eq!(refusal, Refusal::SymbolicLink),
                    Err(FileError::Io(error)) => panic!("{error}"),
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    // The race ends with the plain file in place; before that, either file may be seen.
    assert_eq!(open_both_ways(&world.folder(), "target").unwrap(), b"plain");
}

#[test]
fn a_model_file_is_read_through_links_but_never_from_a_pipe() {
    let world = World::new();
    symlink(world.path("secret"), world.path("model/link")).unwrap();
    let (bytes, folder) = read_model_file(&world.path("model/link"), &Limits::default()).unwrap();
    assert_eq!(bytes, b"secret");
    assert!(folder.open(&Location::parse("weights").unwrap()).is_ok());

    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, world.path("model/pipe"), fifo, Mode::RWXU, 0).unwrap();
    for (name, message) in [
        (
            "model/pipe",
            r#"cannot read model file "pipe": expected a regular file, found something else"#,
        ),
        (
            "model",
            r#"cannot read model file "model": expected a regular file, found something else"#,
        ),
        (
            "absent",
            r#"cannot read model file "absent": No such file or directory (os error 2)"#,
        ),
    ] {
        let error = read_model_file(&world.path(name), &Limits::default()).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("E0903", message)
        );
    }
    let limits = Limits {
        model_bytes: 5,
        ..Limits::default()
    };
    let error = read_model_file(&world.path("secret"), &limits).unwrap_err();
    assert_eq!(error.code(), "E0902");
}
