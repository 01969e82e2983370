//! `orrery open`: a fresh link to the Host that runs here, opened in the browser.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use orrery_api::content::Empty;
use orrery_api::operations::HostLaunchLink;
use orrery_host::home::Home;

use crate::args::Open;
use crate::output;
use crate::report::Failure;
use crate::running::Running;

pub(super) async fn open(home: &Home, open: &Open) -> Result<(), Failure> {
    let running = Running::find(home).await.ok_or(Failure::NotRunning)?;
    let link = running.call::<HostLaunchLink>(home, &Empty {}).await?;
    if open.json {
        return output::json(&link);
    }
    output::line(&link.url)?;
    if !open.no_open {
        browse(&link.url);
    }
    Ok(())
}

/// Opens a link in the browser; where that cannot be, says so. The link has been told already.
pub(super) fn browse(url: &str) {
    let Some(program) = browser(|name| std::env::var_os(name)) else {
        output::say("no browser was found to open it; follow the link yourself");
        return;
    };
    let started = Command::new(&program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // Nobody waits for a browser; a thread does, so that none is left behind as a zombie.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => {
            let program = program.to_string_lossy();
            output::say(&format!(
                "cannot start {program} ({error}); follow the link yourself"
            ));
        }
    }
}

fn browser(variable: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(program) = set("BROWSER") {
        return Some(program);
    }
    if cfg!(target_os = "macos") {
        return Some("open".into());
    }
    // Without a display `xdg-open` would start a browser in the terminal, over the Host's words.
    let display = set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY"));
    display.map(|_| "xdg-open".into())
}

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use super::*;

    #[test]
    fn the_browser_is_the_chosen_one_or_the_desktops() {
        let with =
            |name: &'static str| browser(move |asked| (asked == name).then(|| OsString::from("x")));
        assert_eq!(with("BROWSER"), Some("x".into()));
        assert_eq!(with("DISPLAY"), Some("xdg-open".into()));
        assert_eq!(with("HOME"), None);
    }
}
