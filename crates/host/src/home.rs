//! Where everything lies: the folders of configuration, data and state, and the small files in them.
//!
//! Owns every path of a Host, the permissions of its folders, the bearer token's file and the atomic
//! replacement of small files. Leaves the files' contents to those who write them, and the log root's
//! layout to `orrery-storage`.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tempfile::NamedTempFile;

/// The folder's name below the XDG directories.
const FOLDER: &str = "orrery";
/// The environment variable that puts everything below one folder.
pub const HOME_VARIABLE: &str = "ORRERY_HOME";
/// Bytes of randomness in the bearer token.
const TOKEN_BYTES: usize = 32;

/// A failure with a folder or a small file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// Neither `ORRERY_HOME` nor `HOME` says where to live.
    #[error("neither {HOME_VARIABLE} nor HOME is set, so there is no place to keep anything")]
    Nowhere,
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The token's file does not hold a token.
    #[error("{path} does not hold a token; delete it, and the next start writes a new one", path = path.display())]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no randomness.
    #[error("the system gives no randomness: {0}")]
    Randomness(String),
}

/// All paths of one Host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    config: PathBuf,
    data: PathBuf,
    state: PathBuf,
}

impl Home {
    /// Everything below one folder: what `--home` and `ORRERY_HOME` mean.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self {
            config: folder.clone(),
            data: folder.join("data"),
            state: folder.join("state"),
        }
    }

    /// The folders that the environment names: `ORRERY_HOME`, otherwise the XDG directories.
    ///
    /// `variable` looks up an environment variable; it is passed in, so that tests need no process
    /// of their own. XDG variables that are not absolute are ignored, as their specification asks.
    ///
    /// # Errors
    ///
    /// [`HomeError::Nowhere`] when nothing is set.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, HomeError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(folder) = set(HOME_VARIABLE) {
            return Ok(Self::at(folder));
        }
        let below = |name: &str, fallback: &str| {
            let named = set(name).map(PathBuf::from).filter(|p| p.is_absolute());
            let base = named.or_else(|| Some(PathBuf::from(set("HOME")?).join(fallback)));
            base.map(|base| base.join(FOLDER)).ok_or(HomeError::Nowhere)
        };
        Ok(Self {
            config: below("XDG_CONFIG_HOME", ".config")?,
            data: below("XDG_DATA_HOME", ".local/share")?,
            state: below("XDG_STATE_HOME", ".local/state")?,
        })
    }

    /// Makes the folders that are missing, for this user alone.
    ///
    /// # Errors
    ///
    /// The first folder that cannot be made.
    pub fn create(&self) -> Result<(), HomeError> {
        for folder in [
            &self.config,
            &self.data,
            &self.sessions(),
            &self.attachments(),
            &self.state,
            &self.log_folder(),
        ] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(io_error("make", folder))?;
        }
        Ok(())
    }

    /// The configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// The data folder: what cannot be made again, and what is derived from it.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The default log root.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// The attachments.
    pub fn attachments(&self) -> PathBuf {
        self.data.join("attachments")
    }

    /// Workspaces, archive marks, trash, default model: not derived.
    pub fn host_file(&self) -> PathBuf {
        self.data.join("host.json")
    }

    /// Checkpoints and search: derived.
    pub fn index(&self) -> PathBuf {
        self.data.join("index.sqlite")
    }

    /// The header catalogue: derived.
    pub fn catalogue(&self) -> PathBuf {
        self.data.join("catalogue.bin")
    }

    /// The state folder: secrets, the running Host, diagnostics.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The bearer token for programs.
    pub fn token_file(&self) -> PathBuf {
        self.state.join("token")
    }

    /// Credentials and the cookie secret.
    pub fn secrets_file(&self) -> PathBuf {
        self.state.join("secrets.json")
    }

    /// Which Host runs here, and where it listens.
    pub fn running_file(&self) -> PathBuf {
        self.state.join("host.json")
    }

    /// Diagnostics.
    pub fn log_folder(&self) -> PathBuf {
        self.state.join("log")
    }

    /// The bearer token for programs; the first call makes it.
    ///
    /// Two processes that start at once agree: the first file stays, and both read it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written, or holds something else.
    pub fn token(&self) -> Result<String, HomeError> {
        let path = self.token_file();
        if let Some(token) = read_token(&path)? {
            return Ok(token);
        }
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|e| HomeError::Randomness(e.to_string()))?;
        let fresh = URL_SAFE_NO_PAD.encode(bytes);
        let file = written(&path, format!("{fresh}\n").as_bytes())?;
        match file.persist_noclobber(&path) {
            Ok(_file) => {
                sync_folder(&path)?;
                Ok(fresh)
            }
            Err(lost) if lost.error.kind() == io::ErrorKind::AlreadyExists => {
                read_token(&path)?.ok_or(HomeError::Token { path })
            }
            Err(error) => Err(io_error("write", &path)(error.error)),
        }
    }
}

