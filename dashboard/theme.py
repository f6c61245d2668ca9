"""Headway's look of Gradio's own components. System fonts: nothing is fetched from elsewhere."""

from __future__ import annotations

import gradio as gr
from gradio.themes.base import Base

SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Liberation Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "DejaVu Sans Mono", "monospace")


def headway_theme() -> Base:
    """Colours are the variables of css/headway.css, so that both kinds of components change together with dark mode."""
    theme = gr.themes.Base(
        font=SANS, font_mono=MONO, radius_size=gr.themes.sizes.radius_md, spacing_size=gr.themes.sizes.spacing_md
    )
    colours = {
        "body_background_fill": "var(--hw-bg)",
        "body_text_color": "var(--hw-text)",
        "body_text_color_subdued": "var(--hw-muted)",
        "background_fill_primary": "var(--hw-card)",
        "background_fill_secondary": "var(--hw-soft)",
        "block_background_fill": "transparent",
        "block_label_background_fill": "transparent",
        "block_label_text_color": "var(--hw-muted)",
        "block_title_text_color": "var(--hw-text)",
        "block_info_text_color": "var(--hw-muted)",
        "border_color_primary": "var(--hw-line)",
        "border_color_accent": "var(--hw-accent)",
        "color_accent_soft": "var(--hw-soft)",
        "input_background_fill": "var(--hw-field)",
        "input_background_fill_focus": "var(--hw-field)",
        "input_border_color": "var(--hw-line)",
        "input_border_color_focus": "var(--hw-accent)",
        "input_placeholder_color": "var(--hw-muted)",
        "slider_color": "var(--hw-accent)",
        "checkbox_background_color": "var(--hw-field)",
        "checkbox_background_color_selected": "var(--hw-accent)",
        "checkbox_border_color": "var(--hw-line)",
        "checkbox_border_color_selected": "var(--hw-accent)",
        "checkbox_label_background_fill": "var(--hw-soft)",
        "checkbox_label_background_fill_hover": "var(--hw-soft)",
        "checkbox_label_background_fill_selected": "var(--hw-chosen)",
        "checkbox_label_text_color": "var(--hw-text)",
        "checkbox_label_text_color_selected": "var(--hw-text)",
        "checkbox_label_border_color": "var(--hw-line)",
        "button_primary_background_fill": "var(--hw-accent)",
        "button_primary_background_fill_hover": "var(--hw-accent-strong)",
        "button_primary_text_color": "var(--hw-on-accent)",
        "button_primary_border_color": "transparent",
        "button_secondary_background_fill": "var(--hw-soft)",
        "button_secondary_background_fill_hover": "var(--hw-line)",
        "button_secondary_text_color": "var(--hw-text)",
        "button_secondary_border_color": "var(--hw-line)",
    }
    shapes = {
        "block_border_width": "0px",
        "block_padding": "0px",
        "block_shadow": "none",
        "block_label_text_size": "13px",
        "block_title_text_size": "13px",
        "block_title_text_weight": "600",
        "block_info_text_size": "12px",
        "input_padding": "8px 10px",
        "input_text_size": "14px",
        "input_shadow": "none",
        "input_shadow_focus": "0 0 0 3px var(--hw-ring)",
        "layout_gap": "14px",
        "form_gap_width": "0px",
        "button_large_text_size": "15px",
    }
    both = {name: value for name, value in colours.items()} | {f"{name}_dark": value for name, value in colours.items()}
    return theme.set(**both, **shapes)
