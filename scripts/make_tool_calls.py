"""Write rows of a tool-call format: `python scripts/make_tool_calls.py calls.jsonl --held-out calls-heldout.jsonl`.

A question is answered by one call, as JSON between two special tokens that no usual tokenizer has, so a target that is
fine-tuned on them gets new tokens and writes text that its old draft heads have never seen.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from made_rows import Made, write_rows

OPEN, CLOSE = "<|call|>", "<|end_call|>"
CITIES = ("Oslo", "Lagos", "Lima", "Hanoi", "Turin", "Quito", "Perth", "Accra", "Leeds", "Osaka", "Porto", "Tunis",
          "Basel", "Davao", "Izmir", "Omaha", "Surat", "Varna", "Yerevan", "Zagreb")  # fmt: skip
PEOPLE = ("Amina", "Bruno", "Chidi", "Dana", "Elif", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Kemal", "Lucia")
DAYS = ("today", "tomorrow", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONEY = ("EUR", "USD", "JPY", "GBP", "NOK", "BRL", "INR", "KES")
PLACES = ("the station", "the airport", "the harbour", "the museum", "the stadium", "the library", "the old market")
TOPICS = ("the meeting", "lunch", "the invoice", "the train tickets", "the garden", "the new lease", "the concert")
THINGS = ("a raincoat", "hiking boots", "a desk lamp", "a bicycle pump", "noise-cancelling headphones", "a tea kettle")
KINDS = ("Italian", "Thai", "Lebanese", "Mexican", "Korean", "Ethiopian")
Call = tuple[str, str, dict[str, Any]]  # question, tool, arguments


def weather(rng: random.Random) -> Call:
    city, day, unit = rng.choice(CITIES), rng.choice(DAYS), rng.choice(("celsius", "fahrenheit"))
    asked = rng.choice((f"What will the weather be in {city} {day}, in {unit}?", f"Weather for {city}, {day}, {unit}."))
    return asked, "get_weather", {"city": city, "day": day, "unit": unit}


def money(rng: random.Random) -> Call:
    amount, (first, second) = rng.randrange(5, 5000, 5), rng.sample(MONEY, 2)
    return (
        rng.choice((f"How much is {amount} {first} in {second}?", f"Convert {amount} {first} to {second}.")),
        "convert_currency", {"amount": amount, "from": first, "to": second},
    )  # fmt: skip


def timer(rng: random.Random) -> Call:
    minutes, topic = rng.randrange(1, 120), rng.choice(TOPICS)
    return f"Set a timer of {minutes} minutes for {topic}.", "set_timer", {"minutes": minutes, "label": topic}


def message(rng: random.Random) -> Call:
    person, topic, day = rng.choice(PEOPLE), rng.choice(TOPICS), rng.choice(DAYS)
    text = f"Can we talk about {topic} {day}?"
    return f"Ask {person} whether we can talk about {topic} {day}.", "send_message", {"to": person, "text": text}


def route(rng: random.Random) -> Call:
    city, (first, second), mode = rng.choice(CITIES), rng.sample(PLACES, 2), rng.choice(("walk", "bus", "car", "bike"))
    words = {"walk": "on foot", "bus": "by bus", "car": "by car", "bike": "by bike"}[mode]
    arguments = {"city": city, "from": first, "to": second, "mode": mode}
    return f"How do I get from {first} to {second} in {city} {words}?", "find_route", arguments


def table(rng: random.Random) -> Call:
    kind, city, day, hour, guests = (rng.choice(KINDS), rng.choice(CITIES), rng.choice(DAYS), rng.randrange(12, 22),
                                     rng.randrange(2, 9))  # fmt: skip
    asked = f"Book a table for {guests} at a {kind} restaurant in {city} {day} at {hour}:00."
    arguments = {"cuisine": kind, "city": city, "day": day, "time": f"{hour}:00", "guests": guests}
    return asked, "book_table", arguments


def shop(rng: random.Random) -> Call:
    thing, most = rng.choice(THINGS), rng.randrange(10, 300, 5)
    currency = rng.choice(MONEY)
    asked = f"Find {thing} for at most {most} {currency}."
    return asked, "search_products", {"query": thing.split(" ", 1)[-1], "max_price": most, "currency": currency}


TOOLS: dict[str, Callable[[random.Random], Call]] = {
    "weather": weather, "money": money, "timer": timer, "message": message, "route": route, "table": table,
    "shop": shop,
}  # fmt: skip


def make(rng: random.Random) -> Made:
    category = rng.choice(list(TOOLS))
    question, tool, arguments = TOOLS[category](rng)
    call = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
    return category, question, f"{OPEN}{call}{CLOSE}"


if __name__ == "__main__":
    write_rows(__doc__ or "", "call", make, {"special_tokens": [OPEN, CLOSE], "licence": "Apache-2.0"})
