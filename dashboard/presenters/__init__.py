"""Pure functions between what a person sees and what the engine and the store speak. No Gradio, no I/O."""
