"""The page's own components: gr.HTML subclasses with constant templates whose JavaScript and CSS are files in this folder."""

from dashboard.components.views import (
    Banner,
    Chips,
    Command,
    Figures,
    Header,
    Inspector,
    Player,
    Recent,
    RunLink,
    Strip,
    TokenStream,
    TreeView,
)

__all__ = [
    "Banner",
    "Chips",
    "Command",
    "Figures",
    "Header",
    "Inspector",
    "Player",
    "Recent",
    "RunLink",
    "Strip",
    "TokenStream",
    "TreeView",
]
