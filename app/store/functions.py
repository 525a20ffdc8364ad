"""The SQL functions that the console lets through: those that only compute, and cannot make something large of something small.

Not among them: load_extension, randomblob, zeroblob, readfile, fts3_tokenizer, and what tells of the process or its files.
"""

from __future__ import annotations

_AGGREGATES = "avg count group_concat json_group_array json_group_object max min sum total"
_WINDOWS = "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value"
_NUMBERS = (
    "abs acos asin atan atan2 ceil ceiling cos degrees exp floor iif ln log log10 log2 mod pi pow power radians round sign sin "
    "sqrt tan trunc"
)
_TEXTS = (
    "char coalesce glob hex ifnull instr length like likelihood likely lower ltrim nullif quote rtrim substr substring trim "
    "typeof unicode unlikely upper"
)
_TIMES = "date datetime julianday strftime time unixepoch"
_JSON = "-> ->> json json_array json_array_length json_extract json_object json_quote json_type json_valid"
_SIZED = "format printf replace"  # SQLITE_LIMIT_LENGTH bounds what they make

FUNCTIONS = frozenset(" ".join((_AGGREGATES, _WINDOWS, _NUMBERS, _TEXTS, _TIMES, _JSON, _SIZED)).split())
