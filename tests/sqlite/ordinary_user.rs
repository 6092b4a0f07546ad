//! Tests that need a user whom the modes of files and folders stop. They stop no root, and in a container
//! tests often run as root; so there the test runs again in a child that is nobody.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// By convention nobody's number, for user and group. Whether it has a name does not matter.
const NOBODY: u32 = 65_534;

/// Runs `body`, the inside of the test named `test`, as a user who is not root. Fails if that can't be had.
pub fn as_an_ordinary_user(test: &str, body: impl FnOnce()) {
    if !is_root() {
        return body();
    }
    // Where this program was built, and where root's temporary files are, nobody may not be let in.
    let folder = crate::folder();
    let program = folder.path().join("test");
    let own = std::env::current_exe().expect("the path of this test");
    std::fs::copy(own, &program).expect("a copy of this program");
    set_mode(&program, 0o755);
    set_mode(folder.path(), 0o777);
    let output = Command::new(&program)
        .args(["--exact", test])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap_or_else(|error| panic!("root can't start {} as nobody: {error}", program.display()));
    assert!(output.status.success(), "as nobody: {output:?}");
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "the child found no test named {test}: {output:?}");
}

/// Told by the owner of a file just made: std has no call that asks.
fn is_root() -> bool {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.as_file().metadata().expect("its metadata").uid() == 0
}

pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}
