//! `orrery config`: the configuration as it is understood.

use std::path::Path;

use crate::args::Config;
use crate::context::{Context, home};
use crate::output;
use crate::report::Failure;

pub(super) fn config(folder: Option<&Path>, config: &Config) -> Result<(), Failure> {
    match config {
        Config::Path => output::line(&home(folder)?.config_file().display().to_string()),
        Config::Show(json) => {
            let context = Context::load(folder)?;
            if json.json {
                return output::json(&context.config);
            }
            let text = toml::to_string(&context.config);
            output::data(&text.map_err(|error| Failure::Strange(error.to_string()))?)
        }
    }
}
