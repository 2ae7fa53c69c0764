# SPDX-License-Identifier: Apache-2.0
"""The page of berth-serve in a headless Chromium: it chats, shows memory, tells errors, and works
by keyboard and on a phone.

usage: page_test.py BERTH_SERVE [UNITTEST ARGUMENTS]
"""

import os
import shutil
import sys
import tempfile
import unittest

import relay
import served

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait
except ImportError as error:
    served.skip(f"Selenium is not there ({error})")

BROWSER = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
if BROWSER is None or DRIVER is None:
    served.skip("Chromium or its driver is not there")

COMMAND = None  # berth-serve
TOKENS = 40  # of an answer through the relay

# Contrast of two colours as WCAG defines it, and of an element's text against the page.
CONTRAST = """
const numbers = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const light = text => {
    const [r, g, b] = numbers(text).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const style = getComputedStyle(document.querySelector(arguments[0]));
let back = style.backgroundColor;
if (back === 'rgba(0, 0, 0, 0)') back = getComputedStyle(document.documentElement).backgroundColor;
const [a, b] = [light(style.color), light(back)];
return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
"""


def start_browser(folder):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # it does not run as root otherwise
    for argument in [*arguments, f"--user-data-dir={folder}"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(DRIVER)
    return webdriver.Chrome(service=service, options=options)


def setUpModule():
    global folder, browser, server, relayed
    folder = tempfile.TemporaryDirectory(prefix="berth-page-")
    unittest.addModuleCleanup(folder.cleanup)
    server = served.Server(COMMAND)
    unittest.addModuleCleanup(server.stop)
    extra = {"logit_bias": served.READABLE, "max_tokens": TOKENS, "seed": 1}
    relayed = relay.Relay(server.url, extra)
    unittest.addModuleCleanup(relayed.stop)
    browser = start_browser(folder.name)
    unittest.addModuleCleanup(browser.quit)


class Page(unittest.TestCase):
    """A page, freshly opened; what its console said is looked at when the test ends."""

    width, height = 1280, 800
    complaints = []  # parts of what the console is expected to say

    def setUp(self):
        self.complaints = []
        self.emulate("light")
        self.set_size(self.width, self.height)
        self.open(relayed.url)
        self.addCleanup(relayed.faults.clear)

    def tearDown(self):
        said = [entry["message"] for entry in browser.get_log("browser")]
        self.assertEqual(len(said), len(self.complaints), said)
        for part in self.complaints:
            self.assertTrue(any(part in message for message in said), said)

    def open(self, url):
        browser.get("about:blank")
        browser.get(url)
        browser.get_log("browser")
        browser.execute_script("sessionStorage.clear()")

    def set_size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def emulate(self, scheme, motion="no-preference"):
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def until(self, condition, what):
        """Waits until a condition holds and returns what it returned."""
        return WebDriverWait(browser, served.PATIENCE, 0.05).until(lambda _: condition(), what)

    def find(self, selector):
        return browser.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector):
        return browser.find_elements(By.CSS_SELECTOR, selector)

    def text_of(self, selector):
        return browser.execute_script(
            "return document.querySelector(arguments[0]).textContent", selector
        )

    def type(self, *keys):
        browser.switch_to.active_element.send_keys(*keys)

    def has_focus(self, selector):
        return browser.execute_script(
            "return document.activeElement.matches(arguments[0])", selector
        )

    def wait_for_answers(self, count):
        """Waits until there are so many whole answers; returns the texts of all messages."""
        self.until(
            lambda: len(self.find_all("#log .answer:not(.busy) > .soft")) == count,
            f"{count} answers",
        )
        return [element.get_attribute("textContent") for element in self.find_all("#log .text")]

    def ask(self, text, count=1):
        self.find("#text").send_keys(text, Keys.ENTER)
        return self.wait_for_answers(count)

    def wait_for_error(self):
        self.until(lambda: self.find("#error").is_displayed(), "an error")
        return self.find("#error").text

    def wait_for_memory(self):
        self.until(lambda: " of 256 MiB" in self.text_of("#total"), "memory")