fn read_token(path: &Path) -> Result<Option<String>, HomeError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", path)(error)),
    };
    let token = text.trim();
    let decoded = URL_SAFE_NO_PAD.decode(token);
    if decoded.is_ok_and(|bytes| bytes.len() >= TOKEN_BYTES) {
        Ok(Some(token.to_owned()))
    } else {
        let path = path.to_owned();
        Err(HomeError::Token { path })
    }
}

/// Replaces a small file as one step: whoever reads it sees the old bytes or the new ones, also
/// after a crash. The file is for this user alone (0600).
///
/// # Errors
///
/// When a step fails; the old file is then still there.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), HomeError> {
    let file = written(path, bytes)?;
    file.persist(path)
        .map_err(|error| io_error("replace", path)(error.error))?;
    sync_folder(path)
}

/// A synced file beside `path`, which is not called so yet.
fn written(path: &Path, bytes: &[u8]) -> Result<NamedTempFile, HomeError> {
    let folder = folder_of(path);
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(io_error("write", path))
}

fn sync_folder(path: &Path) -> Result<(), HomeError> {
    let folder = folder_of(path);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("sync", folder))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HomeError {
    let path = path.to_owned();
    move |source| HomeError::Io {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Result<Home, HomeError> {
        Home::from_environment(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn one_variable_puts_everything_below_one_folder() {
        let home = environment(&[("ORRERY_HOME", "/o"), ("HOME", "/h")]).unwrap();
        assert_eq!(home, Home::at("/o"));
        assert_eq!(home.config_file(), Path::new("/o/config.toml"));
        assert_eq!(home.sessions(), Path::new("/o/data/sessions"));
        assert_eq!(home.host_file(), Path::new("/o/data/host.json"));
        assert_eq!(home.token_file(), Path::new("/o/state/token"));
        assert_eq!(home.running_file(), Path::new("/o/state/host.json"));
    }

    #[test]
    fn without_it_the_desktop_directories_are_used() {
        let home = environment(&[
            ("HOME", "/h"),
            ("XDG_DATA_HOME", "/d"),
            ("XDG_STATE_HOME", "relative"),
        ])
        .unwrap();
        assert_eq!(
            home.config_file(),
            Path::new("/h/.config/orrery/config.toml")
        );
        assert_eq!(home.sessions(), Path::new("/d/orrery/sessions"));
        assert_eq!(home.state(), Path::new("/h/.local/state/orrery"));
        assert!(matches!(environment(&[]), Err(HomeError::Nowhere)));
    }

    #[test]
    fn folders_and_token_are_for_this_user_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path().join("deep/home"));
        home.create().unwrap();
        home.create().unwrap();
        let token = home.token().unwrap();
        assert_eq!(token.len(), 43);
        assert_eq!(home.token().unwrap(), token);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.state()), 0o700);
        assert_eq!(mode(home.data()), 0o700);
        assert_eq!(mode(&home.token_file()), 0o600);
    }

    #[test]
    fn a_file_that_is_no_token_is_refused_and_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        home.create().unwrap();
        fs::write(home.token_file(), "short\n").unwrap();
        assert!(matches!(home.token(), Err(HomeError::Token { .. })));
        assert_eq!(fs::read_to_string(home.token_file()).unwrap(), "short\n");
    }

    #[test]
    fn many_first_starts_at_once_agree_on_one_token() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        home.create().unwrap();
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| home.token().unwrap()))
                .collect();
            starts.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
        assert_eq!(fs::read_dir(home.state()).unwrap().count(), 2);
    }

    #[test]
    fn a_replaced_file_leaves_nothing_beside_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a.json");
        replace_file(&path, b"1").unwrap();
        replace_file(&path, b"22").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"22");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        let absent = scratch.path().join("absent/a.json");
        assert!(replace_file(&absent, b"1").is_err());
    }
}
