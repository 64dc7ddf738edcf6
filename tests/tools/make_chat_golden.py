#!/usr/bin/env python3
"""Makes tests/golden/chat/: conversations as Hugging Face's `apply_chat_template` renders and encodes them.

    pip install transformers==5.24.0 tokenizers==0.23.3 jinja2==3.1.6 zstandard
    python3 tests/tools/make_chat_golden.py

Templates are written for these tests, in the manner of those that models come with. Which tokens count is what Hugging
Face's `return_assistant_tokens_mask` says where a template has generation blocks. Elsewhere it is computed here: a turn
is what rendering the messages up to it adds to rendering those before it with the words that prompt for it.
"""

import json
import pathlib

import zstandard
from transformers import PreTrainedTokenizerFast

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"

CHATML = """{% for m in messages %}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>

{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{{ '' }}
{%- endif %}
"""

CHATML_BLOCKS = """{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {{- message.content }}
            {%- for call in message.tool_calls or [] %}
                {{- '\\n<tool_call>\\n' + (call.function | tojson) + '\\n</tool_call>' }}
            {%- endfor %}
            {{- '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

HEADERS = """{%- macro block(who, what) -%}
<|start_header_id|>{{ who }}<|end_header_id|>

{{ what }}<|eot_id|>
{%- endmacro -%}
{{- bos_token }}
{%- set ns = namespace(intro='Date: ' ~ (day | default('26 Jul 2024')), rest=messages) %}
{%- if messages and messages[0].role == 'system' %}
    {%- set ns.intro = ns.intro ~ '\n' ~ messages[0].content | trim %}
    {%- set ns.rest = messages[1:] %}
{%- endif %}
{{- block('system', ns.intro) }}
{%- for tool in tools or [] %}
    {{- block('tool', tool | tojson(indent=4)) }}
{%- endfor %}
{%- for message in ns.rest %}
    {%- if message.tool_calls is defined %}
        {%- if message.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}
        {%- set call = message.tool_calls[0]['function'] %}
        {{- block(message.role, '{"name": ' ~ call.name | tojson ~ ', "parameters": ' ~ call.arguments | tojson ~ '}') }}
    {%- elif message.role == 'tool' %}
        {{- block('ipython', message.content if message.content is string else message.content | tojson) }}
    {%- else %}
        {{- block(message.role, message.content.strip()) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
"""

INSTRUCTIONS = """{{ bos_token }}{% for m in messages %}
{%- if loop.index0 is even and m.role != 'user' or loop.index0 is odd and m.role != 'assistant' -%}
{{ raise_exception('turn ' ~ loop.index ~ ' is of the wrong role') }}
{%- endif -%}
{{ '[INST] ' ~ m.content ~ ' [/INST]' if m.role == 'user' else ' ' ~ m.content.strip() ~ eos_token }}
{%- endfor %}
"""

TURNS = """{{- bos_token -}}
{% for m in messages %}
{% set who = 'model' if m['role'] == 'assistant' else m['role'] %}
{% if who not in ['model', 'user'] %}{{ raise_exception('there is no ' ~ who ~ ' here') }}{% endif %}
<start_of_turn>{{ who }}
{{ m['content'] | trim }}<end_of_turn>
{% endfor %}
{% if add_generation_prompt %}
<start_of_turn>model
{% endif %}
"""

BARS = """{% for m in messages %}
{{ '<|%s|>' | format(m['role']) }}
{{ m['content'] }}{{ eos_token }}

{% if loop.last and add_generation_prompt %}
<|assistant|>
{% endif %}
{% endfor %}
"""

TEMPLATES = {
    "chatml": CHATML,
    "chatml_blocks": CHATML_BLOCKS,
    "headers": HEADERS,
    "instructions": INSTRUCTIONS,
    "turns": TURNS,
    "bars": BARS,
}

SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<start_of_turn>", "<end_of_turn>", "<bos>",
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2, "units": None}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather of a city — today's & more",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "x": {}}}}]

PLAIN = {
    "one": [user("What is 2 + 2?"), assistant("4")],
    "two": [user("Hi"), assistant("Hello, how are you?"), user("  Fine.\n\nAnd <b>you</b>? "), assistant("Well — 很好 🙂\n")],
    "empty": [user(""), assistant("")],
    "long": [user("Count."), assistant(" ".join(map(str, range(40)))), user("Again, in French"),
             assistant("un, deux, trois"), user("ok"), assistant("d'accord")],
}
WITH_SYSTEM = {"system": [system(" Be brief. "), *PLAIN["two"]]}
UNANSWERED = {"unanswered": [*PLAIN["one"], user("And 3 + 3?")]}
CALLS = {
    "calls": [user("Weather?"), assistant("", tool_calls=[CALL]), {"role": "tool", "content": "{\"sun\": true}"},
              assistant("It is sunny.")],
}
OBJECTS = {"objects": [user("Weather?"), assistant("", tool_calls=[CALL]),
                       {"role": "tool", "content": {"sun": True, "degrees": 20.0, "wind": [1, 2.5, 1e-07]}}, assistant("Sunny.")]}

CASES = {
    "chatml": {**PLAIN, **WITH_SYSTEM, **UNANSWERED},
    "chatml_blocks": {**PLAIN, **WITH_SYSTEM, **UNANSWERED, **CALLS},
    "headers": {**PLAIN, **WITH_SYSTEM, **UNANSWERED, **CALLS, **OBJECTS},
    "instructions": {**PLAIN, **UNANSWERED},
    "turns": {**PLAIN, **UNANSWERED},
    "bars": {**PLAIN, **WITH_SYSTEM, **UNANSWERED},
}

TOKENS = {
    "gpt2": {"eos_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>"},
    "mistral-v1": {"eos_token": "</s>", "bos_token": "<s>"},
}


def tokenizer(name):
    packed = (GOLDEN / "tokenizers" / name / "tokenizer.json.zst").read_bytes()
    file = pathlib.Path("/tmp") / f"{name}-tokenizer.json"
    file.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    made = PreTrainedTokenizerFast(tokenizer_file=str(file))
    if name == "gpt2":
        # The same ids as in the test, which adds them to the file.
        made.add_tokens(SPECIAL, special_tokens=True)
    made.add_special_tokens(TOKENS[name])
    return made


def byte_spans(text, spans):
    return [[len(text[:start].encode()), len(text[:end].encode())] for start, end in spans]


def turns(made, template, messages, **more):
    def render(some, prompt):
        return made.apply_chat_template(some, chat_template=template, tokenize=False, add_generation_prompt=prompt, **more)

    whole = render(messages, False)
    spans = []
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            start, end = render(messages[:place], True), render(messages[: place + 1], False)
            assert end.startswith(start) and whole.startswith(end), (start, end)
            spans.append((len(start), len(end)))
    return whole, spans


def main():
    folder = GOLDEN / "chat"
    folder.mkdir(exist_ok=True)
    for name, template in TEMPLATES.items():
        (folder / f"{name}.jinja").write_text(template)
    made = {name: tokenizer(name) for name in TOKENS}
    rows = []
    for name, template in TEMPLATES.items():
        for case, messages in CASES[name].items():
            for vocabulary in ["mistral-v1"] if name == "instructions" else ["gpt2"]:
                one = made[vocabulary]
                more = {"tools": TOOLS} if name == "headers" and case in ("calls", "objects") else {}
                row = {"template": name, "case": case, "tokenizer": vocabulary, "messages": messages, **more}
                if name == "chatml_blocks":
                    text = one.apply_chat_template(messages, chat_template=template, tokenize=False)
                    encoded = one.apply_chat_template(messages, chat_template=template, return_dict=True,
                                                      return_assistant_tokens_mask=True)
                    ids, mask = encoded["input_ids"], encoded["assistant_masks"]
                else:
                    text, spans = turns(one, template, messages, **more)
                    row["spans"] = byte_spans(text, spans)
                    encoded = one(text, add_special_tokens=False, return_offsets_mapping=True)
                    ids = encoded["input_ids"]
                    mask = [int(any(start <= first < end for start, end in spans))
                            for first, _ in encoded["offset_mapping"]]
                rows.append({**row, "text": text, "ids": ids, "mask": mask})
    with (folder / "conversations.jsonl").open("w") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(len(rows), "rows")


if __name__ == "__main__":
    main()