class Chat(Page):
    def test_the_server_itself_answers_a_question(self):
        self.open(server.url)
        self.find("#text").send_keys("How are you?", Keys.ENTER)
        self.wait_for_answers(1)
        self.assertRegex(self.text_of("#log .answer .soft"), r"^\d+ tokens in \d+\.\d s ")

    def test_an_answer_comes_and_the_next_question_has_the_conversation_before_it(self):
        first = self.ask("How are you?")
        self.assertEqual(first[0], "How are you?")
        self.assertEqual(len(first[1]), TOKENS)
        self.assertIn(f"{TOKENS} tokens in", self.text_of("#log .answer .soft"))
        self.ask("And now?", 2)
        messages = relayed.requests[-1]["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user"])
        self.assertEqual(messages[1]["content"], first[1])
        notes = [element.text for element in self.find_all("#log .answer .soft")]
        self.assertRegex(notes[1], r"[1-9]\d* of \d+ prompt tokens from the cache")
        last = self.find_all("#log .text")[-1].text
        self.assertEqual(self.text_of("#announce"), f"Answer: {last}")

    def test_a_suggestion_is_a_question(self):
        self.find("#welcome button").click()
        texts = self.wait_for_answers(1)
        self.assertEqual(texts[0], "Why is the sky blue?")

    def test_markup_is_shown_as_text(self):
        markup = "<img src=x onerror=alert(1)><b>bold</b>"
        texts = self.ask(markup)
        self.assertEqual(texts[0], markup)
        self.assertEqual(self.find_all("#log img, #log b"), [])

    def test_settings_are_sent(self):
        self.find("#foot summary").click()
        self.find("#temperature").clear()
        self.find("#temperature").send_keys("0.2")
        self.find("#tokens").send_keys("7")
        self.ask("How are you?")
        self.assertEqual(relayed.requests[-1]["temperature"], 0.2)
        self.assertEqual(relayed.requests[-1]["max_tokens"], 7)
        self.assertIn("7 tokens in", self.text_of("#log .answer .soft"))

    def test_a_setting_out_of_range_is_not_sent(self):
        asked = len(relayed.requests)
        self.find("#foot summary").click()
        self.find("#temperature").clear()
        self.find("#temperature").send_keys("3")
        self.find("#text").send_keys("How are you?", Keys.ENTER)
        self.assertTrue(self.has_focus("#temperature"))
        self.assertEqual(len(relayed.requests), asked)

    def test_a_new_chat_begins_empty(self):
        self.ask("How are you?")
        self.find("#new").click()
        self.assertEqual(self.find_all("#log li"), [])
        self.assertTrue(self.find("#welcome").is_displayed())
        self.ask("And now?")
        self.assertEqual(len(relayed.requests[-1]["messages"]), 1)

    def test_escape_and_the_button_stop_an_answer(self):
        for count, stop in enumerate(
            [lambda: self.type(Keys.ESCAPE), lambda: self.find("#send").click()], 1
        ):
            relayed.has_left.clear()
            relayed.faults.append("hold")
            self.find("#text").send_keys("How are you?", Keys.ENTER)
            last = "#log li:last-child.busy .text"
            self.until(lambda: self.find_all(last) and self.find(last).text, "a part of the answer")
            self.assertEqual(self.text_of("#send"), "Stop")
            stop()
            texts = self.wait_for_answers(count)
            self.assertGreater(len(texts[-1]), 0)
            self.assertEqual(self.text_of("#log li:last-child .soft"), "stopped")
            self.assertEqual(self.text_of("#send"), "Send")
            self.assertTrue(relayed.has_left.wait(served.PATIENCE), "the client left")
        self.until(lambda: server.memory()["scheduler"]["running"] == 0, "no request running")
        self.ask("And now?", 3)


class Errors(Page):
    def test_what_the_server_refuses_is_told_and_the_question_stays(self):
        self.open(server.url)
        self.find("#foot summary").click()
        self.find("#tokens").send_keys("1000000")
        self.find("#text").send_keys("How are you?", Keys.ENTER)
        self.assertIn("1000000", self.wait_for_error())
        self.assertEqual(self.find("#text").get_attribute("value"), "How are you?")
        self.assertEqual(self.find_all("#log li"), [])
        self.assertEqual(self.text_of("#send"), "Send")
        self.assertEqual(self.find("#error").get_attribute("role"), "alert")
        self.complaints = ["status of 400"]

    def test_an_answer_without_an_object_is_told(self):
        relayed.faults.append("crash")
        self.find("#text").send_keys("How are you?", Keys.ENTER)
        self.assertIn("502", self.wait_for_error())
        self.complaints = ["status of 502"]

    def test_an_answer_that_breaks_off_is_kept_and_told(self):
        relayed.faults.append("break")
        self.find("#text").send_keys("How are you?", Keys.ENTER)
        self.assertIn("too early", self.wait_for_error())
        self.assertEqual(self.text_of("#log .answer .soft"), "broken off")
        self.find("#text").send_keys("And now?", Keys.ENTER)
        self.wait_for_answers(2)
        self.assertFalse(self.find("#error").is_displayed())


