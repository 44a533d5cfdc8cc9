//! What ends a server whose starter was killed.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of this process, whatever ends it: its stdin then ends. It kills the
/// server and removes its folder. When this is dropped, it does nothing.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    pub(super) fn over(server: u32, directory: &Path) -> io::Result<Self> {
        let script = "read -r _; kill -9 \"$0\"; rm -rf -- \"$1\"";
        let words: [OsString; 4] =
            ["-c".into(), script.into(), server.to_string().into(), directory.into()];
        Command::new("sh")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // In this order: waiting closes the stdin, on which it would act.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::PathBuf;

    use super::*;

    fn guarded(name: &str) -> (Child, PathBuf, Guard) {
        let sleeper = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let directory = std::env::temp_dir().join(format!("guard {name} {}", std::process::id()));
        std::fs::create_dir(&directory).expect("a folder is made");
        let guard = Guard::over(sleeper.id(), &directory).expect("sh starts");
        (sleeper, directory, guard)
    }

    #[test]
    fn it_acts_when_its_starter_is_gone() {
        let (mut sleeper, directory, mut guard) = guarded("acts");
        // What the end of this process would do.
        drop(guard.0.stdin.take());
        assert_eq!(sleeper.wait().expect("it ends").signal(), Some(9));
        guard.0.wait().expect("the shell ends");
        assert!(!directory.exists());
    }

    #[test]
    fn it_does_nothing_when_it_is_dropped() {
        let (mut sleeper, directory, guard) = guarded("dropped");
        drop(guard);
        assert!(sleeper.try_wait().expect("it is there").is_none());
        assert!(directory.exists());
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
        std::fs::remove_dir(directory).expect("the folder goes");
    }
}
