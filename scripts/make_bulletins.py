"""Write rows of a plain domain: `python scripts/make_bulletins.py bulletins.jsonl --held-out bulletins-heldout.jsonl`.

Notes of a weather station are written out as a bulletin in a house style: ordinary words in an order of their own, no
new tokens. A target that is fine-tuned on them drifts away from its old draft heads more gently than by tool calls.
"""

from __future__ import annotations

import random

from made_rows import Made, write_rows

STATIONS = ("Anvik", "Brenna", "Calder", "Dunmore", "Elvas", "Farsund", "Gorlice", "Hirtshals", "Ilulissat", "Jura",
            "Kalmar", "Lerwick", "Moura", "Narvik", "Olbia", "Paphos")  # fmt: skip
WINDS = {
    "N": "north", "NE": "north-east", "E": "east", "SE": "south-east", "S": "south", "SW": "south-west", "W": "west",
    "NW": "north-west",
}  # fmt: skip
SKIES = {
    "clear": "The sky stays clear from first light until dusk.",
    "overcast": "Low cloud covers the station and does not lift before evening.",
    "showers": "Showers pass in quick succession, with short dry spells between them.",
    "fog": "Fog lies over the water and thins out only slowly.",
    "snow": "Snow falls in fine grains and settles on the higher ground.",
    "thunder": "Thunder builds up inland and reaches the coast after noon.",
}
HARBOUR = {
    "open": "All craft may leave the harbour.",
    "caution": "Small craft should stay within sight of the pier.",
    "closed": "The harbour is closed until the next bulletin.",
}


def strength(speed: int) -> str:
    return "light" if speed < 12 else "moderate" if speed < 30 else "fresh" if speed < 50 else "strong"


def make(rng: random.Random) -> Made:
    station, sky, wind = rng.choice(STATIONS), rng.choice(list(SKIES)), rng.choice(list(WINDS))
    low, speed, pressure = rng.randrange(-12, 22), rng.randrange(3, 70), rng.randrange(975, 1040)
    high, trend = low + rng.randrange(3, 12), rng.choice(("rising", "steady", "falling"))
    harbour = "closed" if speed >= 50 else "caution" if speed >= 30 else "open"
    notes = f"{station}; {sky}; wind {wind} {speed} km/h; {low} to {high} C; {pressure} hPa {trend}"
    question = rng.choice(("Write the bulletin: {}.", "Bulletin for these notes, please: {}.")).format(notes)
    answer = (
        f"Bulletin of the station at {station}. {SKIES[sky]} A {strength(speed)} wind blows from the {WINDS[wind]} at "
        f"{speed} kilometres an hour. The glass stands at {pressure} hectopascals and is {trend}. We expect a low of "
        f"{low} and a high of {high} degrees. {HARBOUR[harbour]} So much from {station}; fair winds to all."
    )
    return sky, question, answer


if __name__ == "__main__":
    write_rows(__doc__ or "", "bulletin", make, {"licence": "Apache-2.0"})