class Key(Page):
    """A server that wants a key."""

    @classmethod
    def setUpClass(cls):
        path = os.path.join(folder.name, "keys")
        with open(path, "w", encoding="utf-8") as file:
            file.write("a-key-of-the-tests\n")
        os.chmod(path, 0o600)
        cls.locked = served.Server(COMMAND, "--api-key-file", path)
        cls.addClassCleanup(cls.locked.stop)

    def give(self, key):
        self.until(lambda: self.find("#key").is_displayed(), "the question for a key")
        self.assertTrue(self.has_focus("#secret"))
        self.type(key, Keys.ENTER)

    def tearDown(self):
        for entry in browser.get_log("browser"):
            self.assertIn("status of 401", entry["message"])

    def test_the_key_is_asked_for_and_kept_by_the_tab_alone(self):
        self.open(self.locked.url)
        self.give("no such key")
        self.assertIn("key", self.wait_for_error())
        self.give("a-key-of-the-tests")
        self.wait_for_memory()
        self.assertFalse(self.find("#key").is_displayed())
        self.assertFalse(self.find("#error").is_displayed())
        self.find("#text").send_keys("How are you?", Keys.ENTER)
        self.wait_for_answers(1)
        kept = "return [Object.values(sessionStorage), localStorage.length, document.cookie]"
        self.assertEqual(browser.execute_script(kept), [["a-key-of-the-tests"], 0, ""])
        browser.refresh()
        self.wait_for_memory()
        self.assertFalse(self.find("#key").is_displayed())


class Memory(Page):
    def test_owners_have_numbers_that_add_up_to_the_budget(self):
        self.wait_for_memory()
        cells = [element.text for element in self.find_all("#owners td")]
        factors = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
        sizes = [float(text.split()[0]) * factors[text.split()[1]] for text in cells]
        self.assertEqual(len(sizes), 8)
        self.assertAlmostEqual(sum(sizes) / 2**20, 256, delta=1)
        known = server.memory()["memory"]
        names = ["weights", "frames", "pool", "kv_used", "kv_cached", None, "host", "free"]
        for name, size in zip(names, sizes):
            if name is not None:
                self.assertAlmostEqual(size / 2**20, known[name + "_bytes"] / 2**20, delta=0.6)
        self.assertRegex(self.find("#bar").get_attribute("aria-label"), r"Weights \d.*, Free \d")
        widths = browser.execute_script(
            "return [...document.querySelectorAll('#bar span')].map(e => e.offsetWidth)"
        )
        bar = self.find("#bar").size["width"]
        self.assertAlmostEqual(widths[7], bar * sizes[7] / 2**28, delta=bar / 8)

    def test_numbers_follow_what_the_server_does(self):
        self.wait_for_memory()
        self.ask("How are you?")
        self.ask("And now?", 2)
        self.until(lambda: "0 running" in self.text_of("#numbers"), "an idle server")
        names = [element.text for element in self.find_all("#numbers dt")]
        values = [element.text for element in self.find_all("#numbers dd")]
        numbers = dict(zip(names, values))
        self.assertRegex(numbers["Prompt tokens from the cache"], r"^\d+ %$")
        self.assertRegex(numbers["Steps with a plan"], r"^\d+ %$")
        self.assertRegex(numbers["First token, median"], r"^[\d.]+ ms$")
        points = self.find("#spark polyline").get_attribute("points")
        self.assertNotIn("NaN", points)

    def test_nobody_asks_while_nobody_looks(self):
        # time goes on when the test says so
        held = browser.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument",
            {"source": "window.later = []; window.setTimeout = what => later.push(what);"},
        )
        self.addCleanup(
            browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", held
        )
        self.open(relayed.url)
        wait = "return later.length"
        go_on = "later.splice(0).forEach(what => what())"
        show = """
            Object.defineProperty(document, 'hidden', { value: !arguments[0], configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        """
        asked = "return performance.getEntriesByName(location.origin + '/memory').length"
        self.until(lambda: browser.execute_script(wait) == 1, "the first look")
        browser.execute_script(go_on)
        self.until(lambda: browser.execute_script(wait) == 1, "the second look")
        browser.execute_script(show, False)
        browser.execute_script(go_on)
        other = "const done = arguments[0]; fetch('/health').then(() => done(true))"
        self.assertTrue(browser.execute_async_script(other))
        self.assertEqual([browser.execute_script(wait), browser.execute_script(asked)], [0, 2])
        browser.execute_script(show, True)
        self.until(lambda: browser.execute_script(asked) == 3, "another look")


