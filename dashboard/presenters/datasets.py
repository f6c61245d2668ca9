"""Data sets as the Data page shows them. Pure functions of stored records and of what reading a file gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.data.answers import Answer
from backend.data.overlap import LeakReport
from backend.data.prompts import PromptRow
from backend.data.registering import lineage_sentence
from backend.data.scanning import ANSWERS, LENGTH_EDGES

MAX_TEXT = 400
SHORT_HASH = 12


def dataset_row(record: Any, versions: Mapping[str, str], missing: bool = False) -> dict[str, Any]:
    """One line of the list, from a store's DatasetRecord. `versions`: labels by id."""
    temperatures = record.details.get("temperatures") or ()
    return {
        "id": record.id,
        "kind": record.kind,
        "name": record.name,
        "hash": record.content_hash[:SHORT_HASH],
        "rows": record.num_rows,
        "broken": record.num_broken,
        "at": record.created_at.isoformat(),
        "licence": record.licence,
        "lineage": lineage_sentence(
            record.kind, record.lineage, versions.get(record.version_id or "", ""), list(temperatures)
        ),
        "missing": missing,
    }


def dataset_details(row: Mapping[str, Any], record: Any, preview: Mapping[str, Any]) -> dict[str, Any]:
    """A data set with what was counted when it came in, and its first rows."""
    details = record.details
    return {
        **row,
        "full_hash": record.content_hash,
        "path": record.path,
        "notes": record.notes,
        "facts": facts(record.kind, details),
        "bytes": details.get("num_bytes"),
        "categories": sorted(details.get("categories", {}).items(), key=lambda pair: (-pair[1], pair[0])),
        "lengths": histogram(details.get("lengths", ())),
        "length_unit": details.get("length_unit", ""),
        "places": details.get("places"),
        "broken_rows": details.get("broken", []),
        "settings": record.lineage.get("settings") or {},
        **preview,
    }


def facts(kind: str, details: Mapping[str, Any]) -> list[str]:
    """Short sentences worth knowing; nothing that is zero."""
    found = [
        (details.get("with_answers"), "{} with given answers"),
        (details.get("with_tools"), "{} with tools"),
        (details.get("repeated_prompts"), "{} repeat an earlier prompt"),
        (details.get("repeated_ids"), "{} repeat an id (numbered #2, #3, …)"),
        (details.get("truncated"), "{} cut at the length limit"),
        (details.get("empty"), "{} empty"),
        (details.get("answer_tokens", details.get("tokens")), "{} answer tokens"),
    ]
    sentences = [text.format(f"{count:,}") for count, text in found if isinstance(count, int) and count]
    formats = details.get("formats") or {}
    if kind != ANSWERS and formats:
        sentences.insert(0, "written as " + " and ".join(formats))
    tokens = details.get("special_tokens") or ()
    return sentences + ([f"new special tokens {' '.join(tokens)}"] if tokens else [])


def histogram(lengths: Sequence[int]) -> list[dict[str, Any]]:
    """The bins from the first to the last that holds a row, with the bounds in words."""
    used = [at for at, count in enumerate(lengths) if count]
    if not used:
        return []
    bounds = [0, *LENGTH_EDGES]
    return [
        {"from": bounds[at], "below": bounds[at + 1] if at + 1 < len(bounds) else None, "count": lengths[at]}
        for at in range(used[0], used[-1] + 1)
    ]


def prompt_row(number: int | None, row: PromptRow) -> dict[str, Any]:
    """A row of the preview. `number`: which usable row it is, from 1; None for a broken one."""
    if row.prompt is None:
        return {"line": row.line, "number": None, "problem": row.problem}
    prompt = row.prompt
    return {
        "line": row.line,
        "number": number,
        "id": prompt.question_id,
        "category": prompt.category,
        "turns": len(prompt.turns),
        "text": " ".join(prompt.turns[0].split())[:MAX_TEXT],
        "answers": prompt.num_answers,
        "tools": len(prompt.tools),
        "problem": None,
    }


def answer_row(number: int, answer: Answer) -> dict[str, Any]:
    """A row of the preview of distilled answers, which are token ids."""
    return {
        "line": number, "number": number, "id": answer.question_id, "category": answer.category,
        "turn": answer.turn + 1, "temperature": answer.temperature, "prompt_tokens": len(answer.prompt_ids),
        "answer_tokens": len(answer.answer_ids), "ended": answer.finish_reason, "problem": None,
    }  # fmt: skip


def leak_report(report: LeakReport, compared: Sequence[str]) -> dict[str, Any]:
    """What a leak check found, and against what."""
    return {
        "hits": [
            {"id": hit.question_id, "file": hit.other_file, "other": hit.other_id, "words": hit.words}
            for hit in report.hits
        ],
        "num_hits": report.num_hits,
        "num_leaking": report.num_leaking,
        "num_prompts": report.num_prompts,
        "num_others": report.num_others,
        "compared": list(compared),
    }
