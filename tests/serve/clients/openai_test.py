# SPDX-License-Identifier: Apache-2.0
"""berth-serve as the official Python client of OpenAI's interface sees it.

usage: openai_test.py BERTH_SERVE ENVIRONMENT README [UNITTEST ARGUMENTS]

The client comes from the virtual environment ENVIRONMENT if this Python has none.
"""

import concurrent.futures
import contextlib
import io
import math
import os
import re
import sys
import tempfile
import unittest

import served

COMMAND = README = None  # paths
MODEL = "model"
TOKENS = 32
QUESTION = [{"role": "user", "content": "How are you?"}]

try:
    import openai
except ImportError:
    python = os.path.join(sys.argv[2], "bin", "python3") if len(sys.argv) > 2 else ""
    if not os.path.exists(python):
        served.skip("the openai package is not there: ./dev test installs it")
    if os.path.realpath(sys.prefix) == os.path.realpath(sys.argv[2]):
        raise
    os.execv(python, [python, "-B", *sys.argv])


def setUpModule():
    global server, client
    server = served.Server(COMMAND, "--model-name", MODEL)
    unittest.addModuleCleanup(server.stop)
    client = connect(server.url)
    unittest.addModuleCleanup(client.close)


def connect(url, key="none"):
    return openai.OpenAI(
        base_url=url + "/v1", api_key=key, max_retries=0, timeout=served.PATIENCE
    )


def chat(**options):
    defaults = {"model": MODEL, "messages": QUESTION, "max_tokens": TOKENS, "seed": 1}
    return client.chat.completions.create(
        **{**defaults, "logit_bias": served.READABLE, **options}
    )


def complete(**options):
    defaults = {"model": MODEL, "prompt": "Once upon", "max_tokens": TOKENS, "seed": 1}
    return client.completions.create(**{**defaults, "logit_bias": served.READABLE, **options})


class Case(unittest.TestCase):
    def assert_idle(self):
        """No request is left, and none of their blocks is held."""
        for _ in range(100 * served.PATIENCE):
            memory = server.memory()
            if memory["scheduler"]["running"] == 0 and memory["kv"]["used_blocks"] == 0:
                return
        self.fail("the server still holds blocks of a request")

    def assert_whole(self, answer, kind):
        """All that the interface promises of every object is there."""
        self.assertEqual(answer.object, kind)
        self.assertEqual(answer.model, MODEL)
        self.assertTrue(answer.id)
        self.assertGreater(answer.created, 1_700_000_000)
        self.assertTrue(answer.system_fingerprint)


