//! A headless Chromium.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::call;

/// How long to wait for the page to become as expected, also on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often chromedriver is started before its start fails: it chooses a free port for IPv4, and ends
/// if another process has the same port for IPv6.
const DRIVER_STARTS: usize = 5;

/// The key of an element in WebDriver's JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Its profile, and the files that it saves.
    folder: TempDir,
}

/// Starts chromedriver, and returns its port. `None` if it ends before it listens.
fn start_driver(program: &str) -> Result<Option<(Child, u16)>> {
    let mut driver = Command::new(program)
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start chromedriver")?;
    let output = driver.stdout.take().context("no output")?;
    let port = BufReader::new(output).lines().find_map(|line| {
        let line = line.ok()?;
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    if port.is_none() {
        driver.wait()?;
    }
    Ok(port.map(|port| (driver, port)))
}

impl Browser {
    /// Starts the browser of `LLSD_CHROMEDRIVER_BIN`.
    pub fn start() -> Result<Self> {
        let program = std::env::var("LLSD_CHROMEDRIVER_BIN")
            .context("LLSD_CHROMEDRIVER_BIN is not set; run the tests with `cargo xtask test`")?;
        let folder = tempfile::tempdir()?;
        let (driver, port) = (0..DRIVER_STARTS)
            .find_map(|_| start_driver(&program).transpose())
            .context("chromedriver printed no port")??;
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            folder,
        };
        let saved = browser.folder.path().join("saved");
        std::fs::create_dir(&saved)?;
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": {
                "args": [
                    "--headless=new",
                    // The tests run as root, in a machine of their own.
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--window-size=1440,940",
                    format!("--user-data-dir={}", browser.folder.path().join("profile").display()),
                    // For a page whose name is made to resolve to the loopback address.
                    "--host-resolver-rules=MAP rebound.example 127.0.0.1",
                ],
                "prefs": { "download.default_directory": saved, "download.prompt_for_download": false },
            },
        } } });
        let session = call(port, "POST", "/session", &capabilities)?;
        session["sessionId"]
            .as_str()
            .context("the WebDriver created no session")?
            .clone_into(&mut browser.session);
        Ok(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        call(
            self.port,
            "POST",
            &format!("/session/{}/{path}", self.session),
            body,
        )
    }

    fn get(&self, path: &str) -> Result<Value> {
        call(
            self.port,
            "GET",
            &format!("/session/{}/{path}", self.session),
            &Value::Null,
        )
    }

    /// Opens an address.
    pub fn open(&self, address: &str) -> Result<()> {
        self.post("url", &json!({ "url": address }))?;
        Ok(())
    }

    /// Runs JavaScript in the page, and returns its result. A promise is awaited.
    pub fn run(&self, script: &str) -> Result<Value> {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    pub fn wait(&self, expression: &str) -> Result<()> {
        let started = Instant::now();
        let script = format!("return Boolean({expression})");
        while self.run(&script)? != Value::Bool(true) {
            if started.elapsed() > TIMEOUT {
                let text = self.run("return document.body.innerText")?;
                bail!("not true after {TIMEOUT:?}: {expression}; the page is: {text:.3000}");
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        Ok(())
    }

    /// The text of the first element that a selector matches, as a user sees it.
    pub fn text(&self, selector: &str) -> Result<String> {
        let text = self.run(&format!(
            "return document.querySelector({selector:?}).innerText"
        ))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks an element, as a user does: it must be visible and not covered.
    pub fn click(&self, selector: &str) -> Result<()> {
        let element = self.find(selector)?;
        self.post(&format!("element/{element}/click"), &json!({}))?;
        Ok(())
    }

    /// Types text into an element, where its cursor is.
    pub fn type_into(&self, selector: &str, text: &str) -> Result<()> {
        let element = self.find(selector)?;
        self.post(
            &format!("element/{element}/value"),
            &json!({ "text": text }),
        )?;
        Ok(())
    }

    /// Presses keys one after another, wherever the focus is.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        let actions = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })));
        let actions: Vec<Value> = actions.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("actions", &json!({ "actions": [keyboard] }))?;
        Ok(())
    }

    fn find(&self, selector: &str) -> Result<String> {
        let query = json!({ "using": "css selector", "value": selector });
        let found = self.post("element", &query)?;
        let id = found[ELEMENT].as_str();
        Ok(id
            .with_context(|| format!("no element {selector}"))?
            .to_owned())
    }

    /// Shows pages as on a system with a `light` or `dark` theme.
    pub fn set_theme(&self, theme: &str) -> Result<()> {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        let command =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.post("goog/cdp/execute", &command)?;
        Ok(())
    }

    /// Sets the size of the window.
    pub fn set_size(&self, width: u32, height: u32) -> Result<()> {
        self.post("window/rect", &json!({ "width": width, "height": height }))?;
        Ok(())
    }

    /// Writes a screenshot to the folder of `LLSD_SCREENSHOTS`, if it is set.
    pub fn screenshot(&self, name: &str) -> Result<()> {
        let image = self.get("screenshot")?;
        let image = BASE64_STANDARD.decode(image.as_str().unwrap_or_default())?;
        anyhow::ensure!(image.starts_with(b"\x89PNG"), "a screenshot is not a PNG");
        if let Some(folder) = std::env::var_os("LLSD_SCREENSHOTS") {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(Path::new(&folder).join(format!("{name}.png")), image)?;
        }
        Ok(())
    }

    /// Waits for a file that the page saves, and returns its content.
    pub fn saved(&self, name: &str) -> Result<String> {
        let path = self.folder.path().join("saved").join(name);
        let started = Instant::now();
        while !path.is_file() {
            anyhow::ensure!(started.elapsed() < TIMEOUT, "{name} was not saved");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(std::fs::read_to_string(path)?)
    }

    /// Errors in the console, such as a violation of the content security policy or an exception.
    pub fn console_errors(&self) -> Result<Vec<String>> {
        let log = self.post("se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        Ok(severe.map(|entry| entry["message"].to_string()).collect())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium. If the driver does not answer, killing it ends both.
        let path = format!("/session/{}", self.session);
        let _ = call(self.port, "DELETE", &path, &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
