"""The browser's side of Headway: layout, wiring, streaming and access. Knows the engine's interface, never a model."""
