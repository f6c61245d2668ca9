"""Plain decoding seen as a drafter that proposes nothing."""