class Reach(Page):
    """Keyboard, phone, colours, and what the page may do."""

    def test_all_of_it_works_by_keyboard(self):
        browser.execute_script("document.activeElement.blur()")
        seen = []
        for _ in range(12):
            self.type(Keys.TAB)
            name, outline = browser.execute_script(
                "const e = document.activeElement;"
                "return [e.id || e.tagName, getComputedStyle(e).outlineStyle]"
            )
            if name == "BODY":
                break
            self.assertEqual(outline, "solid", name)
            seen.append(name)
        order = ["new", "text", "send"]
        self.assertEqual([name for name in seen if name in order], order)
        self.assertEqual(len(seen), 8, seen)  # and memory, three suggestions, settings
        self.find("#text").send_keys("one", Keys.SHIFT + Keys.ENTER)
        self.find("#text").send_keys("two")
        self.assertEqual(self.find("#text").get_attribute("value"), "one\ntwo")
        self.type(Keys.ENTER)
        texts = self.wait_for_answers(1)
        self.assertEqual(texts[0], "one\ntwo")
        self.assertTrue(self.has_focus("#text"))

    def test_nothing_is_wider_than_a_small_phone(self):
        self.set_size(320, 640)
        self.open(relayed.url)
        wide = "return document.documentElement.scrollWidth"
        self.assertEqual(browser.execute_script(wide), 320)
        self.assertFalse(browser.execute_script("return document.getElementById('memory').open"))
        self.wait_for_memory()
        self.find("#memory summary").click()
        self.find("#foot summary").click()
        self.ask("a" * 200 + " How are you?")
        self.assertEqual(browser.execute_script(wide), 320)
        outside = """
            return [...document.querySelectorAll('body *')].filter(e => {
                const box = e.getBoundingClientRect();
                return box.width > 1 && (box.left < 0 || box.right > 320.5);
            }).map(e => e.outerHTML.slice(0, 80));
        """
        self.assertEqual(browser.execute_script(outside), [])
        sizes = """
            return [...document.querySelectorAll('input, textarea')]
                .map(e => parseFloat(getComputedStyle(e).fontSize));
        """
        self.assertTrue(all(size >= 16 for size in browser.execute_script(sizes)))
        targets = [element.size["height"] for element in self.find_all("button")]
        self.assertTrue(all(height == 0 or height >= 44 for height in targets), targets)

    def test_text_is_legible_in_light_and_dark(self):
        backgrounds = set()
        self.ask("How are you?")
        for scheme in ("light", "dark"):
            self.emulate(scheme)
            for selector, least in (
                ("body", 7),
                ("#log .user .text", 7),
                ("#model", 4.5),
                ("#send", 4.5),
                ("#text", 7),
                ("#error", 4.5),
            ):
                with self.subTest(scheme=scheme, selector=selector):
                    self.assertGreaterEqual(browser.execute_script(CONTRAST, selector), least)
            backgrounds.add(self.find("html").value_of_css_property("background-color"))
        self.assertEqual(len(backgrounds), 2)

    def test_nothing_moves_where_that_is_not_wanted(self):
        self.emulate("light", "reduce")
        self.wait_for_memory()
        segment = self.find("#bar span")
        self.assertEqual(segment.value_of_css_property("transition-property"), "none")

    def test_every_control_has_a_name(self):
        names = """
            return [...document.querySelectorAll('button, input, textarea, summary')].map(e =>
                (e.labels?.[0]?.textContent || e.textContent || '').trim());
        """
        self.assertNotIn("", browser.execute_script(names))

    def test_the_page_talks_to_its_server_alone_and_runs_no_other_script(self):
        self.wait_for_memory()
        names = "return performance.getEntriesByType('resource').map(e => e.name)"
        for name in browser.execute_script(names):
            self.assertIn(name.removeprefix(relayed.url), ("/memory", "/props", "/v1/models"))
        browser.execute_script(
            "const s = document.createElement('script'); s.textContent = 'window.ran = true';"
            "document.body.append(s)"
        )
        self.assertIsNone(browser.execute_script("return window.ran"))
        self.complaints = ["Content Security Policy"]


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