class Chat(Case):
    def test_an_answer_is_whole(self):
        answer = chat()
        self.assert_whole(answer, "chat.completion")
        self.assertEqual(len(answer.choices), 1)
        choice = answer.choices[0]
        self.assertEqual(choice.index, 0)
        self.assertEqual(choice.finish_reason, "length")
        self.assertIsNone(choice.logprobs)
        self.assertEqual(choice.message.role, "assistant")
        self.assertEqual(len(choice.message.content), TOKENS)
        self.assertTrue(choice.message.content.isprintable())
        self.assertIsNone(choice.message.refusal)
        self.assertEqual(answer.usage.completion_tokens, TOKENS)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + TOKENS)

    def test_a_stream_has_the_same_text_and_its_end(self):
        whole = chat().choices[0]
        pieces, reasons, roles = [], [], []
        for chunk in chat(stream=True):
            self.assert_whole(chunk, "chat.completion.chunk")
            self.assertIsNone(chunk.usage)
            delta = chunk.choices[0].delta
            roles.append(delta.role)
            pieces.append(delta.content or "")
            reasons.append(chunk.choices[0].finish_reason)
        self.assertEqual("".join(pieces), whole.message.content)
        self.assertEqual(roles, ["assistant"] + [None] * (len(roles) - 1))
        self.assertEqual(reasons, [None] * (len(reasons) - 1) + ["length"])

    def test_a_stream_ends_with_the_usage_if_asked(self):
        chunks = list(chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual([chunk.usage for chunk in chunks[:-1]], [None] * (len(chunks) - 1))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, TOKENS)

    def test_without_chance_or_bias_the_likeliest_token_comes(self):
        answer = chat(logprobs=True, top_logprobs=1, temperature=0, logit_bias=openai.omit)
        for token in answer.choices[0].logprobs.content:
            self.assertEqual(token.bytes, token.top_logprobs[0].bytes)
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)

    def test_the_client_s_own_way_to_stream_gathers_the_answer(self):
        whole = chat().choices[0].message.content
        with client.chat.completions.stream(
            model=MODEL,
            messages=QUESTION,
            max_tokens=TOKENS,
            seed=1,
            stop=whole[20],
            logit_bias=served.READABLE,
        ) as stream:
            text = "".join(e.delta for e in stream if e.type == "content.delta")
            final = stream.get_final_completion()
        self.assertEqual(text, whole[: whole.index(whole[20])])
        self.assertEqual(final.choices[0].message.content, text)

    def test_roles_and_parts_of_text_are_taken(self):
        messages = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "How are "}]},
            {"role": "assistant", "content": "What?"},
            {"role": "user", "content": [{"type": "text", "text": "you?"}]},
        ]
        self.assertEqual(chat(messages=messages).usage.completion_tokens, TOKENS)

    def test_max_completion_tokens_is_max_tokens_by_its_newer_name(self):
        answer = chat(max_tokens=openai.omit, max_completion_tokens=5)
        self.assertEqual(answer.usage.completion_tokens, 5)

    def test_answers_end_before_a_stop_string(self):
        whole = chat().choices[0].message.content
        stop = whole[10:13]
        for streams in (False, True):
            with self.subTest(streams=streams):
                if streams:
                    chunks = list(chat(stop=["not in it", stop], stream=True))
                    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
                    reason = chunks[-1].choices[0].finish_reason
                else:
                    choice = chat(stop=["not in it", stop]).choices[0]
                    text, reason = choice.message.content, choice.finish_reason
                self.assertEqual(text, whole[: whole.index(stop)])
                self.assertEqual(reason, "stop")

    def test_seeds_decide(self):
        texts = [chat(seed=seed).choices[0].message.content for seed in (5, 5, 6)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        greedy = [
            chat(seed=seed, temperature=0).choices[0].message.content for seed in (5, 6)
        ]
        self.assertEqual(greedy[0], greedy[1])

    def test_n_answers_differ_and_are_counted_together(self):
        answer = chat(n=2)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        texts = [choice.message.content for choice in answer.choices]
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(answer.usage.completion_tokens, 2 * TOKENS)
        streamed = ["", ""]
        for chunk in chat(n=2, stream=True):
            for choice in chunk.choices:
                streamed[choice.index] += choice.delta.content or ""
        self.assertEqual(streamed, texts)

    def test_log_probabilities_are_of_the_tokens(self):
        choice = chat(logprobs=True, top_logprobs=3, temperature=0).choices[0]
        tokens = choice.logprobs.content
        self.assertEqual("".join(token.token for token in tokens), choice.message.content)
        for token in tokens:
            self.assertEqual(bytes(token.bytes).decode(), token.token)
            self.assertEqual(len(token.top_logprobs), 3)
            tops = [top.logprob for top in token.top_logprobs]
            self.assertEqual(tops, sorted(tops, reverse=True))
            self.assertLessEqual(sum(math.exp(value) for value in tops), 1.0001)
        streamed = []
        for chunk in chat(logprobs=True, top_logprobs=3, temperature=0, stream=True):
            if chunk.choices[0].logprobs:
                streamed += chunk.choices[0].logprobs.content
        self.assertEqual(streamed, tokens)

    def test_a_prompt_that_was_seen_is_found_in_the_cache(self):
        messages = [{"role": "user", "content": "A question that nobody else asks. " * 4}]
        first = chat(messages=messages).usage
        again = chat(messages=messages).usage
        self.assertEqual(again.prompt_tokens, first.prompt_tokens)
        self.assertGreater(again.prompt_tokens_details.cached_tokens, first.prompt_tokens // 2)
        self.assertLess(again.prompt_tokens_details.cached_tokens, first.prompt_tokens)

    def test_an_answer_may_be_left_in_its_middle(self):
        with chat(stream=True, max_tokens=400) as stream:
            next(iter(stream))
        self.assert_idle()
        self.assertEqual(chat().usage.completion_tokens, TOKENS)

    def test_many_at_a_time_get_what_each_gets_alone(self):
        def text_of(seed):
            return chat(seed=seed).choices[0].message.content

        alone = [text_of(seed) for seed in range(16)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual(list(pool.map(text_of, range(16))), alone)


class Completions(Case):
    def test_an_answer_is_whole(self):
        answer = complete()
        self.assert_whole(answer, "text_completion")
        self.assertEqual(len(answer.choices[0].text), TOKENS)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertIsNone(answer.choices[0].logprobs)
        self.assertEqual(answer.usage.completion_tokens, TOKENS)

    def test_a_stream_has_the_same_text(self):
        chunks = list(complete(stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        self.assertEqual(text, complete().choices[0].text)
        self.assertEqual(chunks[-1].usage.completion_tokens, TOKENS)

    def test_each_prompt_gets_n_answers(self):
        answer = complete(prompt=["Once upon", "Twice"], n=2)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertEqual(answer.usage.completion_tokens, 4 * TOKENS)

    def test_a_prompt_may_be_tokens(self):
        ids = [16 + byte for byte in b"Once upon"]
        self.assertEqual(complete(prompt=ids).choices[0].text, complete().choices[0].text)

    def test_echo_puts_the_prompt_before_the_answer(self):
        echoed = complete(echo=True).choices[0].text
        self.assertEqual(echoed, "Once upon" + complete().choices[0].text)

    def test_log_probabilities_are_of_the_tokens(self):
        choice = complete(logprobs=2).choices[0]
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        self.assertEqual(choice.logprobs.text_offset, list(range(TOKENS)))
        self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs))
        self.assertTrue(all(len(top) >= 2 for top in choice.logprobs.top_logprobs))


class Errors(Case):
    def test_what_is_wrong_is_a_bad_request_that_names_the_member(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            chat(temperature=7)
        self.assertEqual(raised.exception.status_code, 400)
        self.assertEqual(raised.exception.param, "temperature")
        self.assertEqual(raised.exception.type, "invalid_request_error")
        self.assertIn("7", raised.exception.message)
        with self.assertRaises(openai.BadRequestError) as raised:
            chat(messages=[])
        self.assertEqual(raised.exception.param, "messages")

    def test_tools_are_refused_by_name(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        with self.assertRaises(openai.BadRequestError) as raised:
            chat(tools=[tool])
        self.assertEqual(raised.exception.param, "tools")

    def test_a_prompt_beyond_the_context_has_its_code(self):
        for streams in (False, True):
            with self.subTest(streams=streams):
                with self.assertRaises(openai.BadRequestError) as raised:
                    complete(prompt="word " * 1000, stream=streams)
                self.assertEqual(raised.exception.code, "context_length_exceeded")

    def test_another_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            chat(model="no-such-model")
        self.assertEqual(raised.exception.code, "model_not_found")
        self.assertIn("no-such-model", raised.exception.message)
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("no-such-model")

    def test_another_endpoint_is_not_found(self):
        with self.assertRaises(openai.NotFoundError):
            client.embeddings.create(model=MODEL, input="text")


class Models(Case):
    def test_the_one_model_is_listed_and_found(self):
        models = list(client.models.list())
        self.assertEqual([model.id for model in models], [MODEL])
        self.assertEqual(models[0].object, "model")
        self.assertEqual(client.models.retrieve(MODEL), models[0])

    def test_the_raw_response_has_its_status(self):
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=QUESTION, max_tokens=1
        )
        self.assertEqual(raw.status_code, 200)
        self.assertTrue(raw.headers["content-type"].startswith("application/json"))
        self.assertEqual(raw.parse().usage.completion_tokens, 1)


class Keys(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-keys-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "keys")
        with open(path, "w", encoding="utf-8") as file:
            file.write("key-of-one\nkey-of-another\n")
        os.chmod(path, 0o600)
        self.locked = served.Server(COMMAND, "--model-name", MODEL, "--api-key-file", path)
        self.addCleanup(self.locked.stop)

    def test_a_key_opens_and_none_other_does(self):
        for key, opens in (
            ("key-of-one", True),
            ("key-of-another", True),
            ("key-of-on", False),
            ("key-of-one-more", False),
            ("none", False),
        ):
            with self.subTest(key=key), connect(self.locked.url, key) as visitor:
                if opens:
                    self.assertEqual(len(list(visitor.models.list())), 1)
                    continue
                with self.assertRaises(openai.AuthenticationError) as raised:
                    visitor.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
                self.assertEqual(raised.exception.code, "invalid_api_key")


class Readme(Case):
    def test_its_lines_work_as_they_stand_there(self):
        with open(README, encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        blocks = [block for block in blocks if "import OpenAI" in block]
        self.assertGreater(len(blocks), 0)
        for block in blocks:
            self.assertIn("http://127.0.0.1:8080", block)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(block.replace("http://127.0.0.1:8080", server.url), {})
            self.assertGreater(len(out.getvalue()), 0)


class Ends(Case):
    def test_an_operator_s_signal_ends_the_server_well(self):
        other = served.Server(COMMAND, "--model-name", MODEL)
        with connect(other.url) as visitor:
            stream = visitor.chat.completions.create(
                model=MODEL, messages=QUESTION, stream=True, max_tokens=400
            )
            next(iter(stream))
            other.stop()
            with self.assertRaises(openai.APIConnectionError):
                visitor.models.list()


if __name__ == "__main__":
    COMMAND, _, README = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main()
